"""A person's own images: layouts, hostile files and names, and that nothing of it is changed."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tamatch.data import SplitPlan, layout, load, make_split
from tamatch.data.decode import SUFFIXES, Unreadable, decode
from tamatch.data.layout import BELONG, ROUND, like_a_part, list_images
from tamatch.errors import DataError, UsageError
from tests.data.pictures import picture, png_header, put, saved


def test_class_folders_and_unlabelled(tmp_path: Path) -> None:
    for i in range(3):
        put(tmp_path / "mould" / f"{i}.png", i)
        put(tmp_path / "leaf" / "deep" / "er" / f"{i}.jpg", i)
        put(tmp_path / "unlabelled" / "a" / f"{i}.bmp", i)
    data = load(tmp_path)
    assert data.classes == ("leaf", "mould")
    assert [len(part) for part in data.parts] == [6, 3, 0, 0]
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1, -1, -1, -1]
    assert data.files[0] == "leaf/deep/er/0.jpg"
    assert data.given_labels and data.images.shape == (9, 32, 32, 3)
    split = make_split(data, SplitPlan())
    assert len(split.labelled) == 6 and len(split.unlabelled) == 9


@pytest.mark.parametrize("name", ["unlabeled", "_unlabelled", "Unlabelled"])
def test_other_spellings_of_unlabelled(name: str, tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.png")
    put(tmp_path / name / "2.png")
    data = load(tmp_path)
    assert data.classes == ("a",) and len(data.part("unlabelled")) == 1


def test_train_val_test_folders(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("val", 2), ("test", 1)):
        for label in ("cat", "dog"):
            for i in range(count):
                put(tmp_path / part / label / f"{i}.png", i)
    put(tmp_path / "train" / "unlabelled" / "x.png")
    put(tmp_path / "unlabelled" / "y.png")
    put(tmp_path / "test" / "unlabelled" / "z.png")
    data = load(str(tmp_path))
    assert [len(part) for part in data.parts] == [6, 2, 4, 2]
    assert data.skipped == (
        ("test/unlabelled/z.png", "without a label it is of no use in the test part"),
    )


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    for label in ("train", "ship"):
        put(tmp_path / label / "1.png")
    data = load(tmp_path)
    assert data.classes == ("ship", "train")
    assert data.notes[0].startswith('classes that are named like a part of the data: "train". ')


def test_a_part_may_stand_beside_the_classes(tmp_path: Path) -> None:
    for name in ("cat", "dog", "test/cat", "test/dog", "val/dog", "val/unlabelled"):
        put(tmp_path / name / "1.png")
    put(tmp_path / "unlabelled" / "1.png")
    data = load(tmp_path)
    assert data.classes == ("cat", "dog") and not data.notes
    in_part = {name: [data.files[i] for i in data.part(name)] for name in ("test", "validation")}
    assert in_part == {
        "test": ["test/cat/1.png", "test/dog/1.png"],
        "validation": ["val/dog/1.png"],
    }
    assert data.skipped == (
        ("val/unlabelled/1.png", "without a label it is of no use in the validation part"),
    )


def test_a_part_with_a_table_may_stand_beside_the_classes(tmp_path: Path) -> None:
    for name in ("cat", "dog", "test"):
        put(tmp_path / name / "1.png")
    assert load(tmp_path).classes == ("cat", "dog", "test")
    (tmp_path / "test" / "labels.csv").write_text("file_name,label\n1.png,dog\n")
    data = load(tmp_path)
    assert data.classes == ("cat", "dog") and [data.files[i] for i in data.part("test")] == [
        "test/1.png"
    ]


def test_a_class_that_the_test_part_spells_otherwise_is_no_reason_to_train_on_it(
    tmp_path: Path,
) -> None:
    for name in ("cat", "dog", "test/CAT", "test/dogs"):
        put(tmp_path / name / "1.png")
    data = load(tmp_path)
    assert len(data.part("train")) == len(data.part("test")) == 2
    assert data.notes == ('classes with nearly the same name: "CAT" and "cat"',)


def test_parts_alone_need_no_training_part(tmp_path: Path) -> None:
    for name in ("test/cat", "test/dog", "val/dog"):
        put(tmp_path / name / "1.png")
    assert [len(part) for part in load(tmp_path).parts] == [0, 0, 1, 2]


@pytest.mark.parametrize("inside", ["", "cat"])
def test_parts_beside_what_is_no_class_of_theirs_are_refused(inside: str, tmp_path: Path) -> None:
    for name in ("train", "Test", "unlabelled"):
        put(tmp_path / name / inside / "1.png")
    put(tmp_path / "raw" / "1.png")
    with pytest.raises(DataError, match="named like splits \\(Test, train\\) next to raw"):
        load(tmp_path)


def test_names_like_those_of_parts() -> None:
    for name in (
        "unlabled", "Un-labelled", "unlabelled images", "unlabled_2", "test set", "my_test",
        "validaton", "trainning", "Testing", "val2",
    ):  # fmt: skip
        assert like_a_part(name), name
    for name in ("train station", "labelled", "unknown", "invalid", "contest", "rain", "2", ""):
        assert not like_a_part(name), name


def test_a_misspelt_pool_is_told(tmp_path: Path) -> None:
    for name in ("cat", "unlabled", "test images"):
        put(tmp_path / name / "1.png")
    (told,) = load(tmp_path).notes
    assert told.startswith(
        'classes that are named like a part of the data: "test images", "unlabled". If that is not '
        "a class: put images without a label into unlabelled"
    )


def test_hidden_files_other_files_and_loose_images(tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.png")
    put(tmp_path / "a" / "._1.png")
    put(tmp_path / ".thumbs" / "2.png")
    put(tmp_path / "__MACOSX" / "a" / "3.png")
    put(tmp_path / "loose.png")
    (tmp_path / "a" / "readme.txt").write_text("no image")
    (tmp_path / "a" / "phone.HEIC").write_bytes(b"x")
    (tmp_path / "a" / "raw.CR2").write_bytes(b"x")
    picture(24, 24).save(tmp_path / "a" / "renamed.heic", "JPEG")
    data = load(tmp_path)
    assert data.files == ["a/1.png", "a/renamed.heic"] and data.classes == ("a",)
    reason = "unsupported format: convert it to JPEG or PNG"
    assert data.skipped == (("a/phone.HEIC", reason), ("a/raw.CR2", reason))
    assert data.notes == (
        f"images outside any class folder, left out ({BELONG}): 1",
        "files that are not images, ignored: 1",
    )


def test_a_name_of_a_phone_s_format_may_hold_a_jpeg_and_a_raw_file_is_not_opened(
    tmp_path: Path,
) -> None:
    picture(24, 24).save(tmp_path / "a.heic", "JPEG")
    pixels, _ = decode(tmp_path / "a.heic", 24)
    picture(24, 24).save(tmp_path / "a.jpg")
    assert np.array_equal(pixels, decode(tmp_path / "a.jpg", 24)[0])
    for name, content in (("b.heic", b"ftypheic"), ("c.nef", (tmp_path / "a.jpg").read_bytes())):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Unreadable, match="unsupported format"):
            decode(tmp_path / name, 24)


def test_long_images_of_which_little_is_seen_are_told(tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.png", size=(64, 32))
    assert load(tmp_path).notes == ()
    put(tmp_path / "a" / "2.png", size=(65, 32))
    put(tmp_path / "a" / "3.png", size=(10, 90))
    told = "images more than twice as long as wide, of which only the central square is used: 2"
    assert load(tmp_path).notes == (told,)


def test_classes_with_nearly_the_same_name_are_told(tmp_path: Path) -> None:
    for name in ("forest", "Forest", "forrest", "class1", "class2", "healthy", "unhealthy"):
        put(tmp_path / name / "1.png")
    told = '"Forest" and "forest", "Forest" and "forrest", "forest" and "forrest"'
    assert load(tmp_path).notes == (f"classes with nearly the same name: {told}",)


def test_links_in_a_circle_end_and_links_to_folders_are_followed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    put(root / "a" / "1.png", 1)
    put(root / "b" / "2.png", 2)
    put(tmp_path / "elsewhere" / "3.png", 3)
    (root / "a" / "loop").symlink_to(root)
    (root / "a" / "self.png").symlink_to(root / "a" / "self.png")
    (root / "a" / "nowhere.png").symlink_to(root / "none.png")
    (root / "b" / "up").symlink_to(root / "b")
    (root / "b" / "more").symlink_to(tmp_path / "elsewhere")
    data = load(root)
    assert data.files == ["a/1.png", "b/2.png", "b/more/3.png"]
    assert dict(data.skipped) == {
        "a/nowhere.png": "a link to nothing",
        "a/self.png": "a link to nothing",
        "a/loop": ROUND,
        "b/up": ROUND,
    }
    assert f"links to folders outside {root}, followed: 1" in data.notes


@pytest.mark.parametrize("name", ["cat", "train", "unlabelled", "a/deep"])
def test_a_link_to_all_files_is_told_and_not_followed(name: str, tmp_path: Path) -> None:
    root, far = tmp_path / "far" / "data", tmp_path / "far"
    put(root / "a" / "1.png", 1)
    put(root / "b" / "2.png", 2)
    put(tmp_path / "secret" / "3.png", 3)
    for target in (Path("/"), tmp_path, far, root):
        (root / name).symlink_to(target)
        data = load(root)
        assert data.files == ["a/1.png", "b/2.png"]
        assert data.skipped == ((name, ROUND),)
        (root / name).unlink()


def test_a_lone_link_to_all_files_ends_at_once(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    (root / "cat").symlink_to("/")
    with pytest.raises(DataError, match="contains no images"):
        load(root)


def test_listing_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "NEWS", 2)
    for i in range(5):
        put(tmp_path / "a" / f"{i}.png", i)
    told: list[tuple[int, int]] = []
    list_images(tmp_path, lambda done, total: told.append((done, total)))
    assert told == [(2, 0), (4, 0), (6, 0)]  # the loose files of the folder itself too


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.png")
    os.mkfifo(tmp_path / "a" / "pipe.png")
    assert load(tmp_path).skipped == (("a/pipe.png", "not a file"),)


def test_folders_nested_beyond_any_recursion_limit(tmp_path: Path) -> None:
    top, depth, limit = put(tmp_path / "a" / "1.png"), 420, sys.getrecursionlimit()
    load(tmp_path)  # imports recurse
    with contextlib.chdir(top.parent):
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
        Path("deep.png").write_bytes(top.read_bytes())
        try:
            sys.setrecursionlimit(depth - 20)
            data = load(tmp_path)
        finally:  # step by step, because clean-up by recursion would fail
            sys.setrecursionlimit(limit)
            os.remove("deep.png")
            for _ in range(depth):
                os.chdir("..")
                os.rmdir("d")
    assert len(data.files) == 2 and data.files[0] == "a/1.png"


HOSTILE = [
    "<script>alert(1)<script>",
    "=cmd|' /C calc'!A0",
    "line\nbreak",
    "\x1b[31mred",
    "emoji 🐈",
    "ä" * 100,
    "x" * 255,
    "-rf",
    "'quoted",
    "a,b;c\td",
    "%s{0}",
    "‮evil",
]


def test_hostile_names_survive(tmp_path: Path) -> None:
    for i, name in enumerate(HOSTILE):
        put(tmp_path / name / f"{name[:60]}.png", i)
    odd = os.fsencode(tmp_path / "bytes") + b"\xff\xe9"
    os.mkdir(odd)
    with open(odd + b"/\xfe.png", "wb") as file:
        file.write(saved(picture(), "PNG").getvalue())
    data = load(tmp_path)
    assert len(data.classes) == len(HOSTILE) + 1 == len(data.files)
    assert not data.skipped
    for text in (*data.classes, *data.files):
        assert text.isprintable() and text.encode("utf-8")


def corpus(folder: Path) -> dict[str, bytes]:
    """The kinds of files that break image pipelines."""
    folder.mkdir(parents=True)
    noise = Image.fromarray(np.random.RandomState(1).randint(0, 256, (64, 64, 3)).astype(np.uint8))
    jpeg, png, webp = (saved(noise, kind).getvalue() for kind in ("JPEG", "PNG", "WEBP"))
    frames = [Image.new("RGB", (20, 20), c) for c in ("red", "blue")]
    exif = Image.Exif()
    exif[0x0112] = 6
    palette = picture().quantize(16)
    files = {
        "empty.jpg": b"",
        "text.png": b"just some text, nothing else\n",
        "page.jpg": b"<!doctype html><html><body>404 not found</body></html>",
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "cut.png": png[: len(png) // 2],
        "cut.webp": webp[: len(webp) // 2],
        "cmyk.jpg": saved(noise.convert("CMYK"), "JPEG").getvalue(),
        "deep.png": saved(Image.new("I;16", (30, 30), 40_000), "PNG").getvalue(),
        "palette.png": saved(palette, "PNG", transparency=0).getvalue(),
        "turned.jpg": saved(picture(), "JPEG", exif=exif).getvalue(),
        "moving.gif": saved(frames[0], "GIF", save_all=True, append_images=frames[1:]).getvalue(),
        "dot.png": saved(Image.new("RGB", (1, 1), "red"), "PNG").getvalue(),
        "strip.png": saved(Image.new("RGB", (20_000, 1), "red"), "PNG").getvalue(),
        "bomb.png": png_header(10_000, 10_000),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return files


UNUSABLE = {"empty.jpg", "text.png", "page.jpg", "cut.jpg", "cut.png", "cut.webp", "bomb.png"}


def test_broken_images_are_listed_and_never_touched(tmp_path: Path) -> None:
    files = corpus(tmp_path / "odd")
    times = {name: (tmp_path / "odd" / name).stat().st_mtime_ns for name in files}
    put(tmp_path / "fine" / "1.png")
    data = load(tmp_path)
    reasons = dict(data.skipped)
    assert set(reasons) == {f"odd/{name}" for name in UNUSABLE}
    assert all(reasons.values())
    assert reasons["odd/empty.jpg"] == "the file is empty"
    assert "truncated" in reasons["odd/cut.jpg"]
    assert "megapixels" in reasons["odd/bomb.png"]
    used = {Path(file).name for file in data.files}
    assert used == {"1.png"} | (set(files) - UNUSABLE)
    for name, content in files.items():
        path = tmp_path / "odd" / name
        assert path.read_bytes() == content and path.stat().st_mtime_ns == times[name]
    assert sorted(p.name for p in (tmp_path / "odd").iterdir()) == sorted(files)


def test_images_stay_with_their_labels_when_others_are_unreadable(tmp_path: Path) -> None:
    for i in range(10):
        put(tmp_path / f"class{i % 2}" / f"{i}.png", 20 * i)
    (tmp_path / "class0" / "2.png").write_bytes(b"broken")
    data = load(tmp_path, size=24)
    for file, image, label in zip(data.files, data.images, data.labels, strict=True):
        i = int(Path(file).stem)
        assert label == i % 2 and image[0, 0, 0] == 20 * i
    assert data.original_sizes is not None and data.original_sizes.tolist() == [[24, 24]] * 9


@pytest.mark.parametrize(("side", "size"), [(8, 32), (32, 32), (40, 64), (64, 64), (300, 96)])
def test_size_follows_the_median_shorter_side(side: int, size: int, tmp_path: Path) -> None:
    for i in range(5):
        put(tmp_path / "a" / f"{i}.png", i, (2 * side, side))
    put(tmp_path / "a" / "huge.png", 1, (900, 900))
    assert load(tmp_path).size == size
    assert load(tmp_path, size=20).size == 20


def test_mean_and_std_are_those_of_the_training_images(tmp_path: Path) -> None:
    put(tmp_path / "train" / "a" / "1.png", 0)
    put(tmp_path / "train" / "a" / "2.png", 200)
    put(tmp_path / "test" / "a" / "3.png", 90)
    data = load(tmp_path)
    assert data.mean == pytest.approx((100 / 255, 50 / 255, 10 / 255), abs=1e-4)
    assert data.std[:2] == pytest.approx((100 / 255, 50 / 255), abs=1e-4)
    assert data.std[2] == pytest.approx(1 / 255, abs=1e-4)


def test_an_empty_folder_explains_the_layout(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"labels.csv with the columns file_name,label"):
        load(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"no image in .* a/x.jpg: the file is empty"):
        load(tmp_path)


def test_unknown_names_get_a_near_miss(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Perhaps you meant cifar10"):
        load("cifar-10", tmp_path)
    with pytest.raises(UsageError, match="Known: digits"):
        load("folder")
    with pytest.raises(UsageError, match=r"^--data /no/such/folder: .* no such folder or file\.$"):
        load("/no/such/folder")
    with pytest.raises(UsageError, match="neither a known data set nor a folder"):
        load("x" * 5000)  # longer than any file name may be


def test_the_same_folder_reads_the_same_twice(tmp_path: Path) -> None:
    for i in range(6):
        put(tmp_path / f"c{i % 3}" / f"{i}.png", 30 * i)
    first, again = load(tmp_path), load(tmp_path)
    assert first.sha256() == again.sha256() and first.files == again.files


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_image_is_no_data_set(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"cat{suffix.upper()}"
    file.touch()
    with pytest.raises(UsageError, match="is a single image"):
        load(file)


def hint_for(place: Path) -> str:
    """What is said of a folder that has no two classes."""
    with pytest.raises(DataError) as told:
        make_split(load(place), SplitPlan())
    return str(told.value)


def test_a_folder_too_high_names_the_one_that_has_the_classes(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for label in ("cat", "dog"):
            put(tmp_path / "a" / "b" / part / label / "0.png")
    (tmp_path / "__MACOSX").mkdir()
    assert hint_for(tmp_path).endswith(
        f"Perhaps you meant {tmp_path / 'a' / 'b'}, which has the classes cat, dog."
    )


def test_a_folder_too_high_may_hold_a_table(tmp_path: Path) -> None:
    for i in range(2):
        put(tmp_path / "set" / "pics" / f"{i}.png", i)
    (tmp_path / "set" / "labels.csv").write_text("file_name,label\npics/0.png,a\npics/1.png,b\n")
    assert hint_for(tmp_path).endswith(
        f"Perhaps you meant {tmp_path / 'set'}, which has the classes a, b."
    )


def test_no_folder_is_named_where_none_is_better(tmp_path: Path) -> None:
    put(tmp_path / "cat" / "in" / "0.png")
    assert hint_for(tmp_path).endswith("Add a folder for each other class.")
    (tmp_path / "cat" / "in" / "round").symlink_to(tmp_path / "cat")
    assert hint_for(tmp_path).endswith("Add a folder for each other class.")
    (tmp_path / "labels.csv").write_text("file_name,label\ncat/in/0.png,a\n")
    put(tmp_path / "cat" / "out" / "0.png")
    assert hint_for(tmp_path).endswith("Add a folder for each other class.")


def test_loose_images_alone_do_not_make_a_class(tmp_path: Path) -> None:
    put(tmp_path / "all" / "pics" / "0.png")
    with pytest.raises(DataError, match="contains images, but no class folders"):
        load(tmp_path / "all" / "pics")
    put(tmp_path / "all" / "more" / "0.png")
    with pytest.raises(DataError, match=f"Perhaps you meant {tmp_path / 'all'}, where pics"):
        load(tmp_path / "all" / "pics")


def test_run_json_of_another_program_is_no_run(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        put(tmp_path / label / "0.png")
    (tmp_path / "run.json").write_text('{"name": "mine"}')
    (tmp_path / "cat" / "run.json").write_text("damaged")
    assert load(tmp_path).classes == ("cat", "dog")


def test_a_run_may_lie_beside_images_that_a_table_lists(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        put(tmp_path / label / "0.png")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text('{"config": {}}')
    with pytest.raises(UsageError, match=r"contains the run .*out, but"):
        load(tmp_path)
    (tmp_path / "labels.csv").write_text("file_name,label\ncat/0.png,a\ndog/0.png,b\n")
    assert load(tmp_path).classes == ("a", "b")
