"""On a GPU: the hand-written kernels compute what the plain modules compute."""

from __future__ import annotations

import copy
import importlib
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tamatch import methods, nets
from tamatch.data import load, make_split
from tamatch.machine import branches
from tamatch.machine.branches import OPEN
from tamatch.machine.memory import OutOfMemory, free_memory
from tamatch.methods import METHODS
from tamatch.nets import wrn
from tamatch.nets.base import recompute
from tamatch.runs.build import engine_of
from tamatch.settings.configure import configure
from tamatch.settings.inputs import split_plan
from tamatch.step.cost import estimate
from tamatch.step.engine import Engine
from tests.contract.test_contract import assert_equal
from tests.tiny import tiny_engine

pytestmark = pytest.mark.gpu

triton = pytest.importorskip("triton")
kernels = importlib.import_module("tamatch.nets.kernels")
narrow = importlib.import_module("tamatch.nets.kernels.narrow")
conv = importlib.import_module("tamatch.nets.kernels.conv")
norm = importlib.import_module("tamatch.nets.kernels.norm")
attention = importlib.import_module("tamatch.nets.kernels.attention")


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


NETS = [("wrn_10_1", 8, 3), ("wrn_10_2", 20, 5), ("wrn_16_4_clean", 16, 7), ("wrn_28_2", 32, 64)]


