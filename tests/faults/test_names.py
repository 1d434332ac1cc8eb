"""Names that look alike are different names: a label never goes to the other image."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tamatch.data import DataSet, SplitPlan, load, make_split, read_split, write_split
from tamatch.data.labels import read_table, with_labels
from tamatch.model.model import Predictions
from tamatch.model.predict import csv_rows
from tamatch.review.session import Pictures
from tamatch.review.store import LabelFile
from tamatch.storage.spreadsheet import original, printable
from tests.data.pictures import put

BREAK, BACKSLASH = "a\nb", "a\\nb"
NUMBER = "a\\x0ab"  # how a line break is written
confusable = st.text(st.sampled_from("\\nx0aU' =\n\r\t\x85ä\u0308\udcff"), min_size=1, max_size=9)
any_bytes = st.binary(min_size=1, max_size=60).map(os.fsdecode)
names = (confusable | any_bytes).filter(
    lambda name: not set(name) & {"/", "\0"} and not name.startswith((".", "__MACOSX"))
)


@given(st.text() | confusable | any_bytes)
@example(BREAK)
@example(BACKSLASH)
@example(NUMBER)
@example("\\" + BREAK)
def test_a_name_comes_back_from_how_it_is_shown(name: str) -> None:
    shown = printable(name)
    assert original(shown) == name
    assert shown.isprintable() and shown.strip() == shown


def test_ordinary_backslashes_stay_as_they_are() -> None:
    assert printable("photos\\new\\1.png") == "photos\\new\\1.png"
    assert [printable(name) for name in (BREAK, BACKSLASH, NUMBER)] == [
        "a\\x0ab", "a\\nb", "a\\\\x0ab"
    ]  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(names, min_size=2, max_size=5, unique=True))
@example([BREAK, BACKSLASH, NUMBER])
@example([" a", "a", "'a", "''a", "=a"])
def test_each_of_any_names_keeps_its_label(stems: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        folder = Path(place)
        patch.setenv("TAMATCH_CACHE", str(folder / "cache"))
        photos = photos_named(folder / "photos", stems)
        data = load(photos)
        assert len(set(data.files)) == len(data.files)
        shades = data.images[:, 0, 0, 0]
        wanted = {f: f"class{shades[i] // 40}" for i, f in enumerate(data.files)}
        store = LabelFile(folder / "labels.csv", str(photos))
        for file in data.files:  # as a person who reviews them
            store.set({file: wanted[file]})
        assert LabelFile(store.path, str(photos)).labels == wanted
        labelled = with_labels(data, store.path, photos)
        assert {f: data.classes[c] for f, c in zip(data.files, labelled.labels, strict=True)} == (
            wanted
        )
        whole = make_split(labelled, SplitPlan())
        write_split(folder / "split.csv", labelled, whole)
        assert read_split(folder / "split.csv", labelled).labelled.tolist() == (
            whole.labelled.tolist()
        )
        seen_as_predicted(data, photos, folder / "predicted.csv")


def photos_named(photos: Path, stems: list[str]) -> Path:
    for i, stem in enumerate(stems):
        put(photos / f"class{i}" / "1.png", 40 * i)  # so that the class exists
        put(photos / "unlabelled" / f"{stem}.png", 40 * i, (300, 300))
    return photos


def seen_as_predicted(data: DataSet, photos: Path, table: Path) -> None:
    """The table of `predict` names the files, and the review page shows each one's own picture."""
    paths = [str(photos / original(file)) for file in data.files]
    text = io.StringIO()
    every = np.eye(len(data.classes), dtype=np.float32)[[0] * len(paths)]
    csv_rows(text, data.classes, 1)(paths, Predictions(data.classes, every))
    table.write_text(text.getvalue(), encoding="utf-8")
    assert [row.name for row in read_table(table, str(photos))] == [
        os.path.relpath(path, photos) for path in paths
    ]
    pictures = Pictures(data, np.arange(len(paths)), photos)
    for i in range(len(paths)):
        pixels = pictures._from_file(i)
        assert pixels is None or abs(int(pixels[0, 0, 0]) - int(data.images[i, 0, 0, 0])) < 4


def test_a_table_written_before_numbers_is_understood(tmp_path: Path) -> None:
    put(tmp_path / f"{BREAK}.png")
    table = tmp_path / "labels.csv"
    table.write_text("file_name,label\na\\nb.png,cat\n")
    assert [row.name for row in read_table(table)] == [f"{BREAK}.png"]
    put(tmp_path / f"{BACKSLASH}.png")
    assert [row.name for row in read_table(table)] == [f"{BACKSLASH}.png"]
