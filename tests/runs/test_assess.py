"""What a finished run says of itself: trust.json, the pool's table, pictures and warnings."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils._python_dispatch import TorchDispatchMode

import tamatch
from tamatch import cli
from tamatch.data import DataSet, Split, SplitPlan, load, make_split
from tamatch.judge.trust import fit_temperature, measure, reliability, tempered
from tamatch.pseudo import Guess
from tamatch.pseudo.account import class_shares, generated, threshold
from tamatch.report.album import COLUMNS, MOST, TILE, sheet
from tamatch.runs.end import drawn, predict_pool, pseudo_label_probabilities
from tamatch.stats import Tally
from tamatch.step.engine import Pace
from tamatch.step.source import UNLABELLED, Draw, Pool, Resident
from tamatch.storage import checkpoint
from tamatch.storage.folder import RunFolder
from tests.tiny import digits, tiny_engine, tiny_method

OPTIONS = {
    "data": "digits", "steps": 60, "batch": 16, "unlabelled": 32, "lr": 0.1, "tau": 0.6, "ema": 0.0,
    "labels_per_class": 20, "validation_per_class": 10, "baseline": "none", "test_every": 60,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("assess") / "run"
    tamatch.train(out=path, quiet=True, **OPTIONS)
    return path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def said(run: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """The exported model's probabilities on a part of the run, and the true labels."""
    data = load("digits")
    position = {file: i for i, file in enumerate(data.files)}
    files = [r["image"] for r in rows(run / "split.csv") if r["role"] == part]
    at = [position[file] for file in files]
    return tamatch.load(run).predict(data.images[at]).probabilities, data.labels[at]


def test_the_stored_figures_are_those_of_the_exported_model(run: Path) -> None:
    stored = json.loads((run / "trust.json").read_text())
    p, labels = said(run, "test")
    found = measure(p, labels)
    assert stored["measured_on"] == "test" and stored["images"] == 500
    assert stored["accuracy"] == found.accuracy
    assert stored["interval"] == pytest.approx(found.interval)
    assert stored["balanced_accuracy"] == pytest.approx(found.balanced_accuracy)
    assert [tuple(entry) for entry in stored["confusion"]] == list(found.confusion)
    assert [c["recall"] for c in stored["classes"]] == [c.recall for c in found.classes]
    result = json.loads((run / "result.json").read_text())
    assert 100 * (1 - stored["accuracy"]) == pytest.approx(result["error_last"])


def test_the_temperature_is_fitted_on_validation_images_and_used_by_predict(run: Path) -> None:
    stored = json.loads((run / "trust.json").read_text())["calibration"]
    t = json.loads((run / "model" / "model.json").read_text())["temperature"]
    assert stored["temperature"] == t != 1 and stored["fitted_on"] == 100
    p_val, y_val = said(run, "validation")
    assert fit_temperature(tempered(p_val, 1 / t), y_val) == pytest.approx(t, rel=1e-3)
    p, labels = said(run, "test")
    assert reliability(p, labels).ece == pytest.approx(stored["after"]["ece"], abs=1e-4)
    before = reliability(tempered(p, 1 / t), labels)
    assert before.ece == pytest.approx(stored["before"]["ece"], abs=1e-4)
    listed = rows(run / "predictions" / "test.csv")
    assert [float(r["confidence"]) for r in listed] == pytest.approx(p.max(-1).tolist(), abs=1e-5)


def test_the_pool_is_listed_with_what_training_did(run: Path) -> None:
    listed = rows(run / "predictions" / "pool.csv")
    state = checkpoint.load(checkpoint.saved_in(run / "checkpoints")[-1])["engine"]["method"]
    roles = rows(run / "split.csv")
    given = {r["image"] for r in roles if r["role"] in ("labelled", "validation")}
    pool = [r["image"] for r in roles if r["role"] == "unlabelled"]
    count = dict(zip(pool, state["labeler.tally.count"].tolist(), strict=True))
    assert [r["image"] for r in listed] == [image for image in pool if image not in given]
    assert all(int(r["accepted"]) == count[r["image"]] for r in listed)
    p, _ = said(run, "unlabelled")
    sure = dict(zip(pool, p.max(-1).tolist(), strict=True))
    assert all(abs(float(r["confidence"]) - sure[r["image"]]) < 1e-5 for r in listed)
    never = rows(run / "never_accepted.csv")
    assert {r["image"] for r in never} == {r["image"] for r in listed if r["accepted"] == "0"}
    order = [float(r["confidence"]) for r in never]
    assert order == sorted(order)
    stored = json.loads((run / "trust.json").read_text())["pool"]
    assert stored["never_accepted"] == len(never) and stored["images"] == len(listed)


