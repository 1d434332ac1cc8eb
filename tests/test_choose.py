"""The settings that nobody gave: the rules, and what a real run makes of them."""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tamatch
from tamatch.errors import UsageError
from tamatch.rules import choose
from tamatch.rules.choose import Speed
from tamatch.runs import automatic
from tamatch.runs.automatic import decide
from tests.photos import dark_and_light
from tests.processes import tamatch as command
from tests.tiny import digits

SECONDS = st.floats(1e-4, 100)
SPEEDS = st.lists(st.builds(Speed, SECONDS, SECONDS, SECONDS), min_size=1, max_size=2)


@pytest.mark.parametrize(
    ("side", "gpu", "size"),
    [
        (20, True, 32), (32, True, 32), (33, True, 64), (64, True, 64), (65, True, 96),
        (3000, True, 96), (20, False, 32), (64, False, 32), (3000, False, 32), (None, True, 32),
    ],
)  # fmt: skip
def test_the_size_follows_the_photos_and_the_device(side: int, gpu: bool, size: int) -> None:
    found = choose.image_size(side, gpu=gpu)
    assert found.settings == {"size": size} and f"{size} × {size}" in found.reasons["size"]


@pytest.mark.parametrize(
    ("images", "gpu", "net"),
    [
        (100, False, "wrn_10_1_clean"), (90_000, False, "wrn_10_1_clean"),
        (999, True, "wrn_16_2_clean"), (1000, True, "wrn_28_2_clean"),
    ],
)  # fmt: skip
def test_the_net_follows_the_device_and_the_images(images: int, gpu: bool, net: str) -> None:
    assert choose.net(images, gpu=gpu).settings == {"net": net}


@pytest.mark.parametrize(
    ("labels", "cpu", "gpu"),
    [(2, 8, 8), (20, 8, 8), (24, 8, 8), (50, 8, 16), (96, 8, 32), (200, 8, 64), (9000, 8, 64)],
)
def test_the_batch_follows_the_labels(labels: int, cpu: int, gpu: int) -> None:
    assert choose.batch(labels, gpu=False).settings == {"batch": cpu}
    assert choose.batch(labels, gpu=True).settings == {"batch": gpu}
    assert choose.pool_batch(cpu, gpu=False).settings == {"unlabelled": cpu}
    assert choose.pool_batch(gpu, gpu=True).settings == {"unlabelled": 3 * gpu}


