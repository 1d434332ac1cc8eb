"""Nets of timm, by a stand-in that has its interface: the real one is not among our packages."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import tamatch
from tamatch import nets
from tamatch.errors import UsageError
from tamatch.nets.foreign import TimmNet
from tamatch.nets.weights import load_weights
from tamatch.runs.decide import fine_tunes, start_of
from tamatch.settings.configure import configure
from tests.nets.foreign import Block
from tests.tiny import tiny_engine


class Pooled(nn.Module):
    """A convolutional net without its classifier; like timm's, it knows its layers' order."""

    num_features = 99  # before the classifier's own hidden layer: not the length of the output

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, 8, 3), Block(8, 16, 2)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.block(self.stem(images)).mean((2, 3))
        return out

    def group_matcher(self, *, coarse: bool) -> dict[str, int]:
        return {"stem": 0, "block": 1}


class Normed(Pooled):
    """Like ConvNeXt: a norm that stays where the classifier is taken away, and has its name."""

    def __init__(self, positions: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(positions))
        self.head = nn.ModuleDict({"norm": nn.LayerNorm(16)})

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.head["norm"](super().forward(images))
        return out


def checkpoint_filter_fn(tensors: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """What modules of timm have: published weights with the names and shapes of today's nets."""
    assert isinstance(model, Pooled) and "stem.bias" in tensors, "of another net"
    named = {name.replace("norm.", "head.norm.", 1): v for name, v in tensors.items()}
    if isinstance(model, Normed):
        named["positions"] = named["positions"][: len(model.positions)]
    return named


def create_model(name: str, *, pretrained: bool, num_classes: int, **options: int) -> nn.Module:
    assert not pretrained and num_classes == 0
    if name == "pooled" and "img_size" in options:
        raise TypeError("unexpected keyword argument 'img_size'")
    if name == "patches":
        side = options["img_size"] // 16
        return nn.Sequential(nn.Conv2d(3, 8, 16, 16), nn.Flatten(), nn.Linear(8 * side**2, 12))
    return Normed(options["img_size"]) if name == "normed" else Pooled()


CONFIGS = {
    "pooled": SimpleNamespace(input_size=(3, 224, 224), mean=(0.485, 0.456, 0.406)),
    "patches_patch14": SimpleNamespace(input_size=(3, 518, 518), mean=(0.5, 0.5, 0.5)),
}


def group_parameters(model: nn.Module, matcher: dict[str, int], *, reverse: bool) -> Any:
    assert reverse
    return {n: matcher[n.split(".")[0]] for n, _ in model.named_parameters()}


@pytest.fixture(autouse=True)
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    timm, models = ModuleType("timm"), ModuleType("timm.models")
    names = ["pooled", "patches", "patches_patch14", "normed"]
    own: dict[str, Any] = {"create_model": create_model, "__version__": "9.9"}
    own |= {"is_model": names.__contains__, "list_models": lambda: names}
    own["get_pretrained_cfg"] = CONFIGS.get
    vars(timm).update(own)
    vars(models).update(group_parameters=group_parameters)
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setitem(sys.modules, "timm.models", models)


def test_the_features_are_what_comes_out() -> None:
    net = nets.build("timm/pooled", 7, 8)
    assert isinstance(net, TimmNet) and net.training
    out = net(torch.randn(2, 3, 8, 8))
    assert out.logits.shape == (2, 7) and out.features.shape == (2, net.width) == (2, 16)
    assert torch.equal(out.logits, net.head(out.features))
    assert nets.build("timm/patches", 7, 32).width == 12


def test_its_layers_and_its_weights_have_timms_names() -> None:
    net = nets.build("timm/pooled", 7, 8)
    assert net.depth_of("model.stem.weight") == (0, 2) and net.depth_of("head.bias") == (2, 2)
    assert "stem.weight" in net.loadable().state_dict()


def test_a_net_whose_layers_have_no_order_cannot_have_layer_decay() -> None:
    with pytest.raises(UsageError, match="use --layer-decay 1"):
        nets.build("timm/patches", 7, 32).depth_of("model.0.weight")


