"""Where compiled kernels are kept, and what is done where none can be compiled."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
import torch._dynamo

from tamatch.augment import views
from tamatch.machine.gpu import why_no_nvrtc, why_no_triton
from tamatch.nets import build
from tamatch.nets.vit import ViT
from tamatch.runs.build import CACHE_FOLDERS, COMPILED_RUNS, LONG, accelerate, keep_compiled
from tests.tiny import tiny_method


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in CACHE_FOLDERS:
        monkeypatch.setenv(variable, "")  # so that it is put back afterwards
        monkeypatch.delenv(variable)
    with torch._dynamo.config.patch(recompile_limit=8):
        yield


def test_beside_the_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path))
    keep_compiled()
    for variable, name in CACHE_FOLDERS.items():
        assert os.environ[variable] == str(tmp_path / "compiled" / name)
    assert torch._dynamo.config.recompile_limit == COMPILED_RUNS


def test_the_user_s_own_place_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", "elsewhere")
    keep_compiled()
    assert os.environ["TRITON_CACHE_DIR"] == "elsewhere"


def test_a_cache_that_cannot_be_made_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "file"))
    keep_compiled()
    assert not {*CACHE_FOLDERS} & {*os.environ}


def test_torch_looks_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path))
    keep_compiled()
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    assert cache_dir() == str(tmp_path / "compiled" / "inductor")


@pytest.fixture
def asked_anew() -> Iterator[None]:
    for question in (why_no_triton, why_no_nvrtc):
        question.cache_clear()
    yield
    for question in (why_no_triton, why_no_nvrtc):
        question.cache_clear()


def broken() -> None:
    raise RuntimeError("Failed to find C compiler. Please specify one.\nMore of it.")


@pytest.mark.parametrize(
    ("there", "words"),
    [(False, "Triton is missing"), (True, "needs a C compiler .* Failed to find C compiler")],
)
def test_without_triton_or_what_it_needs_steps_are_as_they_are(
    there: bool, words: str, monkeypatch: pytest.MonkeyPatch, asked_anew: None
) -> None:
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: there)
    monkeypatch.setattr("torch.utils._triton.triton_backend", broken)
    net, method, said = build("wrn_10_1", 10, 8), tiny_method("fixmatch"), list[str]()
    accelerate(net, method, LONG, said.append)
    assert re.search(words, said[0]) and "More of it" not in said[0]
    assert "forward" not in vars(method) and net._compiled_call_impl is None
    views._kernel.cache_clear()
    assert views._kernel() is None  # images are then augmented by torch's own operations
    views._kernel.cache_clear()


class Nvrtc:
    """What `cuda.bindings.nvrtc` is where the library behind it is missing, or there."""

    def __init__(self, there: bool) -> None:
        self.there = there

    def nvrtcVersion(self) -> tuple[int, ...]:
        if not self.there:
            raise RuntimeError("Failure finding libnvrtc.so\nMore of it.")
        return 0, 13, 0


@pytest.mark.parametrize(
    ("nvrtc", "words"),
    [
        (None, "NVRTC cannot be used: .*cuda.* a fifth longer"),
        (Nvrtc(there=False), "NVRTC cannot be used: Failure finding libnvrtc.so. Steps take"),
        (Nvrtc(there=True), None),
    ],
)
@pytest.mark.usefixtures("asked_anew")
def test_without_nvrtc_it_is_said_where_that_costs_time(
    nvrtc: Nvrtc | None, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamatch.runs.build.why_no_triton", lambda: None)
    cuda = None if nvrtc is None else SimpleNamespace(bindings=SimpleNamespace(nvrtc=nvrtc))
    monkeypatch.setitem(sys.modules, "cuda", cast(ModuleType, cuda))
    monkeypatch.setitem(sys.modules, "cuda.bindings", cast(ModuleType, cuda and cuda.bindings))
    for affected in (True, False):
        net, method, said = build("wrn_10_1", 10, 8), tiny_method("fixmatch"), list[str]()
        monkeypatch.setattr(net, "accelerate", lambda **_: None)
        monkeypatch.setattr(method, "accelerate", lambda: None)
        net.has_cuda_code = affected
        accelerate(net, method, LONG, said.append)
        assert len(said) == (affected and words is not None)
        assert not said or re.search(words or "", said[0])


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (ViT.repaid - 1, ["net by kernels alone"]), (ViT.repaid, ["net compiled"]),
        (LONG - 1, ["net compiled"]), (LONG, ["net compiled", "method"]),
    ],
)  # fmt: skip
def test_a_short_run_compiles_nothing_that_does_not_pay(
    steps: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamatch.runs.build.why_no_triton", lambda: None)
    net, method, asked = build("vit_tiny_p2_8", 10, 8), tiny_method("fixmatch"), list[str]()

    def of_net(*, compiling: bool, kernels: bool) -> None:
        asked.append("net compiled" if compiling else "net by kernels alone")

    monkeypatch.setattr(net, "accelerate", of_net)
    monkeypatch.setattr(method, "accelerate", lambda: asked.append("method"))
    accelerate(net, method, steps, lambda _: None)
    assert asked == expected


@pytest.mark.parametrize("net", ["wrn_10_1", "vit_tiny_p2_8"])
@pytest.mark.parametrize("by", ["option", "variable"])
def test_all_kernels_are_switched_off(net: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nets are compiled, and views made by the modules."""
    monkeypatch.setattr("tamatch.runs.build.why_no_triton", lambda: None)
    monkeypatch.setitem(sys.modules, "tamatch.nets.kernels", cast(ModuleType, None))
    if by == "variable":
        monkeypatch.setenv("TAMATCH_KERNELS", "0")
    compiled = list[torch.nn.Module]()
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **_: compiled.append(self))
    built, kernels = build(net, 10, 8), by == "variable"
    accelerate(built, tiny_method("fixmatch"), built.repaid, lambda _: None, kernels=kernels)
    assert compiled == ([*built.blocks] if isinstance(built, ViT) else [built])
    assert not built.has_cuda_code
    policy = views.Policy(8, (0.5,) * 3, (0.2,) * 3)
    assert not views.Augment(policy, 0, kernels=kernels).kernels
    monkeypatch.delenv("TAMATCH_KERNELS", raising=False)
    assert views.Augment(policy, 0).kernels
    with pytest.raises(ImportError):  # which the test would have met with
        build(net, 10, 8).accelerate()
