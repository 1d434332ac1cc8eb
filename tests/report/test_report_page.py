"""The report of one run: complete, honest about what is missing, self-contained and safe."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tamatch.report import write_report
from tamatch.report.album import LARGEST, sheet
from tamatch.report.folder import read_folder
from tamatch.report.verdict import verdict_of

MakeRun = Callable[..., Path]

VOID = {"meta", "img", "br", "hr", "link"}


class Checker(HTMLParser):
    """Tags must nest; collects what a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href", "srcset", "action")]
        self.handlers += [k for k, _ in attrs if k.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read_page(run: Path) -> tuple[str, Checker]:
    html = write_report(run).read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    return html, checker


def words(checker: Checker) -> str:
    return re.sub(r"\s+", " ", " ".join(checker.text).replace("\u00a0", " "))


def test_the_page_shows_what_it_promises(make_run: MakeRun) -> None:
    run = make_run()
    html, checker = read_page(run)
    result = json.loads((run / "result.json").read_text())
    text = words(checker)
    for promised in (
        "Yes, they helped",
        f"{result['error_last']:.1f} %",
        f"{100 * result['utilization']:.1f} %",
        "Supervised baseline",
        "Test error, whole run",
        "KL(p_model ‖ truth)",
        "Share of unlabelled images used",
        "Weight of accepted pseudo-labels",
        "Learning rate",
        "gradient_norm",
        "Labelled images also in the unlabelled pool yes",
        "tamatch train --data digits --method tamatch --seed 0 --steps 3000",
        "lambda_u",
        "2.13.0",
        "best (oracle: chosen on the test set)",
        "95 % confidence interval",
        "precision",
        "expected calibration error",
        "No temperature was fitted: there are no validation images",
        "Wrong with the highest confidence",
        "Least confident",
        "multiplied by the factor, p_target / p_model",
        "Effect of the threshold",
        "0.95 (this run)",
        "2 of 1 257 unlabelled images (0.2 %) were never accepted",
    ):
        assert promised in text, promised
    assert html.count('<table class="confusion') == 1
    assert "data:image/png;base64," in html


@pytest.mark.parametrize("unused", ["last", "all"])
def test_weights_of_no_pseudo_labels_are_not_drawn(unused: str, make_run: MakeRun) -> None:
    run = make_run("run", baseline=False)
    file = run / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    train = [row for row in rows if row["kind"] == "train"]
    for row in train if unused == "all" else train[-1:]:
        row |= {"used": 0.0, "weight": 1.0, "max_weight": 0.0}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_report(run)
    _, checker = read_page(run)
    assert "largest 0" not in words(checker)
    assert ("Weight of accepted pseudo-labels" in words(checker)) == (unused == "last")


def test_the_page_needs_nothing_from_outside(make_run: MakeRun) -> None:
    html, checker = read_page(make_run())
    assert "script" not in checker.tags and "link" not in checker.tags
    assert not checker.handlers
    assert all(address.startswith(("#", "data:image/")) for address in checker.addresses)
    assert "url(" not in html and "@import" not in html and "http:" not in html
    anchors = {address[1:] for address in checker.addresses if address.startswith("#")}
    pictures = {"sheet-doubtful", "sheet-confident_wrong", "sheet-never_accepted"}
    assert anchors == {*re.findall(r'<section id="(\w+)"', html), *pictures}
    assert pictures == set(re.findall(r'<image id="([\w-]+)"', html))


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}",
    "</title></style><b>",
    "new\nline",
    "emoji 🦊",
    "x" * 255,
    "\u202eright to left",
    "a&amp;b",
    "lone \udcff surrogate",
]


def test_names_cannot_break_out_of_the_page(make_run: MakeRun) -> None:
    run = make_run(classes=HOSTILE[:9], data=HOSTILE[0], method="tamatch<img src=y>")
    about = json.loads((run / "run.json").read_text())
    about["command"] = HOSTILE[0]
    about["config"]["options"] = {HOSTILE[1]: HOSTILE[0]}
    about["classes"] += [HOSTILE[9]]
    (run / "run.json").write_text(json.dumps(about))
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 9999, "kind": "train", "total": 1, HOSTILE[1]: 2.0}) + "\n")
    (run / "skipped.csv").write_text(f'file,reason\n"{HOSTILE[0]}","<b>broken</b>"\n')
    html, checker = read_page(run)
    assert "script" not in checker.tags and not checker.handlers
    assert checker.addresses.count("x") == checker.addresses.count("y") == 0
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "{{ 7 * 7 }}" in html and "a&amp;amp;b" in html


