"""Resumed under other conditions, a run is refused or says so: it never changes in silence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tamatch
from tamatch.data import Split
from tamatch.errors import DataError, TamatchError, UsageError
from tamatch.machine.precision import restoring_threads
from tamatch.runs import start
from tamatch.step.engine import Engine
from tamatch.storage import checkpoint
from tests.data.pictures import put
from tests.faults.runs import DOZEN, arrays, crash_at, own_folder, unseal
from tests.processes import fingerprint

FOLDER = {"size": 16}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The end of a run on the digits that nothing happened to."""
    run = tmp_path_factory.mktemp("whole") / "run"
    tamatch.train(out=run, quiet=True, **DOZEN)
    return fingerprint(run)


def edit(run: Path, **settings: Any) -> None:
    record = json.loads((run / "run.json").read_text())
    record["config"].update(settings)
    (run / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"lr": 0.3}, "lr was 0.03, now it is 0.3"),
        ({"steps": 24}, "steps was 12, now it is 24"),
        ({"seed": 1}, "split.csv"),
        ({"batch": 5, "ema": 0.5}, "batch was 4, now it is 5; ema was 0.9, now it is 0.5"),
        ({"options": {"tau": 0.5}}, "options was"),
    ],
)
def test_an_edited_configuration_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], told: str
) -> None:
    """By the seal of run.json and, where that is of version 1, by the checkpoint."""
    run = crash_at(6, monkeypatch, tmp_path / "run")
    before = (run / "metrics.jsonl").read_bytes()
    edit(run, **settings)
    name, value = next(iter(settings.items()))
    with pytest.raises(TamatchError, match=re.escape(f"config.{name} is {json.dumps(value)}, ")):
        tamatch.resume(run, quiet=True)
    unseal(run / "run.json")
    with pytest.raises(TamatchError, match=told):
        tamatch.resume(run, quiet=True)
    assert (run / "metrics.jsonl").read_bytes() == before


def test_settings_of_the_machine_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, Any]
) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")
    edit(run, device="auto", root=str(tmp_path), images="stream")
    tamatch.resume(run, quiet=True)
    assert fingerprint(run) == whole


def test_other_versions_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, Any]
) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("tamatch.runs.record.__version__", "9.8")
        patch.setattr(torch, "__version__", "9.9")
        tamatch.resume(run, quiet=True)
    log = (run / "log.txt").read_text()
    assert (
        f"version of tamatch has changed since the checkpoint, from {tamatch.__version__} to" in log
    )
    assert f"version of torch has changed since the checkpoint, from {torch.__version__} to" in log
    assert fingerprint(run) == whole


def test_the_same_conditions_are_not_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, Any]
) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")
    tamatch.resume(run, quiet=True)
    log = run / "log.txt"
    assert not log.exists() or "has changed" not in log.read_text()  # there was nothing to say
    assert fingerprint(run) == whole


def test_another_device_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")
    newest = checkpoint.saved_in(run / "checkpoints")[-1]
    state = checkpoint.load(newest)
    state["conditions"]["device"] = "NVIDIA H200"
    checkpoint.save(run / "checkpoints", 4, state)
    tamatch.resume(run, quiet=True)
    assert (
        "device has changed since the checkpoint, from NVIDIA H200 to"
        in (run / "log.txt").read_text()
    )


def test_an_edited_method_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own.py"
    own.write_text("from tamatch.methods.fixmatch import FixMatch\n\nclass Own(FixMatch): pass\n")
    run = crash_at(6, monkeypatch, tmp_path / "run", method=f"{own}:Own")
    own.write_text(own.read_text() + "# a thought\n")
    tamatch.resume(run, quiet=True)
    log = (run / "log.txt").read_text()
    assert "file of the method has changed" in log
    assert "The run continues with the new code." in log and "last bits" not in log


