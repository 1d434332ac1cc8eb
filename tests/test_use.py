"""A run's own data, wherever one stands and wherever they lie, and its marks on other images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tamatch
from tamatch import cli
from tamatch.apply.export import export
from tamatch.apply.label import label
from tamatch.apply.use import evaluate
from tamatch.data.splitfile import listed_in
from tamatch.errors import DataError, UsageError
from tamatch.review import command as reviewing
from tamatch.review.server import Server
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
    assert "5 unlabelled images now have a label" in capsys.readouterr().out
    shutil.copy("moved/unlabelled/1.png", "moved/unlabelled/2.png")
    for words in (["label", str(run), "--out", "b.csv"], ["review", str(run), "--no-browser"]):
        assert cli.main([*words, "--data", "moved"]) == 3
        assert "the image unlabelled/2.png has changed since" in capsys.readouterr().err


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
    assert found.images == 4 and found.classes == whole.classes == ("dark", "light")
    assert found.lines()[0].endswith(" on 4 labelled images")
    assert found.marks.per_class == [None, whole.marks.per_class[1]]
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
