"""DINOv2's and CLIP's transformers against slow NumPy ones, written from the publishers' texts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tamatch import nets
from tamatch.nets.recognise import Recognised, recognise
from tamatch.nets.vit import STYLES, ViT
from tamatch.nets.weights import load_weights, resize_positions

Array = npt.NDArray[np.float64]
erf = np.vectorize(math.erf)
WIDTH, HEADS, DEPTH, PATCH, SIZE = 128, 2, 4, 14, 42
NAMES = {style: f"{style}_{WIDTH}x{DEPTH}_p{PATCH}_{SIZE}" for style in STYLES}


def sketched(style: str, classes: int = 3) -> ViT:
    """With random weights of a size that makes every part of the net matter."""
    net = nets.build(NAMES[style], classes, SIZE)
    assert isinstance(net, ViT)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, value in net.named_parameters():
            value.normal_(std=0.2)
            if "norm" in name and name.endswith("weight"):
                value.add_(1)
    return net.double().eval()


def slow_tokens(state: dict[str, Tensor], image: Array, style: str) -> tuple[Array, list[Array]]:
    """Every token after the last norm, and the plainly normed ones after each block.

    For one (3, H, W) image.
    """
    w = {k: v.double().numpy() for k, v in state.items()}
    eps = 1e-5 if style == "clip" else 1e-6

    def norm(x: Array, at: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
        return scaled * w[f"{at}.weight"] + w[f"{at}.bias"]

    def linear(x: Array, at: str) -> Array:
        return x @ w[f"{at}.weight"].T + w[f"{at}.bias"]

    def activation(h: Array) -> Array:
        if style == "clip":
            return h / (1 + np.exp(-1.702 * h))
        return h * 0.5 * (1 + erf(h / math.sqrt(2)))

    patches = []
    for i in range(0, image.shape[1], PATCH):
        for j in range(0, image.shape[2], PATCH):
            window = image[None, :, i : i + PATCH, j : j + PATCH]
            patches.append((w["patch_embed.proj.weight"] * window).sum((1, 2, 3)))
    x = np.stack(patches)
    if style == "clip":
        assert "patch_embed.proj.bias" not in w
    else:
        x = x + w["patch_embed.proj.bias"]
    if style == "dinov2reg":
        x = np.concatenate([w["cls_token"][0], w["reg_token"][0], x + w["pos_embed"][0]])
    else:
        x = np.concatenate([w["cls_token"][0], x]) + w["pos_embed"][0]
    if style == "clip":
        x = norm(x, "norm_pre")
    below = []
    for i in range(DEPTH):
        at = f"blocks.{i}"
        qkv = linear(norm(x, f"{at}.norm1"), f"{at}.attn.qkv").reshape(len(x), 3, HEADS, -1)
        seen = []
        for head in range(HEADS):
            q, k, v = qkv[:, :, head].transpose(1, 0, 2)
            scores = np.exp(q @ k.T / math.sqrt(WIDTH // HEADS))
            seen.append(scores / scores.sum(-1, keepdims=True) @ v)
        branch = linear(np.concatenate(seen, -1), f"{at}.attn.proj")
        x = x + branch * (w[f"{at}.ls1.gamma"] if "dinov2" in style else 1)
        branch = linear(
            activation(linear(norm(x, f"{at}.norm2"), f"{at}.mlp.fc1")), f"{at}.mlp.fc2"
        )
        x = x + branch * (w[f"{at}.ls2.gamma"] if "dinov2" in style else 1)
        below.append((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))
    return norm(x, "norm"), below


@pytest.mark.parametrize("style", STYLES)
def test_every_style_equals_the_slow_one(style: str) -> None:
    net = sketched(style)
    images = torch.randn(2, 3, SIZE, SIZE, dtype=torch.float64)
    made = [slow_tokens(net.state_dict(), image.numpy(), style) for image in images]
    want, below = np.stack([last for last, _ in made]), np.array([each for _, each in made])
    registers = 4 if style == "dinov2reg" else 0
    assert want.shape[1] == net.tokens == 1 + registers + (SIZE // PATCH) ** 2
    with torch.no_grad():
        out, features = net(images), net.frozen_features(images)
    np.testing.assert_allclose(out.features, want[:, 0], rtol=1e-8, atol=1e-10)
    lower = [below[:, n - 1, 1 + registers :].mean(1) for n in (DEPTH // 4, DEPTH // 2)]
    pooled = np.concatenate([want[:, 0], want[:, 1 + registers :].mean(1), *lower], 1)
    assert net.frozen_width == pooled.shape[1] == 2 * net.frozen_upper
    np.testing.assert_allclose(features, pooled, rtol=1e-5, atol=1e-5)  # it ends in float32


NAMES_OF_TIMM = {  # beside those of every block's norms, attention and layers
    "vit": {"patch_embed.proj.bias"},
    "dinov2": {"patch_embed.proj.bias", "ls"},
    "dinov2reg": {"patch_embed.proj.bias", "ls", "reg_token"},
    "clip": {"norm_pre.weight", "norm_pre.bias"},
}


@pytest.mark.parametrize("style", STYLES)
def test_the_tensors_are_those_of_timm(style: str) -> None:
    own = set(nets.build(NAMES[style], 3, SIZE).state_dict())
    basic = {
        f"blocks.{i}.{part}.{p}"
        for i in range(DEPTH)
        for part in ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
        for p in ("weight", "bias")
    }
    basic |= {"cls_token", "pos_embed", "patch_embed.proj.weight", "head.weight", "head.bias"}
    scales = {f"blocks.{i}.ls{n}.gamma" for i in range(DEPTH) for n in (1, 2)}
    more = NAMES_OF_TIMM[style]
    want = (
        basic | {"norm.weight", "norm.bias"} | (more - {"ls"}) | (scales if "ls" in more else set())
    )
    assert own == want


@pytest.mark.parametrize(
    ("name", "positions", "count"),  # published counts, less DINOv2's mask token and CLIP's head
    [
        ("dinov2_small_p14_518", 1370, 22_056_576 - 384),
        ("dinov2reg_small_p14_518", 1369, 22_056_576 + 4 * 384 - 384 - 384),  # no class position
        ("dinov2_base_p14_518", 1370, 86_580_480 - 768),
        ("clip_base_p16_224", 197, 86_192_640 - 512 * 768),
    ],
)
def test_the_shapes_of_published_files(name: str, positions: int, count: int) -> None:
    with torch.device("meta"):
        state = nets.build(name, 1, int(name.rpartition("_")[2])).state_dict()
    assert state["pos_embed"].shape[1] == positions
    assert sum(v.numel() for k, v in state.items() if not k.startswith("head.")) == count


@pytest.mark.parametrize("style", STYLES)
def test_files_are_recognised_and_load_exactly(style: str, tmp_path: Path) -> None:
    source, file = sketched(style), tmp_path / "w.safetensors"
    body = {k: v for k, v in source.state_dict().items() if not k.startswith("head.")}
    save_file({**body, "head.weight": torch.zeros(512, WIDTH)}, file)
    assert recognise(file) == Recognised(NAMES[style], SIZE, PATCH)
    net = nets.build(NAMES[style], 5, SIZE)
    report = load_weights(net, file)
    assert report.missing == ("head.weight", "head.bias") and not (report.extra or report.resized)
    assert all(
        torch.equal(net.state_dict()[k].double(), v.float().double()) for k, v in body.items()
    )


def test_clip_as_openai_names_it(tmp_path: Path) -> None:
    source = sketched("clip")
    renamed = (
        ("cls_token", "class_embedding"), ("pos_embed", "positional_embedding"),
        ("patch_embed.proj", "conv1"), ("norm_pre", "ln_pre"),
        ("blocks.", "transformer.resblocks."), (".norm1", ".ln_1"), (".norm2", ".ln_2"),
        ("attn.qkv.", "attn.in_proj_"),
        ("attn.proj", "attn.out_proj"), ("mlp.fc1", "mlp.c_fc"), ("mlp.fc2", "mlp.c_proj"),
    )  # fmt: skip
    theirs = {
        "visual.proj": torch.zeros(WIDTH, 512), "logit_scale": torch.zeros(1),
        "transformer.resblocks.0.ln_1.weight": torch.zeros(7),  # of the tower for texts
        "positional_embedding": torch.zeros(77, 7),
    }  # fmt: skip
    for name, value in source.state_dict().items():
        if name.startswith("head."):
            continue
        name = "ln_post" + name.removeprefix("norm") if name.startswith("norm.") else name
        for ours, other in renamed:
            name = name.replace(ours, other)
        value = value[0] if name == "positional_embedding" else value
        theirs[f"visual.{name}"] = value.flatten() if name == "class_embedding" else value
    assert "visual.transformer.resblocks.1.attn.in_proj_weight" in theirs
    file = tmp_path / "open_clip_model.safetensors"
    save_file(theirs, file)
    assert recognise(file).net == NAMES["clip"]
    net = nets.build(NAMES["clip"], 5, SIZE)
    report = load_weights(net, file)
    assert report.missing == ("head.weight", "head.bias") and not report.extra
    images = torch.randn(2, 3, SIZE, SIZE)
    with torch.no_grad():
        got, want = net.eval()(images).features, source(images.double()).features
    torch.testing.assert_close(got.double(), want, rtol=1e-3, atol=1e-3)


def cubic(x: float, a: float) -> float:
    """Keys' kernel."""
    x = abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def smoothing(old: int, new: int) -> Array:
    """A row of weights for each new place; the kernel is stretched where places become fewer."""
    stretch = max(1.0, old / new)
    rows = np.array([
        [cubic((j + 0.5 - (i + 0.5) * old / new) / stretch, -0.5) for j in range(old)]
        for i in range(new)
    ])  # fmt: skip
    return rows / rows.sum(1, keepdims=True)


