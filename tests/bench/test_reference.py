"""The reference benchmark's step, timed from outside; here a program that does nothing is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamatch.bench import speed
from tamatch.bench.speed import covered
from tamatch.cli import main
from tamatch.errors import UsageError
from tests.bench.made import strict_json


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """A program that takes 40 s and 25 ms a step, by a clock that it moves itself."""
    now, calls = [0.0], []

    def run(words: list[str], **how: Any) -> SimpleNamespace:
        options = dict(zip(words[2::2], words[3::2], strict=True))
        calls.append({**options, "cwd": str(how["cwd"]), "program": words[1]})
        now[0] += 40 + 0.025 * int(options["--num_train_iter"])
        return SimpleNamespace(returncode=0, stdout="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(speed.time, "perf_counter", lambda: now[0])
    return calls


def test_what_comes_before_the_steps_does_not_count(
    clock: list[dict[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    ms = speed.reference_ms(tmp_path, "wrn_28_2 64+448", Path("data"), 200)
    assert ms == pytest.approx(25)
    assert [call["--num_train_iter"] for call in clock] == ["40", "240"]
    for call in clock:  # never a test or a log line in between
        assert int(call["--num_eval_iter"]) > int(call["--num_train_iter"])
        assert int(call["--num_log_iter"]) > int(call["--num_train_iter"])
        assert call["cwd"] == str(tmp_path) and call["program"] == "train.py"
        assert (call["--batch_size"], call["--uratio"]) == ("64", "7")


def test_every_work_of_theirs_is_one_of_ours() -> None:
    assert set(speed.REFERENCE_WORKS) < set(speed.WORKS)
    for name, options in speed.REFERENCE_WORKS.items():
        batch, unlabelled = map(int, name.split()[1].split("+"))
        assert (options["batch_size"], options["uratio"]) == (batch, unlabelled // batch)
        assert options["img_size"] == speed.WORKS[name].size
        assert options["num_classes"] == speed.WORKS[name].classes


def test_a_program_that_fails_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('no module named semilearn')")
    with pytest.raises(UsageError, match=r"exit code 1:\n    no module named semilearn\nIt needs"):
        speed.reference_ms(tmp_path, "wrn_28_2 64+128", tmp_path, 5)


def test_a_real_program_beside_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").touch()
    name = "wrn_28_2 64+128"
    tiny = speed.Work({"data": "digits", "batch": 4, "unlabelled": 4}, classes=10, size=8)
    monkeypatch.setitem(speed.WORKS, name, tiny)
    out = tmp_path / "speed.json"
    words = ["bench", "speed", "--works", name, "--steps", "20", "--device", "cpu"]
    assert main([*words, "--reference", str(tmp_path), "--out", str(out)]) == 0
    (found,) = strict_json(out)["speeds"]
    assert isinstance(found["ms_reference"], float)  # how many, a busy machine decides
    assert found["busy"] is None
    assert f"reference {found['ms_reference']:.1f} ms/step" in capsys.readouterr().out


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20))
def test_the_length_of_a_union(spans: list[tuple[int, int]]) -> None:
    pieces = {second for start, length in spans for second in range(start, start + length)}
    assert covered((start, start + length) for start, length in spans) == len(pieces)


def test_the_python_is_this_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[str] = []

    def run(words: list[str], **how: Any) -> SimpleNamespace:
        seen.append(words[0])
        return SimpleNamespace(returncode=0, stdout="")

    monkeypatch.setattr(subprocess, "run", run)
    (tmp_path / "train.py").touch()
    speed.reference_ms(tmp_path, "wrn_28_2 64+128", tmp_path, 5)
    assert seen == [sys.executable] * 2
