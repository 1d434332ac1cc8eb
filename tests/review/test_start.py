"""Labelling from nothing: classes as they are typed, live answers, and no label lost."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tamatch.cli import main
from tamatch.data import load
from tamatch.data.labels import NONE_OF_THESE
from tamatch.errors import DataError
from tamatch.frozen import live
from tamatch.frozen.suspects import contradicted
from tamatch.review.answers import Answers, Given
from tamatch.review.session import Refused
from tamatch.review.start import Labelling, take_over
from tamatch.review.store import LabelFile
from tests.photos import dark_and_light
from tests.processes import wait_for
from tests.review.browser import serving
from tests.review.conftest import IN_GROUPS, Project, small_labelling


def read(path: Path) -> dict[str, str]:
    with path.open(newline="") as file:
        return {row["file_name"]: row["label"] for row in csv.DictReader(file)}


def label(page: Labelling, name: str, *images: int, **more: Any) -> dict[str, Any]:
    return page.post("/label", {"images": [*images], "label": name, **more})


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Labelling]:
    """Ninety images of three groups in turn, with answers."""
    made = small_labelling(tmp_path, 90)
    with made.answers.computed():
        yield made


def answered(page: Labelling) -> dict[str, Any]:
    wait_for(lambda: page.answers.shown["change"] == page.change)
    return page.answers.shown


def test_classes_come_as_they_are_typed_and_are_on_disk_at_once(tmp_path: Path) -> None:
    page = small_labelling(tmp_path, 6)
    assert not page.store.path.exists() and page.get("/state")["classes"] == ()
    assert label(page, " cat ", 0)["classes"] == ("cat",)
    label(page, "dog", 1, 2)
    label(page, NONE_OF_THESE, 3)
    label(page, "", 4)
    assert read(page.store.path) == {
        "0.png": "cat", "1.png": "dog", "2.png": "dog", "3.png": NONE_OF_THESE, "4.png": "",
    }  # fmt: skip
    assert label(page, "cat", 1)["classes"] == ("cat", "dog")
    assert label(page, "cat", 2)["classes"] == ("cat", "dog")  # a key stays, also without an image
    assert page.post("/undo", {})["labels"][2] == "dog"


def test_a_class_is_renamed_and_merged_in_one_step(tmp_path: Path) -> None:
    page = small_labelling(tmp_path, 6)
    for name, images in (("cat", (0, 1)), ("dog", (2,)), ("cta", (3, 4))):
        label(page, name, *images)
    assert page.post("/rename", {"before": "dog", "after": "hound"})["classes"] == (
        "cat", "hound", "cta",
    )  # fmt: skip
    assert page.post("/rename", {"before": "cta", "after": "cat"})["classes"] == ("cat", "hound")
    assert [*read(page.store.path).values()].count("cat") == 4
    assert {*page.post("/undo", {})["classes"]} == {"cat", "hound", "cta"}
    labels = page.post("/undo", {})["labels"]
    assert labels == {0: "cat", 1: "cat", 2: "dog", 3: "cta", 4: "cta"}


NAMES = st.sampled_from(["a", "b", "c", NONE_OF_THESE, ""])
IMAGES = st.lists(st.integers(0, 4), min_size=1, max_size=3)
ACTIONS = st.one_of(
    st.tuples(st.just("label"), IMAGES, NAMES),
    st.tuples(st.just("rename"), st.sampled_from("abc"), st.sampled_from("abcd")),
    st.just(("undo",)),
)


@settings(max_examples=60)
@given(st.lists(ACTIONS, max_size=12))
def test_whatever_is_done_the_file_has_it(actions: list[Any]) -> None:
    """Against the obvious: a list of all states."""
    with tempfile.TemporaryDirectory() as folder:
        page = small_labelling(Path(folder), 5)
        states: list[dict[str, str]] = [{}]
        for kind, *what in actions:
            now = states[-1]
            if kind == "undo":
                page.post("/undo", {})
                states = states[:-1] or [{}]
            elif kind == "label":
                images, name = what
                label(page, name, *images)
                states.append({**now, **{f"{i}.png": name for i in images}})
            elif what[0] in page.classes:
                page.post("/rename", {"before": what[0], "after": what[1]})
                if what[0] in now.values() and what[0] != what[1]:
                    changed = {k: what[1] if v == what[0] else v for k, v in now.items()}
                    states.append(changed)
            assert page.store.labels == states[-1]
            assert not page.store.path.exists() or read(page.store.path) == states[-1]
            assert {*page.class_labels()} <= {*page.classes}


@pytest.mark.parametrize(
    "name", ["", "  ", "nan", "Unlabelled", "x" * 81, 7, None, ["a"], {"a": 1}, True]
)
def test_names_that_cannot_be(tmp_path: Path, name: Any) -> None:
    page = small_labelling(tmp_path, 3)
    label(page, "cat", 0)
    with pytest.raises(Refused):
        page.post("/rename", {"before": "cat", "after": name})
    if name != "":  # which skips
        with pytest.raises(Refused):
            label(page, name, 1)
    assert read(page.store.path) == {"0.png": "cat"}


def test_the_answer_follows_the_labels(page: Labelling) -> None:
    first = answered(page)
    assert first["guesses"] == {} and len(first["next"]) == 20
    assert page.get("/answer/0") == first
    assert page.get(f"/answer/{first['version']}").keys() == {"version"}
    label(page, "left", 0)
    label(page, "right", 1)
    label(page, "up", 2)
    now = answered(page)
    assert now["classes"] == ("left", "right", "up")
    guess = now["guesses"]["guess"]
    right = np.mean([c == i % IN_GROUPS for i, c in enumerate(guess)])
    assert right > 0.95 and not {0, 1, 2} & {*now["next"]}
    label(page, NONE_OF_THESE, now["next"][0])
    label(page, "", now["next"][1])
    assert not {*now["next"][:2]} & {*answered(page)["next"]}
    page.post("/rename", {"before": "up", "after": "left"})
    now = answered(page)
    assert now["classes"] == ("left", "right") and {*now["guesses"]["guess"]} == {0, 1}


def test_labels_drawn_by_lot_make_the_estimate_and_last(
    page: Labelling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "FIRST", 5)
    names = ("left", "right", "up")
    for _ in range(30):
        now = answered(page)
        image = now["next"][0]
        label(page, names[image % IN_GROUPS], image, asked=True, drawn=image in now["lots"])
    wait_for(lambda: page.answers.shown.get("done"))
    shown = answered(page)
    lots = {file for file, drawn in page.store.drawn.items() if drawn}
    assert shown["judged"] == len(lots) == 5 and len(page.store.drawn) == 30  # every fifth of 25
    assert shown["accuracy"] == 1 and shown["interval"][1] == 1
    assert shown["gain"] < shown["pays"] and shown["suspects"] == []
    again = LabelFile(page.store.path)
    assert again.drawn == page.store.drawn and again.labels == page.store.labels
    own = [page.numbers[file] for file in lots]
    label(page, "left", *(i for i in range(90) if i not in own), asked=True)
    label(page, names[own[0] % IN_GROUPS], own[0])
    assert {file for file, drawn in page.store.drawn.items() if drawn} == lots


def test_confirmed_guesses_do_not_make_labels_stop_paying(page: Labelling) -> None:
    names = ("left", "right", "up")
    for _ in range(6):
        image = answered(page)["next"][0]
        label(page, names[image % IN_GROUPS], image, asked=True)
    for c, name in enumerate(names):
        answered(page)
        label(page, name, *range(c, 60, IN_GROUPS))
    wait_for(lambda: answered(page).get("done"))
    assert page.answers.shown["gain"] is None


def test_files_that_cannot_be_used_are_counted(photos: Path) -> None:
    (photos / "unlabelled" / "broken.jpg").write_text("no picture")
    data = load(photos, size=8, loose=True)
    found = Answers(torch.zeros(len(data.images), 2))
    page = Labelling(
        photos, data, np.arange(len(data.images)), LabelFile(photos / "labels.csv"), found
    )
    assert page.told_first().startswith("14 images; 1 file left out (`tamatch check ")


def test_each_training_has_a_run_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "my photos"
    place.mkdir()
    monkeypatch.chdir(tmp_path)
    page = small_labelling(place, 3)
    assert page.next_command() == "tamatch train --data 'my photos' --out 'runs/my photos'"
    (tmp_path / "runs" / "my photos").mkdir(parents=True)
    assert page.training()["out"] == "runs/my photos-2"
    monkeypatch.chdir(place)  # a run in here would be read as images
    assert page.training() == {"data": ".", "out": str(tmp_path / "runs" / "my photos-2")}


def test_a_wrong_label_is_found(tmp_path: Path) -> None:
    page = small_labelling(tmp_path, 60)
    labels = torch.full((60,), -1)
    labels[:12] = torch.arange(12) % IN_GROUPS
    labels[5] = 0  # it is of the last group
    found = contradicted(page.answers.features, labels)
    assert found[0][:2] == (5, 2)
    assert contradicted(page.answers.features, torch.arange(60)) == []  # one label each


def test_a_fault_in_an_answer_is_told_and_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Answers(small_labelling(tmp_path, 9).answers.features)
    labels = torch.tensor([0, 1, 2, *[-1] * 6])
    with found.computed():
        with monkeypatch.context() as patch:
            patch.setattr("tamatch.review.answers.in_percent", lambda answer: 1 / 0)
            found.tell(Given(1, 0, ("a", "b", "c"), labels, labels < -5))
            wait_for(lambda: found.shown.get("trouble"))
        found.tell(Given(2, 0, ("a", "b", "c"), labels, labels < -5))
        wait_for(lambda: found.shown["change"] == 2 and not found.shown["trouble"])
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    return dark_and_light(tmp_path / "photos", 2, 6, (12, 12))


def test_what_class_folders_say_is_taken_over(photos: Path) -> None:
    data = load(photos, size=8, loose=True)
    store = LabelFile(photos / "labels.csv")
    take_over(store, data)
    store.set({"unlabelled/0.png": "dark", "unlabelled/1.png": "new"})
    store.set({"unlabelled/2.png": NONE_OF_THESE, "unlabelled/3.png": ""})
    again = load(photos, size=8)
    assert again.classes == ("dark", "light", "new")
    said = {again.files[i]: again.classes[again.labels[i]] for i in again.part("train")}
    assert said == {
        "train/dark/0.png": "dark", "train/dark/1.png": "dark", "train/light/0.png": "light",
        "train/light/1.png": "light", "unlabelled/0.png": "dark", "unlabelled/1.png": "new",
    }  # fmt: skip
    assert {again.files[i] for i in again.part("unlabelled")} == {
        f"unlabelled/{i}.png" for i in (3, 4, 5)
    }
    assert len(again.part("test")) == 4
    assert any('"none of these", left out: 1' in note for note in again.notes)
    reopened = LabelFile(photos / "labels.csv")
    take_over(reopened, load(photos, size=8, loose=True))
    assert "unlabelled/3.png" not in reopened.labels  # what was skipped may be asked for again
    assert reopened.labels["unlabelled/2.png"] == NONE_OF_THESE


def test_folders_are_no_classes_beside_a_table_without_a_label(photos: Path) -> None:
    """Also how a table is left whose last label was undone."""
    trips = photos / "train"
    assert load(trips, size=8, loose=True).classes == ("dark", "light")
    (trips / "labels.csv").write_text("file_name,label\n")
    data = load(trips, size=8, loose=True)
    assert len(data.part("unlabelled")) == 4 and not data.classes
    with pytest.raises(DataError, match="no image listed in"):
        load(trips, size=8)


def test_a_table_beside_the_folder_may_say_it_too(photos: Path) -> None:
    table = photos.parent / "more.csv"
    table.write_text(
        f"file_name,label\nunlabelled/0.png,{NONE_OF_THESE}\ntrain/dark/0.png,{NONE_OF_THESE}\n"
    )
    data = load(photos, size=8, labels=table)
    used = np.concatenate(data.parts)
    assert {data.files[i] for i in np.setdiff1d(np.arange(len(data.files)), used)} == {
        "unlabelled/0.png", "train/dark/0.png",
    }  # fmt: skip


WRITER = """
import json, sys
from pathlib import Path
from tests.review.conftest import small_labelling
from tests.review.test_start import step

