"""On a GPU: convolutions in one kernel with their neighbours, and the same in double precision."""

from __future__ import annotations

import copy
import importlib

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tamatch import nets
from tamatch.nets.base import recompute

pytestmark = pytest.mark.gpu

pytest.importorskip("triton")
Beside = importlib.import_module("tamatch.machine.branches").Beside
conv3 = importlib.import_module("tamatch.nets.kernels.conv3")
cuda = importlib.import_module("tamatch.nets.kernels.cuda")
conv = importlib.import_module("tamatch.nets.kernels.conv")

SHAPES = [(5, 32, 32, 32), (3, 32, 16, 64), (320, 32, 32, 32), (7, 64, 16, 16), (40, 64, 32, 16)]


def map_of(*shape: int) -> Tensor:
    x = torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return x.to(memory_format=torch.channels_last)


def far(one: Tensor, other: Tensor) -> float:
    return float(((one.double() - other).norm() / other.norm()).detach())


@pytest.mark.parametrize("shape", SHAPES)
def test_two_layers(shape: tuple[int, int, int, int]) -> None:
    """One without its norm but with a summand, one with its norm by the statistics of the first."""
    torch.manual_seed(0)
    channels = shape[1]
    x, skip, grad, grad_between = (map_of(*shape) for _ in range(4))
    weight = map_of(channels, channels, 3, 3) / (9 * channels) ** 0.5
    norm = nn.BatchNorm2d(channels).cuda()
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    given = [tensor.detach().requires_grad_() for tensor in (x, weight, skip)]
    arrived = torch.zeros(cuda.GROUPS + 1, dtype=torch.int32, device="cuda")
    lacking: dict[int, object] = {}
    more = norm, arrived, Beside(), lacking
    affine = norm.weight, norm.bias
    apply = conv3.NormConvolve.apply
    _, y, known = apply(given[0], None, *affine, given[1], given[2], *more, False)
    y, z, _ = apply(y, known, *affine, given[1], None, *more, True)
    torch.autograd.backward([z, y], [grad, grad_between])  # type: ignore[no-untyped-call]

    def by_torch(dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
        """Maps and gradients, as torch's modules give them in this precision."""
        leaves = [tensor.detach().to(dtype).requires_grad_() for tensor in given]
        leaves += [tensor.detach().to(dtype).requires_grad_() for tensor in affine]
        first = F.conv2d(leaves[0], leaves[1], padding=1) + leaves[2]
        normed = F.batch_norm(first, None, None, leaves[3], leaves[4], True, 0, norm.eps)
        second = F.conv2d(F.leaky_relu(normed, 0.1), leaves[1], padding=1)
        torch.autograd.backward([second, first], [grad.to(dtype), grad_between.to(dtype)])  # type: ignore[no-untyped-call]
        return [first, second, *(leaf.grad for leaf in leaves if leaf.grad is not None)], first

    exact, first = by_torch(torch.double)
    rough, _ = by_torch(torch.bfloat16)
    mine = [y, z, *(leaf.grad for leaf in (*given, *affine) if leaf.grad is not None)]
    for i, true in enumerate(exact):
        assert far(mine[i], true) < 1.5 * far(rough[i], true) + 2e-3, i
    variance, mean = torch.var_mean(first, (0, 2, 3))
    assert far(norm.running_mean, 0.1 * mean) < 1e-2
    assert far(norm.running_var, 0.9 + 0.1 * variance) < 1e-2
    assert int(norm.num_batches_tracked) == 1
    assert not arrived.any() and not lacking


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[1] == conv.CHANNELS])
def test_weight_gradients(shape: tuple[int, int, int, int]) -> None:
    x, grad, weight = map_of(*shape), map_of(*shape), map_of(shape[1], shape[1], 3, 3)
    assert cuda.fits(x, weight, 1)
    doubles = x.double(), weight.shape, grad.double()
    expected = nn.grad.conv2d_weight(*doubles, padding=1)  # type: ignore[attr-defined]
    assert far(conv.added_up(conv.in_shares(x, grad), weight), expected) < 5e-3


def trained(net: nn.Module, images: Tensor, directions: Tensor) -> Tensor:
    with torch.autocast("cuda", torch.bfloat16):
        logits = net(images).logits
    (logits * directions).sum().backward()
    state = [p.grad for p in net.parameters() if p.grad is not None] + [*net.buffers()]
    return torch.cat([tensor.double().flatten() for tensor in state])


def test_whole_nets_twice_and_recomputed() -> None:
    """To the bit, also where the activations are computed a second time."""
    net = nets.build("wrn_16_2", 10, 32).cuda().to(memory_format=torch.channels_last).train()
    net.accelerate()
    again, thrifty = copy.deepcopy(net), copy.deepcopy(net)
    assert recompute(thrifty)
    images, directions = torch.randn(9, 3, 32, 32, device="cuda"), torch.randn(9, 10, device="cuda")
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        one, two, three = (trained(n, images, directions) for n in (net, again, thrifty))
    assert torch.equal(one, two) and torch.equal(one, three)
