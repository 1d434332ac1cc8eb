"""A run's curves as arrays and tables; who follows a run can neither change nor end it."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tamatch
from tamatch.cli import main
from tamatch.errors import UsageError
from tamatch.storage import events
from tamatch.storage.history import History

OPTIONS = {
    "data": "digits", "steps": 6, "log_every": 2, "test_every": 3, "save_every": 3, "batch": 4,
    "unlabelled": 4, "labels_per_class": 2, "net": "wrn_10_1_clean", "quiet": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tamatch.train(out=tmp_path_factory.mktemp("h") / "run", baseline="none", **OPTIONS)


def test_arrays_are_the_log(run: Any) -> None:
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    trained = [line for line in lines if line["kind"] == "train"]
    found = run.history.train
    assert found["step"].tolist() == [2, 4, 6] and found["step"].dtype == np.int64
    assert found["total"].tolist() == [line["total"] for line in trained]
    assert found["p_model"].tolist() == [line["p_model"] for line in trained]
    assert run.history.test.keys() == {"step", "error", "per_class"}
    assert run.history.test["step"].tolist() == [3, 6]
    assert run.history.validation == {}


def test_a_history_tells_what_it_holds(run: Any) -> None:
    assert str(run.history) == "3 train rows, 2 test rows"
    assert len(repr(run.history)) < 100
    with pytest.raises(UsageError, match=r"rows tset is unknown. Perhaps you meant test\."):
        run.history.csv("tset")


def test_missing_values_are_nan() -> None:
    rows = [{"kind": "train", "step": 1, "a": 2.0}, {"kind": "train", "step": 2, "b": [1.0, None]}]
    found = History(rows, ("x", "=y")).train
    np.testing.assert_array_equal(found["a"], [2.0, np.nan])
    np.testing.assert_array_equal(found["b"], [[np.nan, np.nan], [1.0, np.nan]])
    assert History(rows, ("x", "=y")).csv() == "step,a,b/x,b/=y\n1,2.0,,\n2,,1.0,\n"


def test_the_command_writes_what_the_arrays_hold(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", str(run.path)]) == 0
    printed = capsys.readouterr().out
    table = [*csv.DictReader(io.StringIO(printed))]
    assert [float(line["total"]) for line in table] == run.history.train["total"].tolist()
    assert float(table[2]["p_model/3"]) == run.history.train["p_model"][2, 3]
    file = tmp_path / "test.csv"
    assert main(["history", str(run.path), "--csv"]) == 0  # without a file
    assert capsys.readouterr().out == tamatch.history(run.path).csv()
    assert main(["history", str(run.path), "--rows", "test", "--csv", str(file)]) == 0
    assert file.read_text() == tamatch.history(run.path).csv("test")
    assert main(["history", str(run.path), "--csv", str(file)]) == 2
    assert main(["history", str(run.path), "--rows", "validation"]) == 2
    assert "the run has no validation rows" in capsys.readouterr().err


def test_a_frame_has_the_steps_as_its_index(run: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = run.history.frame("test")
    assert isinstance(frame, pandas.DataFrame) and frame.index.tolist() == [3, 6]
    assert frame["error"].tolist() == run.history.test["error"].tolist()
    assert frame["per_class/7"].tolist() == run.history.test["per_class"][:, 7].tolist()


def test_without_pandas_a_frame_asks_for_it(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        run.history.frame()


def meddle(row: dict[str, Any]) -> None:
    """All that a careless callback may do."""
    row["total"] = 0.0
    row.get("p_model", []).clear()
    torch.manual_seed(5)
    torch.rand(3), random.random(), np.random.rand()


def test_callbacks_hear_everything_and_change_nothing(run: Any, tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    tests: list[dict[str, Any]] = []
    second = tamatch.train(
        out=tmp_path / "run", baseline="supervised", **OPTIONS,
        on_log=lambda row: (heard.append(dict(row)), meddle(row)),
        on_test=lambda row: (tests.append(dict(row)), meddle(row)),
    )  # fmt: skip
    assert [row["step"] for row in heard] == [2, 4, 6]  # the run's, and not its baseline's
    assert [row["error"] for row in tests] == second.history.test["error"].tolist()
    assert second.history.rows == run.history.rows
    models = (each.path / "model" / "model.safetensors" for each in (run, second))
    assert len({model.read_bytes() for model in models}) == 1


def test_a_failing_callback_does_not_end_a_run(run: Any, tmp_path: Path) -> None:
    calls = []

    def fails(row: dict[str, Any]) -> None:
        calls.append(row["step"])
        raise RuntimeError("no\nspace")

    ended = tamatch.train(out=tmp_path / "run", baseline="none", on_log=fails, **OPTIONS)
    assert calls == [2] and ended.history.rows == run.history.rows
    told = (tmp_path / "run" / "log.txt").read_text()
    assert "a callback failed and gets no more of this run" in told
    assert "(RuntimeError: no space)" in told


def test_a_tracker_that_fails_does_not_end_a_run(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, *ignored: Any) -> None:
            raise ConnectionError("no route to host")

    monkeypatch.setattr("tamatch.settings.configure.check_installed", lambda name: None)
    monkeypatch.setattr("tamatch.runs.training.WandB", Broken)
    ended = tamatch.train(out=tmp_path / "run", baseline="none", wandb=True, **OPTIONS)
    assert ended.history.rows == run.history.rows
    assert "wandb failed" in (tmp_path / "run" / "log.txt").read_text()


def stop_and_resume(out: Path, **tracker: bool) -> None:
    """A run that stops after its first checkpoint, and goes on."""

    def stop(row: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        options = OPTIONS | {"test_every": 4}
        tamatch.train(out=out, baseline="none", on_test=stop, **options, **tracker)
    tamatch.resume(out, quiet=True)


@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_the_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'store'}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    stop_and_resume(tmp_path / "run", mlflow=True)
    client = mlflow.MlflowClient()
    [found] = client.search_runs([client.get_experiment_by_name(events.PROJECT).experiment_id])
    history = tamatch.history(tmp_path / "run")
    logged = client.get_metric_history(found.info.run_id, "train/total")
    assert {m.step: m.value for m in logged} == dict(
        zip(history.train["step"].tolist(), history.train["total"].tolist(), strict=True)
    )
    assert found.data.params["method"] == "tamatch" and found.info.status == "FINISHED"


@pytest.mark.filterwarnings("ignore")
def test_wandb_has_the_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    tamatch.train(out=tmp_path / "run", baseline="none", wandb=True, **OPTIONS)
    [file] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert file.stat().st_size > 1000
    assert "failed" not in (tmp_path / "run" / "log.txt").read_text()


def test_tests_on_some_of_the_images(tmp_path: Path) -> None:
    run = tamatch.train(out=tmp_path / "run", baseline="none", test_images=40, **OPTIONS)
    assert all(float(error * 40 / 100).is_integer() for error in run.history.test["error"])
    assert "Tests use 40 of " in (tmp_path / "run" / "log.txt").read_text()