def test_the_steps_follow_the_pool() -> None:
    def count(pool: int, gpu: bool) -> int:
        return int(choose.steps(pool, 8, gpu=gpu).settings["steps"])

    assert count(300, False) == count(300, True) == 10_000
    assert count(6000, False) == 15_000
    assert count(10**7, False) == count(10**7, True) == 40_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("20m", 1200), ("2h", 7200), ("1h30m", 5400), ("1H 5s", 3605), (" 3m ", 180)],
)
def test_durations(text: str, seconds: float) -> None:
    assert choose.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "20", "0m", "m", "-5m", "1.5h", "30m1h", "soon", "١m x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--time takes a duration such as 90s, 20m, 2h or 1h30m"):
        choose.parse_time(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1s"), (90, "90s"), (125, "2m"), (3600, "1h"), (5400, "1h30m"), (86_400, "24h")],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert choose.in_words(seconds) == words
    assert abs(choose.parse_time(words) - max(1, seconds)) <= 30


@given(st.floats(1, 1e6), SPEEDS)
def test_what_fits_ends_in_time(seconds: float, speeds: list[Speed]) -> None:
    steps = choose.steps_within(seconds, speeds)
    assert steps >= 0
    if steps:
        tests = choose.tests_within(seconds, speeds)
        assert choose.seconds_for(steps, speeds, tests) <= choose.USABLE * seconds * (1 + 1e-9)


def test_slow_tests_are_made_less_often() -> None:
    wanted = choose.steps(300, 8, gpu=False)
    quick, slow = Speed(1, 0.1, 1), Speed(1, 0.1, 20)
    assert choose.at_most(700, wanted, [quick]).settings == {"steps": 5700, "test_every": 380}
    assert choose.at_most(700, wanted, [slow]).settings == {"steps": 4500, "test_every": 643}
    assert choose.in_time("10m", 590, [slow, slow]).settings == {"steps": 2000, "test_every": 1000}
    assert choose.tests_within(10, [slow]) == 1
    assert choose.tests_within(10, [Speed(1, 1, 0)]) == choose.TESTS


@given(st.floats(1, 1e5), SPEEDS)
def test_a_time_that_is_too_short_is_told_which_would_do(
    seconds: float, speeds: list[Speed]
) -> None:
    text = f"{int(seconds)}s"
    left = int(seconds) - 0.5
    try:
        found = choose.in_time(text, left, speeds)
    except UsageError as error:
        enough = str(error).rpartition("Give ")[2].partition(" or more")[0]
        more = choose.parse_time(enough)
        assert more > seconds
        if more < 3600 * 24:  # longer ones are told to the minute
            assert choose.in_time(enough, more + 60 - 0.5, speeds).settings["steps"] >= 50
    else:
        assert found.settings["steps"] >= choose.LEAST_STEPS


def test_a_slow_machine_does_fewer_steps() -> None:
    wanted = choose.steps(300, 48, gpu=False)
    fast, slow = [Speed(1, 0.01, 0.1)], [Speed(1, 2.0, 1), Speed(1, 0.5, 1)]
    assert choose.at_most(700, wanted, fast).settings["steps"] == wanted.settings["steps"]
    found = choose.at_most(700, wanted, slow)
    assert found.settings["steps"] == 220
    assert "a step takes 2 s and one of the baseline 0.5 s here" in found.reasons["steps"]


@given(st.integers(1, 10**6))
def test_every_run_tests_and_saves_some_times(steps: int) -> None:
    every = choose.intervals(steps)
    assert all(1 <= n <= steps for n in every.values())
    tests = math.ceil(steps / every["test_every"])
    assert min(steps, 8) <= tests <= choose.TESTS


def test_short_runs_forget_their_start() -> None:
    assert [choose.average(n) for n in (5, 20, 50, 300)] == [0.5, 0.5, 0.8, 0.967]
    assert [choose.average(n) for n in (1000, 5000, 10_000, 10**6)] == [0.99, 0.998, 0.999, 0.999]
    assert all(choose.average(n) ** n < 0.01 for n in range(20, 20_000, 37))


@given(st.integers(1, 10**6))
def test_statistics_are_averaged_like_weights_up_to_a_hundred_steps(steps: int) -> None:
    found = choose.averages(steps)
    assert found["norm_momentum"] == pytest.approx(max(0.01, 1 - found["ema"]))


@pytest.mark.parametrize(("together", "count"), [(0.05, 4), (0.09, 1), (0.8, 1)])
def test_more_threads_must_be_clearly_faster(together: float, count: int) -> None:
    assert choose.threads(4, 0.1, together).settings == {"threads": count}


@pytest.mark.parametrize(("native", "precision"), [(True, "bf16"), (False, "fp32")])
def test_the_arithmetic_follows_the_cpu(
    native: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic, "native_bf16", lambda: native)
    run, cpu = tamatch.settings.config.configure({}), torch.device("cpu")
    assert automatic.precision_of(run, cpu).settings == {"precision": precision}
    wanted = tamatch.settings.config.configure({"precision": "tf32"})
    assert automatic.precision_of(wanted, cpu).settings == {}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty photos of 70 × 80 pixels, three of each of two classes labelled, and six to test."""
    return dark_and_light(tmp_path_factory.mktemp("photos"), 3, 18, (70, 80))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of a known speed."""
    monkeypatch.setattr(automatic, "speed_of", lambda run, data, split: Speed(1, 0.02, 0.1))
    monkeypatch.setattr(automatic, "native_bf16", lambda: True)


def test_a_folder_needs_no_options(photos: Path, quick: None) -> None:
    found = decide({"data": str(photos)})
    run = found.run
    assert (run.size, run.net, run.batch, run.unlabelled) == (32, "wrn_10_1_clean", 8, 8)
    assert (run.steps, run.ema, run.norm_momentum) == (10_000, 0.999, 0.01)
    assert (run.precision, run.baseline) == ("bf16", "supervised")
    assert (run.log_every, run.test_every, run.save_every) == (167, 667, 667)
    assert found.reasons.keys() == {"size", "net", "batch", "unlabelled", "steps", "precision"}
    first, *rest = found.lines()
    assert first.startswith("Chosen for 30 images on ") and len(rest) == 6
    assert "the photos have 70" in rest[0] and "a step takes" in rest[4]


def test_threads_are_measured_where_time_matters(
    photos: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def speed_of(run: tamatch.settings.config.Run, data: object, split: object) -> Speed:
        return Speed(1, 0.04 / (run.threads or 1), 0.1)

    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert decide({"data": str(photos)}).run.threads == 1  # all are equally fast
    monkeypatch.setattr(automatic, "speed_of", speed_of)
    found = decide({"data": str(photos)})
    assert found.run.threads == 4 and found.reasons["threads"] == "4: 4.0 × as fast"
    assert decide({"data": str(photos), "threads": 2}).run.threads == 2
    assert decide({"data": str(photos), "steps": 10}).run.threads == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"steps": 9999}, True), ({"steps": 10_000}, False),
        ({"steps": 20, "method": "fixmatch"}, True), ({"steps": 20, "method": "mixmatch"}, False),
    ],
)  # fmt: skip
def test_few_steps_are_told_what_not_to_hope_for(
    photos: Path, options: dict[str, Any], told: bool
) -> None:
    last = decide({"data": str(photos), **options}).lines()[-1]
    assert ("unlabelled images may not help yet" in last) is told


