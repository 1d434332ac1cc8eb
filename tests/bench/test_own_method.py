"""A method of the user's own as a row of a table."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import pytest

from paper.__main__ import main as paper
from tamatch.bench.plans import PLANS, code_of, with_rows
from tamatch.bench.results import Store
from tamatch.cli import main
from tamatch.methods import BY_THEMSELVES
from tamatch.runs.training import Training
from tests.bench.made import noise, result, small_recipes, strict_json

SOURCE = """
import tamatch
from tamatch.methods.fixmatch import FixMatch

class Mine(FixMatch):
    constant = 1
"""
WORDS = "bench digits --methods fixmatch,mine.py:Mine --seeds 0 --steps 2"


@pytest.fixture(autouse=True)
def folder_with_a_method(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small_recipes(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(SOURCE)


def results() -> list[str]:
    return sorted(path.name for path in Path("results").rglob("*.json"))


def test_it_is_a_row_beside_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS.split()]) == 0
    shown = capsys.readouterr().out
    assert "2 of 2 cells done" in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith(("FixM", "mine.py"))]
    assert [row[0] for row in rows] == ["FixMatch", "mine.py:Mine"]
    assert rows[0][1:] == rows[1][1:]  # it is FixMatch

    own, builtin = results()
    assert builtin == "fixmatch.s0.1of600.r1.json"
    assert own == f"Mine@{code_of('mine.py:Mine')}.s0.1of600.r1.json"
    written = strict_json(Path("results/digits-40") / own)
    assert written["method"] == own.partition(".")[0]

    assert main([*WORDS.split(), "--list"]) == 0
    listed = capsys.readouterr().out
    assert "2 runs, 2 of them done." in listed and "--method mine.py:Mine" in listed
    for more in ((), ("--tau", "0.9")):  # its runs come first
        assert main([*WORDS.split(), *more, "--list"]) == 0
        assert "--method mine.py:Mine" in capsys.readouterr().out.splitlines()[0]
    assert main([*WORDS.split(), "--cell", "1/2", "--show", "--format", "latex"]) == 0
    assert "mine.py:Mine" in capsys.readouterr().out
    assert (
        main(["bench", "rank", "--of", "digits", "--methods", "all,mine.py:Mine", "--steps", "2"])
        == 0
    )
    ranked = capsys.readouterr().out.split("From our results")[1]
    assert "mine.py:Mine" in ranked and f"2 of {3 * len(BY_THEMSELVES) + 3} cells done" in ranked


def test_changed_code_is_another_method(capsys: pytest.CaptureFixture[str]) -> None:
    main([*WORDS.split()])
    before = results()
    Path("mine.py").write_text(SOURCE.replace("1", "2"))
    capsys.readouterr()
    main([*WORDS.split(), "--show"])
    shown = capsys.readouterr().out
    assert "1 of 2 cells done" in shown
    assert f"different from today's: {before[0].partition('.')[0]} (runs: 1)." in shown
    main([*WORDS.split()])
    assert len(results()) == 3 and {*before} < {*results()}


def test_the_result_does_not_tell_where_the_file_was(tmp_path: Path) -> None:
    where = tmp_path / "secret place"
    where.mkdir()
    (where / "mine.py").write_text(SOURCE)
    main(["bench", "digits", "--methods", f"{where}/mine.py:Mine", "--seeds", "0", "--steps", "2"])
    [own] = results()
    assert own.partition(".")[0] == f"Mine@{code_of('mine.py:Mine')}"  # the same code elsewhere
    assert "secret" not in (Path("results/digits-40") / own).read_text()


def test_what_it_imports_is_part_of_its_code() -> None:
    Path("beside_mine.py").write_text("FACTOR = 1")
    Path("unused.py").write_text("OTHER = 1")
    tried = "try:\n    from .beside_mine import FACTOR\nexcept ImportError:\n"
    Path("mine.py").write_text(f"import sys\n{tried}    from beside_mine import FACTOR\n{SOURCE}")
    before = code_of("mine.py:Mine")
    Path("unused.py").write_text("OTHER = 2")
    assert code_of("mine.py:Mine") == before
    Path("beside_mine.py").write_text("FACTOR = 2")
    assert code_of("mine.py:Mine") != before


def test_two_classes_of_one_name_do_not_meet() -> None:
    Path("more").mkdir()
    Path("more/mine.py").write_text(SOURCE.replace("1", "2"))
    plan = with_rows(PLANS["digits"], "fixmatch,mine.py:Mine,more/mine.py:Mine")
    assert [*plan.rows.values()] == ["FixMatch", "mine.py:Mine", "more/mine.py:Mine"]
    cells = plan.cells("digits", (0,))
    assert len({cell.name for cell in cells}) == 3
    assert [cell.method for cell in cells][-1] == "fixmatch"  # a mistake in one's own shows first


def test_the_page_of_results_has_no_such_rows() -> None:
    plan, store = with_rows(PLANS["lt"], "fixmatch,mine.py:Mine"), Store(Path("results"))
    own, builtin, *_ = plan.cells("lt", (0,))
    store.write(builtin, result(builtin))
    assert paper(["report", "--out", "before.md"]) == 0
    store.write(own, result(own, method=own.method_name))
    assert store.results([own])
    assert paper(["report", "--out", "after.md"]) == 0
    page = Path("before.md").read_text()
    assert builtin.name in page and page == Path("after.md").read_text()


def test_an_edit_while_runs_are_made_does_not_get_into_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Training.log

    def edit(self: Training) -> None:
        Path("mine.py").write_text("raise SystemError")
        log(self)

    monkeypatch.setattr(Training, "log", edit)
    words = "bench digits --methods mine.py:Mine --seeds 0,1 --steps 2"
    assert main(words.split()) == 0
    assert "2 of 2 cells done" in capsys.readouterr().out
    assert main(words.split()) == 2  # the next command reads it anew
    assert "importing the file failed (mine.py, line 1: SystemError" in capsys.readouterr().err


def test_a_stopped_run_goes_on_from_where_the_file_is_now(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "bench digits --seeds 0 --steps 8 --methods"

    def stop(self: Training) -> None:
        if self.engine.steps_done == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        log(self)

    log = Training.log
    with monkeypatch.context() as patch:
        patch.setattr(Training, "log", stop)
        assert main([*words.split(), "mine.py:Mine"]) == 143
    Path("moved").mkdir()
    Path("mine.py").rename("moved/mine.py")
    monkeypatch.setattr("tamatch.bench.runner.begin", lambda *given: pytest.fail("began again"))
    assert main([*words.split(), "moved/mine.py:Mine"]) == 0
    assert "1 of 1 cells done" in capsys.readouterr().out


@pytest.mark.parametrize("file", ["mine.py", "tamatch_mine.py"])
def test_on_the_long_tail(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tamatch.settings.inputs.load", lambda name, *rest: noise(name))
    Path("mine.py").rename(file)
    words = f"bench lt --methods {file}:Mine --settings lt-500-4000-150 --seeds 0 --steps 2"
    assert main([*words.split()]) == 0
    assert "1 of 1 cells done" in capsys.readouterr().out
    main([*words.split(), "--list"])
    command = capsys.readouterr().out.splitlines()[0].split("tamatch ", 1)[1]
    assert main([*shlex.split(command), "--print-config"]) == 0
