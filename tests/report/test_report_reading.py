"""Result files are read as streams, in bounded memory, and whatever is broken is passed over."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tamatch.errors import UsageError
from tamatch.judge.figures import Bin, Reliability
from tamatch.report import write_report
from tamatch.report.album import first_rows
from tamatch.report.classes import confusion_rows, curve_of, frequent
from tamatch.report.folder import (
    SKIPPED_LISTED,
    read_folder,
    skipped_files,
)
from tamatch.report.metrics import KEEP, read_metrics
from tamatch.report.trust import trust_of
from tamatch.storage.spreadsheet import write_table

MakeRun = Callable[..., Path]


@pytest.mark.parametrize("length", [1, 9, KEEP, 2 * KEEP - 1, 2 * KEEP, 2 * KEEP + 1, 12345])
def test_held_rows_are_even_bounded_and_keep_both_ends(length: int, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {i}, "kind": "train"}}\n' for i in range(length)))
    log = read_metrics(path).of("train")
    kept = [row.step for row in log.rows]
    assert log.total == length and len(kept) <= 2 * KEEP
    assert kept[0] == 0 and kept[-1] == length - 1
    assert kept[:-1] == list(range(0, length, log.stride))[: len(kept) - 1]
    assert len(kept) == length if length < 2 * KEEP else len(kept) >= KEEP


def write_lines(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines))
    return path


def row(step: int, kind: str = "train", **values: object) -> str:
    return json.dumps({"step": step, "kind": kind, **values}) + "\n"


def test_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m", row(1, total=3.0), row(2, total=2.0), row(3, total=1.0)[:-9])
    metrics = read_metrics(path)
    assert metrics.of("train").curve("total") == [(1, 3.0), (2, 2.0)]
    assert metrics.unreadable == 0


def test_a_whole_last_line_without_newline_counts(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m", row(1, total=3.0), row(2, total=2.0).rstrip())
    assert read_metrics(path).of("train").last_scalar("total") == 2.0


def test_broken_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    bad = ["not json\n", '{"kind": "train", broken\n', '{"kind": "train", "total": 1}\n', "\n"]
    path = write_lines(tmp_path / "m", row(1, total=3.0), *bad, row(2, total=2.0))
    metrics = read_metrics(path)
    assert [r.step for r in metrics.of("train").rows] == [1, 2]
    assert metrics.unreadable == 3


def test_missing_and_odd_values_break_the_line_but_not_the_reader(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "m",
        row(1, total=1.0, used=0.5, per_class=[1.0, None], flag=True, word="x", nested={"a": 1}),
        '{"step": 2, "kind": "train", "total": NaN, "used": Infinity}\n',
        row(3, total=10**400, used=0.7),
    )
    log = read_metrics(path).of("train")
    assert [math.isnan(y) for _, y in log.curve("total")] == [False, True, True]
    assert log.last_scalar("used") == 0.7
    assert [*log.rows[0].scalars] == ["total", "used"]
    assert log.last_vector("per_class")[0] == 1.0 and math.isnan(log.last_vector("per_class")[1])


def test_steps_written_again_after_a_restart_replace_the_old_ones(tmp_path: Path) -> None:
    lines = [row(s, total=1.0) for s in (1, 2, 3, 4)] + [row(s, total=2.0) for s in (3, 4, 5)]
    log = read_metrics(write_lines(tmp_path / "m", *lines)).of("train")
    assert log.curve("total") == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)]


def test_rare_kinds_are_not_thinned_away(tmp_path: Path) -> None:
    lines = [row(s, total=1.0) for s in range(1, 3001)] + [row(3000, "test", error=5.0)]
    lines.insert(1500, row(1500, "test", error=9.0))
    metrics = read_metrics(write_lines(tmp_path / "m", *lines))
    assert metrics.of("test").curve("error") == [(1500, 9.0), (3000, 5.0)]
    assert metrics.of("train").total == 3000
    assert len(metrics.of("train").rows) <= 2 * KEEP
    assert metrics.of("train").rows[-1].step == 3000


def write_long_log(path: Path, rows: int, classes: int) -> None:
    share = ", ".join(["0.123456789"] * classes)
    template = (
        f'"kind": "train", "total": 0.5, "lr": 0.03, "used": 0.7, "used_by_class": [{share}], '
        f'"predicted_by_class": [{share}], "p_model": [{share}], "p_target": [{share}]}}\n'
    )
    with path.open("w") as file:
        for start in range(0, rows, 10_000):
            file.write("".join(f'{{"step": {s}, {template}' for s in range(start, start + 10_000)))


def test_a_long_log_costs_little(make_run: MakeRun) -> None:
    run = make_run(baseline=False)
    write_long_log(run / "metrics.jsonl", 100_000, classes=10)
    began = time.process_time()
    page = write_report(run)
    assert time.process_time() - began < 3
    assert page.stat().st_size < 500_000
    assert "every 256th" in page.read_text()


@pytest.mark.slow
def test_a_million_rows_take_under_ten_seconds(make_run: MakeRun) -> None:
    run = make_run(baseline=False)
    write_long_log(run / "metrics.jsonl", 1_000_000, classes=10)
    began = time.process_time()
    assert write_report(run).stat().st_size < 3_000_000
    assert time.process_time() - began < 10


def test_a_folder_that_is_no_run_is_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"is not a run folder.*--out"):
        read_folder(tmp_path)


def test_trust_is_read_as_it_was_written(make_run: MakeRun) -> None:
    run = make_run(baseline=False)
    stored = json.loads((run / "trust.json").read_text())
    found = read_folder(run).trust
    assert found.held is not None and found.pool is not None
    held = found.held
    assert held.images == 500
    assert [held.low, held.high] == [100 * bound for bound in stored["interval"]]
    assert [[*pair] for pair in held.confusion] == stored["confusion"]
    for mine, theirs in zip(held.classes, stored["classes"], strict=True):
        assert mine.precision == theirs["precision"]
    assert held.calibration.before.ece == stored["calibration"]["before"]["ece"]
    assert [level.tau for level in found.pool.sweep] == [e["tau"] for e in stored["pool"]["sweep"]]
    assert len(held.doubtful) == 32 and held.doubtful[0].image == stored["doubtful"][0]["image"]


def test_thin_bins_are_left_out_of_the_curve() -> None:
    bins = tuple(Bin(images, 0.5, 0.25) for images in (9, 10))
    assert curve_of(Reliability(0.5, 0.1, bins)) == [(50, 25)]
    assert trust_of({}).held is None


def test_a_value_of_the_wrong_kind_is_noted_and_nothing_is_shown_of_it(make_run: MakeRun) -> None:
    run = make_run(baseline=False)
    stored = json.loads((run / "trust.json").read_text())
    for wrong in ({**stored, "right": "many"}, {**stored, "interval": [0.5]}, {"images": 3}):
        (run / "trust.json").write_text(json.dumps(wrong))
        found = read_folder(run)
        assert found.trust.held is None and found.trust.pool is None
        assert any(note.startswith("trust.json is damaged") for note in found.notes)


def test_the_most_frequent_mistakes_come_first() -> None:
    pairs = {(0, 0): 9, (0, 1): 3, (1, 0): 5, (2, 0): 1, (7, 0): 4}
    assert frequent(pairs, ("a", "b", "c")) == [("b", "a", 5), ("a", "b", 3)]
    matrix = confusion_rows({(0, 0): 3, (0, 1): 1}, ("a", "b"))
    assert [[cell.images for cell in cells] for _, cells in matrix] == [[3, 1], [0, 0]]
    assert matrix[0][1][1].shade == 0.5 and matrix[0][1][0].right
    assert confusion_rows(pairs, [str(i) for i in range(21)]) == []


def test_the_sizes_of_all_parts_are_told(make_run: MakeRun) -> None:
    rows = dict(read_folder(make_run()).data_facts)
    sizes = {
        name: rows[f"{name} images"] for name in ("Labelled", "Unlabelled", "Validation", "Test")
    }
    assert sizes == {"Labelled": "40", "Unlabelled": "1\u202f257", "Validation": "0", "Test": "500"}
    assert rows["Data set"] == "digits" and rows["SHA-256"] == "0123456789abcdef" * 4


def test_files_left_out_have_the_names_they_have(tmp_path: Path) -> None:
    files = [f"-{i}.jpg" for i in range(SKIPPED_LISTED + 2)]
    write_table(tmp_path / "skipped.csv", ("file", "reason"), [(file, "") for file in files])
    listed = [(file, "") for file in files[:SKIPPED_LISTED]]
    assert skipped_files(tmp_path / "skipped.csv") == (len(files), listed)
    assert skipped_files(write_lines(tmp_path / "odd.csv", "a,b\n", "1,2\n")) == (0, [])


def test_a_broken_table_of_images_has_no_pictures(tmp_path: Path) -> None:
    assert first_rows(tmp_path / "none.csv") == []
    odd = write_lines(tmp_path / "p.csv", "image,label,predicted,confidence\n", "'=a,,b,x\n")
    (tile,) = first_rows(odd)
    assert (tile.image, tile.predicted, tile.confidence) == ("=a", "b", 0.0)


def test_settings_have_the_names_of_their_options(make_run: MakeRun) -> None:
    run = make_run()
    record = json.loads((run / "run.json").read_text())
    record["config"]["from_"] = "runs/first"
    (run / "run.json").write_text(json.dumps(record))
    assert ("from", "runs/first") in read_folder(run).configuration
