"""Time to accuracy: when runs end, what their clocks count, what the table says."""

from __future__ import annotations

import dataclasses
import json
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from tamatch.bench import racing
from tamatch.bench.plans import PLANS
from tamatch.bench.race import PRINTED, Race, reached, read_targets
from tamatch.bench.results import Curve, Store, clock
from tamatch.bench.runner import Runner
from tamatch.cli import main
from tamatch.errors import UsageError
from tamatch.runs.training import Training
from tests.bench.made import noise, result, small_recipes

WORDS = (
    "bench race --methods fixmatch --settings race-cifar10-40 --steps 40 --test-every 4 "
    "--log-every 4 --device cpu"
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    small_recipes(monkeypatch)
    monkeypatch.setattr("tamatch.settings.inputs.load", lambda name, *rest: noise(name))


def only_result() -> dict[str, Any]:
    [path] = Path("results").rglob("*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_run_ends_soon_after_its_last_target(capsys: pytest.CaptureFixture[str]) -> None:
    """Sooner or later one of ten images of noise is right by chance."""
    assert main([*WORDS.split(), "--targets", "1,2"]) == 0
    shown = capsys.readouterr().out
    assert "1 of 1 cells done" in shown and "Tests are 4 steps apart." in shown
    found = only_result()
    steps, errors, times = found["error"]["step"], found["error"]["value"], found["clock"]["value"]
    assert steps == found["clock"]["step"] == [*range(4, steps[-1] + 1, 4)] and steps[-1] < 40
    assert min(errors[:-1], default=100) > 98 >= errors[-1]
    assert times == sorted(times) and 0 < times[-1] < found["seconds"]
    assert found["config"]["steps"] == 40 and found["error_last"] == pytest.approx(errors[-1])
    assert not [p for p in Path("runs").rglob("*") if p.is_file()]
    assert main([*WORDS.split(), "--targets", "1,2", "--list"]) == 0
    assert "1 runs, 1 of them done." in capsys.readouterr().out
    assert main([*WORDS.split(), "--targets", "1,2,3", "--list"]) == 0  # farther: another run
    assert "1 runs, 0 of them done." in capsys.readouterr().out


def test_a_run_that_never_gets_there_has_its_whole_length(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*WORDS.split(), "--targets", "99.9"]) == 0
    assert "not reached" in capsys.readouterr().out
    assert only_result()["error"]["step"] == [*range(4, 41, 4)]


def slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Training.log

    def slow(self: Training) -> None:
        time.sleep(0.1)
        log(self)

    monkeypatch.setattr(Training, "log", slow)


def test_a_limit_ends_a_run_and_it_has_a_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slowed(monkeypatch)
    assert main([*WORDS.split(), "--targets", "99.9", "--limit", str(0.25 / 60)]) == 0
    assert "1 of 1 cells done" in capsys.readouterr().out
    assert 1 <= len(only_result()["error"]["step"]) < 10


def test_a_spent_budget_is_no_end_of_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command goes on, and the clock with it."""
    with monkeypatch.context() as slowly:
        slowed(slowly)
        assert main([*WORDS.split(), "--targets", "99.9", "--minutes", str(0.5 / 60)]) == 0
    assert "1 of 1 runs are left" in capsys.readouterr().err
    assert not [*Path("results").rglob("*.json")]
    [record] = Path("runs").rglob("run.json")
    assert json.loads(record.read_text())["status"] == "stopped"
    assert main([*WORDS.split(), "--targets", "99.9"]) == 0
    times = only_result()["clock"]["value"]
    assert len(times) == 10 and times == sorted(times)


def test_a_run_that_was_over_when_its_process_died_is_not_trained_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(racing, "write_json", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main([*WORDS.split(), "--targets", "2"])
    monkeypatch.setattr(Runner, "ends", lambda *given: pytest.fail("trained on"))
    assert main([*WORDS.split(), "--targets", "2"]) == 0
    assert only_result()["error_last"] <= 98


def test_the_clock_leaves_tests_out() -> None:
    def row(kind: str, step: int, seconds: float) -> dict[str, Any]:
        return {"kind": kind, "step": step, "time": {"seconds": seconds}}

    rows = [
        row("train", 5, 10.0), row("test", 5, 13.0), row("train", 10, 20.0), row("test", 10, 24.0)
    ]  # fmt: skip
    assert clock(rows) == [(5, 10.0), (10, 17.0)]
    assert clock([rows[0], row("test", 6, 13.0)]) == [(6, 13.0)]  # when it began is not known
    assert clock([{"kind": "test", "step": 1, "error": 3.0}]) == []  # of an older version


def test_the_table_has_steps_minutes_and_what_others_print(tmp_path: Path) -> None:
    race = Race((80.0, 90.0), 60.0)
    plan = race.plan(PLANS["race"])
    plan = dataclasses.replace(
        plan, methods=("fixmatch", "tamatch"),
        settings=tuple(s for s in plan.settings if s.name == "race-cifar10-250-to-90"),
    )  # fmt: skip
    cells, store = plan.cells("race", (0, 1)), Store(tmp_path)
    for cell in cells:
        falling = [40.0, 20.0, 12.0 - 4 * cell.seed]
        curves = Curve([1024, 2048, 3072], falling), Curve([1024, 2048, 3072], [60.0, 120.0, 180.0])
        if cell.method == "tamatch":
            made = dataclasses.replace(result(cell), error=curves[0], clock=curves[1])
            store.write(cell, made)
    page = race.page(plan, cells, store)
    [grid] = page.grids
    assert grid.header == (
        "method", "steps to 80 %", "minutes to 80 %", "steps to 90 %", "minutes to 90 %", "n"
    )  # fmt: skip
    assert [*grid.rows][:2] == [
        ("FixMatch", "missing", "missing", "missing", "missing", "0/2"),
        ("TaMatch", "2,048 / 2,048", "2.0 / 2.0", "not reached / 3,072", "> 3.0 / 3.0", "2/2"),
    ]
    assert ("FixMatch, printed", "", "113.7 / 58.2 / 56.3", "", "", "") in grid.rows
    assert any(PRINTED in note for note in page.notes) and "2 of 4 cells done" in page.notes[0]
    other = Race((70.0, 90.0)).page(plan, cells, store)  # nobody prints 70 %
    assert len(other.grids[0].rows) == 2


def test_a_target_is_reached_at_the_first_test_that_has_it() -> None:
    [cell, *_] = PLANS["race"].cells("race")
    curve = Curve([1, 2, 3], [30.0, 20.0, 25.0])
    times = Curve([1, 2, 3], [1.0, 2.0, 3.0])
    found = dataclasses.replace(result(cell), error=curve, clock=times)
    assert reached(found, 80) == (2, 2.0) and reached(found, 81) is None
    assert reached(dataclasses.replace(found, clock=None, error=Curve([], [])), 80) is None


@pytest.mark.parametrize("text", ["", "80,x", "0", "100", "80,nan"])
def test_targets_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="--targets takes accuracies in percent such as 80,90"):
        read_targets(text)
    assert read_targets("90, 80,90") == (80.0, 90.0)


def test_races_are_not_ranked() -> None:
    from tamatch.bench.rank import one_table

    assert one_table("stand-in") == "stand-in"
    with pytest.raises(UsageError, match="--of race is unknown"):
        one_table("race")


def test_several_at_once_would_share_the_clock() -> None:
    given = Namespace(target=90.0)
    with pytest.raises(UsageError, match="leave out --abreast"):
        Race((given.target,)).runner(abreast=2)