def test_the_sweep_follows_from_the_table(run: Path) -> None:
    listed = rows(run / "predictions" / "pool.csv")
    stored = json.loads((run / "trust.json").read_text())["pool"]
    assert stored["tau"] == 0.6
    for level in stored["sweep"]:
        kept = [r for r in listed if float(r["pseudo_confidence"]) >= level["tau"]]
        assert level["used"] == pytest.approx(len(kept) / len(listed), abs=2e-3)
        if kept:
            right = np.mean([r["pseudo_label"] == r["label"] for r in kept])
            assert level["precision"] == pytest.approx(right, abs=0.02)


def test_pictures_hold_the_notable_images(run: Path) -> None:
    stored = json.loads((run / "trust.json").read_text())
    wrong, doubtful = stored["confident_wrong"], stored["doubtful"]
    assert all(t["label"] != t["predicted"] for t in wrong) and 0 < len(wrong) <= MOST
    assert [t["confidence"] for t in wrong] == sorted(
        (t["confidence"] for t in wrong), reverse=True
    )
    assert [t["confidence"] for t in doubtful] == sorted(t["confidence"] for t in doubtful)
    for name in ("confident_wrong", "doubtful", "never_accepted"):
        with Image.open(run / "pictures" / f"{name}.jpg") as picture:
            assert picture.width == COLUMNS * TILE


