"""A run's own data, wherever one stands and wherever they lie, and its scores on other images."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tamatch
from tamatch import cli
from tamatch.data import DataSet
from tamatch.data.splitfile import listed_in
from tamatch.errors import DataError, UsageError
from tamatch.judge.trust import measure
from tamatch.model.evaluate import Evaluation, evaluate
from tamatch.model.export import export
from tamatch.review import command as reviewing
from tamatch.review.server import Server
from tamatch.runs.label import label
from tamatch.settings.config import Run
from tamatch.settings.inputs import data_of
from tests.photos import dark_and_light

TINY = {"steps": 2, "batch": 4, "unlabelled": 4, "net": "wrn_10_1_clean", "size": 8, "quiet": True}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run whose photos and labels were named from its own place; we stand elsewhere."""
    home = tmp_path / "secret home"
    dark_and_light(home / "photos", known=4, unlabelled=6, sides=(12, 12))
    (home / "labels.csv").write_text("file_name,label\nunlabelled/0.png,dark\n")
    monkeypatch.chdir(home)
    tamatch.train("photos", labels="labels.csv", out="runs/first", baseline="none", **TINY)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return home


def rows_of(table: Path) -> dict[str, dict[str, str]]:
    with table.open(newline="") as file:
        return {row["file_name"]: row for row in csv.DictReader(file)}


def test_a_run_s_images_are_found_from_anywhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = home / "runs/first"
    assert label(run, "pool.csv").pool == 5
    assert evaluate(run).lines()[0].endswith(" on 8 test images")
    servers: list[Server] = []
    monkeypatch.setattr(reviewing, "serve", lambda server, **_: servers.append(server))
    reviewing.review(run, browser=False)
    [server] = servers
    server.server_close()
    session = server.session
    assert len(session.files) == 5 and Path(session.data) == home / "photos"
    assert session.store.path == home / "labels.csv"


