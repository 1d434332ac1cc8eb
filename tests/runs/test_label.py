"""Labels for the pool: the table, its cut, and what a promised precision rests on."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import tamatch
from tamatch import cli
from tamatch.data import SplitPlan, make_split
from tamatch.data import load as load_data
from tamatch.data.arrays import from_arrays
from tamatch.errors import DataError, UsageError
from tamatch.judge.trust import (
    RISK,
    SHARES,
    choose_cut,
    cut_at,
    fit_temperature,
    least_images,
    lower_bound,
    tempered,
)
from tamatch.runs.label import COLUMNS, by_model, label, most_first, ways_out
from tamatch.storage import checkpoint
from tests.photos import dark_and_light

TAU = 0.6
OPTIONS = {
    "data": "digits", "steps": 80, "batch": 32, "unlabelled": 32, "lr": 0.1, "ema": 0.0,
    "labels_per_class": 16, "validation_per_class": 6, "baseline": "none", "test_every": 80,
}  # fmt: skip
TINY = {"steps": 2, "batch": 4, "unlabelled": 4, "net": "wrn_10_1_clean", "size": 8}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 labelled images, 60 for validation, the rest of the digits unlabelled."""
    path = tmp_path_factory.mktemp("label") / "run"
    tamatch.train(out=path, tau=TAU, lambda_model=0.9, quiet=True, **OPTIONS)
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_image_of_the_pool_has_one_line(run: Path, tmp_path: Path) -> None:
    made = label(run, tmp_path / "labels.csv")
    rows = read(made.path)
    assert tuple(rows[0]) == COLUMNS == ("file_name", "label", "confidence", "second", "accepted")
    files = [row["file_name"] for row in rows]
    assert len({*files}) == len(files)
    roles = read(run / "split.csv")
    known = {r["image"] for r in roles if r["role"] in ("labelled", "validation")}
    pool = {r["image"] for r in roles if r["role"] == "unlabelled"} - known
    assert {r["file_name"] for r in rows if r["accepted"] == "given"} == known
    assert {r["file_name"] for r in rows if r["accepted"] != "given"} == pool
    assert (made.pool, made.labelled, made.given) == (len(pool), len(pool), 160)
    assert made.coverage == 1 and made.cut is None
    new = Counter(row["label"] for row in rows if row["accepted"] != "given")
    assert made.classes == {name: new[name] for name in load_data("digits").classes}
    assert made.lines()[1] == f"New labels by class: {most_first(made.classes)}."


def test_labels_are_the_model_s_and_given_ones_the_person_s(run: Path, tmp_path: Path) -> None:
    rows = read(label(run, tmp_path / "labels.csv").path)
    data, model = load_data("digits"), tamatch.load(run)
    position = {file: i for i, file in enumerate(data.files)}
    truth = [data.classes[data.labels[position[row["file_name"]]]] for row in rows]
    p = model.predict(data.images[[position[row["file_name"]] for row in rows]]).probabilities
    order = np.argsort(-p, axis=1, kind="stable")
    for row, true, own, best in zip(rows, truth, p, order, strict=True):
        given = row["accepted"] == "given"
        assert row["label"] == (true if given else data.classes[best[0]])
        assert float(row["confidence"]) == pytest.approx(own[int(row["label"])], abs=1e-5)
        others = [data.classes[c] for c in best if data.classes[c] != row["label"]]
        assert row["second"] == others[0]


def test_accepted_is_what_training_did(run: Path, tmp_path: Path) -> None:
    """The counts of the last checkpoint, by the position of each image in the pool."""
    rows = {row["file_name"]: row for row in read(label(run, tmp_path / "a.csv").path)}
    state = checkpoint.load(checkpoint.saved_in(run / "checkpoints")[-1])["engine"]["method"]
    times = state["labeler.tally.count"]
    pool = [r["image"] for r in read(run / "split.csv") if r["role"] == "unlabelled"]
    assert len(pool) == len(times)
    for image, count in zip(pool, times.tolist(), strict=True):
        if rows[image]["accepted"] != "given":
            assert rows[image]["accepted"] == ("yes" if count else "no")
    shares = [row["accepted"] == "yes" for row in rows.values() if row["accepted"] != "given"]
    assert 0.1 < sum(shares) / len(shares) < 0.99


def test_without_a_record_or_a_rule_nothing_is_claimed(run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("predictions"))
    rows = read(label(copied, tmp_path / "a.csv").path)
    assert {r["accepted"] for r in rows} == {"given", ""}
    ruleless = tmp_path / "ruleless"
    tamatch.train(out=ruleless, method="mixmatch", quiet=True, **OPTIONS | {"steps": 2})
    assert {r["accepted"] for r in read(label(ruleless, tmp_path / "b.csv").path)} == {"given", ""}


