"""The settings that nobody gave, as a run gets them: for its images, its machine and its time."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import tamatch
from tamatch import cli
from tamatch.augment import Policy
from tamatch.data import make_split
from tamatch.errors import TamatchError, UsageError
from tamatch.rules.pace import Speed
from tamatch.runs import decide as choices
from tamatch.runs import speed
from tamatch.runs.build import engine_of
from tamatch.runs.decide import Decided
from tamatch.settings import recipes
from tamatch.settings.config import Run
from tamatch.settings.configure import ask, baseline_config, configure, stored_config
from tamatch.settings.inputs import data_of, split_plan
from tamatch.storage.folder import RunFolder
from tests.faults.runs import unseal
from tests.photos import dark_and_light
from tests.processes import tamatch as command
from tests.tiny import digits


def decide(given: dict[str, Any], file: Path | None = None, limit: str | None = None) -> Decided:
    return choices.decide(ask(given, file), limit)


@pytest.mark.parametrize(("native", "precision"), [(True, "bf16"), (False, "fp32")])
def test_the_arithmetic_follows_the_cpu(
    native: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "native_bf16", lambda: native)
    run, cpu = configure({}), torch.device("cpu")
    assert choices.precision_of(run, cpu).settings == {"precision": precision}
    wanted = configure({"precision": "tf32"})
    assert choices.precision_of(wanted, cpu).settings == {}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty photos of 70 × 80 pixels, three of each of two classes labelled, and six to test."""
    return dark_and_light(tmp_path_factory.mktemp("photos"), 3, 18, (70, 80))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of a known speed."""
    monkeypatch.setattr(speed, "speed_of", lambda *_: Speed(1, 0.02, 0.1))
    monkeypatch.setattr(choices, "native_bf16", lambda: True)


def test_a_folder_needs_no_options(photos: Path, quick: None) -> None:
    found = decide({"data": str(photos), "weights": "none"})
    run = found.run
    assert (run.size, run.net, run.batch, run.unlabelled) == (32, "wrn_10_1_clean", 8, 8)
    assert (run.steps, run.ema, run.norm_momentum) == (10_000, 0.999, 0.01)
    assert (run.precision, run.baseline) == ("bf16", "supervised")
    assert (run.log_every, run.test_every, run.save_every) == (167, 667, 667)
    assert found.reasons.keys() == {
        "method", "size", "flips", "net", "batch", "unlabelled", "steps", "precision",
    }  # fmt: skip
    first, *rest = found.lines()
    assert first.startswith("Settings chosen for 30 images on ") and len(rest) == 8
    assert "classes are about equally frequent" in rest[0] and run.method == "tamatch"
    assert "the photos have 70" in rest[1] and "a step takes" in rest[6]


def test_threads_are_measured_where_time_matters(
    photos: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def speed_of(run: Run, *_: object) -> Speed:
        return Speed(1, 0.04 / (run.threads or 1), 0.1)

    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    assert decide({"data": str(photos)}).run.threads == 1  # all are equally fast
    monkeypatch.setattr(speed, "speed_of", speed_of)
    found = decide({"data": str(photos)})
    assert found.run.threads == 4 and found.reasons["threads"] == "4: 4.0 × as fast as one"
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


def test_weights_that_are_averaged_over_more_steps_than_there_are_are_named(photos: Path) -> None:
    told = (
        "After 60 steps with --ema 0.99, 55 % of the averaged weights, which are tested, will "
        "still be the initial ones: --ema 0.833 suits so short a run."
    )
    assert decide({"data": "digits", "steps": 60}).lines() == [told]
    assert decide({"data": str(photos), "steps": 60, "ema": 0.99}).remarks[-1] == told
    for known in ({"data": "digits"}, {"data": "digits", "steps": 60, "ema": 0.833}):
        assert decide(known).remarks == ()
    assert "--ema" not in " ".join(decide({"data": str(photos), "steps": 60}).remarks)


def test_where_all_is_labelled_nothing_is_said_of_unlabelled_images(tmp_path: Path) -> None:
    folder = str(dark_and_light(tmp_path / "photos", 3, 0, (8, 8)))
    assert decide({"data": folder, "steps": 20, "weights": "none"}).remarks == ()
    told = decide({"data": folder, "steps": 20, "method": "supervised"}).lines()
    assert not [line for line in told if "unlabelled" in line]


def test_options_win(photos: Path, quick: None, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("batch: 4\nlog_every: 3\n")
    given: dict[str, Any] = {"data": str(photos), "size": 40, "net": "wrn_10_1", "steps": "70"}
    found = decide({**given, "precision": "fp32", "ema": 0}, file)
    run = found.run
    assert (run.size, run.net, run.steps, run.batch, run.log_every) == (40, "wrn_10_1", 70, 4, 3)
    assert (run.unlabelled, run.test_every, run.ema) == (4, 5, 0)
    assert found.reasons.keys() == {"method", "unlabelled", "flips"}


def test_what_is_none_is_left_open(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    tamatch.train(photos, size=None, net=None, steps=1, baseline="none", out=out, quiet=True)
    config = json.loads((out / "run.json").read_text())["config"]
    assert (config["size"], config["net"]) == (32, "wrn_10_1_clean")


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
    assert found.lines() == [] and found.run == configure({})


def test_photos_are_mirrored_unless_it_is_refused(photos: Path, quick: None) -> None:
    found = decide({"data": str(photos)})
    assert found.run.flips == "horizontal" and "--flips none" in found.reasons["flips"]
    found = decide({"data": str(photos), "flips": "none"})
    assert found.run.flips == "none" and "flips" not in found.reasons


def views_of(run: Run) -> Policy:
    data = data_of(run)
    return engine_of(run, data, make_split(data, split_plan(run))).augment.policy


@pytest.mark.parametrize("images", ["device", "stream"])
@pytest.mark.parametrize(
    ("flips", "mirrored", "turned"),
    [("none", False, False), ("horizontal", True, False), ("both", True, True)],
)
def test_the_views_are_mirrored_as_the_run_says(
    photos: Path, images: str, flips: str, mirrored: bool, turned: bool
) -> None:
    given = {"data": str(photos), "size": 8, "steps": 1, "flips": flips, "images": images}
    run = configure(given)
    for one in (run, baseline_config(run)):
        policy = views_of(one)
        assert (policy.horizontal_flip, policy.vertical_flip) == (mirrored, turned)


def test_a_run_is_mirrored_as_it_began(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    tamatch.train(data=photos, steps=1, size=8, flips="none", baseline="none", out=out, quiet=True)
    record = json.loads((out / "run.json").read_text())
    assert record["config"]["flips"] == "none" and " --flips none " in record["command"]
    assert stored_config(RunFolder(out)).flips == "none"
    assert decide({"from_": str(out)}).run.flips == "none"
    del record["config"]["flips"]  # a run from before there was the option
    unseal(out / "run.json", config=record["config"])
    assert stored_config(RunFolder(out)).flips == "horizontal"


def test_a_target_that_follows_the_model_follows_it_in_short_runs(
    photos: Path, quick: None
) -> None:
    given = {"data": str(photos), "target": "adaptive"}
    found = decide({**given, "steps": 1500})
    assert found.run.options["lambda_target"] == 0.9982539
    assert "after 1,500 steps, 7 % of the target's uniform start" in found.reasons["lambda_target"]
    assert any(line.startswith("  lambda_target 0.998") for line in found.lines())
    by_time = decide(given, limit="60s").run
    assert by_time.options["lambda_target"] ** by_time.steps == pytest.approx(0.0727, rel=0.01)
    mine = decide({**given, "lambda_target": 0.9})
    assert mine.run.options["lambda_target"] == 0.9 and "lambda_target" not in mine.reasons


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"target": "uniform"}, None), ({"prior": "3,1"}, None), ({"method": "fixmatch"}, "none"),
        ({"target": "adaptive", "method": "tamatch_no_ema_target"}, 1.0),
        ({"target": "adaptive", "data": "digits"}, None),
    ],
)  # fmt: skip
def test_other_targets_keep_their_speed(photos: Path, given: dict[str, Any], value: object) -> None:
    run = decide({"data": str(photos), "steps": 20, **given}).run
    assert run.options.get("lambda_target", "none") == value


def test_a_run_that_goes_on_with_another_target_has_its_speed(
    photos: Path, tmp_path: Path, quick: None
) -> None:
    def after(record: dict[str, Any], limit: str | None = None, **given: Any) -> dict[str, Any]:
        config = {"data": str(photos), "steps": 1500, "method": "tamatch", **record}
        (tmp_path / "run.json").write_text(json.dumps({"config": config}))
        run = decide({"from_": str(tmp_path), **given}, limit=limit).run
        return {"steps": run.steps, "prior": run.prior, **run.options}

    uniform = {"options": {"target": "uniform", "lambda_target": None}}
    moving = {"options": {"target": "adaptive", "lambda_target": 0.998}}
    known = {"prior": [0.5, 0.5], "options": {"target": "prior", "lambda_target": None}}
    for earlier in (uniform, known):
        assert after(earlier, target="adaptive")["lambda_target"] == 0.9982539
    assert after(moving, target="uniform")["lambda_target"] is None
    assert after(moving)["lambda_target"] == 0.998
    assert after(moving, lambda_target=0.9)["lambda_target"] == 0.9
    assert after(moving, prior="3,1")["target"] == after(uniform, prior="3,1")["target"] == "prior"
    assert after(known)["prior"] == (0.5, 0.5)
    longer = after(moving, limit="10m")
    assert longer["lambda_target"] ** longer["steps"] == pytest.approx(0.0727, rel=0.01)
    never_chosen = {"options": {"target": "adaptive", "lambda_target": None}}
    assert after(never_chosen)["lambda_target"] == 0.9982539


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"method": "tamatch"}, True), ({"tau": 0.9}, True), ({"target": "uniform"}, False),
        ({"target": "labelled"}, False), ({"prior": "7,1"}, False),
        ({"lambda_target": 0.99}, False), ({"method": "fixmatch"}, False), ({}, False),
    ],
)  # fmt: skip
def test_a_uniform_target_on_unequal_labels_is_told(
    tmp_path: Path, given: dict[str, Any], told: bool
) -> None:
    folder = dark_and_light(tmp_path / "photos", 7, 4, (8, 8))
    for _ in range(6):
        next((folder / "train/dark").glob("*.png")).unlink()
    found = decide({"data": str(folder), "steps": 10_000, "net": "wrn_10_1", **given})
    line = 'There are 7 labels of "light" and 1 of "dark", and the target is uniform'
    assert any(text.startswith(line) for text in found.lines()) is told
    tailed = not given  # whoever says something of the method has chosen it
    assert (found.run.method == "tamatch_lt") is ("method" in found.reasons) is tailed
    assert found.run.baseline == ("none" if "method" in given else "supervised")


def test_a_time_sets_the_steps_and_what_follows_from_them(quick: None) -> None:
    found = decide({"data": "digits", "method": "fixmatch", "warmup": 0}, limit="5m")
    run = found.run
    assert 8000 < run.steps < 13_000 and run.net == "wrn_10_1_clean"
    assert run.test_every == math.ceil(run.steps / 15)
    assert found.reasons.keys() == {"steps"} and "as many as fit into 5m" in found.reasons["steps"]
    with pytest.raises(UsageError, match="--steps and --time both set the length of a run"):
        decide({"steps": 10}, limit="5m")


def test_the_warmup_keeps_its_share_of_a_shorter_run(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = {"data": "digits", "steps": 1000, "warmup": 50}
    (tmp_path / "run.json").write_text(json.dumps({"config": earlier}))
    monkeypatch.setitem(recipes.DIGITS, "warmup", recipes.DIGITS["steps"] // 10)
    for given, share in (({}, 0.1), ({"from_": str(tmp_path)}, 0.05)):
        run = decide(given, limit="30s").run
        assert run.steps < 1000 and run.warmup == round(share * run.steps)
        assert decide({**given, "steps": "200"}).run.warmup == round(share * 200)
    assert decide({"warmup": 7}, limit="30s").run.warmup == 7
    assert decide({"warmup": 7, "steps": 200}).run.warmup == 7
    assert decide({"data": "eurosat", "steps": 1000}).run.warmup == 25  # 5,120 of 204,800


@pytest.mark.parametrize(
    ("length", "told"),
    [
        ({"steps": 1000, "warmup": "x"}, "--warmup takes a whole number, got 'x'"),
        ({"steps": 0, "warmup": 50}, "config.steps is 0, not a whole number of 1 or more"),
    ],
)
def test_a_damaged_length_of_the_run_before_is_told(
    length: dict[str, object], told: str, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"config": {"data": "digits", **length}}))
    with pytest.raises(TamatchError, match=told):
        decide({"from_": str(tmp_path), "steps": 200})


def test_the_speed_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "MEASURED_SECONDS", 0.1)
    data, split = digits()
    run = configure({"steps": 10})
    both = speed.Speeds(data, split).with_baseline(run)
    assert len(both) == 2 and both[1].step < both[0].step  # a baseline has fewer images a step
    assert all(0 < value < 30 for one in both for value in (one.start, one.step, one.test))


@pytest.fixture
def on_a_gpu(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the choices go."""
    monkeypatch.setattr(choices, "pick_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(choices, "pick_precision", lambda *_: "bf16")
    monkeypatch.setattr(choices, "machine", lambda *_: "a GPU")


@pytest.mark.usefixtures("on_a_gpu")
def test_nothing_is_compiled_for_a_time_that_is_refused(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(speed, "speed_of", lambda *_: compiled.append("a step"))
    monkeypatch.setattr("tamatch.runs.build.accelerate", lambda *_: compiled.append("a net"))
    with pytest.raises(UsageError, match=r"--time 29s is too short .* Give 30s or more"):
        decide({"data": str(photos)}, limit="29s")
    clock = SimpleNamespace(perf_counter=iter([0.0, 16.0]).__next__)  # reading takes 16 s
    monkeypatch.setattr(choices, "time", clock)
    with pytest.raises(UsageError, match=r"too little is left for training. Give 50s or more"):
        decide({"data": str(photos)}, limit="45s")
    assert not compiled


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize(
    ("limit", "given", "compiles"),
    [("45s", {}, False), ("74s", {}, False), ("75s", {}, True), ("45s", {"compile": True}, True)],
)
def test_a_short_time_does_without_compiling(
    photos: Path, limit: str, given: dict[str, Any], compiles: bool
) -> None:
    found = decide({"data": str(photos), **given}, limit=limit)
    assert found.run.compile is compiles
    assert ("compile" in found.reasons) is not compiles
    assert compiles or f"off: does not pay within {limit}" in "".join(found.lines())


def test_the_baseline_gives_way_to_a_short_time(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "speed_of", lambda *_: Speed(1, 0.18, 0.1))
    found = decide({"data": str(photos)}, limit="30s")
    assert found.run.baseline == "none" and found.run.steps >= 50
    assert "baseline   none: no time for one within 30s" in "\n".join(found.lines())
    kept = decide({"data": str(photos), "baseline": "supervised"}, limit="30s").run
    assert kept.baseline == "supervised" and 10 <= kept.steps < 50
    assert decide({"data": str(photos)}, limit="1m").run.baseline == "supervised"


def test_no_run_is_measured_twice(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[str, int | None, float]] = []

    def speed_of(run: Run, data: object, split: object, seconds: float) -> Speed:
        measured.append((run.method, run.threads, seconds))
        return Speed(1, 0.02 / (run.threads or 1), 0.1)

    monkeypatch.setattr(speed, "speed_of", speed_of)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    decide({"data": str(photos)}, limit="40s")
    assert measured == [("tamatch", 1, 1.0), ("tamatch", 4, 1.0), ("supervised", 4, 1.0)]


def test_arrays_keep_their_size(tmp_path: Path, quick: None) -> None:
    images = np.zeros((12, 20, 20, 3), np.uint8)
    labels = np.array([0, 1] * 3 + [-1] * 6)
    np.savez(tmp_path / "small.npz", images=images, labels=labels)
    small = decide({"data": str(tmp_path / "small.npz"), "steps": 10})
    assert small.run.size == 20
    assert small.reasons["size"] == "20 × 20 pixels: as the images are; they are not made larger"
    np.savez(tmp_path / "large.npz", images=np.zeros((12, 70, 70), np.uint8), labels=labels)
    assert decide({"data": str(tmp_path / "large.npz"), "steps": 10}).run.size == 32


def test_a_run_says_what_was_chosen_and_why(
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(speed, "speed_of", lambda *_: Speed(0, 0.3, 0))
    out = tmp_path / "run"
    options = {"net": "wrn_10_1_clean", "size": 16, "batch": 2}
    tamatch.train(data=str(photos), out=out, time="60s", **options)
    said = capsys.readouterr().err
    assert "Settings chosen for 30 images" in said and "as many as fit into 60s" in said
    assert (out / "log.txt").read_text().startswith("Settings chosen for 30 images")
    record = json.loads((out / "run.json").read_text())
    assert record["chosen"].keys() == {"method", "unlabelled", "flips", "steps", "precision"}
    steps = record["config"]["steps"]
    assert 50 <= steps <= 75 and f"--steps {steps} " in record["command"]
    assert json.loads((out / "baseline" / "run.json").read_text())["config"]["steps"] == steps
    tamatch.resume(out)
    assert "Settings chosen" not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "most"), [("30s", 40), ("2m", 150)])
def test_a_run_ends_in_the_time_it_was_given(
    photos: Path, tmp_path: Path, limit: str, most: float
) -> None:
    began = time.monotonic()
    done = command("train", "--data", str(photos), "--out", str(tmp_path / "a"), "--time", limit)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < most  # longer only by what else the machine does


def test_the_choices_can_be_looked_at_first(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", "--data", str(photos), "--steps", "30", "--print-config"]) == 0
    shown = capsys.readouterr().out
    assert "size: 32" in shown and "test_every: 2" in shown
