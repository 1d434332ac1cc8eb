"""Where compiled kernels are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch._dynamo

from tamatch.compiler import PLACES, RUNS, accelerate, keep_compiled
from tamatch.nets import build
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


def test_without_triton_steps_are_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: False)
    net, method, said = build("wrn_10_1", 10, 8), tiny_method("fixmatch"), list[str]()
    accelerate(net, method, said.append)
    assert "Triton is missing" in said[0]
    assert "forward" not in vars(method) and net._compiled_call_impl is None
