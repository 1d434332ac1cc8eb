"""`--from RUN` and `--labels FILE`: a run that goes on from another one with more labels."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamatch
from tamatch.data import make_split
from tamatch.errors import DataError, TamatchError, UsageError
from tamatch.runs.build import data_of, engine_of, split_plan
from tamatch.runs.place import default_folder
from tamatch.runs.run import baseline_config
from tamatch.settings.config import configure, dump
from tests.faults.runs import DOZEN, crash_at, own_folder

TWELVE: dict[str, Any] = {**DOZEN, "size": 16, "tau": 0.6}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A finished run with its baseline."""
    photos = own_folder(tmp_path / "photos")
    settings = {**TWELVE, "baseline": "supervised", "seed": 3}
    tamatch.train(out=tmp_path / "runs/first", data=str(photos), quiet=True, **settings)
    return tmp_path / "runs/first"


def labelled(run: Path, *lines: str) -> Path:
    path = run.parents[1] / "labels.csv"
    path.write_text("\n".join(["file_name,label", *lines, ""]))
    return path


def weights(run: Path) -> dict[str, np.ndarray]:
    net = tamatch.load(run).net
    assert net is not None
    return {k: v.numpy() for k, v in net.state_dict().items()}


def test_settings_are_taken_over_unless_given(first: Path) -> None:
    run = configure({"from_": str(first), "lr": 0.5})
    before = json.loads((first / "run.json").read_text())["config"]
    assert (run.data, run.seed, run.steps, run.baseline) == (before["data"], 3, 12, "supervised")
    assert (run.lr, run.options["tau"]) == (0.5, 0.6)
    other = configure({"from_": str(first), "method": "fixmatch"})
    assert other.options["tau"] == 0.95 and other.steps == 12
    assert configure({"from": str(first)}) == configure({"from_": str(first)})


def test_the_configuration_is_written_and_read_back(first: Path, tmp_path: Path) -> None:
    run = configure({"from_": str(first), "labels": "labels.csv"})
    file = tmp_path / "config.yaml"
    file.write_text(dump(run))
    assert configure({}, file) == run


def test_the_second_run_starts_where_the_first_ended(first: Path) -> None:
    run = configure({"from_": str(first)})
    data = data_of(run, run.size)
    engine = engine_of(run, data, make_split(data, split_plan(run)))
    start = {k: v.numpy() for k, v in engine.method.net.state_dict().items()}
    assert all(np.array_equal(start[k], v) for k, v in weights(first).items())
    base = baseline_config(run)
    assert base.from_ == str(first / "baseline")
    engine = engine_of(base, data, make_split(data, split_plan(base)))
    start = {k: v.numpy() for k, v in engine.method.net.state_dict().items()}
    assert all(np.array_equal(start[k], v) for k, v in weights(first / "baseline").items())


def test_the_loop_ends_in_a_second_run_beside_the_first(first: Path) -> None:
    given = labelled(first, "train/unlabelled/0.png,light", "train/unlabelled/1.png,dark")
    done = tamatch.train(from_=str(first), labels=str(given), quiet=True)
    assert done.path == first.with_name("first-2")
    record = json.loads((done.path / "run.json").read_text())
    assert record["data"]["labelled"] == 10 and record["data"]["unlabelled"] == 16
    assert record["config"]["from_"] == str(first) and record["config"]["labels"] == str(given)
    assert f"--from {first}" in record["command"] and f"--labels {given}" in record["command"]
    told = tamatch.apply.use.evaluate(done.path)
    assert told.images == 4
    from tamatch.apply.label import label

    made = label(done.path, first.parents[1] / "all.csv")
    assert made.given == 10 and made.pool == 6


def test_default_folders_count_on() -> None:
    fresh = configure({"data": "photos"})
    assert default_folder(fresh) == Path("runs/photos-tamatch-s0")
    for earlier, later in (("a/b-s0", "a/b-s0-2"), ("a/b-s0-2", "a/b-s0-3"), ("a-9", "a-10")):
        run = dataclasses.replace(fresh, from_=earlier)
        assert default_folder(run) == Path(later)


def test_a_resumed_run_needs_the_labels_but_not_the_first_run(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = labelled(first, "train/unlabelled/0.png,light")
    options = {"data": str(tmp_path / "photos"), "labels": str(given), "from_": str(first)}
    whole = tamatch.train(out=tmp_path / "whole", quiet=True, **{**TWELVE, **options})
    crashed = crash_at(6, monkeypatch, tmp_path / "second", **{**TWELVE, **options})
    first.rename(first.with_name("gone"))
    again = tamatch.resume(crashed, quiet=True)
    assert {**again.result, "seconds": 0} == {**whole.result, "seconds": 0}
    one, other = weights(whole.path), weights(again.path)
    assert all(np.array_equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["train/unlabelled/0.png,dark"], "split.csv lists other labelled images"),
        (["train/unlabelled/0.png,light", "train/unlabelled/1.png,light"], "9 labelled images"),
        ([], "split.csv lists 9 labelled images, now there are 8"),
    ],
)
def test_a_changed_label_file_is_refused(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], told: str
) -> None:
    given = labelled(first, "train/unlabelled/0.png,light")
    options = {"data": str(tmp_path / "photos"), "labels": str(given)}
    run = crash_at(6, monkeypatch, tmp_path / "second", **{**TWELVE, **options})
    labelled(first, *lines)
    with pytest.raises(TamatchError, match=told):
        tamatch.resume(run, quiet=True)


def test_contradictions_are_refused(first: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--from and --weights both give the weights"):
        configure({"from_": str(first), "weights": "w.safetensors"})
    with pytest.raises(UsageError, match="--labels gives labels, and --labels-per-class hides"):
        configure({"data": "photos", "labels": "l.csv", "labels_per_class": 2})
    with pytest.raises(UsageError, match="holds no run"):
        configure({"from_": str(tmp_path)})
    photos = tmp_path / "photos"
    for part in ("train", "test"):
        (photos / part / "dark").rename(photos / part / "gloomy")
    with pytest.raises(DataError, match=r"classes dark, light; photos has gloomy, light\. Train"):
        tamatch.train(from_=str(first), out=tmp_path / "b", quiet=True)
    for part in ("train", "test"):
        (photos / part / "gloomy").rename(photos / part / "dark")
    with pytest.raises(UsageError, match=r"wrn_10_1_clean at 16 pixels does not fit wrn_16_1_c"):
        tamatch.train(from_=str(first), net="wrn_16_1_clean", out=tmp_path / "c", quiet=True)


def test_an_unfinished_run_has_nothing_to_start_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = own_folder(tmp_path / "photos")
    run = crash_at(2, monkeypatch, tmp_path / "run", **{**TWELVE, "data": str(photos)})
    with pytest.raises(UsageError, match="no model yet: is the run finished"):
        tamatch.train(from_=str(run), out=tmp_path / "second", quiet=True)
