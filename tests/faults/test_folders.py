"""Folders that change, are slow, may not be written to, or bear names made to do harm."""

from __future__ import annotations

import csv
import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import tamatch
from tamatch import cli
from tamatch.data import folder as own_images
from tamatch.data import load
from tamatch.errors import DataError
from tests.data.pictures import picture, put, saved
from tests.faults.disk import Disk
from tests.faults.runs import ANY_DATA, own_folder, soon, words_of
from tests.processes import environment, wait_for

ROUNDS = 30
WORDS = words_of(ANY_DATA)
SLOW = """
import sys, time
from pathlib import Path
from tamatch import cli
from tamatch.data import decode
whole = decode.decode_bytes

def slow(file, *given):
    Path({sign!r}).touch()
    time.sleep(0.1)
    return whole(file, *given)

from tamatch.data import bulk
bulk.decode_bytes = slow
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_files_that_vanish_between_listing_and_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = own_folder(tmp_path / "photos")
    whole = own_images.decode_all

    def late(files: Any, *given: Any, **named: Any) -> Any:
        (photos / "train" / "dark" / "0.png").unlink()
        (photos / "train" / "dark" / "1.png").write_bytes(b"half a")
        put(photos / "train" / "dark" / "new.png")
        return whole(files, *given, **named)

    monkeypatch.setattr(own_images, "decode_all", late)
    data = load(photos, size=8)
    assert {name for name, _ in data.skipped} == {"train/dark/0.png", "train/dark/1.png"}
    assert "train/dark/new.png" not in data.files and "train/dark/2.png" in data.files


def test_a_folder_that_changes_all_the_time(tmp_path: Path, record_property: Any) -> None:
    """Each image that is read has the label of the folder it was in, and the shade of its name."""
    photos, stop, choose = tmp_path / "photos", threading.Event(), random.Random(0)
    for shade in range(0, 250, 10):
        put(photos / ("dark" if shade < 125 else "light") / f"{shade}.png", shade, (8, 8))

    def change() -> None:
        while not stop.is_set():
            shade = choose.randrange(0, 250, 10)
            path = photos / ("dark" if shade < 125 else "light") / f"{shade}.png"
            if path.exists():
                path.unlink()
            else:
                put(path, shade, (8, 8))
            time.sleep(0.0005)

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(ROUNDS):
            data = load(photos, size=8)
            for file, image, label in zip(data.files, data.images, data.labels, strict=True):
                shade = int(Path(file).stem)
                assert image[0, 0, 0] == shade and label == int(shade >= 125)
    finally:
        stop.set()
        other.join()
    record_property("tries", ROUNDS)


def state(folder: Path) -> dict[str, tuple[int, int]]:
    paths = (folder, *folder.rglob("*"))
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in paths}


def test_the_user_s_folder_is_only_read(tmp_path: Path) -> None:
    photos = own_folder(tmp_path / "photos")
    (photos / "train" / "dark" / "broken.png").write_bytes(b"no image")
    before = state(photos)
    tamatch.train(out=tmp_path / "run", quiet=True, data=str(photos), size=8, **ANY_DATA)
    assert cli.main(["check", str(photos)]) in (0, 3)
    assert state(photos) == before


@pytest.mark.parametrize("kind", [errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_run_folder_that_may_not_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: int
) -> None:
    def refuse() -> None:
        raise OSError(kind, os.strerror(kind))

    with Disk(refuse, 0).inserted():
        assert cli.main(["train", "--out", str(tmp_path / "run"), *WORDS]) == 3
    message = capsys.readouterr().err
    assert f"cannot be written: {os.strerror(kind)}" in message and "Traceback" not in message


def slow_process(tmp_path: Path, photos: Path) -> subprocess.Popen[str]:
    """One that has begun to read a folder as slow as one far away."""
    sign = tmp_path / "reading"
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(sign=str(sign)), "train", "--data", str(photos),
         "--out", str(tmp_path / "run"), "--size", "8", *WORDS],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    wait_for(lambda: sign.exists() or process.poll() is not None)
    return process


@pytest.mark.slow
def test_a_slow_folder_is_waited_for(tmp_path: Path) -> None:
    process = slow_process(tmp_path, own_folder(tmp_path / "photos"))
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_slow_folder_can_be_left(tmp_path: Path, own_cache: Path, number: signal.Signals) -> None:
    """While images are read there is nothing to save yet: the same command begins again."""
    photos = own_folder(tmp_path / "photos")
    process = slow_process(tmp_path, photos)
    began = time.monotonic()
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert time.monotonic() - began < soon() and process.returncode != 0
    assert "Traceback" not in error
    entries = list(own_cache.iterdir()) if own_cache.exists() else []
    assert all(e.name.startswith("building-") for e in entries)  # no entry that seems complete
    words = ["--data", str(photos), "--out", str(tmp_path / "run"), "--size", "8", *WORDS]
    assert cli.main(["train", *words, "--overwrite"]) == 0


HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "=cmd|' /C calc'!A0", "+1",
    "-2", "@x", "line\nbreak", "\x1b[31mred", "{{ 7 * 7 }}", "x" * 250, "ä" * 120, "..", "%s",
    "a,b;c\td", "'quoted", "\u202eevil", "\udcff\udcfe",
]  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Seen(HTMLParser):
    """Which elements and attributes a page really has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def hostile_folder(place: Path) -> Path:
    """Half of the names are classes, all of them are files."""
    content = saved(picture(), "PNG").getvalue()
    usable = [name.replace("/", "\u2215") if name != ".." else "..." for name in HOSTILE]
    classes = usable[::2]
    for i, name in enumerate(usable):
        for part, label in (("train", classes[i % len(classes)]), ("train", "unlabelled")):
            folder = place / part / label
            folder.mkdir(parents=True, exist_ok=True)
            stem = name.encode(errors="surrogateescape")[:240].decode(errors="surrogateescape")
            (folder / f"{stem}.png").write_bytes(content)
        test = place / "test" / classes[i % len(classes)]
        test.mkdir(parents=True, exist_ok=True)
        (test / f"{i}.png").write_bytes(content)
    (place / "train" / classes[0] / "=broken.png").write_bytes(b"=1+1")
    return place


