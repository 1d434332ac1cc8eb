"""Features of a net that is not trained: what they are made of, and kept by image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tamatch import nets
from tamatch.data import feature_cache
from tamatch.data.dataset import digests_of
from tamatch.data.feature_cache import features_of
from tamatch.errors import DataError
from tamatch.nets import features as module
from tamatch.nets.features import Frozen, frozen

CPU = torch.device("cpu")
IMAGES = np.random.default_rng(0).integers(0, 256, (7, 20, 24, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def _single_precision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "native_bf16", lambda: False)
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))


def made(folder: Path, name: str = "dinov2reg_64x2_p14_42", size: int = 42, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    net = nets.build(name, 3, size)
    for value in net.parameters():
        torch.nn.init.normal_(value, std=0.3)
    file = folder / f"{name}{seed}.safetensors"
    save_file(net.state_dict(), file)
    return file


def test_they_are_those_of_the_image_as_it_is(tmp_path: Path) -> None:
    found = frozen(str(made(tmp_path)), 45, CPU)  # not a multiple of 14
    assert (found.name, found.size, found.normalise) == ("dinov2reg_64x2_p14_42", 42, "imagenet")
    levels = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).float()
    scaled = torch.nn.functional.interpolate(levels, (42, 42), mode="bicubic")
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = (scaled / 255 - mean[:, None, None]) / std[:, None, None]
    with torch.no_grad():
        tokens = found.net.body.frozen_features(x)
    got = found(IMAGES)
    assert got.shape == (7, 256) and got.dtype == np.float32
    np.testing.assert_allclose(got, tokens, rtol=1e-4, atol=1e-5)
    assert np.abs(found(IMAGES[:, :, ::-1]) - got).max() > 0.1  # left and right are told apart


def test_batches_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = frozen(str(made(tmp_path)), 42, CPU)
    whole = found(IMAGES)
    monkeypatch.setitem(module.PLACES, "cpu", 30)  # two images
    np.testing.assert_allclose(found(IMAGES), whole, rtol=1e-4, atol=1e-5)


def test_bfloat16_is_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = frozen(str(made(tmp_path)), 42, CPU)
    exact = found(IMAGES)
    monkeypatch.setattr(module, "native_bf16", lambda: True)
    rounded = found(IMAGES)
    assert not np.array_equal(rounded, exact)
    assert np.abs(rounded - exact).max() < 0.1 * np.abs(exact).max()


def test_other_nets_give_their_own_features(tmp_path: Path) -> None:
    found = frozen(str(made(tmp_path, "wrn_10_1_clean", 32)), 32, CPU)
    assert found(IMAGES).shape == (7, found.net.width)


def test_the_key_is_that_of_net_weights_size_and_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = made(tmp_path), made(tmp_path, seed=1)
    files = [(one, 42), (one, 56), (other, 42)]
    found = [frozen(str(file), size, CPU) for file, size in files]
    keys = [f.key for f in found]
    assert len({*keys}) == 3 and frozen(str(one), 42, CPU).key == keys[0]
    monkeypatch.setattr(module, "native_bf16", lambda: True)
    assert frozen(str(one), 42, CPU).key not in keys


class Counted:
    """Features that can be told by heart, and how many were asked for."""

    def __init__(self) -> None:
        self.images = 0

    def __call__(self, images: np.ndarray) -> np.ndarray:
        self.images += len(images)
        return images.reshape(len(images), -1)[:, :5].astype(np.float32)


def test_every_image_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_cache, "PART", 2)
    compute, digests = Counted(), digests_of(i.tobytes() for i in IMAGES)
    seen: list[tuple[int, int]] = []
    got = features_of(IMAGES[:5], digests[:5], "key", compute, lambda *now: seen.append(now))
    want = IMAGES.reshape(7, -1)[:, :5]
    assert np.array_equal(got, want[:5]) and compute.images == 5
    assert seen == [(2, 5), (4, 5), (5, 5)]
    again = np.array([6, 0, 5, 0, 6, 1])  # two new images, one of them twice, and another order
    got = features_of(IMAGES[again], digests[again], "key", compute)
    assert np.array_equal(got, want[again]) and compute.images == 7
    features_of(IMAGES, digests, "key", compute)
    assert compute.images == 7
    features_of(IMAGES, digests, "other", compute)
    assert compute.images == 14


def test_damaged_and_unfinished_parts_are_computed_again(tmp_path: Path) -> None:
    compute, digests = Counted(), digests_of(i.tobytes() for i in IMAGES)
    want = features_of(IMAGES, digests, "key", compute)
    (part,) = (tmp_path / "cache").rglob("*.features")
    content = part.read_bytes()
    for damaged in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), b""):
        part.write_bytes(damaged)
        assert np.array_equal(features_of(IMAGES, digests, "key", compute), want)
        assert part.read_bytes() == content
    assert compute.images == 4 * 7


def test_what_was_computed_before_a_stop_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_cache, "PART", 2)
    compute, digests = Counted(), digests_of(i.tobytes() for i in IMAGES)

    def stopped(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        features_of(IMAGES, digests, "key", compute, stopped)
    features_of(IMAGES, digests, "key", compute)
    assert compute.images == 7


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(DataError, match=r"cannot be kept.*set TAMATCH_CACHE to another folder"):
        features_of(IMAGES, digests_of(i.tobytes() for i in IMAGES), "key", Counted())


def test_no_images() -> None:
    assert len(features_of(IMAGES[:0], digests_of([]), "key", Counted())) == 0


def test_both_together(tmp_path: Path) -> None:
    found: Frozen = frozen(str(made(tmp_path)), 42, CPU)
    digests = digests_of(i.tobytes() for i in IMAGES)
    got = features_of(IMAGES, digests, found.key, found)
    np.testing.assert_allclose(got, found(IMAGES), rtol=1e-4, atol=1e-5)
