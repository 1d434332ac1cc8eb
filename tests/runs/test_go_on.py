"""`--from RUN` and `--labels FILE`: a run that goes on from another one with more labels."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamatch
from tamatch.data import make_split
from tamatch.data.splitfile import listed_in
from tamatch.errors import DataError, TamatchError, UsageError
from tamatch.runs.build import engine_of
from tamatch.runs.label import label
from tamatch.runs.place import default_folder
from tamatch.settings.config import dump
from tamatch.settings.configure import baseline_config, configure
from tamatch.settings.inputs import data_of, first_weights, split_plan
from tamatch.storage.folder import RunFolder
from tests.faults.runs import ANY_DATA, crash_at, own_folder, unseal

TWELVE: dict[str, Any] = {**ANY_DATA, "size": 16, "tau": 0.6}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))


def finished(place: Path) -> Path:
    """A finished run with its baseline."""
    photos = own_folder(place / "photos")
    settings = {**TWELVE, "baseline": "supervised", "seed": 3}
    tamatch.train(out=place / "runs/first", data=str(photos), quiet=True, **settings)
    return place / "runs/first"


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return finished(tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that change nothing and start no run."""
    place = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAMATCH_CACHE", str(place / "cache"))
        return finished(place)


def labelled(run: Path, *lines: str) -> Path:
    path = run.parents[1] / "labels.csv"
    path.write_text("\n".join(["file_name,label", *lines, ""]))
    return path


def weights(run: Path) -> dict[str, np.ndarray]:
    net = tamatch.load(run).net
    assert net is not None
    return {k: v.numpy() for k, v in net.state_dict().items()}


def test_settings_are_taken_over_unless_given(kept: Path) -> None:
    run = configure({"from_": str(kept), "lr": 0.5})
    before = json.loads((kept / "run.json").read_text())["config"]
    assert (run.data, run.seed, run.steps, run.baseline) == (before["data"], 3, 12, "supervised")
    assert (run.lr, run.options["tau"]) == (0.5, 0.6)
    other = configure({"from_": str(kept), "method": "fixmatch"})
    assert other.options["tau"] == 0.95 and other.steps == 12
    assert configure({"from": str(kept)}) == configure({"from_": str(kept)})


def test_the_configuration_is_written_and_read_back(kept: Path, tmp_path: Path) -> None:
    run = configure({"from_": str(kept), "labels": "labels.csv"})
    file = tmp_path / "config.yaml"
    file.write_text(dump(run))
    assert configure({}, file) == run


def test_the_second_run_starts_where_the_first_ended(kept: Path) -> None:
    run = configure({"from_": str(kept)})
    data = data_of(run)
    engine = engine_of(run, data, make_split(data, split_plan(run)))
    start = {k: v.numpy() for k, v in engine.method.net.state_dict().items()}
    assert all(np.array_equal(start[k], v) for k, v in weights(kept).items())
    base = baseline_config(run)
    assert base.from_ == str(kept / "baseline")
    engine = engine_of(base, data, make_split(data, split_plan(base)))
    start = {k: v.numpy() for k, v in engine.method.net.state_dict().items()}
    assert all(np.array_equal(start[k], v) for k, v in weights(kept / "baseline").items())


def test_the_loop_ends_in_a_second_run_beside_the_first(first: Path) -> None:
    given = labelled(first, "train/unlabelled/0.png,light", "train/unlabelled/1.png,dark")
    done = tamatch.train(from_=str(first), labels=str(given), quiet=True)
    assert done.path == first.with_name("first-2")
    record = json.loads((done.path / "run.json").read_text())
    assert record["data"]["labelled"] == 10 and record["data"]["unlabelled"] == 16
    assert record["config"]["from_"] == str(first) and record["config"]["labels"] == str(given)
    assert f"--from {first}" in record["command"] and f"--labels {given}" in record["command"]
    told = tamatch.evaluate(done.path)
    assert told.images == 4
    made = label(done.path, first.parents[1] / "all.csv")
    assert made.given == 10 and made.pool == 6


def roles(run: Path) -> dict[str, set[str]]:
    """The files of each role."""
    return listed_in(run / "split.csv", "image")


