"""Which net a weight file is of: every family, others' names for it, and files that are of none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tamatch import nets
from tamatch.errors import UsageError
from tamatch.nets.recognise import Recognised, recognise
from tamatch.nets.vit import ViT
from tamatch.nets.weights import load_weights, to_timm_names
from tests.nets import published

State = dict[str, Tensor]


def written(state: State, path: Path) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **{k: v.numpy() for k, v in state.items()})
    elif path.suffix == ".safetensors":
        save_file({k: v.contiguous().clone() for k, v in state.items()}, path)
    else:
        torch.save({"model": state}, path)
    return path


@pytest.fixture(scope="module")
def tiny() -> State:
    """All of timm's ViT-Tiny for ImageNet, in half precision as the file at hand has it."""
    torch.manual_seed(0)
    net = nets.build("vit_tiny_p16_224", 1000, 224)
    return {k: v.half() for k, v in net.state_dict().items()}


def test_the_real_layout_of_vit_tiny(tmp_path: Path, tiny: State) -> None:
    assert len(tiny) == 152 and sum(v.numel() for v in tiny.values()) == 5_717_416
    found = recognise(written(tiny, tmp_path / "tiny.npz"))
    assert found == Recognised("vit_tiny_p16_224", 224, 16)
    assert (found.grid, found.at(32, 4)) == (14, "vit_tiny_p4_32")


@pytest.mark.parametrize(
    ("name", "size"), [("vit_small_p2_32", 32), ("vit_base_p16_96", 96), ("vit_tiny_p8_64", 64)]
)
def test_every_width_and_patch(tmp_path: Path, name: str, size: int) -> None:
    state = {k: torch.zeros(v.shape).half() for k, v in on_paper(name, size).items()}
    wrapped = {f"module.backbone.{k}": v for k, v in state.items() if not k.startswith("head.")}
    found = recognise(written(wrapped, tmp_path / "w.safetensors"))
    assert (found.net, found.size) == (name, size)


def on_paper(name: str, size: int) -> State:
    with torch.device("meta"):
        return nets.build(name, 3, size).state_dict()


def test_a_depth_without_a_name_is_in_the_net_s(tmp_path: Path, tiny: State) -> None:
    shallow = {k: v for k, v in tiny.items() if not k.startswith("blocks.11.")}
    found = recognise(written(shallow, tmp_path / "shallow.pth"))
    assert found.net == "vit_192x11_p16_224"


@pytest.mark.parametrize(
    "name",
    [
        "wrn_10_1",
        "wrn_10_1_clean",
        "wrn_16_2",
        "wrn_22_3_clean",
        "wrn_13_2",
        "wrn_21_1_clean",
    ],
)
def test_every_wide_residual_net(tmp_path: Path, name: str) -> None:
    net = nets.build(name, 3, 8)
    net(torch.randn(4, 3, 8, 8))  # training shows which statistics are never used
    found = recognise(written(net.state_dict(), tmp_path / "w.pth"))
    assert (found.net, found.size, found.is_transformer) == (name, 32, False)
    theirs = {
        k.replace("stages.0.", "block1.layer.").replace("stages.1.", "block2.layer.")
        .replace("stages.2.", "block3.layer.").replace("shortcut", "convShortcut")
        .replace("stem.", "conv1."): v
        for k, v in net.state_dict().items() if k != "stem.bias"
    }  # fmt: skip
    theirs = {k.replace("norm.", "bn1."): v for k, v in theirs.items()}
    assert recognise(written(theirs, tmp_path / "theirs.pth")).net == name


@pytest.mark.parametrize("made", [
    published.google, published.transformers, published.transformers5, published.torchvision,
])  # fmt: skip
def test_the_names_of_other_packages(tmp_path: Path, made: Callable[[ViT], State]) -> None:
    source = nets.build("vit_tiny_p16_64", 7, 64)
    assert isinstance(source, ViT)
    for value in source.parameters():
        torch.nn.init.normal_(value)
    file = written(made(source), tmp_path / "theirs.npz")
    assert recognise(file) == Recognised("vit_tiny_p16_64", 64, 16)
    net = nets.build("vit_tiny_p16_64", 2, 64)
    report = load_weights(net, file)
    assert report.missing == ("head.weight", "head.bias") and not report.resized
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(net.eval()(images).features, source.eval()(images).features)


def test_the_base_of_transformers_has_no_prefix() -> None:
    net = ViT(3, size=8, patch=4, width=8, depth=1, heads=2)
    found = to_timm_names(published.transformers(net, prefix=""))
    assert found.keys() - {"classifier.weight", "classifier.bias"} == {
        k for k in net.state_dict() if not k.startswith("head.")
    }


def test_other_tensors_are_left_as_they_are() -> None:
    state = {"conv1.weight": torch.ones(2), "layer.query.weight": torch.ones(3)}
    assert to_timm_names(state) == state


def wrong(state: State, path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        recognise(written(state, path))
    text = str(caught.value)
    assert text.startswith(str(path)) and "Specify the net: --net NAME" in text
    return text


def test_files_of_other_nets_say_what_was_seen(tmp_path: Path, tiny: State) -> None:
    resnet = {
        "conv1.weight": torch.zeros(64, 3, 7, 7), "bn1.weight": torch.zeros(64),
        "layer1.0.conv1.weight": torch.zeros(64, 64, 3, 3), "fc.weight": torch.zeros(10, 512),
        "fc.bias": torch.zeros(10),
    }  # fmt: skip
    assert (
        "the weights match no built-in net: 5 tensors (bn1.weight 64, conv1.weight 64×3×7×7, "
        in wrong(dict(sorted(resnet.items())), tmp_path / "resnet.pth")
    )
    assert "it is empty" in wrong({}, tmp_path / "empty.pth")

    narrow = {**tiny, "patch_embed.proj.weight": torch.zeros(100, 3, 16, 16)}
    assert (
        "contains a transformer of width 100, depth 12 and 197 positions. Supported are widths up "
        "to 1024 that are multiples of 64" in wrong(narrow, tmp_path / "narrow.pth")
    )
    distilled = {
        **tiny,
        "dist_token": torch.zeros(1, 1, 192),
        "pos_embed": torch.zeros(1, 198, 192),
    }
    assert "198 positions" in wrong(distilled, tmp_path / "distilled.pth")


def test_files_that_nearly_fit_are_refused(tmp_path: Path, tiny: State) -> None:
    scaled = {**tiny, "blocks.0.ls1.gamma": torch.zeros(192)}
    text = wrong(scaled, tmp_path / "scaled.pth")
    assert (
        "looks like dinov2_tiny_p16_224, but is a different net (missing: blocks.0.ls2.gamma, "
        in text
    )
    bare = {k: v for k, v in tiny.items() if k != "norm.weight"}
    assert "(missing: norm.weight)" in wrong(bare, tmp_path / "bare.pth")
    narrow = {**tiny, "blocks.0.mlp.fc1.weight": torch.zeros(384, 192)}
    assert "(of other shapes: blocks.0.mlp.fc1.weight)" in wrong(narrow, tmp_path / "narrow.pth")


def test_what_only_a_head_or_a_decoder_has_does_not_matter(tmp_path: Path, tiny: State) -> None:
    body = {k: v for k, v in tiny.items() if not k.startswith("head.")}
    more = {"mask_token": torch.zeros(1), "decoder_blocks.0.weight": torch.zeros(2)}
    found = recognise(written({**body, **more}, tmp_path / "w.pth"))
    assert found.net == "vit_tiny_p16_224"