def plain(old: int, new: int) -> Array:
    """The four nearest places, those beyond the border being the last before it."""
    rows = np.zeros((new, old))
    for i in range(new):
        at = (i + 0.5) * old / new - 0.5
        for j in range(math.floor(at) - 1, math.floor(at) + 3):
            rows[i, min(max(j, 0), old - 1)] += cubic(at - j, -0.75)
    return rows


@pytest.mark.parametrize(("old", "new"), [(14, 8), (37, 16), (7, 14), (14, 4)])
@pytest.mark.parametrize("class_token", [False, True])
def test_positions_are_resampled(old: int, new: int, class_token: bool) -> None:
    given = torch.randn(1, class_token + old**2, 5)
    got = resize_positions(given, class_token + new**2)
    assert torch.equal(got[:, :class_token], given[:, :class_token])
    matrix = (plain if class_token else smoothing)(old, new)
    grid = given[0, class_token:].double().numpy().reshape(old, old, 5)
    want = np.einsum("ia,jb,abc->ijc", matrix, matrix, grid).reshape(-1, 5)
    np.testing.assert_allclose(got[0, class_token:], want, atol=1e-4)


def test_positions_of_registers_fit_another_size(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file(sketched("dinov2reg").state_dict(), file)
    net = nets.build(NAMES["dinov2reg"], 5, 56)
    assert load_weights(net, file).resized == {"pos_embed": ((1, 9, WIDTH), (1, 16, WIDTH))}
