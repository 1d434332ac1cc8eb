"""On a GPU: convolutions by split factors are as exact as those in single precision."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.gpu

pytest.importorskip("triton")
split = importlib.import_module("tamatch.nets.kernels.split")


def far(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other).norm() / other.norm())


@pytest.mark.parametrize(("inner", "outer", "size"), [
    (16, 16, 32), (16, 32, 32), (32, 32, 32), (64, 64, 16), (128, 128, 8), (64, 64, 7),
])  # fmt: skip
def test_as_exact_as_single_precision(inner: int, outer: int, size: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(37, inner, size, size, device="cuda")
    weight = torch.randn(outer, inner, 3, 3, device="cuda")
    x, weight = (value.to(memory_format=torch.channels_last) for value in (x, weight))
    exact = torch.conv2d(x.double(), weight.double(), padding=1)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert split.fits(x, weight, 1)
        plain = far(torch.conv2d(x, weight, padding=1), exact)
    assert far(split.convolve(x, weight), exact) < 2 * plain + 2e-7
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=True):
        assert not split.fits(x, weight, 1)
        assert far(torch.conv2d(x, weight, padding=1), exact) > 10 * plain  # it does round
