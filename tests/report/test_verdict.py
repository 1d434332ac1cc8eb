"""Did the unlabelled images help, and which of several runs is better? With what certainty?"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tamatch.judge.differences import Paired
from tamatch.report import write_comparison, write_report
from tamatch.report.comparison import group_runs, winner
from tamatch.report.folder import Figures, read_folder
from tamatch.report.verdict import Conclusion, compared, verdict

MakeRun = Callable[..., Path]

FACTS = Figures(
    method="tamatch", data="digits", seed="0", steps=100, finished=True, measured_on="test",
    images=500, error_last=2.0, error_median=2.5, error_best=1.9, best_step=90,
    classes=("a", "b"), per_class=(99.0, 97.0), utilization=0.7, seconds=45.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("error", "baseline", "answer"),
    [
        (2.0, 9.3, "Yes, they helped"),
        (9.3, 2.0, "No, they did harm"),
        (2.0, 2.6, "No clear difference"),
        (None, 9.3, "Not yet known"),
        (2.0, None, "Not measured"),
    ],
)
def test_the_verdict(error: float | None, baseline: float | None, answer: str) -> None:
    run = replace(FACTS, error_last=error)
    other = replace(FACTS, method="supervised", error_last=baseline)
    assert verdict(run, other, 40).answer == answer


def test_nothing_held_out_is_another_thing_than_no_test_yet(make_run: MakeRun) -> None:
    early = replace(FACTS, error_last=None, per_class=())
    blind = replace(early, held_out=False)
    assert verdict(blind, None, 40).answer == "Not measured"
    run = make_run(test=False)
    page = write_report(run).read_text()
    assert re.findall("<dt>(.*?)</dt>", page) == ["Error", "Unlabelled images used"]
    assert "no test set, no validation part" in page
    about = json.loads((run / "run.json").read_text())
    about["data"]["test"] = 500
    (run / "run.json").write_text(json.dumps(about))
    assert "no test so far" in write_report(run).read_text()


def test_the_verdict_says_when_a_gap_can_be_chance() -> None:
    run, other = replace(FACTS, error_last=40.0), replace(FACTS, error_last=45.0)
    # Two standard errors of the difference of 40 % and 45 % on 500 images.
    noise = 2 * math.sqrt((40 * 60 + 45 * 55) / 500)
    assert f"{noise:.1f} points may be chance" in verdict(run, other, 40).reason
    many = replace(run, images=1_000_000)
    assert verdict(many, other, 40).answer == "Yes, they helped"


def test_the_verdict_waits_for_both_runs_and_needs_unlabelled_images() -> None:
    assert verdict(replace(FACTS, finished=False), FACTS, 40).answer == "Not yet known"
    assert verdict(FACTS, None, 40).answer == "Not measured"
    assert verdict(replace(FACTS, method="supervised"), None, 40).answer == "Not applicable"


def write(folder: Path, right: np.ndarray, part: str = "test") -> Path:
    (folder / "predictions").mkdir(parents=True, exist_ok=True)
    with (folder / "predictions" / f"{part}.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "label", "predicted", "confidence"])
        rows.writerows([f"{i}.png", "a", "a" if ok else "b", 0.5] for i, ok in enumerate(right))
    return folder


def test_the_interval_is_that_of_the_differences(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    ours, theirs = draw.random(400) < 0.8, draw.random(400) < 0.7
    found = compared(write(tmp_path / "a", ours), write(tmp_path / "b", theirs), "test")
    assert found is not None
    gains = ours.astype(int) - theirs.astype(int)
    assert found.images == 400 and found.gap == pytest.approx(100 * gains.mean())
    more = np.append(gains, [1, -1])  # Bonett and Price: one more on either side
    middle, error = 100 * more.mean(), 196 * more.std() / len(more) ** 0.5
    assert (found.low, found.high) == pytest.approx((middle - error, middle + error))


@pytest.mark.parametrize(("better", "images"), [(0, 10), (1, 1), (3, 4), (3, 10), (4, 100)])
def test_a_few_images_prove_nothing(tmp_path: Path, better: int, images: int) -> None:
    """Fair coins fall to one side as often as once in eight times, or oftener."""
    ours, theirs = np.ones(images, bool), np.arange(images) >= better
    found = compared(write(tmp_path / "a", ours), write(tmp_path / "b", theirs), "test")
    assert found is not None and -100 <= found.low < 0 < found.high <= 100
    answer = verdict(FACTS, FACTS, 40, found)
    assert answer.answer == "No clear difference" and f"With {images} images" in answer.reason


def test_other_images_are_not_compared(tmp_path: Path) -> None:
    here = write(tmp_path / "a", np.ones(3, bool))
    assert compared(here, write(tmp_path / "b", np.ones(4, bool)), "test") is None
    assert compared(here, tmp_path / "nowhere", "test") is None
    assert compared(here, here, "validation") is None


@pytest.mark.parametrize(
    ("pairs", "answer", "part"),
    [
        (Paired(500, 6.8, 4.2, 9.4), "Yes, they helped",
         "6.8 points lower (95 % confidence interval 4.2 to 9.4)."),
        (Paired(500, -3.0, -5.0, -1.0), "No, they did harm",
         "3.0 points higher (95 % confidence interval 1.0 to 5.0)."),
        (Paired(20, 5.0, -6.0, 16.0), "No clear difference",
         "the first may be anywhere from 16.0 points below the second to 6.0 above it."),
    ],
)  # fmt: skip
def test_the_verdict_on_pairs(pairs: Paired, answer: str, part: str) -> None:
    found = verdict(FACTS, FACTS, 40, pairs)
    assert found.answer == answer and found.reason.endswith(part)


def judged(runs: Iterable[Path]) -> Conclusion:
    found = winner(group_runs([read_folder(run) for run in runs]))
    assert found is not None
    return found


def predict(run: Path, wrong: int, of: int = 500) -> None:
    """Predictions of which the first are wrong."""
    write(run, np.arange(of) >= wrong)


@pytest.fixture
def pair(make_run: MakeRun) -> list[Path]:
    return [
        make_run("t", baseline=False),
        make_run("f", baseline=False, method="fixmatch", floor=9),
    ]


def test_single_runs_are_compared_image_by_image(pair: list[Path]) -> None:
    predict(pair[0], 20)
    predict(pair[1], 60)
    found = judged(pair)
    # 40 of 500 images: 8 points; with one more on either side,
    # 40/502 ± 1.96 · √((42/502 - (40/502)²) / 502)
    assert (found.answer, found.tone) == ("tamatch is better", "good")
    assert "8.0 points lower (95 % confidence interval 5.5 to 10.4)." in found.reason
    predict(pair[1], 21)
    found = judged(pair)
    assert (found.answer, found.tone) == ("No clear difference", "open")
    assert found.reason.endswith(
        "the first may be anywhere from 0.9 points below the second to 0.5 above it."
    )


def test_predictions_of_other_images_prove_nothing(pair: list[Path]) -> None:
    assert judged(pair).answer == "Not known"
    predict(pair[0], 20)
    predict(pair[1], 60, of=400)
    assert judged(pair).answer == "Not known"


def test_several_seeds_are_compared_run_by_run(make_run: MakeRun, pair: list[Path]) -> None:
    more = [make_run("t1", baseline=False, seed=1)]
    found = judged([*pair, *more])
    assert found.answer == "tamatch is better" and "Mean test error is " in found.reason
    more += [make_run("f1", baseline=False, method="fixmatch", floor=1)]
    found = judged([*pair, *more])
    assert found.answer == "No clear difference" and "runs overlap" in found.reason


def test_of_three_the_two_lowest_count(make_run: MakeRun, pair: list[Path]) -> None:
    reason = judged([*pair, make_run("x", baseline=False, method="uda", floor=30)]).reason
    assert reason.startswith("The two lowest: test error is ") and "uda" not in reason


def test_what_was_not_measured_is_not_compared(make_run: MakeRun, tmp_path: Path) -> None:
    blind = [make_run(m, baseline=False, test=False, method=m) for m in ("tamatch", "fixmatch")]
    found = judged(blind)
    assert found.answer == "Not measured" and "--validation-per-class" in found.reason
    html = write_comparison(blind, tmp_path / "c.html").read_text()
    assert "oracle" not in html and "One run each" not in html  # there is no such column
    seen = make_run("uda", baseline=False, method="uda")
    assert judged([*blind, seen]).reason.startswith("Only uda has an error")
    other = make_run("vat", baseline=False, method="vat")
    log = other / "metrics.jsonl"
    log.write_text(log.read_text().replace('"test"', '"validation"'))
    (other / "result.json").write_text("{}")
    assert judged([seen, other]).answer == "Not comparable"


def test_unfinished_runs_have_lost_nothing_yet(make_run: MakeRun) -> None:
    half = [make_run(m, baseline=False, status="stopped", method=m) for m in ("uda", "vat")]
    assert judged(half).answer == "Not yet known"
    assert winner(group_runs([read_folder(half[0])])) is None


def test_two_methods_that_were_not_trained_alike_say_so(
    make_run: MakeRun, pair: list[Path]
) -> None:
    assert "They also differ" not in judged(pair).reason
    shorter = make_run("s", baseline=False, method="softmatch", floor=9, steps=600)
    assert judged([pair[0], shorter]).reason.endswith("They also differ in steps.")
    longer = make_run("l", baseline=False, steps=6000)  # the same method: its name says it
    assert "They also differ" not in judged([pair[0], longer]).reason