@pytest.mark.parametrize(("name", "size", "count"), NETS)
@pytest.mark.parametrize("slope", [0.1, 0.999])
def test_single_precision(
    name: str, size: int, count: int, slope: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding moves a value over the activation's kink now and then, and in a small map one such
    value is a percent of the gradient. With almost no kink, the bound is tight.
    """
    monkeypatch.setattr(norm, "SLOPE", slope)
    monkeypatch.setattr(wrn, "activate", partial(F.leaky_relu, negative_slope=slope))
    plain, fast = pair(name, size)
    images = torch.randn(count, 3, size, size, device="cuda")
    weights = torch.randn(count, 10, device="cuda")
    one, other = (trained(net, images, weights, torch.float32) for net in (fast, plain))
    assert far(one, other) < 1e-5
    assert far(gradients(fast), gradients(plain)) < (3e-2 if slope == 0.1 else 1e-3)
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
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
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


def engine_with(**settings: Any) -> Engine:
    run = configure({"device": "cuda", "deterministic": True, "size": 32, **settings})
    data = load("digits", None, run.size)
    return engine_of(run, data, make_split(data, split_plan(run)))


def state_after(engine: Engine, steps: int) -> dict[str, Any]:
    with engine.running():
        for _ in range(steps):
            engine.advance()
    torch.cuda.synchronize()
    return engine.state_dict()


def test_maps_that_cannot_be_counted_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, fast = pair("wrn_10_2", 16)
    for module in (kernels, narrow):
        monkeypatch.setattr(module, "COUNTABLE", 0)
    monkeypatch.delattr(kernels, "NormAct")
    monkeypatch.delattr(narrow, "convolve")
    images, weights = torch.randn(4, 3, 16, 16, device="cuda"), torch.randn(4, 10, device="cuda")
    one, other = (trained(net, images, weights, torch.float32) for net in (fast, plain))
    assert far(one, other) < 1e-5
    assert far(statistics(fast), statistics(plain)) < 1e-6


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_another_device_than_the_current_one() -> None:
    found = []
    for device in ("cuda:0", "cuda:1"):
        engine = engine_with(net="wrn_10_2", method="tamatch", device=device)
        estimate(engine, [])  # outside of what `running` prepares
        method = state_after(engine, 6)["method"]
        found.append({name: value.cpu() for name, value in method.items()})
    assert_equal(*found)


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "compiled"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("net", "method"),
    [
        ("wrn_10_2", "tamatch"),
        ("wrn_10_2", "vat"),  # whose first backward pass ends at the images
        ("wrn_28_2", "tamatch"),
        ("vit_tiny_p4_32", "freematch"),
    ],
)
def test_captured_equals_eager(net: str, method: str, precision: str, kernels: bool) -> None:
    """With weight gradients on a stream of their own in the one, and in order in the other."""
    settings = {"net": net, "method": method, "precision": precision, "kernels": kernels}
    eager, captured = (engine_with(graph=graph, **settings) for graph in (False, True))
    assert_equal(state_after(eager, 12), state_after(captured, 12))
    assert captured.graph is not None
    assert int(captured.guard.count) == 0


def test_a_second_stream_that_may_hold_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MOST_HELD", 0)
    settings = {"net": "wrn_10_2", "method": "tamatch", "precision": "bf16"}
    eager, captured = (engine_with(graph=graph, **settings) for graph in (False, True))
    assert_equal(state_after(eager, 8), state_after(captured, 8))


@pytest.mark.parametrize("method", ["tamatch", "mixmatch"])
def test_no_room_in_the_backward_pass_of_a_capture(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second stream is joined even so: torch can end the capture, and draw numbers after it."""
    engine = engine_with(net="wrn_10_2", method=method, precision="bf16", graph=True)
    whole, calls = norm.NormAct.backward, []

    def backward(ctx: Any, *grads: Tensor) -> Any:
        if torch.cuda.is_current_stream_capturing():
            calls.append(len(OPEN))
            if len(calls) == 3:  # convolutions have come before
                raise torch.OutOfMemoryError("CUDA out of memory.")
        return whole(ctx, *grads)

    monkeypatch.setattr(norm.NormAct, "backward", staticmethod(backward))
    failed = []
    with engine.running():
        while engine.steps_done < 9:
            try:
                engine.advance()
                continue
            except OutOfMemory:
                failed.append(engine.steps_done)
            free_memory()
            assert engine.reduce_memory()
    torch.cuda.synchronize()
    assert failed == [3] and calls[2] >= 1 and not OPEN
    assert engine.graph is not None and int(engine.guard.count) == 0


@pytest.mark.parametrize("name", [name for name in METHODS if methods.get(name).compiles])
def test_compiled_methods(name: str) -> None:
    """Compiled, a method learns and remembers the same but for rounding."""
    torch._dynamo.reset()
    plain, fast = (tiny_engine(name, device="cuda") for _ in range(2))
    fast.method.net.accelerate()
    fast.method.accelerate()
    one, other = (state_after(engine, 2)["method"] for engine in (fast, plain))
    for key, value in other.items():
        torch.testing.assert_close(one[key], value, rtol=1e-2, atol=1e-4, msg=f"{name}: {key}")


@pytest.mark.parametrize(("inner", "outer"), [(16, 16), (16, 32), (32, 16), (32, 32)])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 5), (5, 32, 32), (320, 32, 32)])
def test_narrow_convolutions(inner: int, outer: int, shape: tuple[int, int, int]) -> None:
    """The map and the gradient of the weight."""
    torch.manual_seed(0)
    count, height, width = shape

    def rows(*size: int) -> Tensor:
        x = torch.randn(*size, device="cuda", dtype=torch.bfloat16)
        return x.to(memory_format=torch.channels_last)

    x, grad = rows(count, inner, height, width), rows(count, outer, height, width)
    weight = rows(outer, inner, 3, 3) / (9 * inner) ** 0.5
    truth = F.conv2d(x.double(), weight.double(), padding=1)
    assert far(narrow.convolve(x, weight), truth) < 4e-3
    found = conv.added_up(narrow.weight_gradients(x, grad, weight), weight)
    expected = nn.grad.conv2d_weight(x.double(), weight.shape, grad.double(), padding=1)
    assert far(found, expected) < 4e-3


@pytest.mark.parametrize(
    ("count", "tokens", "heads", "width"),
    [
        (1, 1, 1, 16),
        (2, 5, 3, 16),
        (2, 37, 12, 64),
        (3, 64, 2, 32),
        (2, 257, 6, 64),
        (1, 300, 2, 128),
    ],
)
def test_attention(count: int, tokens: int, heads: int, width: int) -> None:
    """As near to double precision as torch's own kernel, forward and back."""
    torch.manual_seed(0)
    qkv = torch.randn(count, tokens, 3 * heads * width, device="cuda")
    grad = torch.randn(count, tokens, heads * width, device="cuda")

    def by_torch(x: Tensor) -> Tensor:
        q, k, v = x.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def outcome(attend: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        x = qkv.bfloat16().to(dtype).requires_grad_()
        out = attend(x)
        out.backward(grad.bfloat16().to(dtype))
        assert x.grad is not None
        return out.detach(), x.grad

    truth = outcome(by_torch, torch.float64)
    ours = outcome(partial(attention.attention, heads=heads), torch.bfloat16)
    theirs = outcome(by_torch, torch.bfloat16)
    for mine, other, exact in zip(ours, theirs, truth, strict=True):
        assert far(mine, exact) < 1.3 * far(other, exact) + 1e-6