FILES = [
    "run.json",
    "result.json",
    "metrics.jsonl",
    "split.csv",
    "batch.png",
    "trust.json",
    "pictures",
    "never_accepted.csv",
    "baseline",
]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["missing", "empty", "garbage"])
def test_a_missing_or_broken_file_is_said_not_raised(
    make_run: MakeRun, name: str, how: str
) -> None:
    run = make_run()
    target = run / name
    if how == "missing":
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    else:
        for path in target.rglob("*") if target.is_dir() else [target]:
            if path.is_file():
                path.write_bytes(b"" if how == "empty" else random.Random(0).randbytes(500))
    text = words(read_page(run)[1])
    assert "tamatch" in text
    if name in ("run.json", "metrics.jsonl") and how == "missing":
        assert f"{name} is missing" in text
    if name == "run.json" and how != "missing":
        assert "run.json cannot be read" in text
    if name == "result.json" and how == "missing":
        assert "result.json is missing" in text
    if name == "baseline" and how == "missing":
        assert "No supervised baseline was trained" in text
    if name == "batch.png":
        assert "Not shown: batch.png" in text
    if name == "trust.json":
        assert "Not measured: trust.json is written when a run finishes" in text
    if name == "pictures" and how != "garbage":
        assert "Least confident" not in text


def test_each_file_alone_makes_a_page(make_run: MakeRun) -> None:
    for kept in ("run.json", "result.json", "metrics.jsonl"):
        run = make_run(kept)
        for path in list(run.iterdir()):
            if path.name != kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        read_page(run)


def test_a_uniform_target_is_doubted_where_the_labels_are_not(make_run: MakeRun) -> None:
    told = "the most frequent class has 20 times as many as the rarest"
    for truth, shares, doubted in (
        (False, [0.2, 0.01, *[0.79 / 8] * 8], True),
        (True, [0.2, 0.01, *[0.79 / 8] * 8], False),
        (False, [0.1] * 10, False),
        (False, [0.2, 0.0, *[0.1] * 8], False),
    ):
        run = make_run(truth=truth)
        record = json.loads((run / "run.json").read_text())
        record["data"]["labelled_shares"] = shares
        (run / "run.json").write_text(json.dumps(record))
        assert (told in words(read_page(run)[1])) == doubted


def test_a_p_model_that_is_mostly_its_start_is_not_taken_at_its_word(make_run: MakeRun) -> None:
    told = "After 300 steps, 74.1 % of p_model is still its uniform start"
    for steps, options in (
        (300, {"lambda_model": 0.999}),
        (300, {}),
        (3000, {"lambda_model": 0.9}),
    ):
        text = words(read_page(make_run(steps=steps, options=options))[1])
        assert (told in text) == (steps == 300 and bool(options))
        assert ("its uniform start" in text) == (told in text)


def test_values_of_the_wrong_type_are_survived(make_run: MakeRun) -> None:
    run = make_run(baseline=False, steps=200)
    rng = random.Random(1)
    junk: list[object] = [None, True, -1, 1e308, "x", [], {}, [None], ["a"], {"a": 1}]
    for name in ("run.json", "result.json", "trust.json"):
        whole = json.loads((run / name).read_text())
        for key in whole:
            for value in rng.sample(junk, 4):
                (run / name).write_text(json.dumps({**whole, key: value}))
                write_report(run)
        (run / name).write_text(json.dumps(whole))
    whole = json.loads((run / "trust.json").read_text())
    for part in ("calibration", "pool"):
        for key in whole[part]:
            for value in rng.sample(junk, 4):
                changed = {**whole, part: {**whole[part], key: value}}
                (run / "trust.json").write_text(json.dumps(changed))
                write_report(run)


WARNING = {"name": "n", "what": "nothing is <b>used</b>.", "cause": "Why.", "cure": "Try <i>."}


def test_warnings_stand_at_the_top_with_cause_and_cure(make_run: MakeRun) -> None:
    run = make_run(baseline=False)
    about = json.loads((run / "run.json").read_text())
    assert 'class="warnings"' not in read_page(run)[0]
    junk = [None, {}, "x", {"what": 3}]
    (run / "run.json").write_text(json.dumps({**about, "warnings": [WARNING, *junk]}))
    html, checker = read_page(run)
    assert "Nothing is <b>used</b>. Why. Try <i>." in words(checker)
    assert html.index('class="warnings"') < html.index('class="verdict')


def test_a_fitted_temperature_is_shown_before_and_after(make_run: MakeRun) -> None:
    run = make_run(baseline=False)
    stored = json.loads((run / "trust.json").read_text())
    after = {**stored["calibration"]["before"], "ece": 0.0123}
    stored["calibration"] |= {"temperature": 1.5, "fitted_on": 120, "after": after, "reason": ""}
    (run / "trust.json").write_text(json.dumps(stored))
    text = words(read_page(run)[1])
    assert "A temperature of 1.5 was fitted on 120 validation images;" in text
    assert "with the temperature" in text and "1.2 %" in text