page = small_labelling(Path(sys.argv[1]), 50)
for i in range(100_000):
    step(page, i)
    print(json.dumps(page.store.labels), flush=True)
"""


def step(page: Labelling, i: int) -> None:
    """One of all kinds of changes."""
    if i % 7 == 6:
        page.post("/rename", {"before": page.classes[0], "after": f"name {i}"})
    elif i % 7 == 5:
        page.post("/undo", {})
    else:
        label(page, f"class {i % 4}", i % 50, (3 * i) % 50)


def test_kill_9_loses_no_label(tmp_path: Path) -> None:
    for attempt in range(4):
        place = tmp_path / str(attempt)
        place.mkdir()
        words = [sys.executable, "-c", WRITER, str(place)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            confirmed = [process.stdout.readline()]
            time.sleep(0.1 + 0.03 * attempt)
            process.send_signal(signal.SIGKILL)
            confirmed += process.stdout.read().splitlines(keepends=True)
        states = [json.loads(line) for line in confirmed if line.endswith("\n")]
        assert len(states) > 3
        (tmp_path / f"again {attempt}").mkdir()
        page = small_labelling(tmp_path / f"again {attempt}", 50)
        for i in range(len(states)):
            step(page, i)
        assert page.store.labels == states[-1]
        there = LabelFile(place / "labels.csv").labels
        step(page, len(states))  # may be written, not yet confirmed
        assert there in (states[-1], page.store.labels)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "start takes a folder of images, and nowhere is none"),
        (["cifar10"], "cifar10 is fully labelled: `tamatch start` is for your own images"),
        (["."], "contains fewer than 3 images"),
        ([".", "--port", "70000"], "--port must lie in 0 … 65535"),
    ],
)
def test_where_it_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], told: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["start", *words, "--no-browser"]) in (2, 3)
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1


def test_weights_that_are_not_here_are_told_how_to_get(
    photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(photos.parent / "hub"))
    assert main(["start", str(photos), "--no-browser", "--device", "cpu"]) in (2, 3)
    said = capsys.readouterr().err
    assert "are not on this machine" in said and "--weights FILE" in said


def test_a_run_begins_with_the_labels_of_its_folder(
    project: Project, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    with serving("start", str(project.run), "--weights", tiny, "--device", "cpu") as process:
        assert "270 images. " in process.said and "labels.csv: 30 labels." in process.said
        end = process.end(signal.SIGINT)
    assert process.process.returncode == 0
    assert "Train on them: tamatch train --data" in end and "--device cpu" in end
    assert not (project.run.parent / "photos" / "labels.csv").exists()  # nothing was labelled


def test_a_folder_with_all_labels_and_a_table_with_more_columns(
    photos: Path, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(photos / "unlabelled")
    words = ["start", str(photos), "--no-browser", "--weights", tiny]
    assert main(words) == 3
    assert "already have a label" in capsys.readouterr().err
    table = photos / "labels.csv"
    table.write_text("file_name,label,split\ntrain/dark/0.png,dark,train\n")
    assert main(words) == 2
    assert "columns that would be lost: split" in capsys.readouterr().err
    assert not [*photos.glob(".*.lock")]
