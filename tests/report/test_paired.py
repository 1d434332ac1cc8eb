"""Did the unlabelled images help? Judged image by image, with an interval."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tamatch.judge.differences import Paired
from tamatch.report.facts import Figures
from tamatch.report.paired import compared
from tamatch.report.verdict import verdict
from tests.report.test_report_figures import FACTS


def write(folder: Path, right: np.ndarray, part: str = "test") -> Path:
    (folder / "predictions").mkdir(parents=True)
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
    baseline: Figures = FACTS
    found = verdict(FACTS, baseline, 40, pairs)
    assert found.answer == answer and found.reason.endswith(part)
