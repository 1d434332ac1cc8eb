"""From a run folder to a session: which images are asked for, and what is refused first."""

from __future__ import annotations

import io
import json
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tamatch
from tamatch import cli
from tamatch.data import load, read_split
from tamatch.review.command import label_file
from tamatch.review.picking import survey
from tamatch.review.session import SIDE, Pictures, headline
from tamatch.settings.configure import configure, stored_config
from tamatch.settings.inputs import data_of
from tamatch.storage.folder import RunFolder
from tests.data.pictures import picture
from tests.report.test_verdict import FACTS
from tests.review.browser import reviewing
from tests.review.conftest import Project


def test_the_pool_alone_is_asked_for(project: Project) -> None:
    folder = RunFolder(project.run)
    data, model = data_of(stored_config(folder), size=8), tamatch.load(project.run)
    split = read_split(folder.split, data)
    found = survey(model, data, split)
    assert {data.files[i] for i in found.images} == project.truth.keys()
    p = model.predict(data.images[found.images]).probabilities
    assert np.allclose(found.probabilities, p, atol=1e-5)


def test_the_headline_has_the_figures_of_the_run() -> None:
    assert headline(FACTS, replace(FACTS, error_last=9.3)) == [
        ("test error", "2.0 %"),
        ("without the unlabelled images", "9.3 %"),
        ("accuracy of the worst class, b", "97.0 %"),
        ("unlabelled images used", "70.0 %"),
    ]
    assert headline(replace(FACTS, error_last=None), FACTS) == [("error", "not measured")]
    assert len(headline(FACTS, replace(FACTS, error_last=None))) == 3


def test_the_process_says_where_and_what_next(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(f"file_name,label\n{next(iter(project.truth))},3\n")
    with reviewing(project.run, path) as review:
        assert f"240 unlabelled images. {path}: 1 label." in review.said
        assert review.address.startswith("http://127.0.0.1:")
        end = review.end(signal.SIGINT)
    assert "Train on them: tamatch train --data" in end and review.process.returncode == 0


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (None, "is not a folder"),
        ({"config": {"data": "digits"}}, "digits is already fully labelled"),
        ({"config": {"data": "nowhere"}}, "no model yet. If the run is unfinished"),
    ],
)
def test_what_cannot_be_reviewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record: object, told: str
) -> None:
    if record is not None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    assert cli.main(["review", str(tmp_path / "run"), "--no-browser"]) == 2
    assert told in capsys.readouterr().err


def test_wrong_ports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["review", str(tmp_path), "--port", "70000"]) == 2
    assert "--port must lie in 0 … 65535" in capsys.readouterr().err


def test_pictures_are_as_large_as_the_file_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    photos = tmp_path / "photos"
    for name, size in (("a/large.jpg", (900, 600)), ("b/medium.png", (200, 100))):
        (photos / name).parent.mkdir(parents=True)
        picture(*size).save(photos / name)
    picture(24, 24).save(photos / "a" / "tiny.png")
    data = load(photos, size=32)
    shown = Pictures(data, np.arange(3), photos)
    sizes = {data.files[i]: Image.open(io.BytesIO(shown.of(i)[1])).size for i in range(3)}
    assert sizes == {
        "a/large.jpg": (SIDE, SIDE), "b/medium.png": (100, 100), "a/tiny.png": (32, 32),
    }  # fmt: skip
    (photos / "a" / "large.jpg").write_bytes(b"no longer a picture")
    again = Pictures(data, np.arange(3), photos)
    assert Image.open(io.BytesIO(again.of(data.files.index("a/large.jpg"))[1])).size == (32, 32)


def test_a_run_with_labels_goes_on_with_its_own_file() -> None:
    fresh, later = configure({"data": "photos"}), configure({"data": "photos", "labels": "b.csv"})
    assert label_file(None, fresh) == Path("labels.csv")
    assert label_file(None, later) == Path("b.csv")
    assert label_file(Path("c.csv"), later) == Path("c.csv")
