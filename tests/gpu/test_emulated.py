"""Without a GPU: the CUDA kernels compute what they should, whatever the order of their threads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.gpu.emulated import COMPILER, GROUPS, SLOPE, build, channels_last

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++")
COLUMNS, ROWS, THREADS, EPS, MOMENTUM = {32: 32, 64: 16}, 8, 128, 1e-5, 0.1
SHAPES = [(32, 1, 16, 32), (32, 1, 8, 64), (64, 3, 8, 16), (64, 1, 16, 32)]
Start = Callable[..., Callable[..., None]]
seeds = count()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Start:
    return build(tmp_path_factory.mktemp("kernels"))


def far(one: Tensor, other: Tensor) -> float:
    assert not one.isnan().any()  # what is not written stays so
    return float((one.double() - other.double()).norm() / other.double().norm())


def unwritten(*shape: int) -> Tensor:
    return torch.full(shape, float("nan"))


def groups(x: Tensor) -> Tensor:
    """Sums, and sums of squares around the mean, of each group of tiles."""
    channels, height, width = x.shape[1:]
    columns = COLUMNS[channels]
    parts = x.double().permute(0, 2, 3, 1)
    parts = parts.unflatten(2, (width // columns, columns)).unflatten(1, (height // ROWS, ROWS))
    tiles = parts.transpose(2, 3).reshape(-1, ROWS * columns, channels)
    size = -(-len(tiles) // GROUPS)
    pixels = [part.flatten(0, 1) for part in tiles.split(size)]
    return torch.stack([torch.stack([p.sum(0), (p - p.mean(0)).square().sum(0)]) for p in pixels])


class Layer:
    """A BatchNorm and a convolution with maps to try them on, and what they should give."""

    def __init__(self, channels: int, n: int, height: int, width: int) -> None:
        torch.manual_seed(channels + n)
        shape = n, channels, height, width
        self.size, self.tiles = (
            (channels, height, width),
            n * (height // ROWS) * (width // COLUMNS[channels]),
        )
        far_off = 3 * torch.randn(channels)  # squares must not cancel
        self.x = (channels_last(*shape) + wide(far_off)).bfloat16()
        self.skip, self.grad = channels_last(*shape), channels_last(*shape)
        self.weight = channels_last(channels, channels, 3, 3) / (9 * channels) ** 0.5
        self.gamma, self.beta = torch.rand(channels) + 0.5, torch.randn(channels)
        variance, mean = torch.var_mean(self.x.double(), (0, 2, 3), correction=0)
        self.moments = torch.stack([mean, (variance + EPS).rsqrt()])
        self.standard = (self.x - wide(mean)) * wide(self.moments[1])
        z = self.standard * wide(self.gamma) + wide(self.beta)
        self.slope = torch.where(z > 0, 1.0, SLOPE)
        self.h = z * self.slope

    def sums(self) -> tuple[Tensor, Tensor, Tensor]:
        """Memory for the tiles' sums, the counters, and the groups'."""
        channels, size = len(self.gamma), -(-self.tiles // GROUPS)
        tiles = unwritten(self.tiles, 2, channels)
        totals = unwritten(-(-self.tiles // size), 2, channels)
        return tiles, torch.zeros(GROUPS + 1, dtype=torch.int32), totals


def wide(x: Tensor) -> Tensor:
    return x.view(1, -1, 1, 1)


def name_of(name: str, *traits: Any) -> str:
    return f"{name}<{', '.join(str(trait).lower() for trait in traits)}>"


@pytest.mark.parametrize(("normed", "added"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("shape", SHAPES)
def test_forward(
    kernel: Start,
    shape: tuple[int, ...],
    normed: bool,
    added: bool,
    upside_down: int = 0,
    tracked: bool = True,
) -> None:
    layer, channels = Layer(*shape), shape[0]
    h, y = torch.full_like(layer.x, float("nan")), torch.full_like(layer.x, float("nan"))
    tiles, arrived, totals = layer.sums()
    moments, batches = unwritten(2, channels), torch.tensor(4)
    mean, variance = torch.full((channels,), 0.5), torch.full((channels,), 2.0)
    start = kernel(name_of("forward", channels, bool(normed), bool(added)), next(seeds))
    arguments = [
        layer.x, layer.weight, layer.skip, h, y, tiles, arrived, totals,
        groups(layer.x).float(), layer.gamma, layer.beta, moments,
        *((mean, variance, batches) if tracked else (None, None, None)),
        MOMENTUM, EPS, *shape[2:], upside_down,
    ]  # fmt: skip
    start(grid=(layer.tiles, 1, 1), block=(THREADS, 1, 1), args=arguments)
    if normed:
        assert far(h, layer.h) < 3e-3  # rounding to eight bits
        assert far(moments, layer.moments) < 1e-6
    if normed and tracked:
        unbiased = layer.x.double().var((0, 2, 3))
        assert far(mean, 0.45 + MOMENTUM * layer.moments[0]) < 1e-6
        assert far(variance, 1.8 + MOMENTUM * unbiased) < 1e-6 and int(batches) == 5
    expected = torch.conv2d((h if normed else layer.x).double(), layer.weight.double(), padding=1)
    assert far(y, expected + added * layer.skip.double()) < 3e-3
    assert far(totals, groups(y)) < 1e-6
    assert not arrived.any()


def test_forward_through_a_frozen_norm(kernel: Start) -> None:
    test_forward(kernel, SHAPES[0], True, True, tracked=False)


@pytest.mark.parametrize("following", [None, "norm", "norm and more"])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_backward(
    kernel: Start, shape: tuple[int, ...], normed: bool, following: str | None
) -> None:
    layer, channels = Layer(*shape), shape[0]
    after = Layer(channels, shape[1] + 1, *shape[2:])  # the same map, but for one image
    after_x, extra = after.x[: shape[1]], after.skip[: shape[1]]
    variance, mean = torch.var_mean(after_x.double(), (0, 2, 3), correction=0)
    after_moments = torch.stack([mean, (variance + EPS).rsqrt()])
    standard = (after_x - wide(mean)) * wide(after_moments[1])
    behind, grad = layer.grad.double(), layer.grad.double()
    after_sums = torch.stack([behind.sum((0, 2, 3)), (behind * standard).sum((0, 2, 3))])
    if following:
        means = after_sums / (layer.x.numel() // channels)
        grad = behind - wide(means[0]) - standard * wide(means[1])
        grad = grad * wide(after.gamma * after_moments[1])
        grad = grad + (extra.double() if "more" in following else 0)
    out, whole = (torch.full_like(layer.x, float("nan")) for _ in range(2))
    tiles, arrived, totals = layer.sums()
    sums, grad_gamma, grad_beta = unwritten(2, channels), unwritten(channels), unwritten(channels)
    start = kernel(name_of("backward", channels, normed, following is not None), next(seeds))
    arguments = [
        layer.grad, layer.weight, out, layer.x, layer.moments.float(), layer.gamma, layer.beta,
        tiles, arrived, totals, sums, grad_gamma, grad_beta,
        after_x, extra if following and "more" in following else None, after_moments.float(),
        after.gamma, after_sums.float(), whole, *shape[2:], int(normed),
    ]  # fmt: skip
    start(grid=(layer.tiles, 1, 1), block=(THREADS, 1, 1), args=arguments)
    if following:
        assert far(whole, grad) < 3e-3
        grad = whole.double()
    expected = nn.grad.conv2d_input(layer.x.shape, layer.weight.double(), grad, padding=1)  # type: ignore[attr-defined]
    assert far(out, expected * layer.slope if normed else expected) < 3e-3
    if normed:
        g = out.double()
        true = torch.stack([g.sum((0, 2, 3)), (g * layer.standard).sum((0, 2, 3))])
        assert far(sums, true) < 1e-5
        assert torch.equal(torch.stack([grad_beta, grad_gamma]), sums)
    assert not arrived.any()


@pytest.mark.parametrize("shares", [1, 3, 4])
@pytest.mark.parametrize("shape", [(32, 1, 16, 32), (32, 1, 8, 64), (32, 3, 8, 32)])
def test_weight_gradient(kernel: Start, shape: tuple[int, ...], shares: int) -> None:
    layer, channels = Layer(*shape), shape[0]
    sums = unwritten(shares, channels, 3, 3, channels)
    arguments = [layer.x, layer.grad, sums, layer.tiles * 2, *shape[2:]]  # of half the rows
    start = kernel("weight_gradient", next(seeds))
    start(grid=(shares, 1, 1), block=(192, 1, 1), args=arguments)
    doubles = layer.x.double(), layer.weight.shape, layer.grad.double()
    expected = nn.grad.conv2d_weight(*doubles, padding=1)  # type: ignore[attr-defined]
    assert far(sums.sum(0).permute(0, 3, 1, 2), expected) < 1e-5


@pytest.mark.parametrize("rows", [1, 3, 37])
def test_adding_up(kernel: Start, rows: int) -> None:
    matrix, out = torch.randn(rows, 192), torch.full((192,), float("nan"), dtype=torch.bfloat16)
    start = kernel("add_up", next(seeds))
    start(grid=(192 // 32, 1, 1), block=(256, 1, 1), args=[matrix, out, rows, 192])
    torch.testing.assert_close(out, matrix.sum(0).bfloat16())


@pytest.mark.slow
def test_more_tiles_than_groups(kernel: Start) -> None:
    for upside_down in (0, 1):
        test_forward(kernel, (32, 35, 8, 32), True, True, upside_down)
    test_backward(kernel, (32, 35, 8, 32), True, "norm and more")