def test_moved_images_are_named_and_guarded_by_their_hashes(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = home / "runs/first"
    shutil.move(home / "photos", "moved")
    with pytest.raises(UsageError, match=f"{run} was trained on {home / 'photos'}, which no"):
        label(run, "pool.csv")
    assert cli.main(["label", str(run), "--out", "pool.csv", "--data", "moved"]) == 0
    tamatch.label(run, "again.csv", data=Path("moved"))
    assert Path("again.csv").read_bytes() == Path("pool.csv").read_bytes()
    assert "5 unlabelled images now have a label" in capsys.readouterr().out
    for image in Path("moved").glob("*/*/*.png"):
        Image.open(image).rotate(90).save(image)
    for words in (["label", str(run), "--out", "b.csv"], ["review", str(run), "--no-browser"]):
        assert cli.main([*words, "--data", "moved"]) == 3
        assert "has changed since the run" in capsys.readouterr().err


def test_images_may_come_and_go_after_a_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, photos = home / "runs/first", home / "photos"
    Image.new("RGB", (12, 12), "red").save(photos / "unlabelled/new.png")
    (photos / "unlabelled/1.png").unlink()
    Image.new("RGB", (12, 12), "blue").save(photos / "unlabelled/2.png")  # another picture
    shutil.move(photos / "unlabelled/3.png", photos / "train/light/sorted.png")
    told = "Since the run: 2 images are new, and included here; 2 images are missing or changed."

    made = label(run, "pool.csv")
    assert made.lines()[-1] == told
    how = rows_of(made.path)
    pool = {name for name, row in how.items() if row["accepted"] != "given"}
    assert pool == {f"unlabelled/{name}.png" for name in (2, 4, 5, "new")}
    assert how["train/light/sorted.png"]["label"] == "light"
    assert {f"unlabelled/{i}.png" for i in (1, 3)}.isdisjoint(how)

    servers: list[Server] = []
    monkeypatch.setattr(reviewing, "serve", lambda server, **_: servers.append(server))
    reviewing.review(run, browser=False)
    servers[0].server_close()
    assert {*servers[0].session.files} == pool
    assert servers[0].session.given == (5, 5)


def test_what_is_new_is_left_out_where_a_run_drew_its_images(tmp_path: Path) -> None:
    dark_and_light(tmp_path / "photos", known=4, unlabelled=6, sides=(12, 12))
    drawn = {"labels_per_class": 2, "baseline": "none", **TINY}
    tamatch.train(tmp_path / "photos", out=tmp_path / "run", **drawn)
    Image.new("RGB", (12, 12), "red").save(tmp_path / "photos/unlabelled/new.png")
    made = label(tmp_path / "run", tmp_path / "pool.csv")
    assert not made.changes and "unlabelled/new.png" not in rows_of(made.path)


def test_images_are_looked_for_where_the_run_had_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    tamatch.train("digits", root=str(tmp_path / "sets"), out=run, baseline="none", **TINY)
    roots = []

    def noted(run: Run, *rest: Any, **more: Any) -> DataSet:
        roots.append(run.root)
        return data_of(run, *rest, **more)

    monkeypatch.setattr("tamatch.model.load.data_of", noted)
    evaluate(run)
    evaluate(run, root="elsewhere")
    assert roots == [str(tmp_path / "sets"), "elsewhere"]


def test_a_label_taken_back_is_not_replaced_by_another(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that the run learnt from, and whose label is no longer in the table."""
    run = home / "runs/first"
    (home / "labels.csv").write_text("file_name,label\nunlabelled/1.png,light\n")
    rows = rows_of(label(run, "pool.csv").path)
    assert rows["unlabelled/0.png"]["accepted"] != "given"
    decided = rows["unlabelled/1.png"]
    assert (decided["label"], decided["accepted"]) == ("light", "given")
    servers: list[Server] = []
    monkeypatch.setattr(reviewing, "serve", lambda server, **_: servers.append(server))
    reviewing.review(run, browser=False)
    servers[0].server_close()
    session = servers[0].session
    assert session.given == (4, 4) and "unlabelled/0.png" in session.files
    assert session.labels() == {session.files.index("unlabelled/1.png"): 1}


def test_the_model_s_own_labels_are_never_taken_for_given_ones(home: Path) -> None:
    """A table in the data folder is read as data; written again, it must not confirm itself."""
    run, table = home / "runs/first", home / "photos/labels.csv"
    Image.new("RGB", (12, 12), "red").save(home / "photos/unlabelled/new.png")
    first = label(run, table)
    rows = rows_of(table)
    assert (first.pool, first.labelled) == (6, 6) and rows["unlabelled/new.png"]["label"]
    again = label(run, table, min_confidence=1.0, overwrite=True)
    assert (again.pool, again.labelled, again.given) == (6, 0, first.given)
    given = {name for name, row in rows_of(table).items() if row["accepted"] == "given"}
    assert given == {name for name, row in rows.items() if row["accepted"] == "given"}


def test_images_that_a_split_left_out_are_not_new(home: Path) -> None:
    run = home / "runs/drawn"
    tamatch.train(home / "photos", labels_per_class=2, out=run, baseline="none", **TINY)
    (home / "photos/train/dark/0.png").rename(home / "photos/train/dark/renamed.png")
    made = label(run, "pool.csv")
    assert made.lines()[-1].startswith("New labels by class: ")
    assert (made.given, made.pool) == (4, 10)


def test_where_a_run_was_started_stays_with_it(home: Path) -> None:
    run = home / "runs/first"
    assert json.loads((run / "run.json").read_text())["started_in"] == str(home)
    export(run, "safetensors", "exported")
    written = [run / "report.html", run / "result.json", *Path("exported").iterdir()]
    assert not any(home.name.encode() in file.read_bytes() for file in written)


def test_some_of_the_classes_can_be_measured_and_no_others(home: Path) -> None:
    run, some = home / "runs/first", Path("some")
    shutil.copytree(home / "photos/test/light", some / "light")
    found, whole = evaluate(run, "some"), evaluate(run)
    assert evaluate(run, some) == found
    assert found.images == 4 and found.classes == whole.classes == ("dark", "light")
    assert found.lines()[0].endswith(" on 4 labelled images")
    assert found.per_class == [None, whole.per_class[1]]
    assert "  dark: no images" in "\n".join(found.lines())
    shutil.copytree(home / "photos/test/dark", some / "grey")
    with pytest.raises(
        DataError, match="some has the classes grey, which are not among the classes"
    ):
        evaluate(run, "some")


def test_a_run_is_tested_on_what_it_held_out_whatever_has_come_since(tmp_path: Path) -> None:
    photos = dark_and_light(tmp_path / "photos", known=6, unlabelled=4, sides=(12, 12))
    shutil.rmtree(photos / "test")
    done = tamatch.train(
        data=photos, out=tmp_path / "run", baseline="none", validation_per_class=2, **TINY
    )
    before = evaluate(done.path)
    assert (before.images, before.learnt_from, before.gone) == (4, 0, 0)
    assert before.lines()[0].endswith(" on 4 validation images")
    draw = np.random.default_rng(1)
    for kind in ("dark", "light"):
        for i in range(9):
            pixels = draw.integers(0, 255, (12, 12, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(photos / "train" / kind / f"late{i}.png")
    assert evaluate(done.path) == before
    held_out = sorted(listed_in(done.path / "split.csv", "image")["validation"])
    (photos / held_out[0]).unlink()
    fewer = evaluate(done.path)
    assert (fewer.images, fewer.gone) == (3, 1)
    assert fewer.lines()[-1] == (
        "1 of the 4 held-out images of the run are missing or have changed: they are left out here."
    )
    for file in held_out[1:]:
        (photos / file).unlink()
    with pytest.raises(
        DataError, match=r"none of the 4 images that the run held out is unchanged\. Give"
    ):
        evaluate(done.path)


def test_an_evaluation_tells_its_figures_in_words() -> None:
    p = np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.4, 0.6, 0.0]])
    trust = measure(p, np.array([0, 0, 0, 1]))
    found = Evaluation("pets", ("cat", "dog", "owl"), trust, "test", learnt_from=0, gone=0)
    assert found.lines() == [
        "pets: error 25.00 % on 4 test images",
        "accuracy 75.0 %, 95 % confidence interval 30.1 to 95.4 %; mean over classes 83.3 %",
        "mean confidence 75.0 %, expected calibration error 35.0 %",
        "  cat: recall 66.7 % (2 of 3), precision 100.0 % (2 of 2)",
        "  dog: recall 100.0 % (1 of 1), precision 50.0 % (1 of 2)",
        "  owl: no images, precision none (0 of 0)",
    ]
