from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tamatch.data import SplitPlan, load, make_split
from tamatch.machine.precision import native_bf16
from tamatch.runs.build import engine_of
from tamatch.settings.configure import configure
from tamatch.settings.hardware import available_memory, pick_precision, set_up_torch


@pytest.fixture(autouse=True)
def switches_as_before() -> Iterator[None]:
    yield
    set_up_torch("fp32")


@pytest.mark.parametrize(("device", "able", "expected"), [
    ("cpu", True, "fp32"), ("cuda:1", True, "bf16"), ("cuda:1", False, "fp32"),
])  # fmt: skip
def test_half_precision_is_for_gpus_that_have_it(
    device: str, able: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def capability(asked: torch.device) -> tuple[int, int]:
        assert asked == torch.device(device)  # which need not be the current one
        return (8, 0) if able else (7, 5)

    monkeypatch.setattr(torch.cuda, "get_device_capability", capability)
    assert pick_precision(configure({}), torch.device(device)) == expected
    assert pick_precision(configure({"precision": "tf32"}), torch.device(device)) == "tf32"


@pytest.mark.parametrize("wanted", [True, False])
def test_deterministic_sets_torchs_switches(wanted: bool) -> None:
    data = load("digits")
    run = configure({"deterministic": wanted, "steps": 1})
    engine_of(run, data, make_split(data, SplitPlan(labels_per_class=1)))
    assert torch.are_deterministic_algorithms_enabled() is wanted
    assert torch.backends.cudnn.deterministic is wanted
    assert torch.backends.cudnn.benchmark is not wanted
    cuda = torch.backends.cuda
    fused = cuda.flash_sdp_enabled, cuda.mem_efficient_sdp_enabled, cuda.cudnn_sdp_enabled
    assert {enabled() for enabled in fused} == {not wanted} and cuda.math_sdp_enabled()


def test_the_users_random_numbers_are_left_alone() -> None:
    data = load("digits")
    split = make_split(data, SplitPlan(labels_per_class=1))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    engine = engine_of(configure({"steps": 2}), data, split)
    with engine.running():
        engine.advance()
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("given", "momentum"), [(None, 0.1), (0.25, 0.25)])
def test_the_momentum_of_batch_norm_is_the_nets_own_unless_given(
    given: float | None, momentum: float
) -> None:
    data = load("digits")
    run = configure({"steps": 1, "norm_momentum": given})
    engine = engine_of(run, data, make_split(data, SplitPlan(labels_per_class=1)))
    norms = [m for m in engine.method.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms and {norm.momentum for norm in norms} == {momentum}


@pytest.mark.parametrize("known", [{}, {"avx512_bf16": True}, {"amx_bf16": False}])
def test_a_cpu_tells_whether_it_knows_bfloat16(
    known: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known, raising=False)
    assert native_bf16() is any(known.values())
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert native_bf16() is False


@pytest.mark.parametrize(("device", "number"), [("cuda", 0), ("cuda:0", 0), ("cuda:3", 3)])
@pytest.mark.parametrize(("fraction", "free"), [(1.0, 60 + 10 - 4), (0.25, 25 - 4)])
def test_the_memory_that_a_process_may_take(
    device: str, number: int, fraction: float, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device without a number is the current one; torch's check of numbers stays."""

    def fraction_of(asked: int) -> float:
        assert asked == number
        return fraction

    monkeypatch.setattr(torch.cuda.memory, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch._C, "_cuda_getMemoryFraction", fraction_of, raising=False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda asked: 4)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda asked: 10)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda asked: (60, 100))
    assert available_memory(torch.device(device)) == free
