"""The transformers against an explicit re-implementation and known counts."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tamatch import nets
from tamatch.errors import UsageError
from tamatch.nets.vit import TransformerBlock, ViT, attended


def tiny(classes: int = 5, depth: int = 3) -> ViT:
    return ViT(classes, size=8, patch=2, width=12, depth=depth, heads=3)


def slow_forward(net: ViT, images: Tensor) -> tuple[Tensor, Tensor]:
    """The definition in evaluation mode: every token of every block, attention by softmax."""
    w: dict[str, Tensor] = net.state_dict()
    width, heads, patch = net.width, 3, w["patch_embed.proj.weight"].shape[-1]

    def norm(x: Tensor, at: str) -> Tensor:
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-6).sqrt()
        return x * w[f"{at}.weight"] + w[f"{at}.bias"]

    def linear(x: Tensor, at: str) -> Tensor:
        return x @ w[f"{at}.weight"].T + w[f"{at}.bias"]

    kernel = w["patch_embed.proj.weight"].reshape(width, -1)
    rows = []
    for image in images:
        patches = [
            image[:, i : i + patch, j : j + patch].reshape(-1)
            for i in range(0, image.shape[1], patch)
            for j in range(0, image.shape[2], patch)
        ]
        x = torch.stack(patches) @ kernel.T + w["patch_embed.proj.bias"]
        x = torch.cat([w["cls_token"][0], x]) + w["pos_embed"][0]
        for i in range(len(net.blocks)):
            qkv = linear(norm(x, f"blocks.{i}.norm1"), f"blocks.{i}.attn.qkv")
            seen = []
            for q, k, v in zip(*(part.chunk(heads, -1) for part in qkv.chunk(3, -1)), strict=True):
                seen.append((q @ k.T / math.sqrt(width // heads)).softmax(-1) @ v)
            x = x + linear(torch.cat(seen, -1), f"blocks.{i}.attn.proj")
            h = linear(norm(x, f"blocks.{i}.norm2"), f"blocks.{i}.mlp.fc1")
            h = h * 0.5 * (1 + torch.erf(h / math.sqrt(2)))
            x = x + linear(h, f"blocks.{i}.mlp.fc2")
        rows.append(norm(x, "norm")[0])
    features = torch.stack(rows)
    return linear(features, "head"), features


def test_equals_the_definition() -> None:
    net = tiny().double().eval()
    with torch.no_grad():
        for value in net.parameters():
            value.add_(torch.randn_like(value), alpha=0.2)
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    out = net(x)
    logits, features = slow_forward(net, x)
    torch.testing.assert_close(out.logits, logits)
    torch.testing.assert_close(out.features, features)
    torch.testing.assert_close(out.map, features)


@pytest.mark.parametrize(
    ("name", "classes", "size", "want"),
    [("vit_small_p2_32", 100, 32, 21_436_900), ("vit_base_p16_96", 10, 96, 85_683_466)],
)
def test_parameter_counts(name: str, classes: int, size: int, want: int) -> None:
    with torch.device("meta"):
        net = nets.build(name, classes, size)
    assert sum(p.numel() for p in net.parameters()) == want


def test_parameter_names_are_those_of_weight_files() -> None:
    block = {
        f"{part}.{p}"
        for part in ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
        for p in ("weight", "bias")
    }
    want = {f"blocks.{i}.{name}" for i in range(3) for name in block}
    want |= {
        f"{part}.{p}" for part in ("patch_embed.proj", "norm", "head") for p in ("weight", "bias")
    }
    assert set(tiny().state_dict()) == want | {"cls_token", "pos_embed"}


def test_every_parameter_gets_a_gradient() -> None:
    net = tiny()
    net(torch.randn(8, 3, 8, 8)).logits.square().sum().backward()
    assert not [key for key, p in net.named_parameters() if p.grad is None or not p.grad.any()]


def test_outputs_also_under_autocast() -> None:
    net = tiny(classes=7).eval()
    x = torch.randn(4, 3, 8, 8)
    plain = net(x)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = net(x)
    for out in (plain, mixed):
        assert out.logits.shape == (4, 7) and out.features.shape == (4, net.width)
        assert out.map.shape == (4, net.map_width)
        assert {value.dtype for value in out} == {torch.float32}
    assert not torch.equal(plain.features, mixed.features), "autocast had no effect"
    torch.testing.assert_close(mixed.logits, plain.logits, rtol=0.1, atol=0.1)


def test_drop_rates_rise_linearly() -> None:
    blocks = [block for block in tiny(depth=12).blocks if isinstance(block, TransformerBlock)]
    assert [1 - float(b.keep) for b in blocks] == pytest.approx([0.2 * i / 11 for i in range(12)])
    assert [b.drops for b in blocks] == [False] + 11 * [True]
    assert not any("keep" in name for name in blocks[0].state_dict())


def test_stochastic_depth_statistics() -> None:
    torch.manual_seed(0)
    block = TransformerBlock(width=4, heads=1, drop=0.2)
    got = block._maybe_drop(torch.ones(20_000, 3, 4))
    assert torch.equal(got, got[:, :1, :1].expand_as(got)), "a sample is dropped as a whole"
    assert set(got.flatten().tolist()) == {0.0, 1.25}
    assert (got[:, 0, 0] == 0).float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert got.mean().item() == pytest.approx(1.0, abs=0.02)
    branch = torch.randn(5, 3, 4)
    assert block.eval()._maybe_drop(branch) is branch


def test_depth_is_random_in_training_alone() -> None:
    torch.manual_seed(0)
    net, x = tiny(), torch.randn(64, 3, 8, 8)
    assert not torch.equal(net(x).logits, net(x).logits)
    net.eval()
    assert torch.equal(net(x).logits, net(x).logits)


def test_patches_must_fit_the_image() -> None:
    with pytest.raises(UsageError, match="multiple of 16"):
        nets.build("vit_base_p16_96", 10, 100)


def test_attention_in_bfloat16_on_a_cpu_is_that_of_torch() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 17, 64).bfloat16().requires_grad_() for _ in range(3))
    for first in (None, 1):
        ours = attended(q[:, :, :first], k, v)
        exact = F.scaled_dot_product_attention(q[:, :, :first].double(), k.double(), v.double())
        assert ours.dtype == torch.bfloat16 and ours.shape == exact.shape
        torch.testing.assert_close(ours.double(), exact, rtol=0.02, atol=0.01)
        gradients = (torch.autograd.grad(out.square().sum(), (q, k, v)) for out in (ours, exact))
        for got, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(got, expected, rtol=0.05, atol=0.05)
