"""Weight files of every format and of other nets' shapes, made here and loaded back."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from tamatch import nets
from tamatch.errors import UsageError
from tamatch.nets.vit import ViT
from tamatch.nets.weights import fit, load_weights, resize_patches, resize_positions

State = dict[str, Tensor]


def vit(size: int = 8, patch: int = 2, width: int = 12, classes: int = 5) -> ViT:
    return ViT(classes, size=size, patch=patch, width=width, depth=2, heads=3)


def write(state: dict[str, Any], path: Path) -> Path:
    if path.suffix == ".safetensors":
        save_file(state, path)
    elif path.suffix == ".npz":
        np.savez(path, **{name: value.numpy() for name, value in state.items()})
    else:
        torch.save(state, path)
    return path


def assert_body_equal(got: State, want: State) -> None:
    for name, value in want.items():
        assert torch.equal(got[name], value) != name.startswith("head"), name


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".pth", ".pt"])
def test_every_format_loads_all_but_the_head(tmp_path: Path, suffix: str) -> None:
    source, net = vit(), vit()
    report = load_weights(net, write(source.state_dict(), tmp_path / f"w{suffix}"))
    assert_body_equal(net.state_dict(), source.state_dict())
    assert set(report.missing) == set(report.dropped) == {"head.weight", "head.bias"}
    assert len(report.loaded) == len(source.state_dict()) - 2
    assert not (report.extra or report.resized or report.misfits)


def test_nested_prefixed_and_foreign_keys(tmp_path: Path) -> None:
    source, net = vit(), vit()
    state: dict[str, Any] = {f"module.backbone.{k}": v for k, v in source.state_dict().items()}
    state["module.decoder.weight"] = torch.ones(3)
    state["module.fc.weight"] = torch.ones(3)
    file = {"epoch": 3, "model": {"state_dict": state}}
    report = load_weights(net, write(file, tmp_path / "checkpoint.pth"))
    assert_body_equal(net.state_dict(), source.state_dict())
    assert report.extra == ("decoder.weight",)
    assert "fc.weight" in report.dropped


def test_other_names_of_wide_residual_nets(tmp_path: Path) -> None:
    source, net = nets.build("wrn_10_2", 5, 8), nets.build("wrn_10_2", 3, 8)
    source(torch.randn(4, 3, 8, 8))
    theirs = {}
    for name, value in source.state_dict().items():
        name = re.sub(r"^stages\.(\d)", lambda m: f"block{int(m[1]) + 1}.layer", name)
        name = name.replace("shortcut", "convShortcut").replace("head", "classifier")
        theirs[re.sub("^norm", "bn1", re.sub("^stem", "conv1", name))] = value
    assert "block1.layer.0.convShortcut.weight" in theirs and "conv1.weight" in theirs
    report = load_weights(net, write({"model": theirs}, tmp_path / "w.pth"))
    assert report.missing == ("head.weight", "head.bias") and not report.extra
    body = {k: v for k, v in source.state_dict().items() if not k.startswith("head")}
    assert all(torch.equal(net.state_dict()[name], value) for name, value in body.items())


def test_half_precision_is_widened(tmp_path: Path) -> None:
    source, net = vit(), vit()
    state = {name: value.half() for name, value in source.state_dict().items()}
    load_weights(net, write(state, tmp_path / "w.npz"))
    assert {value.dtype for value in net.state_dict().values()} == {torch.float32}
    torch.testing.assert_close(net.pos_embed, source.pos_embed, rtol=1e-3, atol=1e-4)


def test_another_image_and_patch_size(tmp_path: Path) -> None:
    source, net = vit(size=24, patch=4), vit(size=8, patch=2)
    report = load_weights(net, write(source.state_dict(), tmp_path / "w.safetensors"))
    assert report.resized == {
        "pos_embed": ((1, 37, 12), (1, 17, 12)),
        "patch_embed.proj.weight": ((12, 3, 4, 4), (12, 3, 2, 2)),
    }
    assert torch.equal(net.pos_embed[:, :1], source.pos_embed[:, :1]), "class token"
    assert torch.equal(net.pos_embed, resize_positions(source.pos_embed, 17))
    want = "patch_embed.proj.weight 12×3×4×4 → 12×3×2×2, pos_embed 1×37×12 → 1×17×12"
    assert str(report).splitlines() == [
        "loaded     30  of 32 tensors from w.safetensors",
        f"resized     2  {want}",
        "missing     2  head.weight, head.bias",
        "dropped     2  head.bias, head.weight",
    ]


def test_only_patches_are_resampled() -> None:
    """Any other kernel sees another area if its size is changed."""
    net = nets.build("wrn_10_1", 3, 8)
    other = {**net.state_dict(), "stem.weight": torch.zeros(16, 3, 5, 5)}
    fitted, report = fit(net, other, Path("w.pth"))
    assert report.misfits == {"stem.weight": ((16, 3, 5, 5), (16, 3, 3, 3))}
    assert "stem.weight" not in fitted and not report.resized


def test_resized_positions_keep_their_place() -> None:
    """A ramp over a 14×14 grid stays one on 6×6, away from the border, as far as bicubic can."""
    rows = torch.arange(14.0)[:, None].expand(14, 14)
    grid = torch.stack([rows, rows.T], -1).reshape(1, -1, 2)
    embedding = torch.cat([torch.full((1, 1, 2), 99.0), grid], 1)
    got = resize_positions(embedding, 37)
    assert got[0, 0].tolist() == [99.0, 99.0]
    inside = got[0, 1:].reshape(6, 6, 2)[1:-1, 1:-1]
    want = (torch.arange(6.0) + 0.5) * 14 / 6 - 0.5
    torch.testing.assert_close(inside[..., 0], want[1:-1, None].expand(4, 4), rtol=0, atol=0.05)
    torch.testing.assert_close(inside[..., 1], want[None, 1:-1].expand(4, 4), rtol=0, atol=0.05)


def test_resized_patches_see_what_the_enlarged_image_shows() -> None:
    kernel, images = torch.randn(5, 3, 16, 16), torch.randn(2, 3, 8, 8)
    enlarged = images.repeat_interleave(8, 2).repeat_interleave(8, 3)
    want = F.conv2d(enlarged, kernel, stride=16)
    got = F.conv2d(images, resize_patches(kernel, 2), stride=2)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_weights_of_another_net_are_refused_and_change_nothing(tmp_path: Path) -> None:
    net = vit()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    path = write(vit(width=24).state_dict(), tmp_path / "w.npz")
    with pytest.raises(UsageError, match=r"only 0 of its 32 tensors(.|\n)*misfit"):
        load_weights(net, path)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


class Harmful:
    """Unpickled, it would leave a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def test_pickled_code_is_refused_not_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    torch.save({"model": Harmful(trace)}, tmp_path / "w.pth")
    objects = np.array([Harmful(trace)], dtype=object)
    np.savez(tmp_path / "w.npz", weights=objects)
    for name in ("w.pth", "w.npz"):
        with pytest.raises(UsageError, match="cannot be read as weights") as refused:
            load_weights(vit(), tmp_path / name)
        assert str(refused.value).isprintable()  # no colours of torch's own message
    assert not trace.exists()
    with pytest.raises(FileNotFoundError):  # it would have run with a plain unpickling
        pickle.loads(pickle.dumps(Harmful(tmp_path / "no" / "such")))


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".pth"])
def test_damaged_files(tmp_path: Path, suffix: str) -> None:
    path = write(vit().state_dict(), tmp_path / f"w{suffix}")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UsageError, match="cannot be read as weights"):
        load_weights(vit(), path)


def test_missing_file_and_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"weight file .* not found"):
        load_weights(vit(), tmp_path / "w.npz")
    with pytest.raises(UsageError, match=r"\.safetensors"):
        load_weights(vit(), tmp_path / "w.h5")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(UsageError, match="contains a list"):
        load_weights(vit(), tmp_path / "list.pth")


@pytest.mark.slow
@pytest.mark.skipif("TAMATCH_SHARED_DATA" not in os.environ, reason="needs the real weights")
@pytest.mark.parametrize(("name", "resized"), [("vit_tiny_p16_224", 0), ("vit_tiny_p2_32", 2)])
def test_real_vit_tiny(name: str, resized: int) -> None:
    path = Path(os.environ["TAMATCH_SHARED_DATA"]) / "vit_tiny" / "vit_tiny_patch16_224_fp16.npz"
    report = load_weights(nets.build(name, 10, nets.NETS[name].size), path)
    assert len(report.loaded) == 150 and len(report.resized) == resized
    assert report.missing == ("head.weight", "head.bias")
    assert not (report.extra or report.misfits)