def test_where_all_is_labelled_nothing_is_said_of_unlabelled_images(tmp_path: Path) -> None:
    folder = str(dark_and_light(tmp_path / "photos", 3, 0, (8, 8)))
    assert decide({"data": folder, "steps": 20}).outlook == ""
    told = decide({"data": folder, "steps": 20, "method": "supervised"}).lines()
    assert not [line for line in told if "unlabelled" in line]


def test_without_test_images_it_is_said_before_the_run_and_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = dark_and_light(tmp_path / "photos", 3, 2, (8, 8))
    (folder / "train/dark/broken.png").write_bytes(b"")
    shutil.rmtree(folder / "test")
    tamatch.train(data=folder, steps=1, size=8, baseline="supervised", out=tmp_path / "run")
    told = capsys.readouterr().err
    for line in ("There are no test images", "1 of 9 images cannot be read"):
        assert told.count(line) == 1 and told.index(line) < told.index("step 1/1")


def test_test_images_that_are_learnt_from_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = dark_and_light(tmp_path / "photos", 3, 2, (8, 8))
    shutil.copy(folder / "train/dark/1.png", folder / "test/dark/copy.png")
    tamatch.train(data=folder, steps=1, size=8, baseline="none", out=tmp_path / "run")
    told = "1 of 7 test images are labelled images to learn from, too"
    assert told in capsys.readouterr().err


