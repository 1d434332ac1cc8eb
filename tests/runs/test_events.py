"""Event files hold what metrics.jsonl holds, also after a resume; without the package, one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tamatch
from tamatch import cli
from tamatch.errors import UsageError
from tamatch.storage import events

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the package itself

OPTIONS = {
    "data": "digits", "steps": 6, "log_every": 2, "test_every": 3, "save_every": 3, "batch": 4,
    "unlabelled": 4, "labels_per_class": 2, "baseline": "none",
}  # fmt: skip


def read(folder: Path) -> dict[str, dict[int, float]]:
    """Every curve by name, as TensorBoard shows it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: {e.step: e.value for e in found.Scalars(tag)} for tag in found.Tags()["scalars"]}


def logged(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_the_events_are_the_log(tmp_path: Path) -> None:
    run = tmp_path / "run"
    tamatch.train(out=run, tensorboard=True, quiet=True, **OPTIONS)
    found = read(run / "events")
    rows = logged(run)
    for row in rows:
        for name in ("total", "lr", "used", "error"):
            if name in row:
                shown = found[f"{row['kind']}/{name}"][row["step"]]
                assert shown == pytest.approx(row[name], rel=1e-5)
    last = [row for row in rows if row["kind"] == "train"][-1]
    assert found["train/p_model/3"][6] == pytest.approx(last["p_model"][3], rel=1e-5)
    assert set(found["train/total"]) == {2, 4, 6} and set(found["test/error"]) == {3, 6}


def test_a_resumed_run_replaces_what_it_writes_again(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    for first, values in ((1, (5.0, 4.0, 9.0)), (3, (3.0, 2.0))):
        made = events.TensorBoard(folder, (), first)
        for step, value in enumerate(values, first):
            made.add({"kind": "train", "step": step, "total": value, "list": [1.0, 2.0]})
        made.close()
    assert read(folder) == {"train/total": {1: 5.0, 2: 4.0, 3: 3.0, 4: 2.0}}


def test_without_the_option_nothing_is_written(tmp_path: Path) -> None:
    tamatch.train(out=tmp_path / "run", quiet=True, **OPTIONS | {"steps": 1})
    assert not (tmp_path / "run" / "events").exists()


def test_the_package_is_asked_for_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(events, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install tensorboard"):
        events.check_installed("tensorboard")
    assert cli.main(["train", "--tensorboard", "--out", str(tmp_path / "run")]) == 2
    assert "--tensorboard needs the package tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
