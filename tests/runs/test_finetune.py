"""A start from pre-trained weights: the rules, and whole runs that name nothing but the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import tamatch
from tamatch import nets
from tamatch.errors import UsageError
from tamatch.nets.weights import zero_head
from tamatch.rules import finetune
from tamatch.rules.pace import Speed
from tamatch.runs import decide as choices
from tamatch.runs import speed
from tamatch.runs.decide import Decided
from tamatch.settings.configure import ask
from tests.photos import dark_and_light


def decide(given: dict[str, Any]) -> Decided:
    return choices.decide(ask(given))


OWN_NET = f"{Path(__file__).parents[2] / 'examples' / 'own_net.py'}:SmallCNN"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with timm's names and shapes of a ViT-Tiny for ImageNet; its values are random."""
    torch.manual_seed(0)
    state = nets.build("vit_tiny_p16_224", 1000, 224).state_dict()
    file = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file({k: v.half() for k, v in state.items()}, file)
    return str(file)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of 30 × 40 pixels: two of each of two classes labelled, two to test, eight more."""
    return dark_and_light(tmp_path_factory.mktemp("photos"), 2, 8, (30, 40))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of a known speed."""
    monkeypatch.setattr(speed, "speed_of", lambda *_: Speed(1, 0.4, 0.1))
    monkeypatch.setattr(choices, "native_bf16", lambda: True)


@pytest.mark.parametrize(
    ("side", "patch", "own", "gpu", "size"),
    [
        (20, 16, 14, False, 32), (32, 16, 14, False, 32), (33, 16, 14, False, 64),
        (3000, 16, 14, False, 128), (None, 16, 14, False, 128), (32, 16, 14, True, 56),
        (3000, 16, 14, True, 224), (3000, 2, 16, False, 32), (3000, 2, 16, True, 32),
        (3000, 16, 6, False, 96), (3000, 4, 2, False, 8),
    ],
)  # fmt: skip
def test_images_are_rows_of_patches(
    side: float | None, patch: int, own: int, gpu: bool, size: int
) -> None:
    assert finetune.image_size(side, patch, own, gpu=gpu) == size


@pytest.mark.parametrize(
    ("pixels", "most", "row", "patch"),
    [(32, 16, 8, 4), (128, 16, 8, 16), (224, 16, 8, 16), (96, 16, 8, 12), (56, 16, 14, 4),
     (37, 16, 8, 1), (32, 2, 8, 2)],
)  # fmt: skip
def test_patches_suit_the_size(pixels: int, most: int, row: int, patch: int) -> None:
    assert finetune.patch_for(pixels, most, row) == patch


@pytest.mark.parametrize(
    ("own", "patch", "gpu", "size"),
    [
        (224, 16, True, 224), (224, 16, False, 128), (384, 16, True, 256),
        (518, 14, True, 252), (518, 14, False, 126), (288, 144, False, 144),
    ],
)  # fmt: skip
def test_a_net_of_fixed_patches_gets_whole_ones(own: int, patch: int, gpu: bool, size: int) -> None:
    assert finetune.published_size(own, patch, gpu=gpu) == size


def test_a_weight_file_needs_no_options(photos: Path, tiny: str, quick: None) -> None:
    tuned = {"method": "tamatch", "baseline": "supervised"}  # no option of its length
    found = decide({"data": str(photos), "weights": tiny, **tuned})
    run = found.run
    assert (run.net, run.size, run.normalise) == ("vit_tiny_p4_32", 32, "half")
    assert run.head == "zero"
    assert (run.optimizer, run.lr, run.layer_decay) == ("adamw", finetune.LR, finetune.LAYER_DECAY)
    assert 500 < run.steps < 1000 and run.warmup == round(run.steps / 10)
    lines = found.lines()
    text = "vit_tiny_p4_32: tiny.safetensors holds a vit_tiny_p16_224, here in 8 × 8 patches"
    assert f"  net        {text}" in lines
    assert "  lr         0.001: for the last layer; lower for each layer below it" in lines
    assert found.remarks == ()


def test_options_win_over_the_file(photos: Path, tiny: str, quick: None) -> None:
    mine: dict[str, Any] = {"data": str(photos), "weights": tiny, "steps": 20, "method": "tamatch"}
    run = decide({**mine, "lr": 1e-4, "warmup": 0, "size": 64, "normalise": "own"}).run
    assert (run.lr, run.warmup, run.net, run.normalise) == (1e-4, 0, "vit_tiny_p8_64", "own")
    run = decide({**mine, "optimizer": "sgd", "net": "vit_tiny_p16_96"}).run
    assert (run.optimizer, run.net, run.size, run.lr) == ("sgd", "vit_tiny_p16_96", 96, finetune.LR)
    assert run.normalise == "half"


