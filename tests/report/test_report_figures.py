"""The numbers, sentences and curves that a report shows."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamatch.report.classes import rank
from tamatch.report.comparison import mean_and_spread
from tamatch.report.metrics import Log, LogRow
from tamatch.report.pool import biases, usage_of, utilization_curve
from tamatch.report.svg import (
    Line,
    bar,
    gap_bar,
    line_chart,
    nice_ticks,
    small_chart,
    tick_labels,
)
from tamatch.report.words import compact, count, decimal, duration, percent, points


def test_strong_and_weak_are_judged_against_the_truth() -> None:
    found = biases(["a", "b", "c"], [0.5, 0.3, 0.2], [1 / 3] * 3, [0.6, 0.2, 0.2])
    assert [bias.kind for bias in found] == ["weak", "strong", "even"]
    assert found[0].gap == pytest.approx(-0.1)


def test_without_the_truth_they_are_judged_against_the_target() -> None:
    found = biases(["a", "b"], [0.6, 0.4], [0.7, 0.3], [])
    assert [(bias.kind, bias.truth) for bias in found] == [("weak", None), ("strong", None)]
    assert biases(["a", "b"], [0.6, 0.4], [], []) == []


def test_utilization_of_a_class_is_accepted_over_predicted() -> None:
    rows = [
        LogRow(1, {}, {"used_by_class": [0.1, 0.0], "predicted_by_class": [0.4, 0.0]}),
        LogRow(2, {}, {"used_by_class": [0.3, 0.1], "predicted_by_class": [0.4, 0.5]}),
    ]
    assert [y for _, y in utilization_curve(Log(rows), 0)] == pytest.approx([25, 75])
    assert math.isnan(utilization_curve(Log(rows), 1)[0][1])  # never predicted: no share
    ranking = usage_of(Log(rows), ["a", "b"], None, Path())["rows"]
    assert [row.name for row in ranking.everything] == ["b", "a"]


def test_a_ranking_shows_all_of_few_and_the_ends_of_many() -> None:
    few, many = rank(range(12), key=float), rank(range(100), key=lambda n: -n)
    assert few.shown == list(range(12)) and not few.folded
    assert many.low == [99, 98, 97, 96, 95] and many.high == [4, 3, 2, 1, 0]
    assert len(many.everything) == 100


@given(
    st.floats(-1e12, 1e12, allow_nan=False),
    st.floats(0, 1e12, allow_nan=False),
    st.integers(2, 6),
)
@settings(max_examples=200, deadline=None)
def test_ticks_are_few_rising_and_cover_the_range(low: float, width: float, wanted: int) -> None:
    high = low + width
    ticks = nice_ticks(low, high, wanted)
    assert 2 <= len(ticks) <= wanted + 3
    assert all(a < b for a, b in pairwise(ticks))
    slack = 1e-6 * max(abs(low), abs(high), ticks[1] - ticks[0])
    assert ticks[0] <= low + slack and ticks[-1] >= high - slack
    assert len(tick_labels(ticks)) == len(ticks)


def test_tick_labels_share_their_digits() -> None:
    assert tick_labels(nice_ticks(0, 100), " %") == ["0 %", "25 %", "50 %", "75 %", "100 %"]
    assert tick_labels(nice_ticks(0.02, 0.08)) == ["0.02", "0.04", "0.06", "0.08"]
    assert tick_labels(nice_ticks(0, 3e-4)) == ["0", "1e-4", "2e-4", "3e-4"]


def test_a_single_point_is_a_dot_above_its_own_step() -> None:
    chart = line_chart("Test error", [Line("tamatch", [(20, 0.5)])])
    assert chart.count('class="x ') == 1 and ">20</text>" in chart
    assert 'line lone"' in chart
    assert "lone" not in line_chart("Test error", [Line("tamatch", [(20, 0.5), (40, 0.4)])])


def test_no_two_ticks_have_the_same_label() -> None:
    near_one = tick_labels(nice_ticks(1.0, 1.0003))
    assert near_one == ["1.0000", "1.0001", "1.0002", "1.0003"]
    assert tick_labels(nice_ticks(1.0, 1.00001)) == ["0.0", "0.5", "1.0", "1.5", "2.0"]


def test_numbers_in_words() -> None:
    assert percent(2.14) == "2.1 %" and percent(None) == "–" and percent(math.nan) == "–"
    assert points(-0.04) == "0.0" and points(-4.25) == "−4.2" and points(4.26) == "+4.3"
    assert count(1234567) == "1\u202f234\u202f567"
    assert [compact(v) for v in (0, 500, 1500, 20000, 1.5e6)] == ["0", "500", "1.5k", "20k", "1.5M"]
    assert [decimal(v) for v in (0.0, 2.5e-4, 97.85, 1234.0)] == ["0", "2.5e-4", "97.8", "1234"]
    assert [duration(v) for v in (4.21, 45, 200)] == ["4.2 s", "45 s", "3 min 20 s"]
    assert [duration(v) for v in (3600, 7500)] == ["1 h 0 min", "2 h 5 min"]


def test_mean_and_spread_use_the_sample_deviation() -> None:
    assert mean_and_spread([1.0, 2.0, 3.0]) == "2.00 ± 1.00 %"
    assert mean_and_spread([2.0]) == "2.00 %"
    assert mean_and_spread([]) == "–"


def paths(chart: str) -> list[str]:
    return [node.attrib["d"] for node in ElementTree.fromstring(chart).iter("path")]


def test_a_chart_spans_its_box_and_breaks_at_gaps() -> None:
    points = [(0.0, 0.0), (50.0, 100.0), (60.0, math.nan), (70.0, 50.0), (100.0, 0.0)]
    (path,) = paths(line_chart("t", [Line("a", points)]))
    assert path == "M0 190.0h0L500 0.0M700 95.0h0L1000 190.0"


def test_charts_are_well_formed_accessible_and_escaped() -> None:
    hostile = "<script>&\"'</script>"
    for chart in (
        line_chart(hostile, [Line(hostile, [(1, 2.0), (2, 3.0)])], note=hostile, unit=hostile),
        small_chart(hostile, [Line(hostile, [(1, 2.0), (2, 3.0)])], unit=hostile),
    ):
        figure = ElementTree.fromstring(chart)
        assert "script" not in {node.tag for node in figure.iter()}
        picture = next(node for node in figure.iter("svg") if node.get("role") == "img")
        assert hostile in picture.attrib["aria-label"]
        assert picture.findtext("title") == hostile


def test_a_chart_of_nothing_is_empty_and_one_point_is_a_dot() -> None:
    assert line_chart("t", [Line("a", []), Line("b", [(1, math.nan)])]) == ""
    assert small_chart("t", [Line("a", [])]) == ""
    assert paths(line_chart("t", [Line("a", [(5.0, 1.0)])]))[0].endswith("h0")


def test_an_axis_fitted_after_the_start_is_not_stretched_by_it() -> None:
    points = [(1.0, -50.0)] + [(float(s), 1.0 + s / 100) for s in range(20, 101)]
    chart = line_chart("t", [Line("a", points)], fit="settled")
    labels = [node.text for node in ElementTree.fromstring(chart).iter("text")]
    assert labels[:5] == ["1.2", "1.4", "1.6", "1.8", "2.0"]


def test_a_small_chart_keeps_the_newest_of_many_points() -> None:
    chart = small_chart("t", [Line("a", [(float(s), float(s)) for s in range(1001)])])
    assert paths(chart)[0].endswith("L1000 0.0") and paths(chart)[0].count("L") < 130
    sparse = [(float(s), 1.0 if s == 3 else math.nan) for s in range(1001)]
    assert "h0" in paths(small_chart("t", [Line("a", sparse)]))[0]


def test_bars_stay_inside_their_track() -> None:
    for picture in (
        bar(120.0, -5.0),
        bar(math.nan, math.nan),
        gap_bar(9.0, 1.0),
        gap_bar(-9.0, 1.0),
    ):
        for rect in ElementTree.fromstring(picture).iter("rect"):
            start = float(rect.get("x", "0").rstrip("%"))
            width = rect.attrib["width"]
            assert start >= 0 and start + (float(width[:-1]) if "%" in width else 0) <= 100