def test_hostile_names_go_through_a_whole_run(tmp_path: Path) -> None:
    place = tmp_path / "place"
    photos, run = hostile_folder(place / "photos"), place / "run"
    outside = state(tmp_path)
    options = {**ANY_DATA, "save_every": 12, "log_every": 6}
    tamatch.train(out=run, quiet=True, data=str(photos), size=8, **options)
    assert cli.main(["label", str(run), "--out", str(run / "labels.csv")]) == 0
    table = run / "predicted.csv"
    assert cli.main(["predict", str(run), str(photos / "test"), "--csv", str(table)]) == 0
    assert cli.main(["report", str(run)]) == 0
    inside = (str(run), str(tmp_path / "cache"), str(place))
    assert not [p for p in set(state(tmp_path)) - set(outside) if not p.startswith(inside)]
    assert not [p for p in place.iterdir() if p.name not in ("photos", "run")]

    page = Seen()
    page.feed((run / "report.html").read_text())
    assert "script" not in page.tags and not [a for a in page.attributes if a.startswith("on")]
    tables = sorted(run.rglob("*.csv"))
    assert {"split.csv", "skipped.csv", "test.csv", "labels.csv"} <= {t.name for t in tables}
    for file in tables:
        with file.open(newline="", encoding="utf-8") as lines:
            for row in csv.reader(lines):
                bad = [c for c in row if c.startswith(FORMULA) and not is_number(c)]
                assert not bad, (file.name, bad)
    assert json.loads((run / "run.json").read_text())["status"] == "finished"


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_a_folder_of_links_in_a_circle_is_no_data(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for name in ("a", "b"):
        (photos / name).mkdir(parents=True)
        (photos / name / "again").symlink_to(photos)
    (photos / "loop").symlink_to(photos / "loop")
    with pytest.raises(DataError, match="contains no images"):
        load(photos)
