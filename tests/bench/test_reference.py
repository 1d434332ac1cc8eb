"""USB's step, timed from outside; here a program that does nothing is one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import usb_speed
from tamatch.bench import speed


def test_what_comes_before_the_steps_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that takes 40 s and 25 ms a step, by a clock that it moves itself."""
    now, calls = [0.0], []

    def run(words: list[str], **how: Any) -> SimpleNamespace:
        options = dict(zip(words[2::2], words[3::2], strict=True))
        calls.append({**options, "cwd": str(how["cwd"]), "program": words[1]})
        now[0] += 40 + 0.025 * int(options["--num_train_iter"])
        return SimpleNamespace(returncode=0, stdout="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(usb_speed.time, "perf_counter", lambda: now[0])
    ms = usb_speed.ms_per_step(tmp_path, "wrn_28_2 64+448", Path("data"), 200)
    assert ms == pytest.approx(25)
    assert [call["--num_train_iter"] for call in calls] == ["40", "240"]
    for call in calls:  # never a test or a log line in between
        assert int(call["--num_eval_iter"]) > int(call["--num_train_iter"])
        assert int(call["--num_log_iter"]) > int(call["--num_train_iter"])
        assert call["cwd"] == str(tmp_path) and call["program"] == "train.py"
        assert (call["--batch_size"], call["--uratio"]) == ("64", "7")


def test_every_work_of_theirs_is_one_of_ours() -> None:
    assert set(usb_speed.WORKS) < set(speed.WORKS)
    for name, options in usb_speed.WORKS.items():
        batch, unlabelled = map(int, name.split()[1].split("+"))
        assert (options["batch_size"], options["uratio"]) == (batch, unlabelled // batch)
        assert options["img_size"] == speed.WORKS[name].size
        assert options["num_classes"] == speed.WORKS[name].classes


def test_a_program_that_fails_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('no module named semilearn')")
    with pytest.raises(SystemExit, match=r"exit code 1:\nno module named semilearn"):
        usb_speed.ms_per_step(tmp_path, "wrn_28_2 64+128", tmp_path, 5)
