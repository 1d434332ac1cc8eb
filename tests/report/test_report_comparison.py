"""Several runs side by side, and the small table at the end of training."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

from tamatch.cli import main
from tamatch.errors import UsageError
from tamatch.report import (
    summary_table,
    verdict_between,
    verdict_on,
    write_comparison,
    write_report,
)
from tamatch.report.comparison import group_runs, with_baselines
from tamatch.report.folder import read_folder

MakeRun = Callable[..., Path]


def cells(html: str) -> list[list[str]]:
    """The rows of all tables as text."""
    return [
        [
            unescape(re.sub(r"<[^>]+>", "", cell)).strip()
            for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)
        ]
        for row in re.findall(r"<tr>.*?</tr>", html, re.S)
    ]


def result(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "result.json").read_text()))


def spread(values: list[float], digits: int) -> str:
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f} %"


def test_seeds_are_averaged_with_the_sample_deviation(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run(f"t{s}", baseline=False, seed=s) for s in range(3)]
    runs += [make_run(f"f{s}", baseline=False, seed=s, method="fixmatch", floor=4) for s in (0, 1)]
    html = write_comparison(runs, tmp_path / "deep" / "page.html").read_text()
    rows, ends = cells(html), [result(run) for run in runs[:3]]
    assert rows[1] == [
        "tamatch", "3", spread([end["error_last"] for end in ends], 2),
        spread([end["error_best"] for end in ends], 2),
        spread([min(end["per_class_accuracy"]) for end in ends], 1),
        spread([100 * end["utilization"] for end in ends], 1),
    ]  # fmt: skip
    assert rows[2][:2] == ["fixmatch", "2"]  # the higher mean error comes second
    assert [row[1] for row in rows if row[0] == "tamatch"][1:] == ["0", "1", "2"]
    assert "ddof = 1" in html and "oracle: chosen on the test set" in html
    assert html.count('class="c1 solid line" d=') == 2 * 3  # both charts overlay every seed
    assert "<script" not in html and "http:" not in html and "url(" not in html


def test_seeds_are_compared_with_their_baselines(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run(f"t{s}", seed=s) for s in (0, 1)]
    rows = cells(write_comparison(runs, tmp_path / "page.html").read_text())
    assert [row[:2] for row in rows[1:3]] == [["tamatch", "2"], ["supervised", "2"]]
    assert [row[-1] for row in rows[-2:]] == ["t0/baseline", "t1/baseline"]
    assert verdict_between(runs).startswith("tamatch is better. Mean test error is ")


def test_folders_of_one_name_are_told_apart(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("two/s0"), make_run("other/s0", baseline=False, method="fixmatch")]
    html = write_comparison(runs, tmp_path / "page.html").read_text()
    assert "<h1>Comparison of 2 runs and 1 baseline</h1>" in html
    assert {row[-1] for row in cells(html)[1:]} == {"two/s0", "two/s0/baseline", "other/s0"}


def test_a_baseline_that_two_methods_share_counts_once(make_run: MakeRun) -> None:
    runs = [make_run("t"), make_run("f", method="fixmatch", floor=4)]
    first, second = (read_folder(run) for run in runs)
    assert with_baselines([first, second]) == [first, second, second.baseline]
    assert first.baseline is not None
    assert with_baselines([first, first.baseline]) == [first, first.baseline]


def test_a_method_in_a_file_is_named_without_its_folder(make_run: MakeRun) -> None:
    """But two files of one name are two methods."""
    methods = ("/home/me/first/mine.py:Mine", "/home/me/second/mine.py:Mine")
    runs = [make_run(f"r{i}", baseline=False, method=method) for i, method in enumerate(methods)]
    alone, *_ = group_runs([read_folder(runs[0])])
    assert alone.name == "mine.py:Mine"
    both = group_runs([read_folder(run) for run in runs])
    assert {group.name for group in both} == {f"mine.py:Mine · method {m}" for m in methods}


def test_a_method_in_a_folder_called_supervised_is_not(make_run: MakeRun) -> None:
    run = make_run("run", method="/home/me/semisupervised/supervised.py:Mine")
    assert verdict_on(run) == verdict_on(make_run("other")) != ""


def test_runs_that_differ_in_more_than_the_seed_are_not_averaged(make_run: MakeRun) -> None:
    runs = [make_run(f"a{s}", baseline=False, seed=s) for s in (0, 1)]
    runs += [make_run("b", baseline=False, options={"tau": 0.8, "lambda_u": 1.0}, floor=3)]
    groups = group_runs([read_folder(run) for run in runs])
    assert {group.name: [member.figures.seed for member in group.members] for group in groups} == {
        "tamatch · tau 0.95": ["0", "1"],
        "tamatch · tau 0.8": ["0"],
    }


def test_data_sets_are_kept_apart(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run(name, baseline=False, data=name) for name in ("digits", "photos")]
    html = write_comparison(runs, tmp_path / "c.html").read_text()
    assert re.findall("<h2>(.*?)</h2>", html) == ["digits", "photos"]
    assert html.count("One run each") == 2 and "Which is better?" not in html


def test_unfinished_and_unmeasured_runs_are_listed_not_dropped(
    make_run: MakeRun, tmp_path: Path
) -> None:
    runs = [
        make_run("done", baseline=False),
        make_run("half", baseline=False, status="stopped", method="fixmatch"),
        make_run("blind", baseline=False, test=False, method="flexmatch"),
    ]
    html = write_comparison(runs, tmp_path / "c.html").read_text()
    rows = {row[-1]: row for row in cells(html)}
    assert rows["half"][2].endswith("%") and rows["half"][3] == "–"
    assert rows["blind"][2] == "–"
    assert "half: This run was stopped" in html
    assert html.count("<table") == 1  # without several seeds, means would say the same again
    html = write_comparison([*runs, make_run("s1", seed=1)], tmp_path / "c.html").read_text()
    means = {row[0]: row for row in cells(html) if len(row) == 6}
    assert means["fixmatch"][1:3] == ["0 of 1", "–"]  # an unfinished run is in no mean


def test_hostile_names_are_escaped(make_run: MakeRun, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    run = make_run("r", baseline=False, data=name, method=name, classes=[name, "b"])
    html = write_comparison([run], tmp_path / "c.html").read_text()
    assert "<script" not in html and "&lt;script&gt;" in html


def test_one_run_goes_to_the_file_that_was_asked_for(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, page = make_run("r"), tmp_path / "elsewhere.html"
    before = write_report(run).read_bytes()
    assert main(["report", str(run), str(run), "--out", str(page)]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    assert page.read_bytes() == before


def test_without_unlabelled_images_nobody_asks_whether_they_helped(make_run: MakeRun) -> None:
    run = make_run("r")
    about = json.loads((run / "run.json").read_text())
    about["data"] |= {"labelled_in_pool": True, "unlabelled": about["data"]["labelled"]}
    (run / "run.json").write_text(json.dumps(about))
    assert verdict_on(run).startswith("There were none. Every training image has a label;")
    assert summary_table(run)[-1] == ("unlabelled images used", "–", "–")
    page = write_report(run).read_text()
    assert "the labelled images are used as unlabelled ones" in page
    assert "accepted as pseudo-labels in the last log interval" not in page


def test_nothing_to_compare_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one"):
        write_comparison([], tmp_path / "c.html")


def test_the_summary_has_the_run_and_its_baseline(make_run: MakeRun) -> None:
    run = make_run(steps=4000)
    header, last, median, worst, used = summary_table(run)
    assert header == ("", "tamatch", "supervised")
    own, theirs = (result(folder)["error_last"] for folder in (run, run / "baseline"))
    assert last == ("test error, last step", f"{own:.1f} %", f"{theirs:.1f} %")
    assert median[0] == "median of the last 20 tests"
    assert worst[0] == "worst class" and worst[1].startswith('"9" ')
    assert used[0] == "unlabelled images used" and used[2] == "–"


def test_a_median_that_reaches_into_the_first_half_is_not_shown(
    make_run: MakeRun, tmp_path: Path
) -> None:
    short, long = make_run("short", steps=3900), make_run("long", steps=4000)  # a test in 100 steps
    assert json.loads((short / "result.json").read_text())["error_median20"] is not None
    for run, shown in ((short, False), (long, True)):
        summary = "\n".join(row[0] for row in summary_table(run))
        pages = write_report(run), write_comparison([run], tmp_path / "c.html")
        for text in (summary, *(page.read_text() for page in pages)):
            assert ("median of the last 20 tests" in text) == shown


def test_the_summary_without_test_set_or_baseline(make_run: MakeRun) -> None:
    rows = summary_table(make_run(test=False, baseline=False))
    assert {len(row) for row in rows} == {2}
    assert rows[1] == ("test error, last step", "not measured")
    assert [row[0] for row in rows[2:]] == ["unlabelled images used"]


def test_a_setting_that_only_newer_runs_have_is_no_difference(make_run: MakeRun) -> None:
    runs = [make_run(f"r{n}", baseline=False, steps=n) for n in (100, 200)]
    newer = json.loads((runs[1] / "run.json").read_text())
    newer["config"] |= {"fold": None, "brand_new": "yes"}
    (runs[1] / "run.json").write_text(json.dumps(newer))
    names = {group.name for group in group_runs([read_folder(run) for run in runs])}
    assert names == {"tamatch · steps 100", "tamatch · steps 200"}
    same = make_run("same", baseline=False, steps=200)
    names = {group.name for group in group_runs([read_folder(run) for run in (runs[1], same)])}
    assert names == {"tamatch · brand new yes", "tamatch · brand new not set"}


def test_a_setting_that_one_run_was_given_is_named(make_run: MakeRun) -> None:
    runs = [make_run(f"r{n}", baseline=False, steps=n) for n in (100, 200)]
    for run, start in zip(runs, (None, "runs/first"), strict=True):
        about = json.loads((run / "run.json").read_text())
        about["config"]["from_"] = start
        (run / "run.json").write_text(json.dumps(about))
    assert {group.name for group in group_runs([read_folder(run) for run in runs])} == {
        "tamatch · steps 100 · from not set",
        "tamatch · steps 200 · from runs/first",
    }
