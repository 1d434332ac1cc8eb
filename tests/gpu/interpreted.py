"""The Triton kernels run by NumPy, on a CPU: python -m tests.gpu.numpy_triton [all].

Indices, masks and formulas are checked here (`numpy_triton`); barriers and speed are for a real
GPU to show. `all` adds views of larger images, and the CUDA kernels by their emulator.
"""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from itertools import product
from pathlib import Path
from tempfile import mkdtemp

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tamatch import nets
from tamatch.augment import OPERATIONS, Augment, Policy, views
from tamatch.augment.kernel import render
from tamatch.augment.views import ADDRESSES
from tamatch.methods.base import frozen_norm
from tamatch.nets import kernels
from tamatch.nets.base import recompute
from tamatch.nets.kernels import attention, conv, cuda, narrow, split
from tests.gpu.emulated import COMPILER, build

LOOK_UPS = ("AutoContrast", "Equalize", "Posterize")  # in tables, by level
SIDES, MORE_SIDES = (8, 17, 28, 32, 33), (48, 64, 96, 112, 224)


def far(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm().detach() / other.norm().detach())


def outcome(net: nn.Module, images: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """Logits, gradients of images and weights, statistics."""
    images = images.clone().requires_grad_()
    logits = net(images).logits
    (logits * weights).sum().backward()
    assert images.grad is not None
    grads = [p.grad.flatten() for p in net.parameters() if p.grad is not None]
    return logits, images.grad, torch.cat(grads), torch.cat([b.flatten() for b in net.buffers()])


def check_nets(
    name: str, size: int, count: int, order: torch.memory_format = torch.channels_last
) -> None:
    torch.manual_seed(0)
    plain = nets.build(name, 10, size).to(memory_format=order).train()
    fast = copy.deepcopy(plain)
    fast.accelerate()
    images, weights = torch.randn(count, 3, size, size), torch.randn(count, 10)
    pairs = zip(outcome(fast, images, weights), outcome(plain, images, weights), strict=True)
    assert all(far(mine, theirs) < 1e-4 for mine, theirs in pairs), name
    check_frozen(fast, images)


def check_views(size: int, width: int, operations: tuple[str, ...], count: int) -> None:
    """Also of bright images without contrast: stretching that moves what is no pixel far off."""
    policy = Policy(
        size, (0.0,) * 3, (1 / 255,) * 3, vertical_flip=True, operations=operations, cutout=0.5
    )
    augment, step = Augment(policy, 12345678901234567), torch.tensor(77)
    slot = torch.arange(count) + 3
    images = torch.randint(0, 256, (count, 3, size, width), dtype=torch.uint8)
    for pixels, (view, number) in product((images, images % 2 + 253), ADDRESSES.items()):
        address = len(ADDRESSES) * 5 + number
        mine = render(augment, pixels, step, slot, address, augment.rounds(view))
        theirs = augment(view, pixels, step, slot, 5)
        assert torch.equal(mine, theirs), (size, view, operations)


def check_narrow(inner: int, outer: int, count: int, height: int, width: int) -> None:
    x = torch.randn(count, inner, height, width).to(memory_format=torch.channels_last)
    grad = torch.randn(count, outer, height, width).to(memory_format=torch.channels_last)
    weight = torch.randn(outer, inner, 3, 3).to(memory_format=torch.channels_last)
    assert far(narrow.convolve(x, weight), torch.conv2d(x, weight, padding=1)) < 1e-5
    expected = nn.grad.conv2d_weight(x, weight.shape, grad, padding=1)  # type: ignore[attr-defined]
    assert far(conv.added_up(narrow.weight_gradients(x, grad, weight), weight), expected) < 1e-5


def check_attention(count: int, tokens: int, heads: int, width: int) -> None:
    qkv = torch.randn(count, tokens, 3 * heads * width)
    found = []
    for attend in (attention.attention, by_torch):
        x = qkv.clone().requires_grad_()
        out = attend(x, heads)
        out.square().sum().backward()
        assert x.grad is not None
        found.append((out, x.grad))
    assert all(far(mine, theirs) < 1e-5 for mine, theirs in zip(*found, strict=True))


def by_torch(qkv: Tensor, heads: int) -> Tensor:
    q, k, v = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def check_split() -> None:
    for inner, outer in ((16, 16), (16, 32), (64, 64), (64, 128)):
        x, weight = torch.randn(2, inner, 7, 5), torch.randn(outer, inner, 3, 3)
        x, weight = (value.to(memory_format=torch.channels_last) for value in (x, weight))
        assert not split.fits(x, weight, 1)
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            assert split.fits(x, weight, 1) and not split.fits(x, weight, 2)
        assert far(split.convolve(x, weight), torch.conv2d(x, weight, padding=1)) < 1e-5


def check_stem() -> None:
    """However the images lie in memory, and their gradient."""
    torch.manual_seed(0)
    weight, bias = torch.randn(16, 3, 3, 3), torch.randn(16)
    images = torch.randn(3, 3, 12, 14)
    order = torch.channels_last
    for x in (images, images.to(memory_format=order), images[:, :, 2:9, 3:8]):
        found = []
        for convolve in (conv.Stem.apply, lambda *given: torch.conv2d(*given, padding=1)):
            given = [value.detach().requires_grad_() for value in (x, weight, bias)]
            y = convolve(*given)
            y.square().sum().backward()
            found.append([y, *(value.grad for value in given if value.grad is not None)])
        assert len(found[0]) == 4
        assert all(far(mine, theirs) < 1e-5 for mine, theirs in zip(*found, strict=True))


def check_nothing_stays() -> None:
    """A pass without a way back holds none of its parts, and so no weight's place in a graph."""
    made, net = list[weakref.ref[kernels.Fused]](), nets.build("wrn_10_2", 10, 32)
    net.to(memory_format=torch.channels_last).train().accelerate()

    class Watched(kernels.Fused):
        def __init__(self, *given: nn.Module) -> None:
            super().__init__(*given)
            made.append(weakref.ref(self))

    net.parts = Watched
    gc.disable()
    net(torch.zeros(2, 3, 32, 32))
    assert len(made) == 1 and made[0]() is None
    gc.enable()


def check_frozen(net: nn.Module, images: Tensor) -> None:
    """Statistics that are not to move do not, and the pass is the same."""
    moved = net(images).logits
    before = copy.deepcopy(net.state_dict())
    with frozen_norm(net):
        still = net(images).logits
    assert torch.equal(still, moved)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def check_with_cuda(name: str, *, recomputed: bool) -> None:
    """Together with the CUDA kernels in their emulator, in half precision."""
    torch.manual_seed(0)
    fast = nets.build(name, 10, 32).to(memory_format=torch.channels_last).train()
    for layer in (module for module in fast.modules() if isinstance(module, nn.Conv2d)):
        layer.weight.data = layer.weight.data.bfloat16()
    exact, rough = (copy.deepcopy(fast).to(dtype) for dtype in (torch.double, torch.float))
    fast.accelerate()
    assert recompute(fast, wanted=recomputed) == recomputed
    images, directions = torch.randn(2, 3, 32, 32), torch.randn(2, 10)
    mine = outcome(fast, images, directions)
    true = outcome(exact, images.double(), directions.double())
    with torch.autocast("cpu", torch.bfloat16):
        near = outcome(rough, images, directions)
    for one, other, best in zip(mine, near, true, strict=True):
        assert far(one, best) < 1.3 * far(other, best) + 3e-3, (name, recomputed)
    check_frozen(fast, images)


def emulate() -> list[str]:
    """Let the CUDA kernels run on this machine; the names of those that did."""
    kernel, ran = build(Path(mkdtemp())), list[str]()

    def start(
        name: str, _: object, blocks: int, threads: int, *given: object, **more: object
    ) -> None:
        ran.append(name)
        kernel(name, len(ran))(grid=(blocks, 1, 1), block=(threads, 1, 1), args=[*given])

    cuda.start, cuda.usable = start, lambda _: True
    return ran


def check_limit() -> None:
    """Maps too large for places of 32 bits are left to torch; 12 x 8 x 8 pixels stand for those."""
    before, kernels.COUNTABLE = kernels.COUNTABLE, 12 * 8 * 8 * 16 - 1
    check_nets("wrn_10_1", 8, 12)
    kernels.COUNTABLE = before
    x, weight = torch.zeros(2, 16, 8, 8).bfloat16(), torch.zeros(32, 16, 3, 3).bfloat16()
    before, narrow.COUNTABLE = narrow.COUNTABLE, 2 * 8 * 8 * 32
    assert narrow.fits(x, weight, 1) and not narrow.fits(x.repeat(2, 1, 1, 1), weight, 1)
    narrow.COUNTABLE = before


def main() -> None:
    everything = sys.argv[1:] == ["all"]
    sides = (*SIDES, *MORE_SIDES) if everything else SIDES
    views.PILLOW_ABOVE = max(sides)  # by batched operations, which are the reference
    for i, side in enumerate(sides):
        check_views(side, side + i % 2, OPERATIONS, 7)
        check_views(side, side, LOOK_UPS, 61 if side in SIDES else 9)
    check_limit()
    check_stem()
    check_split()
    check_nothing_stays()
    for name, size, count in (("wrn_10_1", 8, 3), ("wrn_10_2", 12, 2), ("wrn_10_1_clean", 6, 5)):
        check_nets(name, size, count)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # by split factors
        check_nets("wrn_10_1", 8, 3)
        check_nets("wrn_10_1", 8, 3, torch.contiguous_format)
    for inner, outer in ((16, 16), (16, 32), (32, 32)):
        check_narrow(inner, outer, 3, 7, 5)
    for shape in ((1, 1, 1, 16), (3, 37, 2, 16), (2, 65, 3, 32)):
        check_attention(*shape)
    before, attention.HEADS = attention.HEADS, 4  # more heads than programs along an axis
    check_attention(5, 17, 3, 16)
    attention.HEADS = before
    if everything and COMPILER is not None:
        ran = emulate()
        for recomputed in (False, True):
            check_with_cuda("wrn_16_2", recomputed=recomputed)
        assert {*ran} >= {f"backward<{c}, {n}, true>" for c in (32, 64) for n in ("false", "true")}
    print("the interpreted kernels agree")
