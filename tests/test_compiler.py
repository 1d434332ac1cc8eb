"""Where compiled kernels are kept, and what is done where none can be compiled."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch._dynamo

from tamatch.augment import views
from tamatch.machine.gpucode import obstacle
from tamatch.nets import build
from tamatch.settings.compiler import PLACES, RUNS, accelerate, keep_compiled
from tests.tiny import tiny_method


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in PLACES:
        monkeypatch.setenv(variable, "")  # so that it is put back afterwards
        monkeypatch.delenv(variable)
    with torch._dynamo.config.patch(recompile_limit=8):
        yield


def test_beside_the_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path))
    keep_compiled()
    for variable, name in PLACES.items():
        assert os.environ[variable] == str(tmp_path / "compiled" / name)
    assert torch._dynamo.config.recompile_limit == RUNS


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
    assert not {*PLACES} & {*os.environ}


def test_torch_looks_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path))
    keep_compiled()
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    assert cache_dir() == str(tmp_path / "compiled" / "inductor")


@pytest.fixture
def asked_anew() -> Iterator[None]:
    obstacle.cache_clear()
    yield
    obstacle.cache_clear()


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
    accelerate(net, method, said.append)
    assert re.search(words, said[0]) and "More of it" not in said[0]
    assert "forward" not in vars(method) and net._compiled_call_impl is None
    views._kernel.cache_clear()
    assert views._kernel() is None  # images are then augmented by torch's own operations
    views._kernel.cache_clear()
