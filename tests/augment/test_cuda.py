"""The same on a GPU: equal to the CPU, and captured in one CUDA graph."""

from __future__ import annotations

import pytest
import torch

from tamatch.augment import Augment, Policy, randaugment, uniform
from tests.augment.oracle import pictures

pytestmark = pytest.mark.gpu
HALF = (0.5, 0.5, 0.5)


def test_the_stream_is_bit_identical() -> None:
    step, slot = torch.tensor(123_456), torch.arange(4096)
    here = uniform(1, step, slot, 3, 13)
    assert torch.equal(uniform(1, step.cuda(), slot.cuda(), 3, 13).cpu(), here)


@pytest.mark.parametrize("size", [8, 32, 96])
def test_views_equal_the_cpus_inside_a_graph(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randaugment, "PILLOW_ABOVE", size)
    images, slot, step = pictures(64, size, size), torch.arange(64), torch.tensor(0)
    augment = Augment(Policy(size, HALF, HALF), seed=2)
    expected = {view: augment(view, images, step + 7, slot, 0) for view in ("weak", "strong")}
    augment.cuda()
    images, slot, step = images.cuda(), slot.cuda(), step.cuda()
    for view, result in expected.items():
        augment(view, images, step, slot, 0)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = augment(view, images, step, slot, 0)
        step.fill_(7)
        graph.replay()
        far = (captured.cpu() - result).abs() > 1e-4
        assert far.float().mean() < 1e-3
        step.fill_(0)
