"""A rehearsal compiles kernels, starts none of them, and leaves everything as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor
from types import ModuleType, TracebackType
from typing import Any

import pytest
import torch
import torch._dynamo  # now: it would look into the stand-in for Triton

from tamatch.machine import gpu
from tamatch.machine.gpu import rehearsing
from tamatch.runs.build import rehearse
from tests.tiny import tiny_engine

Log = list[tuple[str, bool]]


class Mode:
    """Triton's, as far as it is used."""

    def __init__(self, executor: Executor, *, ignore_errors: bool) -> None:
        assert ignore_errors

    def __enter__(self) -> Mode:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...  # fmt: skip


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[..., Any], Log]:
    """Starts a kernel that notes whether it was only compiled."""
    log: Log = []

    class JITFunction:
        def run(self, name: str, *, grid: int, warmup: bool) -> None:
            log.append((name, warmup))

    names = ("triton", "triton.runtime", "triton.runtime.jit")
    triton, runtime, jit = map(ModuleType, names)
    triton.AsyncCompileMode, jit.JITFunction = Mode, JITFunction  # type: ignore[attr-defined]
    for module in (triton, runtime, jit):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    made = JITFunction()
    return lambda name: made.run(name, grid=1, warmup=False), log


def test_kernels_are_compiled_in_it_and_started_after_it(
    kernel: tuple[Callable[..., Any], Log],
) -> None:
    start, log = kernel
    with rehearsing():
        assert gpu.is_rehearsing()
        start("first")
    start("second")
    with pytest.raises(ZeroDivisionError), rehearsing():
        raise ZeroDivisionError
    start("third")
    assert log == [("first", True), ("second", False), ("third", False)]
    assert not gpu.is_rehearsing()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rehearsable", [True, False])
def test_it_changes_no_state(rehearsable: bool) -> None:
    rehearsed, other = tiny_engine("fixmatch"), tiny_engine("fixmatch")
    passes: list[int] = []
    net: Any = rehearsed.method.net
    net.rehearsable = rehearsable
    handle = net.register_forward_hook(lambda *_: passes.append(1))
    before = torch.random.get_rng_state()
    rehearse(rehearsed)
    handle.remove()
    assert len(passes) == rehearsable
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(p.grad is None for p in rehearsed.method.parameters())
    for engine in (rehearsed, other):
        with engine.running():
            for _ in range(3):
                engine.advance()
    one, two = rehearsed.method.state_dict(), other.method.state_dict()
    assert all(torch.equal(one[name], two[name]) for name in two)
