"""On a GPU: the hand-written kernels compute what the plain modules compute."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from tamatch import nets
from tamatch.nets.recompute import recompute
from tests.contract.test_contract import assert_equal
from tests.tiny import tiny_engine

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(autouse=True)
def exact_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)


def pair(name: str, size: int) -> tuple[nn.Module, nn.Module]:
    """The same net twice, plain and by kernels."""
    torch.manual_seed(0)
    plain = nets.build(name, 10, size).cuda().to(memory_format=torch.channels_last)
    fast = copy.deepcopy(plain)
    fast.accelerate()
    return plain.train(), fast.train()


def trained(net: nn.Module, images: Tensor, weights: Tensor, dtype: torch.dtype) -> Tensor:
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        logits: Tensor = net(images).logits
    (logits * weights).sum().backward()
    return logits.detach()


def far(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


def gradients(net: nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])


def statistics(net: nn.Module) -> Tensor:
    return torch.cat([b.double().flatten() for b in net.buffers()])


@pytest.mark.parametrize(
    ("name", "size", "count"),
    [("wrn_10_1", 8, 3), ("wrn_10_2", 20, 5), ("wrn_16_4_clean", 16, 7), ("wrn_28_2", 32, 64)],
)
def test_single_precision(name: str, size: int, count: int) -> None:
    """The activation's kink flips where rounding moves a value over zero: hence the bound."""
    plain, fast = pair(name, size)
    images = torch.randn(count, 3, size, size, device="cuda")
    weights = torch.randn(count, 10, device="cuda")
    one, other = (trained(net, images, weights, torch.float32) for net in (fast, plain))
    assert far(one, other) < 1e-5
    assert far(gradients(fast), gradients(plain)) < 5e-3
    assert far(statistics(fast), statistics(plain)) < 1e-6


def test_half_precision_is_as_near_to_single_as_the_plain_net_s() -> None:
    plain, fast = pair("wrn_28_2", 32)
    exact = copy.deepcopy(plain)
    images, weights = torch.randn(64, 3, 32, 32, device="cuda"), torch.randn(64, 10, device="cuda")
    truth = trained(exact, images, weights, torch.float32)
    one, other = (trained(net, images, weights, torch.bfloat16) for net in (fast, plain))
    assert far(one, truth) < 1.3 * far(other, truth)
    errors = [far(gradients(net), gradients(exact)) for net in (fast, plain)]
    assert errors[0] < 1.3 * errors[1]


def test_the_gradient_of_the_images() -> None:
    plain, fast = pair("wrn_10_2", 16)
    found = []
    for net in (plain, fast):
        torch.manual_seed(1)
        images = torch.randn(4, 3, 16, 16, device="cuda", requires_grad=True)
        (gradient,) = torch.autograd.grad(net(images).logits.square().sum(), images)
        found.append(gradient)
    assert far(*found) < 5e-3


def test_twice_the_same_bits() -> None:
    _, fast = pair("wrn_10_2", 16)
    again = copy.deepcopy(fast)
    images, weights = torch.randn(9, 3, 16, 16, device="cuda"), torch.randn(9, 10, device="cuda")
    with torch.backends.cudnn.flags(deterministic=True):
        for net in (fast, again):
            trained(net, images, weights, torch.bfloat16)
    assert torch.equal(gradients(fast), gradients(again))
    assert torch.equal(statistics(fast), statistics(again))


def test_recomputed_activations() -> None:
    _, fast = pair("wrn_10_2", 16)
    thrifty = copy.deepcopy(fast)
    assert recompute(thrifty)
    images, weights = torch.randn(9, 3, 16, 16, device="cuda"), torch.randn(9, 10, device="cuda")
    for net in (fast, thrifty):
        trained(net, images, weights, torch.float32)
    assert far(gradients(thrifty), gradients(fast)) < 1e-4
    assert torch.equal(statistics(thrifty), statistics(fast))


def test_odd_widths_are_compiled_instead() -> None:
    net = nets.build("wrn_10_3", 10, 8)
    net.accelerate()
    assert net._compiled_call_impl is not None


def test_captured_equals_eager() -> None:
    found = []
    for graph in (False, True):
        engine = tiny_engine("tamatch", device="cuda", graph=graph, net="wrn_10_2")
        engine.method.to(memory_format=torch.channels_last)
        engine.method.net.accelerate()
        with torch.backends.cudnn.flags(deterministic=True, benchmark=False), engine.running():
            for _ in range(12):
                engine.advance()
        torch.cuda.synchronize()
        found.append(engine.state_dict())
    assert_equal(*found)