@pytest.fixture
def validated(tmp_path: Path) -> Path:
    """A finished run that held one image of each class out."""
    options = {**TWELVE, "data": str(own_folder(tmp_path / "photos")), "validation_per_class": 1}
    tamatch.train(out=tmp_path / "runs/first", quiet=True, **options)
    return tmp_path / "runs/first"


def test_what_earlier_runs_have_learnt_is_never_held_out(validated: Path) -> None:
    """Over three runs: what validated goes on to do so, and only new images join it."""
    first = roles(validated)
    new = [f"train/unlabelled/{i}.png" for i in range(4)]
    given = labelled(validated, *(f"{f},{'light' if i % 2 else 'dark'}" for i, f in enumerate(new)))
    second = tamatch.train(from_=str(validated), labels=str(given), seed=5, quiet=True).path
    assert roles(second)["validation"] == first["validation"]
    assert roles(second)["labelled"] == first["labelled"] | {*new}
    options = {"validation_per_class": 2, "seed": 6, "quiet": True}
    with pytest.raises(
        DataError, match="1 of its 6 labelled images can be held out, as the run of --from"
    ):
        tamatch.train(from_=str(second), **options)
    table = given.read_text()
    for i, kind in ((4, "light"), (5, "dark")):
        table += f"train/unlabelled/{i}.png,{kind}\n"
    given.write_text(table)
    third = tamatch.train(from_=str(second), **options).path
    late = {f"train/unlabelled/{i}.png" for i in (4, 5)}
    assert roles(third)["validation"] == first["validation"] | late
    assert json.loads((third / "run.json").read_text())["seen"] == {"validation": 0, "test": 0}


def test_images_are_known_again_at_another_size(validated: Path) -> None:
    done = tamatch.train(from_=str(validated), size=24, seed=9, quiet=True)
    assert roles(done.path)["validation"] == roles(validated)["validation"]


