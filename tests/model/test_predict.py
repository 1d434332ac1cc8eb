"""`tamatch predict` and `Model.predict`: any input and output, in order, in flat memory."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import tamatch
from tamatch import nets
from tamatch.cli import main
from tamatch.errors import DataError, UsageError
from tamatch.model.model import Facts, Model
from tamatch.model.predict import images_below, images_of, output
from tests.processes import environment

CLASSES = ("cat", "=dog", "owl")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder; that its net has learnt nothing does not matter here."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    net = nets.build("wrn_10_1", len(CLASSES), 16)
    Model(Facts("wrn_10_1", CLASSES, 16, (0.5,) * 3, (0.2,) * 3), net).save(folder)
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven images in nested folders, and what is none."""
    folder = tmp_path_factory.mktemp("photos")
    for i, name in enumerate(("b.png", "a.jpg", "in/side/x.png", "in/y.PNG", "z ü.png", "1.gif")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((20 + i, 30, 3), 40 * i, np.uint8)).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden.png").write_bytes((folder / "b.png").read_bytes())
    (folder / "loop").symlink_to(folder)
    return folder


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints, in this process."""

    def call(*words: str | Path) -> str:
        assert main([*map(str, words)]) == 0
        return capsys.readouterr().out

    return call


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(("size", "batches"), [(16, [256, 4]), (64, [64, 64, 64, 64, 4])])
def test_answers_come_in_batches_of_so_many_pixels(size: int, batches: list[int]) -> None:
    """The larger the images, the fewer at once: any number of any size fits in memory."""
    facts = Facts("wrn_10_1", CLASSES, size, (0.5,) * 3, (0.2,) * 3, temperature=2.0)
    model = Model(facts, nets.build("wrn_10_1", len(CLASSES), size).eval())
    images = torch.randint(0, 256, (260, 3, size, size), dtype=torch.uint8)
    p, features = zip(*model.answers(images), strict=True)
    assert [*map(len, p)] == [*map(len, features)] == batches and features[0].shape[1] == 64
    assert torch.equal(torch.cat(p), model.probabilities(images))
    assert not p[0].requires_grad and model.probabilities(images[:0]).shape == (0, len(CLASSES))
    seen = ((images[:3] / 255) - 0.5) / 0.2
    with torch.no_grad():
        want = (model.net(seen).logits / 2.0).softmax(-1)
    torch.testing.assert_close(p[0][:3], want)


def test_folders_are_walked_in_order(photos: Path) -> None:
    found = [os.path.relpath(path, photos) for path in images_below(str(photos))]
    assert found == ["1.gif", "a.jpg", "b.png", "z ü.png", "in/y.PNG", "in/side/x.png"]


def test_files_folders_and_stdin_in_the_order_given(
    model: Path, photos: Path, said: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [str(photos / "b.png"), str(photos / "in"), "-", str(photos / "1.gif")]
    listed = f"{photos / 'z ü.png'}\r\n\n{photos / 'a.jpg'}"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(listed.encode())))
    shown = said("predict", model, *words)
    assert [os.path.relpath(row["path"], photos) for row in rows_of(shown)] == [
        "b.png", "in/y.PNG", "in/side/x.png", "z ü.png", "a.jpg", "1.gif",
    ]  # fmt: skip


def test_names_on_stdin_may_end_with_nul_and_hold_anything() -> None:
    stdin = io.BytesIO(b"a\nb.png\0\xff.png\0last")
    assert [*images_of(["x", "-"], stdin, null=True)] == ["x", "a\nb.png", "\udcff.png", "last"]
    assert [*images_of(["-"], io.BytesIO(b"Icon\r\0"), null=True)] == ["Icon\r"]
    assert [*images_of(["-"], io.BytesIO(b""))] == []


def test_empty_lines_on_stdin_name_nothing_whatever_ends_them() -> None:
    assert [*images_of(["-"], io.BytesIO(b"a.png\r\n\r\n\nb.png"))] == ["a.png", "b.png"]


def test_all_probabilities_or_the_best_few(
    model: Path, photos: Path, said: Callable[..., str]
) -> None:
    image = str(photos / "a.jpg")
    whole = rows_of(said("predict", model, image))[0]
    p = [float(whole[f"p_{name}"]) for name in CLASSES]
    assert sum(p) == pytest.approx(1, abs=1e-5)
    assert float(whole["confidence"]) == max(p)
    best = rows_of(said("predict", model, image, "--top", "2"))[0]
    assert [*best] == ["path", "label", "confidence", "label_2", "confidence_2"]
    assert float(best["confidence_2"]) == sorted(p)[-2]
    assert (
        best["label"]
        == whole["label"]
        == ("'" if p.index(max(p)) == 1 else "") + CLASSES[p.index(max(p))]
    )


def test_json_lines(model: Path, photos: Path, tmp_path: Path, said: Callable[..., str]) -> None:
    words = ["predict", str(model), str(photos), "--format", "jsonl"]
    rows = [json.loads(line) for line in said(*words).splitlines()]
    assert len(rows) == 6 and rows[0].keys() == {"path", "label", "confidence", "probabilities"}
    for row in rows:
        assert row["probabilities"].keys() == {*CLASSES} and Path(row["path"]).exists()
        assert row["probabilities"][row["label"]] == row["confidence"]
    out = tmp_path / "out.jsonl"
    said(*words, "--top", "9", "--out", out)
    top = [json.loads(line) for line in out.read_text().splitlines()]
    assert [list(row["top"].values()) for row in top] == [
        sorted(row["probabilities"].values(), reverse=True) for row in rows
    ]
    first = json.loads(said(*words, "--top", "1").splitlines()[0])
    assert first["top"] == {rows[0]["label"]: rows[0]["confidence"]}


def test_python_and_the_command_agree(model: Path, photos: Path, said: Callable[..., str]) -> None:
    files = [*images_below(str(photos))]
    found = tamatch.load(model).predict(files)
    rows = rows_of(said("predict", model, photos))
    told = [[float(row[f"p_{name}"]) for name in CLASSES] for row in rows]
    assert np.allclose(found.probabilities, told, atol=1e-6)
    assert found.label == [row["label"].removeprefix("'") for row in rows]
    assert [pair[0] for pair in (best[0] for best in found.top(1))] == found.label


def test_what_cannot_be_read_is_told_and_the_rest_is_written(
    model: Path, photos: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "broken.png").write_bytes(b"no image")
    out = tmp_path / "out.csv"
    listed = f"{photos / 'b.png'}\n{tmp_path / 'broken.png'}\n{tmp_path / 'gone.png'}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(listed.encode())))
    assert main(["predict", str(model), "-", "--csv", str(out)]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("broken.png is left out: not an image in the formats JPEG, PNG, WEBP, "
                             "BMP, TIFF, GIF")  # fmt: skip
    assert lines[1].endswith("gone.png is left out: No such file or directory")
    assert lines[2] == (
        "tamatch: 2 of 3 images could not be read; see above. The others were written."
    )
    assert [row["path"] for row in rows_of(out.read_text())] == [str(photos / "b.png")]


@pytest.mark.parametrize("broken", [False, True])
def test_no_table_is_left_if_there_was_nothing_to_write(
    model: Path, tmp_path: Path, *, broken: bool
) -> None:
    images, out = tmp_path / "images", tmp_path / "new" / "out.csv"
    images.mkdir()
    if broken:
        (images / "broken.png").write_bytes(b"no image")
    assert main(["predict", str(model), str(images), "--csv", str(out)]) == 3
    assert not out.parent.exists()


def test_a_pipe_is_told_not_waited_for(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (20, 20)).save(tmp_path / "a.png")
    os.mkfifo(tmp_path / "pipe.jpg")
    assert main(["predict", str(model), str(tmp_path)]) == 3
    told = capsys.readouterr()
    assert "pipe.jpg is left out: not a file" in told.err and "a.png," in told.out


def test_photos_in_a_format_that_is_not_read_are_told_too(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    assert main(["predict", str(model), str(tmp_path)]) == 3
    told = capsys.readouterr().err
    assert "phone.HEIC is left out: unsupported format: convert it to JPEG or PNG" in told
    assert "1 of 1 images could not be read" in told


@pytest.mark.parametrize("name", ["notes.txt", "broken.png"])
def test_without_an_image_the_screen_has_no_header(
    name: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text("no picture")
    assert main(["predict", str(model), str(tmp_path)]) == 3
    assert capsys.readouterr().out == ""


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    place = tmp_path / "out.csv"
    with pytest.raises(RuntimeError), output(place, sys.stdout, overwrite=False) as file:
        file.write("half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with output(place, sys.stdout, overwrite=False) as file:
        file.write("whole")
        assert not place.exists()
    assert place.read_text() == "whole"
    with (
        pytest.raises(UsageError, match="already exists"),
        output(place, sys.stdout, overwrite=False),
    ):
        pass
    with output(place, sys.stdout, overwrite=True) as file:
        file.write("new")
    assert place.read_text() == "new"


def test_a_missing_folder_is_made_and_not_left_empty(tmp_path: Path) -> None:
    place = tmp_path / "new" / "deep" / "out.csv"
    with pytest.raises(RuntimeError), output(place, sys.stdout, overwrite=False):
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with output(place, sys.stdout, overwrite=False) as file:
        file.write("whole")
    assert place.read_text() == "whole"


def test_a_terminal_sees_a_bar_and_the_rows_stay_clean(
    model: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    master, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as tty:
        monkeypatch.setattr(sys, "stderr", tty)
        assert main(["predict", str(model), str(photos)]) == 0
        print("the end", file=tty, flush=True)  # or there might be nothing to read
        seen = os.read(master, 100_000).decode(errors="replace")
    os.close(master)
    assert "predicting" in seen
    assert len(rows_of(capsys.readouterr().out)) == 6


@pytest.mark.slow
def test_memory_does_not_grow_with_the_images(model: Path, tmp_path: Path) -> None:
    """The peak of 3,000 large photographs is that of 300."""
    Image.fromarray(np.zeros((800, 1000, 3), np.uint8)).save(tmp_path / "photo.jpg")
    code = (
        "import resource, sys; from tamatch.cli import main; main(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )

    def peak(images: int) -> int:
        done = subprocess.run(
            [sys.executable, "-c", code, "predict", str(model), "-", "--out", str(tmp_path / "o"),
             "--overwrite"],
            input=f"{tmp_path / 'photo.jpg'}\n" * images, capture_output=True, text=True,
            env=environment(), check=True,
        )  # fmt: skip
        return int(done.stderr)

    few, many = peak(300), peak(3000)
    assert many - few < 30 * 1024  # KiB; one photograph has 2,400


def image(shape: tuple[int, ...], kind: Any = np.uint8) -> np.ndarray:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return pixels if kind == np.uint8 else (pixels / 255).astype(kind)


def test_one_image_or_many_of_any_kind(model: Path, photos: Path) -> None:
    clf = tamatch.load(model)
    pixels = image((16, 16, 3))
    want = clf.predict([pixels]).probabilities
    assert want.shape == (1, 3)
    picture = Image.fromarray(pixels)
    for one in (pixels, picture, [picture], pixels[None], image((16, 16, 3), np.float32)):
        assert np.allclose(clf.predict(one).probabilities, want, atol=1e-6)
    assert len(clf.predict(str(photos / "a.jpg"))) == len(clf.predict(photos / "a.jpg")) == 1
    grey = image((2, 16, 16))
    assert np.array_equal(
        clf.predict(grey).probabilities, clf.predict([*grey[..., None]]).probabilities
    )
    colours = np.repeat(grey[0][..., None], 3, -1)
    assert np.array_equal(clf.predict(grey[0]).probabilities, clf.predict(colours).probabilities)
    assert len(clf.predict(picture.convert("CMYK"))) == len(clf.predict(picture.convert("F"))) == 1
    assert len(clf.predict([])) == 0 and clf.predict([]).label == []
    assert len(clf.predict(path for path in [photos / "a.jpg"] * 3)) == 3


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_tensors_have_their_colours_first(model: Path, channels: int) -> None:
    clf, pixels = tamatch.load(model), image((2, 16, 20, channels))
    want = clf.predict(pixels).probabilities
    tensors = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    for same in (tensors, [*tensors], tensors / 255, (tensors / 255).requires_grad_()):
        assert np.allclose(clf.predict(same).probabilities, want, atol=1e-6)
    assert np.array_equal(
        clf.predict(tensors[0]).probabilities, clf.predict(pixels[0]).probabilities
    )


def test_features_are_what_the_last_layer_sees(model: Path, photos: Path) -> None:
    clf = tamatch.load(model)
    images = [*image((300, 16, 16, 3)), photos / "a.jpg"]  # more than a batch
    seen = clf.features(images)
    assert seen.shape == (301, 64) and clf.features([]).shape == (0, 64)
    logits = torch.from_numpy(seen) @ clf.net.head.weight.T + clf.net.head.bias
    p = logits.detach().softmax(-1).numpy()
    assert np.allclose(p, clf.predict(images).probabilities, atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (7, "a model takes file names, Pillow images, .* of pixels, or a list .* got int"),
        ([None], "a model takes file names, Pillow images, .* tensors of pixels; got NoneType"),
        (torch.zeros(16, 16, 3), r"must be \(1, H, W\), .* got \(16, 16, 3\)"),
        (torch.zeros(2, 16, 16, 3), r"must be \(1, H, W\), .* got \(16, 16, 3\)"),
        (torch.zeros(3, 16, 16, dtype=torch.int64), "must be bytes .* got int64"),
        ([image((4, 4, 5))], r"must be \(H, W\), .* got \(4, 4, 5\)"),
        (image((4, 4, 3)).astype(np.int64), "must be bytes .* got int64"),
        (image((4, 4, 3), np.float64) * 255, "floats in 0 … 1; got float64"),
    ],
)
def test_what_is_no_image_is_a_usage_error(model: Path, wrong: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tamatch.load(model).predict(wrong)


def test_an_unreadable_image_is_an_error_in_python(model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"x\.png cannot be read: the file is empty\."):
        tamatch.load(model).predict(tmp_path / "x.png")