def test_options_win(photos: Path, quick: None, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("batch: 4\nlog_every: 3\n")
    given: dict[str, Any] = {"data": str(photos), "size": 40, "net": "wrn_10_1", "steps": "70"}
    found = decide({**given, "precision": "fp32", "ema": 0}, file)
    run = found.run
    assert (run.size, run.net, run.steps, run.batch, run.log_every) == (40, "wrn_10_1", 70, 4, 3)
    assert (run.unlabelled, run.test_every, run.ema) == (4, 5, 0)
    assert found.reasons.keys() == {"unlabelled"}


def test_what_is_none_is_left_open(photos: Path, quick: None) -> None:
    assert decide({"data": str(photos), "size": None, "steps": None}) == decide(
        {"data": str(photos)}
    )


def test_a_run_that_goes_on_keeps_its_settings(photos: Path, tmp_path: Path, quick: None) -> None:
    earlier = {"data": str(photos), "size": 24, "steps": 77, "net": "wrn_10_1", "batch": 4}
    record = {"config": {**earlier, "log_every": 7}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    run = decide({"from_": str(tmp_path), "net": "wrn_16_1"}).run
    assert (run.size, run.steps, run.net, run.batch, run.log_every) == (24, 77, "wrn_16_1", 4, 7)
    longer = decide({"from_": str(tmp_path)}, limit="10m").run
    assert longer.steps > 1000 and longer.log_every == math.ceil(longer.steps / 60)
    assert (longer.size, longer.batch) == (24, 4)


def test_named_sets_keep_their_recipes() -> None:
    found = decide({"data": "digits"})
    assert found.lines() == [] and found.run == tamatch.settings.config.configure({})


def test_a_time_sets_the_steps_and_what_follows_from_them(quick: None) -> None:
    found = decide({"data": "digits", "method": "fixmatch", "warmup": 0}, limit="5m")
    run = found.run
    assert 8000 < run.steps < 13_000 and run.net == "wrn_10_1_clean"
    assert run.test_every == math.ceil(run.steps / 15)
    assert found.reasons.keys() == {"steps"} and "what fits into 5m" in found.reasons["steps"]
    with pytest.raises(UsageError, match="--steps and --time say the same thing twice"):
        decide({"steps": 10}, limit="5m")


def test_the_speed_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic, "MEASURE", 0.1)
    data, split = digits()
    run = tamatch.settings.config.configure({"steps": 10})
    both = automatic.measured(run, data, split)
    assert len(both) == 2 and both[1].step < both[0].step  # a baseline has fewer images a step
    assert all(0 < value < 30 for speed in both for value in (speed.start, speed.step, speed.test))


def test_arrays_keep_their_size(tmp_path: Path, quick: None) -> None:
    images = np.zeros((12, 20, 20, 3), np.uint8)
    labels = np.array([0, 1] * 3 + [-1] * 6)
    np.savez(tmp_path / "small.npz", images=images, labels=labels)
    assert decide({"data": str(tmp_path / "small.npz"), "steps": 10}).run.size == 20
    np.savez(tmp_path / "large.npz", images=np.zeros((12, 70, 70), np.uint8), labels=labels)
    assert decide({"data": str(tmp_path / "large.npz"), "steps": 10}).run.size == 32


def test_a_run_says_what_was_chosen_and_why(
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(automatic, "speed_of", lambda run, data, split: Speed(0, 0.3, 0))
    out = tmp_path / "run"
    options = {"net": "wrn_10_1_clean", "size": 16, "batch": 2}
    tamatch.train(data=str(photos), out=out, time="60s", **options)
    said = capsys.readouterr().err
    assert "Chosen for 30 images" in said and "what fits into 60s" in said
    assert (out / "log.txt").read_text().startswith("Chosen for 30 images")
    record = json.loads((out / "run.json").read_text())
    assert record["chosen"].keys() == {"unlabelled", "steps", "precision"}
    steps = record["config"]["steps"]
    assert 50 <= steps <= 75 and f"--steps {steps} " in record["command"]
    assert json.loads((out / "baseline" / "run.json").read_text())["config"]["steps"] == steps
    tamatch.resume(out)
    assert "Chosen" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_ends_in_the_time_it_was_given(photos: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    done = command("train", "--data", str(photos), "--out", str(tmp_path / "a"), "--time", "2m")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 150  # 2 minutes, but for what else the machine does


def test_the_choices_can_be_looked_at_first(photos: Path) -> None:
    done = command("train", "--data", str(photos), "--steps", "30", "--print-config")
    assert done.returncode == 0, done.stderr
    assert "size: 32" in done.stdout and "test_every: 2" in done.stdout