def test_evaluate_shows_the_same(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = json.loads((run / "trust.json").read_text())
    assert cli.main(["evaluate", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["accuracy"] == pytest.approx(stored["accuracy"])
    assert told["interval"] == pytest.approx(stored["interval"])
    assert told["balanced_accuracy"] == pytest.approx(stored["balanced_accuracy"])
    assert told["ece"] == pytest.approx(stored["calibration"]["after"]["ece"], abs=1e-4)
    assert cli.main(["evaluate", str(run)]) == 0
    text = capsys.readouterr().out
    low, high = (f"{100 * v:.1f}" for v in stored["interval"])
    assert (
        f"95 % confidence interval {low} to {high} %" in text
        and "precision" in text
        and "recall" in text
    )


def test_nothing_held_out_is_said_to_be_not_measured(tmp_path: Path) -> None:
    photos, images = tmp_path / "photos", load("digits").images
    for folder, first in (("one", 0), ("two", 10), ("unlabelled", 20)):
        (photos / folder).mkdir(parents=True)
        for i in range(first, first + 5):
            Image.fromarray(images[i]).save(photos / folder / f"{i}.png")
    out = tmp_path / "run"
    small = {"batch": 4, "unlabelled": 4, "net": "wrn_10_1_clean", "size": 8, "baseline": "none"}
    tamatch.train(out=out, data=str(photos), steps=1, labelled_in_pool="no", quiet=True, **small)
    stored = json.loads((out / "trust.json").read_text())
    assert stored["measured_on"] is None and "--validation-per-class N" in stored["reason"]
    assert stored["pool"]["accuracy"] is None
    assert {level["precision"] for level in stored["pool"]["sweep"]} == {None}
    assert stored["pool"]["drawn"] == 4  # of five, in one step
    assert all(r["label"] == "" for r in rows(out / "predictions" / "pool.csv"))
    never = rows(out / "never_accepted.csv")
    assert len(never) <= 4
    assert json.loads((out / "model" / "model.json").read_text())["temperature"] == 1


def test_a_supervised_run_has_no_pool(tmp_path: Path) -> None:
    options = {**OPTIONS, "steps": 2, "method": "supervised"}
    del options["tau"]
    tamatch.train(out=tmp_path / "run", quiet=True, **options)
    stored = json.loads((tmp_path / "run" / "trust.json").read_text())
    assert stored["pool"] is None and not (tmp_path / "run" / "never_accepted.csv").exists()


def test_asking_changes_nothing() -> None:
    data, split = digits()
    engine = tiny_engine("tamatch", ema=0.9)
    for _ in range(3):
        engine.advance()
    before = {k: v.clone() for k, v in engine.method.state_dict().items()}
    found = predict_pool(engine, Pool(data, split))
    for key, value in engine.method.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert all(m.training for m in engine.method.net.modules())
    assert found.accepted is not None and found.accepted.sum() > 0


def test_pseudo_labels_are_those_of_the_net_in_training() -> None:
    """An average that lags behind is what is exported, but not what labels the pool."""
    data, split = digits()
    engine = tiny_engine("fixmatch", ema=0.999)
    for _ in range(20):
        engine.advance()
    images = Pool(data, split).images[:50]
    live = pseudo_label_probabilities(engine, images)
    engine.method.average.load_state_dict(engine.method.net.state_dict())  # type: ignore[union-attr]
    torch.testing.assert_close(live, engine.probabilities(images))


def with_replacement(data: DataSet, split: Split, draw: Draw, device: torch.device) -> Resident:
    return Resident(data, split, replace(draw, replacement=True), device)


@pytest.mark.parametrize("source", [Resident, with_replacement])
def test_images_that_were_never_drawn_are_not_called_rejected(source: Any) -> None:
    engine = tiny_engine("fixmatch", tau=0.999, source=source)
    for _ in range(engine.pace.steps):
        engine.advance()
    seen = drawn(engine)
    ids = engine.source.samplers[UNLABELLED].ids(0, engine.pace.steps)
    assert set(np.flatnonzero(seen)) == set(ids.ravel().tolist())
    data, split = digits()
    found = predict_pool(engine, Pool(data, split))
    assert found.drawn[found.never].all() and not found.drawn.all()


@pytest.mark.parametrize("source", [Resident, with_replacement])
def test_as_many_draws_as_images_are_all_images_only_without_replacement(source: Any) -> None:
    engine = tiny_engine("fixmatch", source=source)
    pool = engine.source.samplers[UNLABELLED]
    engine.pace = Pace(-(-pool.count // pool.batch))
    assert drawn(engine).all() == (not pool.replacement)
    engine.pace = Pace(10**9)  # no longer than until all are seen
    assert drawn(engine).all()


@pytest.mark.parametrize(
    ("method", "options", "rescales", "weighs", "tau"),
    [
        ("tamatch", {}, True, True, 0.2),
        ("tamatch", {"weigh": "class*gaussian"}, True, True, 0.2),
        ("tamatch", {"weigh": "gaussian*class"}, True, True, 0.2),
        ("tamatch_no_rescaling", {"generate": "raw"}, False, True, 0.2),
        ("fixmatch", {}, False, False, 0.2),
        ("softmatch", {}, False, False, None),
        ("adamatch", {}, True, False, None),  # τ times the confidence on labelled images
        ("flexmatch", {}, False, False, None),
        ("comatch", {}, True, False, 0.2),
        ("remixmatch", {}, True, False, None),
    ],
)
def test_what_a_method_does_about_class_shares(
    method: str, options: dict[str, Any], rescales: bool, weighs: bool, tau: float | None
) -> None:
    made = tiny_engine(method, **options).method
    found = class_shares(made)
    assert found["p_model"] is not None and found["p_target"] is not None
    assert (found["factors"] is not None) == rescales
    assert (found["weights"] is not None) == weighs
    assert threshold(made) == tau


def test_factors_and_weights_are_the_paper_s() -> None:
    made = tiny_engine("tamatch").method
    model = torch.full((10,), 0.1, dtype=torch.float64)
    model[0], model[1] = 0.05, 0.15
    made.labeler.status.model.value.copy_(model)  # type: ignore[union-attr, operator]
    found = class_shares(made)
    assert found["factors"] == pytest.approx((0.1 / model).tolist(), rel=1e-4)
    bound = float(made.labeler.status.bound)  # type: ignore[union-attr, arg-type]
    assert found["weights"] == pytest.approx([bound, *[1.0] * 9], rel=1e-4) and 1 < bound < 2


def test_methods_without_shares_say_so() -> None:
    assert set(class_shares(tiny_engine("mixmatch").method).values()) == {None}


def test_a_threshold_that_is_no_number_is_not_told() -> None:
    made = tiny_method("mixmatch")
    made.tau = torch.tensor(0.5)  # of a method of one's own, say
    assert threshold(made) is None


def test_labels_are_made_as_in_training_also_by_methods_without_a_labeler() -> None:
    p, seen = torch.rand(2, 6, 10).softmax(-1)
    aligned = tiny_method("remixmatch")
    aligned.status.observe_(seen, seen)  # type: ignore[union-attr, operator]
    moved = p * 0.1 / seen.mean(0)  # the digits' labels are balanced
    torch.testing.assert_close(generated(aligned, p), moved / moved.sum(-1, keepdim=True))
    assert generated(tiny_method("mixmatch"), p) is p


def test_a_part_that_is_asked_after_training_does_not_learn() -> None:
    learns = []

    def own(guess: Guess) -> torch.Tensor:
        learns.append(guess.learn)
        return guess.p_w

    generated(tiny_method("fixmatch", generate=own), torch.full((1, 10), 0.1))
    assert learns == [False]


def warnings_of(run: Path) -> dict[str, str]:
    return {w["name"]: w["what"] for w in json.loads((run / "run.json").read_text())["warnings"]}


def test_a_run_whose_pool_is_not_used_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {**OPTIONS, "tau": 0.99999, "steps": 8, "log_every": 2}
    tamatch.train(out=tmp_path / "run", **options)
    told = capsys.readouterr().err
    assert told.count("of the unlabelled images are used: hardly any reaches τ = 0.99999") == 1
    assert "unlabelled images not used" in warnings_of(tmp_path / "run")
    assert "hardly any reaches" in (tmp_path / "run" / "log.txt").read_text()


def test_worries_are_told_while_there_is_time(tmp_path: Path) -> None:
    """As soon as enough images were seen, not at the end alone."""
    many = {"log_every": 8, "unlabelled": 128, "steps": 24, "test_every": 24}  # 1,024 images a line
    tamatch.train(out=tmp_path / "run", quiet=True, **{**OPTIONS, **many, "tau": 0.99999})
    assert "after 8 steps" in (tmp_path / "run" / "log.txt").read_text()


def test_a_run_that_goes_well_is_not_warned(run: Path) -> None:
    assert warnings_of(run) == {}
    assert not (run / "log.txt").exists()  # a quiet run had nothing to say


def test_a_resumed_run_does_not_repeat_itself(tmp_path: Path) -> None:
    path = tmp_path / "run"
    tamatch.train(out=path, quiet=True, **{**OPTIONS, "tau": 0.99999, "steps": 4, "log_every": 1})
    RunFolder(path).update(status="stopped")
    tamatch.resume(path, quiet=True)
    assert (path / "log.txt").read_text().count("hardly any reaches") == 1


@pytest.fixture
def shifted(tmp_path: Path) -> Iterator[Path]:
    photos, data = tmp_path / "photos", load("digits")
    split = make_split(data, SplitPlan(labels_per_class=2))
    for i in split.labelled:
        folder = photos / data.classes[data.labels[i]]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.images[i]).save(folder / f"{i}.png")
    (photos / "unlabelled").mkdir()
    for i in split.unlabelled[:60]:
        brighter = np.clip(data.images[i].astype(int) + 60, 0, 255).astype(np.uint8)
        Image.fromarray(brighter).save(photos / "unlabelled" / f"{i}.png")
    yield photos


def test_a_pool_of_another_kind_is_noticed_before_the_first_step(
    shifted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"batch": 4, "unlabelled": 4, "net": "wrn_10_1_clean", "size": 8, "baseline": "none"}
    tamatch.train(out=tmp_path / "run", data=str(shifted), steps=2, labelled_in_pool="no", **small)
    told = capsys.readouterr().err
    assert told.index("look different") < told.index("step 2/2")
    assert "labelled and unlabelled images look different" in warnings_of(tmp_path / "run")


def test_a_sheet_is_cut_up_again() -> None:
    colours = np.array([[[[i * 6, 0, 255 - i * 6]]] for i in range(40)], np.uint8)
    images = colours.repeat(8, 1).repeat(8, 2)
    with Image.open(BytesIO(sheet(images))) as paper:
        assert paper.size == (COLUMNS * TILE, MOST // COLUMNS * TILE)
        middle = (13 % COLUMNS * TILE + 32, 13 // COLUMNS * TILE + 32)
        assert np.abs(np.array(paper.getpixel(middle)) - images[13, 0, 0]).max() < 12
    with Image.open(BytesIO(sheet(np.zeros((1, 100, 100, 3), np.uint8)))) as paper:
        assert paper.size == (COLUMNS * TILE, TILE)


class Counter(TorchDispatchMode):
    """Counts the operations that would be kernels on a device; views and empty memory are none."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.count += not (func.is_view or "empty" in str(func))
        return made


@pytest.mark.parametrize("method", ["tamatch", "flexmatch", "comatch", "dash"])
def test_counting_acceptances_costs_two_small_kernels(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def operations() -> int:
        engine = tiny_engine(method)
        for _ in range(2):
            engine.advance()
        engine.prepare_step(engine.steps_done)
        with Counter() as counter:
            engine.step()
        return counter.count

    counted = operations()
    monkeypatch.setattr(Tally, "add_", lambda self, ids, mask: None)
    assert counted - operations() == 2