def test_below_the_cut_the_label_is_empty(run: Path, tmp_path: Path) -> None:
    made = label(run, tmp_path / "labels.csv", min_confidence=0.8)
    rows = [row for row in read(made.path) if row["accepted"] != "given"]
    named = [row for row in rows if row["label"]]
    assert 0 < len(named) < len(rows)
    assert made.labelled == len(named) and made.coverage == len(named) / len(rows)
    assert all((float(r["confidence"]) >= 0.8) == bool(r["label"]) for r in rows)
    assert all(row["second"] for row in rows)


def test_only_a_table_of_label_tells_which_labels_are_a_model_s(tmp_path: Path) -> None:
    plain, written = tmp_path / "plain.csv", tmp_path / "written.csv"
    plain.write_text("file_name,label\n0.png,cat\n")
    rows = "1.png,cat,0.9,dog,given\n2.png,dog,0.8,cat,yes\n3.png,,0.6,cat,\n"
    written.write_text(f"{','.join(COLUMNS)}\n{rows}")
    assert by_model([plain, written, plain]) == {"2.png", "3.png"}


def test_the_smallest_class_decides_whether_images_can_be_held_out() -> None:
    for smallest, told in ((24, True), (23, False)):
        labels = np.repeat([0, 1], [60, smallest])
        data = from_arrays(np.zeros((len(labels), 8, 8, 3), np.uint8), labels)
        ways = ways_out(data, make_split(data, SplitPlan()), need=46)
        assert ("Train with --validation-per-class 23 or more" in ways) == told


def test_a_class_without_new_labels_is_seen() -> None:
    assert most_first({"owl": 0, "fox": 1200, "cat": 3}) == "fox 1,200, cat 3, owl 0"
    shown = most_first({f"c{i}": i for i in range(30)})
    assert shown.startswith("c29 29, ") and ", c20 20, …, c9 9, " in shown
    assert shown.endswith(", c0 0")


def test_where_nothing_is_unlabelled_it_is_said(tmp_path: Path) -> None:
    photos = dark_and_light(tmp_path / "photos", 3, 0, (8, 8))
    run = tamatch.train(data=photos, out=tmp_path / "run", quiet=True, baseline="none", **TINY)
    made = label(run.path, tmp_path / "labels.csv")
    told = "there are no unlabelled images, all 6 images already had a label."
    assert made.lines() == [f"{made.path}: {told}"] and len(read(made.path)) == 6


def test_the_table_is_data(tmp_path: Path) -> None:
    """From a folder to a table to a data set, whatever the files and classes are called."""
    photos = tmp_path / "photos"
    images = load_data("digits").images
    from PIL import Image

    for folder, first in (("=sum(A1)", 0), ("b,\"c'", 10), ("unlabelled", 20)):
        (photos / folder).mkdir(parents=True)
        for i in range(first, first + 5):
            Image.fromarray(images[i]).save(photos / folder / f"-{i}.png")
    run = tmp_path / "run"
    tamatch.train(out=run, data=str(photos), baseline="none", quiet=True, **TINY)
    made = label(run, photos / "labels.csv")
    assert made.pool == 5 and made.given == 10
    assert "'=sum(A1)/-0.png,'=sum(A1)," in made.path.read_text()
    data = load_data(made.path)
    assert data.classes == ("=sum(A1)", "b,\"c'") and not data.skipped
    assert len(data.images) == 15 and (data.labels >= 0).all()


