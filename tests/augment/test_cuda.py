"""The same on a GPU: equal to the CPU, and captured in one CUDA graph."""

from __future__ import annotations

import pytest
import torch

from tamatch.augment import OPERATIONS, Augment, Policy, uniform, views
from tamatch.augment.views import ADDRESSES
from tests.augment.oracle import pictures

pytestmark = pytest.mark.gpu
HALF = (0.5, 0.5, 0.5)


def test_the_stream_is_bit_identical() -> None:
    step, slot = torch.tensor(123_456), torch.arange(4096)
    here = uniform(1, step, slot, 3, 13)
    assert torch.equal(uniform(1, step.cuda(), slot.cuda(), 3, 13).cpu(), here)


@pytest.mark.parametrize("size", [8, 32, 96])
def test_views_equal_the_cpus_inside_a_graph(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PILLOW_ABOVE", size)
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


@pytest.mark.parametrize("size", [8, 17, 32, 96])
@pytest.mark.parametrize("view", ADDRESSES)
def test_the_kernel_makes_the_views_of_the_modules(size: int, view: str) -> None:
    """Level by level; the normalisation after it may round its last bit differently."""
    policy = Policy(size, (0.5, 0.4, 0.3), (0.2, 0.3, 0.25), vertical_flip=True)
    augment = Augment(policy, 12345678901234567).cuda()
    draw = torch.Generator("cuda").manual_seed(0)
    shape = (700, 3, size + 3, size)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda", generator=draw)
    images[:300] = (images[:300] * 0.3 + 60).to(torch.uint8)  # something to stretch
    step, slot = torch.tensor(77, device="cuda"), torch.arange(700, device="cuda") + 5
    one = augment(view, images, step, slot, 4)
    address = len(ADDRESSES) * 4 + ADDRESSES[view]
    other = augment.by_modules(images, step, slot, address, augment.rounds(view))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("view", ["weak", "strong"])
def test_large_views_are_made_by_the_modules(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_kernel", lambda: pytest.fail("it takes minutes to compile"))
    size = views.LARGEST + 8
    images = pictures(4, size, size)
    augment, step, slot = Augment(Policy(size, HALF, HALF), 2), torch.tensor(7), torch.arange(4)
    expected = augment(view, images, step, slot, 0)
    found = augment.cuda()(view, images.cuda(), step.cuda(), slot.cuda(), 0)
    assert ((found.cpu() - expected).abs() > 1e-4).float().mean() < 1e-3


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_kernel_does_each_operation(name: str) -> None:
    policy = Policy(32, (0.0, 0.0, 0.0), (1 / 255,) * 3, operations=(name,), count=1, cutout=0)
    augment = Augment(policy, 3).cuda()
    draw = torch.Generator("cuda").manual_seed(0)
    images = torch.randint(40, 220, (500, 3, 32, 32), device="cuda", generator=draw).byte()
    step, slot = torch.tensor(2**33, device="cuda"), torch.arange(500, device="cuda")
    one = augment("strong", images, step, slot, 0)
    other = augment.by_modules(images, step, slot, ADDRESSES["strong"], rounds=1)
    assert torch.equal(one.round(), other.round())