def test_a_method_that_was_moved_is_not_told_as_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, moved = tmp_path / "own.py", tmp_path / "moved.py"
    own.write_text("from tamatch.methods.fixmatch import FixMatch\n\nclass Own(FixMatch): pass\n")
    run = crash_at(6, monkeypatch, tmp_path / "run", method=f"{own}:Own")
    own.rename(moved)
    tamatch.resume(run, method=f"{moved}:Own", quiet=True)
    log = run / "log.txt"
    assert not log.exists() or "has changed" not in log.read_text()


def test_the_number_of_threads_is_that_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, Any]
) -> None:
    """What the user has set since is there again afterwards, for the next run to start with."""
    seen: set[int] = set()
    learn = Engine.advance

    def advance(engine: Engine) -> None:
        seen.add(torch.get_num_threads())
        learn(engine)

    with restoring_threads():
        torch.set_num_threads(1)
        run = crash_at(6, monkeypatch, tmp_path / "run", threads=None)
        torch.set_num_threads(2)
        monkeypatch.setattr(Engine, "advance", advance)
        tamatch.resume(run, quiet=True)
        assert seen == {1} and torch.get_num_threads() == 2
    assert fingerprint(run) == whole


def test_a_checkpoint_of_another_kind_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")
    state = checkpoint.load(checkpoint.saved_in(run / "checkpoints")[-1])
    del state["engine"]["guard"]
    checkpoint.save(run / "checkpoints", 4, state)
    with pytest.raises(DataError, match="do not match this version"):
        tamatch.resume(run, quiet=True)


def add_labelled(photos: Path) -> None:
    for i in range(3):
        put(photos / "train" / "dark" / f"new{i}.png", 200 + i)


def add_unlabelled(photos: Path) -> None:
    put(photos / "train" / "unlabelled" / "new.png", 3)


def replace_labelled(photos: Path) -> None:
    put(photos / "train" / "dark" / "0.png", 99)


def rename_labelled(photos: Path) -> None:
    (photos / "train" / "dark" / "0.png").rename(photos / "train" / "dark" / "zero.png")


def swap_labels(photos: Path) -> None:
    train = photos / "train"
    one, other = (train / name / "0.png" for name in ("dark", "light"))
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def rename_class(photos: Path) -> None:
    for part in ("train", "test"):
        (photos / part / "dark").rename(photos / part / "gloomy")


def reorder_classes(photos: Path) -> None:
    for part in ("train", "test"):
        (photos / part / "dark").rename(photos / part / "zebra")


def swap_test_images(photos: Path) -> None:
    put(photos / "test" / "light" / "0.png", 1)


def remove_test_image(photos: Path) -> None:
    (photos / "test" / "light" / "0.png").unlink()


CHANGES: dict[Callable[[Path], None], str] = {
    add_labelled: "split.csv lists 8 labelled images, now there are 11",
    add_unlabelled: "split.csv lists 16 unlabelled images, now there are 17",
    replace_labelled: "the image train/dark/0.png has changed since",
    rename_labelled: "lists train/dark/0.png, which is no longer in photos",
    swap_labels: "the image train/dark/0.png has changed since",
    rename_class: r"the classes were \['dark', 'light'\], now they are \['gloomy', 'light'\]",
    reorder_classes: r"the classes were \['dark', 'light'\], now they are \['light', 'zebra'\]",
    swap_test_images: "the image test/light/0.png has changed since",
    remove_test_image: (
        r"split.csv lists 4 test images, now there are 3 \(.*lists test/light/0.png, which is no"
    ),
}


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (
            "a.png,light\nb.png,dark\nc.png,dark\nd.png,\ne.png,\n",
            "lists different labelled images",
        ),
        (
            "a.png,dark\nb.png,light\nc.png,light\nd.png,\ne.png,\n",
            "lists different labelled images",
        ),
        ("a.png,dark\nb.png,light\nc.png,\nd.png,\ne.png,\n", "labelled images, now there are 2"),
        ("a.png,dark\nb.png,light\nc.png,mid\nd.png,\ne.png,\n", "the classes were"),
    ],
    ids=["swapped", "one other", "one less", "a new class"],
)
def test_an_edited_table_of_labels_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: str, told: str
) -> None:
    photos = tmp_path / "photos"
    for shade, name in enumerate("abcde"):
        put(photos / f"{name}.png", 40 * shade)
    table = photos / "labels.csv"
    table.write_text("file_name,label\na.png,dark\nb.png,light\nc.png,dark\nd.png,\ne.png,\n")
    run = crash_at(6, monkeypatch, tmp_path / "run", data=str(photos), **FOLDER)
    table.write_text(f"file_name,label\n{edit}")
    with pytest.raises(DataError, match=f"cannot resume {run}: .*{told}"):
        tamatch.resume(run, quiet=True)