def test_a_precision_is_promised_or_refused_with_the_reason(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["label", str(run), "--out", str(tmp_path / "labels.csv")]
    assert cli.main([*words, "--precision", "0.6"]) == 0
    told = capsys.readouterr().out
    assert "(coverage " in told and "With 95 % confidence, at least" in told
    assert cli.main([*words, "--precision", "0.98", "--overwrite"]) == 3
    told = capsys.readouterr().err
    assert "at least 228 validation images" in told and f"{run} has 60" in told
    assert "Train with --validation-per-class 23 or more, or set the confidence threshold" in told


def test_without_validation_images_there_is_no_promise(tmp_path: Path) -> None:
    run = tmp_path / "run"
    few = {**OPTIONS, "steps": 2, "validation_per_class": 0}
    tamatch.train(out=run, quiet=True, **few)
    with pytest.raises(DataError, match=r"none\. .*-per-class 5 or more, or use the"):
        label(run, tmp_path / "labels.csv", precision=0.9)
    with pytest.raises(DataError, match=r"at least 228 labelled images .* the run has 160\. Label"):
        label(run, tmp_path / "labels.csv", precision=0.98, folds=5)
    assert not (tmp_path / "labels.csv").exists() and not (run / "folds").exists()


def test_labelled_images_judge_a_cut_by_models_that_did_not_learn_them(tmp_path: Path) -> None:
    run = tmp_path / "run"
    tamatch.train(out=run, quiet=True, **OPTIONS | {"validation_per_class": 0, "steps": 50})
    made = label(run, tmp_path / "labels.csv", precision=0.5, folds=2)
    assert made.cut is not None and made.cut.images <= 160 and made.labelled < made.pool
    assert "labelled images, each held out once, at or above" in "\n".join(made.lines())
    mine = {r["image"] for r in read(run / "split.csv") if r["role"] == "labelled"}
    folds = [read(run / "folds" / f"{k}-of-2" / "split.csv") for k in (1, 2)]
    learnt, out = (
        [{r["image"] for r in rows if r["role"] == role} for rows in folds]
        for role in ("labelled", "validation")
    )
    assert out[0] | out[1] == mine and not out[0] & out[1]
    assert [a | b for a, b in zip(learnt, out, strict=True)] == [mine, mine]
    again = label(run, tmp_path / "again.csv", precision=0.5, folds=2)  # nothing is trained again
    assert again.path.read_bytes() == made.path.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_confidence": 1.5}, r"--min-confidence must lie in \[0, 1\], got 1.5"),
        ({"precision": 1.0}, r"--precision must lie in \(0, 1\), got 1"),
        ({"folds": 5}, "--folds needs --precision"),
        ({"precision": 0.9, "folds": 1}, "--folds must be at least 2, got 1"),
        ({}, "already exists"),
    ],
)
def test_mistakes(run: Path, options: dict[str, float], message: str, tmp_path: Path) -> None:
    mine = tmp_path / "labels.csv"
    mine.write_text("a person's own table")
    with pytest.raises(UsageError, match=message):
        label(run, mine, **options)
    assert mine.read_text() == "a person's own table"


def test_the_bound_is_exact() -> None:
    """At the bound, as many right answers or more come up with exactly the stated risk."""
    for right, images in ((149, 149), (95, 100), (1, 7)):
        bound = lower_bound(right, images, 0.05)
        assert binom.sf(right - 1, images, bound) == pytest.approx(0.05)
    assert lower_bound(0, 10, 0.05) == 0
    assert lower_bound(149, 149, 0.05) >= 0.98 > lower_bound(148, 148, 0.05)


def test_the_least_number_of_images_is_just_enough() -> None:
    for precision in (0.5, 0.9, 0.98):
        need = least_images(precision)
        share = RISK / len(SHARES)
        assert lower_bound(need, need, share) >= precision > lower_bound(need - 1, need - 1, share)


def test_the_cut_keeps_ties_and_the_largest_share_that_holds() -> None:
    confidence = np.repeat([0.9, 0.6], 100)
    right = np.concatenate([np.ones(100, bool), np.zeros(100, bool)])
    assert cut_at(confidence, right, 0.2).images == 100
    cut = choose_cut(confidence, right, 0.9)
    assert (cut.confidence, cut.images, cut.right) == (0.9, 100, 100)
    everything = choose_cut(confidence, np.ones(200, bool), 0.9)
    assert everything.images == 200
    with pytest.raises(DataError, match="no confidence threshold guarantees --precision"):
        choose_cut(confidence, np.arange(200) % 2 == 0, 0.9)


def test_promises_are_kept_as_often_as_stated() -> None:
    """A model whose precision is everywhere just below what is asked for: few are fooled."""
    random = np.random.default_rng(0)
    fooled = 0
    for _ in range(400):
        try:
            choose_cut(random.random(120), random.random(120) < 0.899, 0.9)
            fooled += 1
        except DataError:
            pass
    assert fooled / 400 <= RISK


def test_a_temperature_of_the_same_images_does_not_spoil_the_promise() -> None:
    """Every image is right with chance 0.899 whatever the confidence: nothing can be promised."""
    random = np.random.default_rng(1)
    fooled = 0
    for _ in range(200):
        p = random.dirichlet([1, 1, 1], 120)
        right = random.random(120) < 0.899
        labels = np.where(right, p.argmax(-1), (p.argmax(-1) + 1) % 3)
        q = tempered(p, fit_temperature(p, labels))
        try:
            choose_cut(q.max(-1), right, 0.9)
            fooled += 1
        except DataError:
            pass
    assert fooled / 200 <= RISK