def test_what_timm_cannot_build_is_told_in_one_line() -> None:
    with pytest.raises(
        UsageError, match=r"--net timm/patches: a net for 8 × 8 pixels \(--size\) failed \("
    ):
        nets.build("timm/patches", 7, 8)
    with pytest.raises(UsageError, match=r"has no net 'poled'. Perhaps you meant timm/pooled."):
        nets.build("timm/poled", 7, 8)


def test_it_trains_and_is_found_again_without_being_named(tmp_path: Path) -> None:
    tiny_engine("simmatch", net="timm/pooled").advance()
    small = {"steps": 2, "batch": 4, "unlabelled": 4, "baseline": "none", "quiet": True}
    run = tamatch.train(net="timm/pooled", out=tmp_path / "run", **small)
    assert tamatch.load(run.path).facts.net == "timm/pooled"


@pytest.mark.parametrize(
    ("net", "gpu", "size", "normalise", "why"),
    [
        ("pooled", True, 224, "imagenet", "timm/pooled is made for 224"),
        ("pooled", False, 128, "imagenet", "made for 224, which is slow without a GPU"),
        ("patches_patch14", True, 252, "half", "made for 518, which is slow"),
        ("patches_patch14", False, 126, "half", "made for 518, which is slow without a GPU"),
        ("normed", True, 224, "imagenet", "timm/normed is made for 224"),  # no weights at timm
    ],
)
def test_a_start_from_weights_is_as_timm_made_them(
    net: str, gpu: bool, size: int, normalise: str, why: str
) -> None:
    run = configure({"net": f"timm/{net}", "weights": "w.safetensors"})
    chosen = start_of(run, {"net", "weights"}, 30.0, arrays=False, gpu=gpu)
    assert chosen.settings | {"size": size, "normalise": normalise} == chosen.settings
    assert chosen.settings["optimizer"] == "adamw" and chosen.settings["head"] == "zero"
    assert chosen.reasons["size"].endswith(why)
    mine = start_of(run, {"net", "weights", "size"}, 30.0, arrays=False, gpu=gpu)
    assert "size" not in mine.settings and mine.settings["normalise"] == normalise
    fresh = start_of(replace(run, weights=None), {"net"}, 30.0, arrays=False, gpu=gpu)
    assert fresh.settings == {"size": 32}  # that of the images
    assert fine_tunes(run, run.net) and not fine_tunes(replace(run, weights=None), run.net)


def published(path: Path) -> dict[str, Tensor]:
    """The weights of a net for 12 pixels and 100 classes, in a file, as its makers named them."""
    body = Normed(12).state_dict()
    tensors = {name.replace("head.norm", "norm"): torch.randn(v.shape) for name, v in body.items()}
    tensors |= {"head.fc.weight": torch.randn(100, 16), "head.fc.bias": torch.randn(100)}
    save_file(tensors, path)
    return tensors


def test_weights_are_named_and_resized_as_timm_does(tmp_path: Path) -> None:
    tensors = published(tmp_path / "w.safetensors")
    net = nets.build("timm/normed", 7, 8)
    report = load_weights(net, tmp_path / "w.safetensors")
    assert not report.missing and not report.misfits and not report.extra
    assert set(report.dropped) == {"head.fc.weight", "head.fc.bias"}
    assert report.resized == {"positions": ((12,), (8,))}
    own = net.loadable().state_dict()
    assert torch.equal(own["head.norm.weight"], tensors["norm.weight"])  # the body's, not a head
    assert torch.equal(own["positions"], tensors["positions"][:8])


def test_weights_that_timm_cannot_convert_are_refused_with_what_fits(tmp_path: Path) -> None:
    save_file({"conv.weight": torch.ones(3)}, tmp_path / "w.safetensors")
    with pytest.raises(UsageError, match=r"only 0 of its \d+ tensors are in the file"):
        load_weights(nets.build("timm/normed", 7, 8), tmp_path / "w.safetensors")
