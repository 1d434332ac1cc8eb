"""`tamatch check`: what it says of named sets and of folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

from tamatch.cli import main
from tamatch.cli.train import drawn_plan
from tamatch.data import DATASETS, SplitPlan
from tamatch.data.check import check, equal_images, table
from tamatch.data.dataset import digests_of
from tamatch.settings.configure import configure
from tamatch.settings.inputs import split_plan
from tests.data.pictures import put


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for part, shift in (("train", 0), ("test", 100)):
        for i in range(4):
            put(root / part / f"kind{i % 2}" / f"{i}.png", shift + 10 * i, (40 + i, 30))
    put(root / "train" / "kind0" / "twin.png", 10)  # equals train/kind1/1.png
    put(root / "test" / "kind0" / "seen.png", 0)  # equals train/kind0/0.png
    (root / "train" / "kind1" / "broken.jpg").write_bytes(b"<html>")
    put(root / "train" / "unlabelled" / "u.png", 77)
    return root


def test_a_folder(folder: Path) -> None:
    report = check(folder)
    assert report.classes == ("kind0", "kind1") and report.images == 11
    assert report.parts["train"] == {"kind0": 3, "kind1": 2}
    assert report.parts["unlabelled"] == {"kind0": 0, "kind1": 0, "": 1}
    assert report.parts["test"] == {"kind0": 3, "kind1": 2}
    assert report.file_sizes == {"smallest": (24, 24), "median": (41, 30), "largest": (43, 30)}
    assert [file for file, _ in report.skipped] == ["train/kind1/broken.jpg"]
    assert set(report.duplicates) == {
        ("test/kind0/seen.png", "train/kind0/0.png"),
        ("train/kind0/twin.png", "train/kind1/1.png"),
    }
    assert report.leaks == (("test/kind0/seen.png", "train/kind0/0.png"),)
    assert report.contradictions == (("train/kind0/twin.png", "train/kind1/1.png"),)
    assert report.memory == 11 * report.size**2 * 3
    assert report.roles is not None and report.roles["labelled"] == {"kind0": 3, "kind1": 2}
    assert not report.problems


def test_lines_and_json_say_the_same(folder: Path) -> None:
    report = check(folder, plan=SplitPlan(labels_per_class=1, labelled_in_pool=False))
    text = "\n".join(report.lines())
    for words in (
        "photos: 2 classes, 11 images at 32 × 32 pixels",
        "train/kind1/broken.jpg: not an image",
        "2 groups of identical images:",
        "test/kind0/seen.png = train/kind0/0.png (both in training and held out)",
        "train/kind0/twin.png = train/kind1/1.png (different labels)",
        "the labelled images are not in the unlabelled pool",
        "largest 43 × 30",
    ):
        assert words in text
    stored = json.loads(json.dumps(report.to_json()))
    assert stored["roles"]["labelled"] == {"kind0": 1, "kind1": 1}
    assert stored["leaks"] == [["test/kind0/seen.png", "train/kind0/0.png"]]


def test_other_sizes_that_are_trained_on_are_told(tmp_path: Path) -> None:
    for kind in ("a", "b"):
        (tmp_path / kind).mkdir()
        Image.new("RGB", (90, 80), "red").save(tmp_path / kind / "0.png")
    told = "by default 80 × 80 with a pre-trained net, from scratch 96 × 96, without a GPU 32 × 32)"
    assert check(tmp_path).lines()[0].endswith(told)
    assert check(tmp_path, size=48).lines()[0].endswith("at 48 × 48 pixels")


def test_columns_are_straight_after_names_with_wide_signs() -> None:
    plain, wide, *_ = table({"train": {"sea": 1, "\U0001f30a": 2}}, ("sea", "\U0001f30a"))[1:]
    assert cell_len(plain) == cell_len(wide)


def test_what_a_folder_lacks_is_told(folder: Path) -> None:
    assert check(folder).lines()[-1].startswith("  total")
    (folder / "train" / "unlabelled" / "u.png").unlink()
    shutil.rmtree(folder / "test")
    pool, test = check(folder).lines()[-2:]
    assert pool == "no unlabelled images: put them into a folder called unlabelled"
    assert test.startswith("no test images: a first answer estimates its error ")
    split = check(folder, plan=SplitPlan(validation_per_class=1, labelled_in_pool=False))
    assert split.lines()[-1] == pool


def test_validation_images_that_are_learnt_from_are_leaks(folder: Path) -> None:
    put(folder / "validation" / "kind0" / "known.png", 0)  # equals train/kind0/0.png
    put(folder / "validation" / "kind0" / "tested.png", 120)  # equals test/kind0/2.png
    put(folder / "validation" / "kind1" / "own.png", 200)
    leaks = check(folder).leaks
    assert leaks == (("test/kind0/seen.png", "train/kind0/0.png", "validation/kind0/known.png"),)


def test_a_class_without_images_is_a_problem_not_an_end(folder: Path) -> None:
    (folder / "train" / "rust").mkdir()
    report = check(folder)
    assert report.roles is None
    assert '"rust" has no labelled image' in report.problems[0]
    wanted = check(folder, plan=SplitPlan(labels_per_class=2))
    assert (wanted.roles, wanted.problems) == (None, report.problems)


def test_a_problem_and_a_group_are_told_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "train" / "rust").mkdir()
    for words in ([], ["--labels-per-class", "1"]):
        assert main(["check", str(folder), *words]) == 3
        told = capsys.readouterr()
        assert "11 images" in told.out  # what there is helps to see what is lacking
        assert (told.out + told.err).count('"rust" has no labelled image') == 1
        assert told.out.count("train/kind0/twin.png = ") == told.out.count("seen.png = ") == 1


def test_images_that_show_nothing_are_named(tmp_path: Path) -> None:
    """Such as photographs of 12 bits in files of 16, of which the upper byte is read."""
    shades = np.linspace(500, 1000, 24 * 24).astype(np.uint16).reshape(24, 24)
    for kind in ("kind0", "kind1"):
        (tmp_path / kind).mkdir()
        Image.fromarray(40 * shades).save(tmp_path / kind / "bright.tif")
    Image.fromarray(shades).save(tmp_path / "kind0" / "dark.tif")
    put(tmp_path / "kind1" / "red.png", 250)
    report = check(tmp_path)
    assert report.one_colour == ("kind0/dark.tif", "kind1/red.png")
    lines = report.lines()
    at = lines.index("2 images of nearly one colour:")
    assert lines[at + 1 : at + 3] == ["  kind0/dark.tif", "  kind1/red.png"]


def test_groups_that_spoil_a_run_come_first(tmp_path: Path) -> None:
    for i in range(25):
        for name in "ab":
            put(tmp_path / "kind0" / f"{i:02}{name}.png", 5 * i)
    put(tmp_path / "kind1" / "z.png", 5 * 24)
    lines = check(tmp_path).lines()
    at = lines.index("25 groups of identical images:")
    assert lines[at + 1] == "  kind0/24a.png = kind0/24b.png = kind1/z.png (different labels)"
    assert lines[at + 2] == "  kind0/00a.png = kind0/00b.png"
    assert lines[at + 21] == "  … and 5 more (--json lists all)"


def test_a_named_set_with_split_options() -> None:
    report = check("digits", plan=SplitPlan(head_labelled=20, head_unlabelled=60, gamma=10))
    assert report.roles is not None
    assert list(report.roles["labelled"].values())[::9] == [20, 2]
    assert report.checksums == "not needed" and report.labelled_in_pool
    lines = "\n".join(report.lines())
    assert "each class" not in lines and "checksums" not in lines
    assert check("digits").roles is None


def test_long_lists_are_cut_on_the_screen_only(tmp_path: Path) -> None:
    put(tmp_path / "a" / "fine.png")
    for i in range(30):
        (tmp_path / "a" / f"{i}.jpg").write_bytes(b"")
    report = check(tmp_path)
    assert len(report.skipped) == 30
    assert "  … and 10 more (--json lists all)" in report.lines()


def test_equal_images() -> None:
    images = np.random.RandomState(0).randint(0, 256, (50, 4, 4, 3)).astype(np.uint8)
    images[[7, 31, 44]] = images[2]
    images[20] = images[19]
    groups = equal_images(digests_of(image.tobytes() for image in images))
    assert [group.tolist() for group in groups] == [[2, 7, 31, 44], [19, 20]]
    assert equal_images(digests_of([])) == []


def test_classes_may_be_called_like_the_table_s_own_rows() -> None:
    own = {"total": 2, "each class": 3, "no label": 4}
    lines = table({"train": {**own, "": 5}}, tuple(own))
    shown = [(line[:12].strip(), line[12:].strip()) for line in lines]
    assert shown == [
        ("", "train"), ("total", "2"), ("each class", "3"), ("no label", "4"), ("no label", "5"),
        ("total", "14"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(DATASETS.keys() - {"chestmnist"}))  # which is refused
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"seed": 3, "validation_per_class": 2, "labelled_in_pool": "no"},
        {"labels_per_class": 7},
        {"head_labelled": 20, "gamma": 5.0},
        {"labels_per_class": None},
        {"fold": "2/5"},
    ],
)
def test_check_shows_the_split_that_training_draws(name: str, options: dict[str, Any]) -> None:
    trained = configure({"data": name, "method": "fixmatch", **options})
    assert drawn_plan(name, options) == split_plan(trained)


def test_the_split_of_a_named_set_is_shown_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "digits", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["roles"]["labelled"].values()) == {4} and found["labelled_in_pool"]
    assert drawn_plan("photos", {}) is None


def test_a_long_tail_of_a_set_with_equal_classes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "digits", "--head-labelled", "20", "--gamma", "5", "--json"]) == 0
    labelled = json.loads(capsys.readouterr().out)["roles"]["labelled"]
    assert (max(labelled.values()), min(labelled.values())) == (20, 4)


def test_the_package_does_not_load_torch() -> None:
    code = (
        "import sys, tamatch.data.check, tamatch.data.archives, tamatch.data.folder\n"
        "sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
