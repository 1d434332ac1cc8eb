"""The length of a run that nobody gave, and what follows from it: the rules by themselves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamatch.errors import UsageError
from tamatch.methods.tamatch import LAMBDA_TARGET
from tamatch.rules import pace
from tamatch.rules.pace import Speed
from tamatch.settings import recipes

SECONDS = st.floats(1e-4, 100)
SPEEDS = st.lists(st.builds(Speed, SECONDS, SECONDS, SECONDS), min_size=1, max_size=2)


def test_the_steps_follow_the_pool() -> None:
    def count(pool: int) -> int:
        return int(pace.steps(pool, 8).settings["steps"])

    assert count(300) == 10_000
    assert count(6000) == 15_000
    assert count(10**7) == 40_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("20m", 1200), ("2h", 7200), ("1h30m", 5400), ("1H 5s", 3605), (" 3m ", 180)],
)
def test_durations(text: str, seconds: float) -> None:
    assert pace.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "20", "0m", "m", "-5m", "1.5h", "30m1h", "soon", "١m x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--time takes a duration such as 90s, 20m, 2h or 1h30m"):
        pace.parse_time(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1s"), (90, "90s"), (125, "2m"), (3600, "1h"), (5400, "1h30m"), (86_400, "24h")],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert pace.duration_in_words(seconds) == words
    assert abs(pace.parse_time(words) - max(1, seconds)) <= 30


@given(st.floats(1, 1e6), SPEEDS)
def test_what_fits_ends_in_time(seconds: float, speeds: list[Speed]) -> None:
    steps = pace.steps_within(seconds, speeds)
    assert steps >= 0
    if steps:
        tests = pace.tests_within(seconds, speeds)
        assert pace.seconds_for(steps, speeds, tests) <= pace.USABLE_SHARE * seconds * (1 + 1e-9)


def test_slow_tests_are_made_less_often() -> None:
    wanted = pace.steps(300, 8)
    quick, slow = Speed(1, 0.1, 1), Speed(1, 0.1, 20)
    assert pace.steps_at_most(700, wanted, [quick]).settings == {"steps": 5700, "test_every": 380}
    assert pace.steps_at_most(700, wanted, [slow]).settings == {"steps": 4500, "test_every": 643}
    both = pace.steps_in_time("10m", 590, [slow, slow], "cpu")
    assert both.settings == {"steps": 2000, "test_every": 1000}
    assert pace.tests_within(10, [slow]) == 1
    assert pace.tests_within(10, [Speed(1, 1, 0)]) == pace.TESTS


@given(st.floats(1, 1e5), SPEEDS)
def test_a_time_that_is_too_short_is_told_which_would_do(
    seconds: float, speeds: list[Speed]
) -> None:
    text = f"{int(seconds)}s"
    left = int(seconds) - 0.5
    try:
        found = pace.steps_in_time(text, left, speeds, "cuda")
    except UsageError as error:
        assert int(seconds) < pace.TRAINS["cuda"]
        enough = str(error).rpartition("Give ")[2].partition(" or more")[0]
        more = pace.parse_time(enough)
        assert more > seconds
        if more < 3600 * 24:  # longer ones are told to the minute
            found = pace.steps_in_time(enough, more + 60 - 0.5, speeds, "cuda")
            assert found.settings["steps"] >= 50
    else:
        assert found.settings["steps"] >= pace.FEWEST_STEPS


def test_a_slow_machine_does_fewer_steps() -> None:
    wanted = pace.steps(300, 48)
    fast, slow = [Speed(1, 0.01, 0.1)], [Speed(1, 2.0, 1), Speed(1, 0.5, 1)]
    assert pace.steps_at_most(700, wanted, fast).settings["steps"] == wanted.settings["steps"]
    found = pace.steps_at_most(700, wanted, slow)
    assert found.settings["steps"] == 220
    assert "a step takes 2 s here (baseline: 0.5 s)" in found.reasons["steps"]


@given(st.integers(1, 10**6))
def test_every_run_tests_and_saves_some_times(steps: int) -> None:
    every = pace.intervals(steps)
    assert all(1 <= n <= steps for n in every.values())
    tests = math.ceil(steps / every["test_every"])
    assert min(steps, 8) <= tests <= pace.TESTS


def test_short_runs_forget_their_start() -> None:
    momentum = pace.ema_momentum
    assert [momentum(n) for n in (5, 20, 50, 300)] == [0.5, 0.5, 0.8, 0.967]
    assert [momentum(n) for n in (1000, 5000, 10_000, 10**6)] == [0.99, 0.998, 0.999, 0.999]
    assert all(momentum(n) ** n < 0.01 for n in range(20, 20_000, 37))


@pytest.mark.parametrize(("steps", "told"), [(1, True), (60, True), (229, True), (230, False)])
def test_a_run_shorter_than_its_average_is_told(steps: int, told: bool) -> None:
    assert bool(pace.average_remark(steps, 0.99)) is told
    assert pace.average_remark(steps, pace.ema_momentum(steps)) == ""
    assert pace.average_remark(steps, 0.0) == ""


@given(st.integers(1, 10**6))
def test_statistics_are_averaged_like_weights_up_to_a_hundred_steps(steps: int) -> None:
    found = pace.averages(steps)
    assert found["norm_momentum"] == pytest.approx(max(0.01, 1 - found["ema"]))


@given(st.integers(1, 10**6))
def test_a_target_moves_as_far_in_any_run_as_in_the_papers(steps: int) -> None:
    value = pace.target_momentum(steps).settings["lambda_target"]
    assert value**steps == pytest.approx(pace.TARGET_LEFT, rel=0.06)


def test_the_papers_run_has_the_papers_target() -> None:
    steps = recipes.PROTOCOLS["cifar10-lt"]["steps"]
    assert LAMBDA_TARGET**steps == pace.TARGET_LEFT
    assert pace.target_momentum(steps).settings == {"lambda_target": LAMBDA_TARGET}