def test_without_a_test_set_nothing_is_invented(make_run: MakeRun) -> None:
    text = words(read_page(make_run(test=False, truth=False))[1])
    assert "There is neither a test set nor a validation part" in text
    assert text.count("not measured") == 1
    assert text.count("Not measured: no labelled image was held out.") == 1
    assert "Accuracy" not in text and "Supervised baseline" not in text
    assert "judged against the target instead" in text
    assert "KL to the truth, because the true class shares" in text
    assert "KL(p_model ‖ truth)" not in text and "None" not in text and "nan" not in text


def test_validation_stands_in_where_there_is_no_test_set(make_run: MakeRun) -> None:
    run = make_run(test=False, baseline=False)
    with (run / "metrics.jsonl").open("a") as file:
        for step in (3001, 3002):
            row = {"step": step, "kind": "validation", "error": 7.5, "per_class": [92.5] * 10}
            file.write(json.dumps(row) + "\n")
    text = words(read_page(run)[1])
    assert "Validation error 7.5 %" in text and "Test error" not in text


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("running", "This run has not finished: it was at step 1 500 of 3 000"),
        ("stopped", "This run was stopped at step 1 500 of 3 000; tamatch resume continues it"),
        ("failed", "This run failed at step 1 500 of 3 000"),
    ],
)
def test_an_unfinished_run_says_so(make_run: MakeRun, status: str, sentence: str) -> None:
    text = words(read_page(make_run(status=status))[1])
    assert sentence in text
    assert "Not yet known" in text and "oracle" not in text


@pytest.mark.parametrize("begun", [False, True])
def test_a_baseline_that_is_still_to_come_is_not_denied(make_run: MakeRun, begun: bool) -> None:
    run = make_run(baseline=begun, status="finished" if begun else "stopped")
    record = json.loads((run / "run.json").read_text())
    record["config"]["baseline"] = "supervised"
    (run / "run.json").write_text(json.dumps(record))
    if begun:
        (run / "baseline" / "metrics.jsonl").write_text("")
        (run / "baseline" / "result.json").unlink()
    text = words(read_page(run)[1])
    assert "Not yet known The supervised baseline, to compare with, has not been tested" in text
    assert "No supervised baseline was trained" not in text


def test_where_nothing_is_measured_no_baseline_is_awaited(make_run: MakeRun) -> None:
    run = make_run(baseline=False, test=False)
    record = json.loads((run / "run.json").read_text())
    record["config"]["baseline"] = "supervised"
    (run / "run.json").write_text(json.dumps(record))
    assert verdict_of(read_folder(run)).answer == "Not measured"


def test_many_classes_are_folded_and_the_page_stays_small(make_run: MakeRun) -> None:
    run = make_run(classes=[f"class {index}" for index in range(1000)], steps=500)
    html, checker = read_page(run)
    assert len(html.encode()) < 3_000_000
    text = words(checker)
    assert text.count("990 classes in between") == 2 and text.count("All 1 000 classes") == 3
    assert html.count("<details>") == 3
    assert html.count('class="small"') == 2 * 10 + 2  # shares, use; and two other quantities
    assert "Most frequent mistakes" in text or "No class was mistaken" in text


def test_the_largest_page_is_small_enough(make_run: MakeRun) -> None:
    """A thousand classes with long names, and pictures that no compression makes smaller."""
    run = make_run(classes=[f"class {index} " + "x" * 40 for index in range(1000)], steps=500)
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (440, 440, 3), np.uint8)).save(run / "batch.png")
    assert 550_000 < (run / "batch.png").stat().st_size <= LARGEST
    for name in ("doubtful", "confident_wrong", "never_accepted"):
        noise = rng.integers(0, 256, (32, 64, 64, 3), np.uint8)
        (run / "pictures" / f"{name}.jpg").write_bytes(sheet(noise))
    assert len(read_page(run)[0].encode()) < 3_000_000


def test_a_large_picture_is_scaled_down(make_run: MakeRun) -> None:
    run = make_run(baseline=False)
    noise = Image.frombytes("RGB", (1500, 1500), random.Random(0).randbytes(3 * 1500 * 1500))
    noise.save(run / "batch.png")
    assert (run / "batch.png").stat().st_size > 3_000_000
    html, _ = read_page(run)
    assert "data:image/jpeg;base64," in html and len(html) < 3_000_000


def test_a_method_that_logs_little_has_a_short_report(make_run: MakeRun) -> None:
    text = words(read_page(make_run(baseline=False, method="supervised", full=False))[1])
    assert "This run uses labelled images only" in text
    for reason in (
        "no p_model",
        "share of unlabelled images used is not in the log",
        "weights are",
    ):
        assert reason in text


def test_the_page_is_replaced_whole_and_leaves_nothing_behind(make_run: MakeRun) -> None:
    run = make_run()
    before = {path.name for path in run.iterdir()}
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first
    assert {path.name for path in run.iterdir()} == before | {"report.html"}


def test_reports_do_not_load_torch() -> None:
    code = "import sys, tamatch.report; print({'torch', 'numpy', 'PIL'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
