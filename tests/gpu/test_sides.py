"""On a GPU: every kernel over images of many sides, in odd batches; `make sanitize` runs this, too.

Sides whose area is no power of two leave positions of a program outside of the image.
"""

from __future__ import annotations

import copy
import importlib
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tamatch import nets
from tamatch.augment import OPERATIONS, Augment, Policy

pytestmark = pytest.mark.gpu

pytest.importorskip("triton")
attention = importlib.import_module("tamatch.nets.kernels.attention")

SIDES = (8, 17, 28, 32, 33, 48, 64, 96, 112, 224)
LOOK_UPS = ("AutoContrast", "Equalize", "Posterize") * 5  # in tables, by level


@pytest.fixture(autouse=True)
def exact_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)


@pytest.mark.parametrize("operations", [OPERATIONS, LOOK_UPS], ids=["all", "look-ups"])
@pytest.mark.parametrize("view", ["weak", "strong"])
@pytest.mark.parametrize("side", SIDES)
def test_views(side: int, view: str, operations: tuple[str, ...]) -> None:
    """The kernel's are those of the modules, which `kernels=False` asks for; also of no images."""
    operations = operations[: len(OPERATIONS)]  # as many: the kernel is compiled once
    policy = Policy(side, (0.5, 0.4, 0.3), (0.2, 0.3, 0.25), operations=operations)
    fast, plain = (Augment(policy, 7, kernels=wanted).cuda() for wanted in (True, False))
    draw = torch.Generator("cuda").manual_seed(0)
    images = torch.randint(0, 256, (61, 3, side, side + 1), device="cuda", generator=draw).byte()
    images[::2] = images[::2] % 2 + 253  # stretching these moves what is no pixel far off
    step, slot = torch.tensor(77, device="cuda"), torch.arange(61, device="cuda")
    for count in (61, 1, 0):
        given = images[:count], step, slot[:count], 4
        mine, theirs = fast(view, *given), plain(view, *given)
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
    assert fast.kernels and not plain.kernels


def outcome(net: nn.Module, images: Tensor, directions: Tensor, dtype: torch.dtype) -> Tensor:
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        logits = net(images).logits
    (logits * directions).sum().backward()
    grads = [p.grad.flatten() for p in net.parameters() if p.grad is not None]
    return torch.cat([logits.detach().float().flatten(), *grads])


def far(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).norm() / other.double().norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["single", "half"])
@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("side", SIDES)
def test_residual_nets(side: int, count: int, dtype: torch.dtype) -> None:
    """BatchNorm, narrow, fused and exact convolutions, and the first one."""
    torch.manual_seed(0)
    plain = nets.build("wrn_10_2", 10, side).cuda().to(memory_format=torch.channels_last).train()
    fast, exact = copy.deepcopy(plain), copy.deepcopy(plain)
    fast.accelerate()
    images = torch.randn(count, 3, side, side, device="cuda")
    directions = torch.randn(count, 10, device="cuda")
    truth = outcome(exact, images, directions, torch.float32)
    mine, theirs = (outcome(net, images, directions, dtype) for net in (fast, plain))
    assert mine.isfinite().all()
    assert far(mine, truth) < (2 * far(theirs, truth) + 2e-2 if dtype != torch.float32 else 3e-2)


@pytest.mark.parametrize("side", SIDES)
def test_attention(side: int) -> None:
    """At most 16 × 16 patches, and a class token."""
    patch = math.ceil(side / 16)
    tokens, heads, width = (side // patch) ** 2 + 1, 3, 64
    torch.manual_seed(0)
    qkv = torch.randn(5, tokens, 3 * heads * width, device="cuda").bfloat16()
    grad = torch.randn(5, tokens, heads * width, device="cuda").bfloat16()

    def by_torch(x: Tensor, heads: int) -> Tensor:
        q, k, v = x.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    found = []
    for attend in (attention.attention, by_torch):
        x = qkv.clone().requires_grad_()
        out = attend(x, heads)
        out.backward(grad)
        assert x.grad is not None
        found.append(torch.cat([out.detach().flatten(), x.grad.flatten()]))
    assert far(*found) < 2e-2


def test_more_heads_than_a_grid_has_rows() -> None:
    """65,535 programs are all that CUDA starts along a second axis."""
    qkv = torch.randn(attention.HEADS // 3 + 2, 2, 3 * 3 * 16, device="cuda").bfloat16()
    with torch.no_grad():
        mine = attention.attention(qkv, 3)
        assert torch.equal(mine[-5:], attention.attention(qkv[-5:], 3))