def test_a_wide_residual_net_keeps_its_recipe(photos: Path, tmp_path: Path, quick: None) -> None:
    file = tmp_path / "wrn.safetensors"
    save_file(nets.build("wrn_10_2", 5, 32).state_dict(), file)
    run = decide({"data": str(photos), "weights": str(file), "steps": 20}).run
    assert (run.net, run.size, run.optimizer, run.normalise) == ("wrn_10_2", 32, "sgd", "own")


def test_named_sets_keep_their_nets(tiny: str) -> None:
    assert decide({"data": "digits", "weights": tiny}).run.net == "wrn_10_1_clean"


def test_a_file_of_no_net_is_told_before_images_are_read(photos: Path, tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    save_file({"layer.weight": torch.zeros(2, 3)}, file)
    with pytest.raises(UsageError, match=r"1 tensor \(layer.weight 2×3\). Specify the net: --net"):
        decide({"data": str(photos), "weights": str(file)})


def test_a_whole_run_and_one_that_goes_on(
    photos: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "run"
    tamatch.train(data=str(photos), weights=tiny, method="tamatch", steps=1, batch=2, out=where)
    said = capsys.readouterr().err
    assert "vit_tiny_p4_32: tiny.safetensors holds a vit_tiny_p16_224" in said
    assert "loaded    150  of 152 tensors from tiny.safetensors" in said
    facts = json.loads((where / "model" / "model.json").read_text())
    assert facts["net"] == "vit_tiny_p4_32" and facts["mean"] == [0.5, 0.5, 0.5]
    first = load_file(where / "model" / "model.safetensors")["blocks.0.norm1.weight"]
    assert (first - 1).abs().max() < 0.01, "the lowest layers hardly move"
    on = decide({"data": str(photos), "from_": str(where), "steps": 1}).run
    assert (on.net, on.normalise, on.lr) == ("vit_tiny_p4_32", "half", finetune.LR)
    found = tamatch.load(where).predict([str(photos / "test/dark/0.png")])
    assert found.label[0] in ("dark", "light")


def test_a_last_layer_of_zeros_is_sure_of_nothing() -> None:
    images = torch.randn(2, 3, 8, 8)
    for net in ("wrn_10_1", "vit_tiny_p4_8", OWN_NET):
        built = nets.build(net, 4, 8)
        zero_head(built)
        assert not built(images).logits.any() and built(images).features.any()


def test_weights_of_an_own_net_are_trained_gently(
    photos: Path, tmp_path: Path, quick: None
) -> None:
    file = tmp_path / "own.safetensors"
    save_file(nets.build(OWN_NET, 5, 32).loadable().state_dict(), file)
    start = {"data": str(photos), "net": OWN_NET, "weights": str(file), "steps": 20}
    found = decide(start)
    run = found.run
    assert (run.normalise, run.optimizer, run.lr) == ("imagenet", "adamw", finetune.USER_NET_LR)
    assert (run.layer_decay, run.head, run.warmup) == (1.0, "random", 2)
    assert {"normalise", "optimizer", "lr"} <= found.reasons.keys()
    mine = decide({**start, "lr": 0.01, "optimizer": "sgd"}).run
    assert (mine.lr, mine.optimizer) == (0.01, "sgd")
    assert decide({**start, "weights": None}).run.optimizer == "sgd"


def test_a_net_without_a_last_layer_has_none_to_set(tmp_path: Path) -> None:
    class Convolutional(torch.nn.Module):
        def __init__(self, classes: int) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, classes, 3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.conv(images).mean((2, 3))
            return found

    with pytest.raises(UsageError, match="--head zero needs a net that ends in a linear layer"):
        tamatch.train(net=Convolutional, head="zero", steps=1, out=tmp_path / "run", quiet=True)


def test_arrays_start_from_weights(tiny: str) -> None:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (8, 28, 28), dtype=np.uint8)
    labels = np.array([0, 1, 0, 1, -1, -1, -1, -1])
    model = tamatch.TaMatchClassifier(weights=tiny, steps=1, batch=2).fit(images, labels)
    facts = model.learner_.model.facts  # type: ignore[attr-defined]
    assert (facts.net, facts.size, facts.mean) == ("vit_tiny_p4_32", 32, (0.5, 0.5, 0.5))
    assert model.predict(images).shape == (8,)


def test_rows_take_no_weights(tiny: str) -> None:
    model = tamatch.SSLClassifier(weights=tiny)
    with pytest.raises(ValueError, match="weights=… is for images, but X contains rows of numbers"):
        model.fit(np.eye(4), [0, 1, -1, -1])