def test_images_are_known_again_under_other_names(validated: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for kind in ("dark", "light"):
        for i in range(4):
            (photos / "train" / kind / f"{i}.png").rename(photos / "train" / kind / f"n{3 - i}.png")
    done = tamatch.train(from_=str(validated), seed=9, quiet=True)
    before = listed_in(validated / "split.csv", "hash")["validation"]
    assert listed_in(done.path / "split.csv", "hash")["validation"] == before


def test_test_images_that_an_earlier_run_has_learnt_are_told(
    validated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test = tmp_path / "photos/train/dark", tmp_path / "photos/test/dark"
    [known, *_] = sorted(roles(validated)["labelled"])
    (tmp_path / "photos" / known).rename(test / "9.png")
    assert len([*train.iterdir()]) == 3
    done = tamatch.train(from_=str(validated))
    told = f"1 of 5 test images are also labelled training images, here or in {validated}"
    assert told in capsys.readouterr().err
    assert json.loads((done.path / "run.json").read_text())["seen"]["test"] == 1
    assert "1 of which are also labelled training images" in done.report_path.read_text()
    assert tamatch.evaluate(done.path).learnt_from == 1


def test_a_baseline_holds_out_what_its_run_does(validated: Path) -> None:
    """Though there is no earlier baseline to go on from."""
    done = tamatch.train(from_=str(validated), baseline="supervised", seed=7, quiet=True)
    split = (done.path / "split.csv").read_bytes()
    assert (done.path / "baseline/split.csv").read_bytes() == split


def test_a_resumed_run_holds_out_what_it_did_without_the_first(
    validated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"data": str(tmp_path / "photos"), "from_": str(validated), "seed": 8}
    options |= {"validation_per_class": 1}
    whole = tamatch.train(out=tmp_path / "whole", quiet=True, **{**TWELVE, **options})
    crashed = crash_at(6, monkeypatch, tmp_path / "second", **{**TWELVE, **options})
    validated.rename(validated.with_name("gone"))
    again = tamatch.resume(crashed, quiet=True)
    assert {**again.result, "seconds": 0} == {**whole.result, "seconds": 0}
    assert (crashed / "split.csv").read_bytes() == (whole.path / "split.csv").read_bytes()


def test_the_fold_that_a_run_held_out_is_held_out_by_those_that_go_on(tmp_path: Path) -> None:
    options = {**TWELVE, "data": str(own_folder(tmp_path / "photos")), "fold": "1/3"}
    start = tamatch.train(out=tmp_path / "runs/first", quiet=True, **options).path
    given = labelled(start, "train/unlabelled/0.png,light", "train/unlabelled/1.png,dark")
    second = tamatch.train(from_=str(start), labels=str(given), seed=5, quiet=True).path
    assert len(roles(start)["validation"]) > 2
    assert roles(second)["validation"] == roles(start)["validation"]
    assert len(roles(second)["labelled"]) == len(roles(start)["labelled"]) + 2
    third = tamatch.train(from_=str(second), seed=6, fold="1/3", quiet=True).path
    assert roles(third)["validation"] == roles(start)["validation"]
    learnt = tamatch.train(from_=str(third), validation_per_class=0, quiet=True).path
    assert not roles(learnt)["validation"]


def test_folds_of_a_run_that_goes_on_begin_as_the_first_one_did(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first run has learnt must not judge."""
    done = tamatch.train(from_=str(first), baseline="none", quiet=True)
    try_it = partial(label, done.path, precision=0.1, folds=2)
    monkeypatch.chdir(tmp_path)
    made = try_it(tmp_path / "sure.csv")
    assert made.lines()[-1].endswith(", if the pool is like the labelled images.")
    for k in (1, 2):
        fold = json.loads((done.path / f"folds/{k}-of-2/run.json").read_text())["config"]
        assert (fold["from_"], fold["weights"]) == (None, None)
    gone = first.rename(first.with_name("gone"))
    with pytest.raises(DataError, match=f"was trained from {first}, which no longer exists"):
        try_it(tmp_path / "again.csv")
    gone.rename(first)
    config = json.loads((first / "run.json").read_text())["config"]
    weights = {**config, "weights": "none.safetensors"}
    unseal(first / "run.json", config=weights, started_in="/where")
    assert first_weights(RunFolder(done.path)) == "/where/none.safetensors"


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
        (["train/unlabelled/0.png,dark"], "split.csv lists different labelled images"),
        (["train/unlabelled/0.png,light", "train/unlabelled/1.png,light"], "9 labelled images"),
        ([], "split.csv lists 9 labelled images, now there are 8"),
    ],
)
def test_a_changed_label_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], told: str
) -> None:
    run = tmp_path / "runs/first"
    given = labelled(run, "train/unlabelled/0.png,light")
    options = {"data": str(own_folder(tmp_path / "photos")), "labels": str(given)}
    crash_at(6, monkeypatch, run, **{**TWELVE, **options})
    labelled(run, *lines)
    with pytest.raises(TamatchError, match=told):
        tamatch.resume(run, quiet=True)


def test_contradictions_are_refused(first: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--from and --weights both set the initial weights"):
        configure({"from_": str(first), "weights": "w.safetensors"})
    with pytest.raises(UsageError, match="--fold would hold out labels that the run of --from"):
        configure({"from_": str(first), "fold": "1/5"})
    with pytest.raises(UsageError, match="--labels adds labels and --labels-per-class hides"):
        configure({"data": "photos", "labels": "l.csv", "labels_per_class": 2})
    with pytest.raises(UsageError, match="is not a run folder"):
        configure({"from_": str(tmp_path)})
    photos = tmp_path / "photos"
    for part in ("train", "test"):
        (photos / part / "dark").rename(photos / part / "gloomy")
    with pytest.raises(DataError, match=r"classes dark, light; photos has gloomy, light\. Train"):
        tamatch.train(from_=str(first), out=tmp_path / "b", quiet=True)
    for part in ("train", "test"):
        (photos / part / "gloomy").rename(photos / part / "dark")
    with pytest.raises(
        UsageError, match=r"wrn_10_1_clean at 16 pixels, which does not match wrn_16_1_c"
    ):
        tamatch.train(from_=str(first), net="wrn_16_1_clean", out=tmp_path / "c", quiet=True)


def test_an_unfinished_run_has_nothing_to_start_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = own_folder(tmp_path / "photos")
    run = crash_at(2, monkeypatch, tmp_path / "run", **{**TWELVE, "data": str(photos)})
    with pytest.raises(UsageError, match=r"no model yet\. If the run is unfinished"):
        tamatch.train(from_=str(run), out=tmp_path / "second", quiet=True)
