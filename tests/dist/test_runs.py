"""Whole runs by torchrun: what they write, and going on with more or fewer processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tamatch.cli import main
from tamatch.storage import checkpoint
from tamatch.storage.folder import RunFolder
from tests.dist.torchrun import DOZEN, torchrun
from tests.processes import fingerprint, tamatch


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run by two processes."""
    run = tmp_path_factory.mktemp("two") / "run"
    code, said = torchrun("train", "--out", str(run), *DOZEN)
    assert code == 0, said
    return run


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same by one."""
    run = tmp_path_factory.mktemp("one") / "run"
    assert main(["train", "--out", str(run), *DOZEN]) == 0
    return run


def assert_alike(run: Path, other: Path) -> None:
    """The same files, rows and weights, but for rounding in single precision and what it leads to.

    Exactness is shown in double precision, method by method; this is about whole runs.
    """
    assert {p.name for p in run.iterdir()} == {p.name for p in other.iterdir()}
    rows, others = (RunFolder(path).rows() for path in (run, other))
    assert len(rows) == len(others)
    for a, b in zip(rows, others, strict=True):
        assert (a["step"], a["kind"], a.keys()) == (b["step"], b["kind"], b.keys())
        for key in {"total", "sup", "unsup", "p_model", "lr"} & a.keys():
            assert a[key] == pytest.approx(b[key], rel=0.02, abs=0.02), (a["step"], key)
    weights, expected = (load_file(p / "model/model.safetensors") for p in (run, other))
    for name in (name for name, value in expected.items() if value.dim() > 1):
        distance = (weights[name] - expected[name]).norm() / expected[name].norm()
        assert distance < 0.01, name


def half(run: Path, copy: Path) -> Path:
    """The run as it was at its last checkpoint but one."""
    shutil.copytree(run, copy)
    before, last = checkpoint.saved_in(copy / "checkpoints")
    assert (before.name, last.name) == ("step_00000008", "step_00000012")
    shutil.rmtree(last)
    RunFolder(copy).update(status="running", step=8)
    return copy


def test_two_processes_make_the_run_of_one(one: Path, two: Path) -> None:
    assert_alike(two, one)
    assert checkpoint.load(two / "checkpoints/step_00000012")["engine"]["step"] == 12


@pytest.mark.slow
def test_a_group_of_one_stops_and_resumes(tmp_path: Path) -> None:
    """All that several processes do, by one; on a GPU in `tests/gpu/test_dist_gpu.py`."""
    run = tmp_path / "run"
    for words in (["train", "--out", str(run), *DOZEN], ["resume", str(tmp_path / "half")]):
        code, said = torchrun(*words, module="tests.dist.grouped", processes=1)
        assert code == 0, said
        if words[0] == "train":
            half(run, tmp_path / "half")
    assert fingerprint(tmp_path / "half") == fingerprint(run)


@pytest.mark.slow
def test_what_two_began_one_can_finish(one: Path, two: Path, tmp_path: Path) -> None:
    run = half(two, tmp_path / "run")
    done = tamatch("resume", str(run))
    assert done.returncode == 0, done.stderr
    assert "number of processes has changed since the checkpoint, from 2 to 1" in done.stderr
    assert_alike(run, one)


@pytest.mark.slow
def test_what_one_began_two_can_finish(one: Path, tmp_path: Path) -> None:
    run = half(one, tmp_path / "run")
    code, said = torchrun("resume", str(run))
    assert code == 0, said
    assert said.count("number of processes has changed since the checkpoint, from 1 to 2") == 1
    assert_alike(run, one)