def test_data_that_are_not_found_from_here_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my project").mkdir()
    monkeypatch.chdir(tmp_path / "my project")
    photos = own_folder(Path("photos"))
    run = crash_at(6, monkeypatch, tmp_path / "run", data="photos", **FOLDER)
    monkeypatch.chdir(tmp_path)
    for go_on in (tamatch.resume, tamatch.resume_seeds):
        with pytest.raises(UsageError, match="run reads photos, which is not found from here"):
            go_on(run, quiet=True)
    monkeypatch.chdir(tmp_path / "my project")
    photos.rename("gone")
    with pytest.raises(UsageError, match="my project/photos, which no longer exists"):
        tamatch.resume(run, quiet=True)
    Path("gone").rename("photos")
    tamatch.resume(run, quiet=True)
    monkeypatch.chdir(tmp_path)
    tamatch.resume(run, quiet=True)  # a finished run needs no data


@pytest.mark.sample(4)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_data_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    photos = own_folder(tmp_path / "photos")
    run = crash_at(6, monkeypatch, tmp_path / "run", data=str(photos), **FOLDER)
    before = (run / "split.csv").read_bytes()
    change(photos)
    with pytest.raises(DataError, match=f"cannot resume {run}: .*{CHANGES[change]}"):
        tamatch.resume(run, quiet=True)
    assert (run / "split.csv").read_bytes() == before
    shutil.rmtree(photos)
    own_folder(photos)  # what was there comes back
    tamatch.resume(run, quiet=True)


def test_the_labelled_set_cannot_be_drawn_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if another version draws other labels from the same data with the same seed."""
    run = crash_at(6, monkeypatch, tmp_path / "run")
    whole = start.split_of

    def other(*given: Any) -> Split:
        split = whole(*given)
        return Split(split.labelled[::-1].copy(), split.unlabelled, split.validation, split.test)

    monkeypatch.setattr(start, "split_of", other)
    with pytest.raises(DataError, match="lists different labelled images than are drawn now"):
        tamatch.resume(run, quiet=True)


def test_an_edited_split_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")
    lines = (run / "split.csv").read_text().splitlines(keepends=True)
    (run / "split.csv").write_text("".join([lines[0], *lines[2:]]))
    with pytest.raises(DataError, match="lists different labelled images"):
        tamatch.resume(run, quiet=True)


def test_other_class_names_of_arrays_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of the classes stay 0 and 1, their names change."""
    images = np.random.default_rng(0).integers(0, 255, (12, 8, 8, 3), np.uint8)
    file = arrays(tmp_path / "a.npz", images, [3, 3, 7, 7, -1, -1, -1, -1], [3, 3, 7, 7])
    run = crash_at(6, monkeypatch, tmp_path / "run", data=str(file), size=8)
    arrays(tmp_path / "a.npz", images, [4, 4, 7, 7, -1, -1, -1, -1], [4, 4, 7, 7])
    with pytest.raises(DataError, match=r"the classes were \['3', '7'\]"):
        tamatch.resume(run, quiet=True)
