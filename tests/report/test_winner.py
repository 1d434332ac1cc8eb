"""Which of several runs is better: what the comparison says first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tamatch.report import write_comparison
from tamatch.report.folder import read_folder
from tamatch.report.groups import group_runs
from tamatch.report.verdict import Verdict
from tamatch.report.winner import winner

MakeRun = Callable[..., Path]


def judged(runs: Iterable[Path]) -> Verdict:
    found = winner(group_runs([read_folder(run) for run in runs]))
    assert found is not None
    return found


def predict(run: Path, wrong: int, of: int = 500) -> None:
    """Predictions of which the first are wrong."""
    (run / "predictions").mkdir(exist_ok=True)
    lines = [f"{i}.png,a,{'b' if i < wrong else 'a'}" for i in range(of)]
    (run / "predictions" / "test.csv").write_text("\n".join(["image,label,predicted", *lines]))


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
