"""A net that is tuned from the first answer on, and kept where held-out labels say so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

import tamatch
from tamatch import nets
from tamatch.cli import main
from tamatch.errors import DataError, Stopped, UsageError
from tamatch.methods.tamatch_lt import TaMatchLT
from tamatch.methods.taught import Taught
from tamatch.nets.features import frozen
from tamatch.progress import Progress
from tamatch.pseudo.account import find_module
from tamatch.report import verdict_on
from tamatch.report.folder import read_folder
from tamatch.rules import finetune
from tamatch.rules.pace import Speed
from tamatch.runs import decide as deciding
from tamatch.runs import first_answer, tune
from tamatch.runs.build import Start, engine_of
from tamatch.runs.decide import decide
from tamatch.runs.first_answer import Task, columns
from tamatch.runs.first_settings import way_of
from tamatch.runs.record import begin
from tamatch.runs.start import Job, SharedData
from tamatch.runs.training import Training
from tamatch.runs.tune import Tuning, first_job, start_of
from tamatch.settings.configure import ask
from tamatch.settings.inputs import split_of
from tamatch.stats import Status
from tamatch.storage.folder import RunFolder
from tests.frozen.conftest import NET
from tests.photos import dark_and_light
from tests.processes import fingerprint

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dark_and_light(tmp_path_factory.mktemp("photos"), 5, 20, (24, 30))


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAMATCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def tuned(photos: Path, tiny: str, tmp_path_factory: pytest.TempPathFactory) -> tamatch.Finished:
    """A run of six passes through the pool: held-out labels are all right, before and after."""
    out = tmp_path_factory.mktemp("runs") / "tuned"
    return tamatch.train(photos, weights=tiny, steps=20, out=out, quiet=True)


def test_the_ladder(tuned: tamatch.Finished, photos: Path, tmp_path: Path) -> None:
    told = tuned.tuning
    assert told is not None and told["kept"] and (told["labels"], told["wrong"]) == (2, 0)
    names = [rung["name"] for rung in told["ladder"]]
    assert names == ["labels alone", "labels and unlabelled images", "net tuned"]
    assert [rung["held_out"]["labels"] for rung in told["ladder"]] == [10, 10, 2]
    assert all(rung["interval"][0] == 0 and rung["seconds"] > 0 for rung in told["ladder"])
    solved = json.loads((tuned.path / "first/result.json").read_text())
    looking = solved["first_answer"]["features_seconds"]
    assert told["ladder"][1]["seconds"] == pytest.approx(solved["seconds"] - looking, abs=0.002)
    assert tuned.first_answer is not None and tuned.result["method"] == "tamatch_solved"
    assert "pool 50 % to 50 % a class (KL from equal 0.00 ≤ 0" in str(tuned.method_reason)
    page = (tuned.path / "report.html").read_text()
    assert "What each step brings" in page and "The tuned net is kept: of 2 held-out" in page
    assert "net tuned" in page and "Error over steps" in page
    assert verdict_on(tuned.path).endswith("Tuned from there, the net has 0.0 %.")

    model = tamatch.load(tuned.path)
    assert model.facts.net == f"tuned/{NET}" and model.facts.size == 24
    assert model.predict(sorted((photos / "test" / "light").glob("*.png"))).label == ["light"] * 5
    for words in (["evaluate"], ["label", "--out", str(tmp_path / "labels.csv")]):
        assert main([words[0], str(tuned.path), *words[1:]]) == 0
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 31
    assert main(["export", str(tuned.path), "--format", "safetensors"]) == 0


def test_what_is_odd_about_the_data_is_told_once(tiny: str, tmp_path: Path) -> None:
    folder = dark_and_light(tmp_path / "photos", 5, 0, (24, 30))
    shutil.rmtree(folder / "test")
    shutil.copy(folder / "train/dark/0.png", folder / "train/light/9.png")
    (folder / "train/dark/broken.png").write_text("no picture")
    run = tamatch.train(folder, weights=tiny, steps=2, out=tmp_path / "run", quiet=True).path
    said = (run / "log.txt").read_text()
    for remark in ("1 of 12 images cannot be read", "There are no unlabelled images", "is wrong."):
        assert said.count(remark) == 1, said
    assert "no error will be measured" not in said  # it is, by cross-validation


def test_a_pool_of_unequal_classes_is_tuned_for_equal_ones(tiny: str, tmp_path: Path) -> None:
    folder = dark_and_light(tmp_path / "photos", 5, 60, (24, 30))
    for light in [*(folder / "unlabelled").glob("*[13579].png")][:27]:
        light.unlink()
    asked = {"data": str(folder), "weights": tiny, "steps": 8}
    decided = decide(ask(asked))
    assert decided.run.method == "tamatch_lt" and decided.reasons["method"] in decided.lines()[1]
    found = tamatch.train(**asked, out=tmp_path / "run", quiet=True)
    assert found.first_answer is not None and found.method_reason == decided.reasons["method"]
    shares = found.first_answer["pool_shares"]
    told = f"pool {100 * max(shares):.0f} % to {100 * min(shares):.0f} % a class (KL from equal 0."
    assert min(shares) < 0.25 and told in found.method_reason
    record = json.loads((found.path / "run.json").read_text())
    assert record["chosen"]["method"] == found.method_reason
    assert "The method was chosen, tamatch_lt: for unequal" in found.report_path.read_text()
    plain = tamatch.train(**asked, method="tamatch", net=f"tuned/{NET}", out=tmp_path / "p")
    assert plain.method_reason is None and plain.result["method"] == "tamatch"


def test_both_heads_of_the_long_tailed_form_begin_at_the_first_answer(
    photos: Path, tiny: str
) -> None:
    run = decide(
        ask({"data": str(photos), "weights": tiny, "method": "tamatch_lt", "net": f"tuned/{NET}",
             "steps": 20})
    ).run  # fmt: skip
    data = SharedData().data(run)
    shares = torch.tensor([0.9, 0.1])
    head = torch.randn(2, 257, generator=torch.Generator().manual_seed(0))
    start = Start(head, torch.tensor([0.5, 0.5], dtype=torch.float64), shares.double())
    method = engine_of(run, data, split_of(run, data, run.size), start=start).method
    assert isinstance(method, TaMatchLT) and method.second is not None
    assert torch.equal(method.labeler.status.shares, shares.double())
    own, other = method.net.head, method.second
    assert torch.equal(own.weight, other.weight)
    torch.testing.assert_close(other.bias - own.bias, (shares + 1e-6).log())


@pytest.mark.parametrize(
    "options", [{"method": "cdmad"}, {"method": "fixmatch", "test_strength": -1.0}]
)
def test_logits_shifted_at_test_time_do_not_fit_a_layer_that_is_solved_anew(
    options: dict[str, Any], photos: Path, tiny: str, tmp_path: Path
) -> None:
    asked = {"weights": tiny, "net": f"tuned/{NET}", "steps": 4, "out": tmp_path / "run"}
    method = options["method"]
    with pytest.raises(UsageError) as refused:
        tamatch.train(photos, **asked, **options, quiet=True)
    assert str(refused.value) == (
        f"--method {method} shifts logits at test time, which the last layer of a tuned net does "
        f"not fit: it is solved anew at the end. Use --net {NET}, or leave the shift out."
    )


def test_step_0_is_the_first_answer(photos: Path, tiny: str, tmp_path: Path) -> None:
    """On the same pixels, the head on the features and the net with it say the same."""
    asked = {"data": str(photos), "weights": tiny, "steps": 20, "precision": "fp32"}
    decided = decide(ask(asked | {"method": "tamatch", "net": f"tuned/{NET}"}))
    folder = RunFolder(tmp_path / "run")
    with folder.taken(overwrite=False):
        begin(decided.run, folder, decided.reasons)
        job, shared = Job(decided.run, folder, Progress(folder.log, quiet=True)), SharedData()
        first = start_of(job, shared)
        assert first_job(job).run.validation_per_class == 0  # all labels
    run, data = decided.run, shared.data(decided.run)
    split = split_of(run, data, run.size)
    assert run.validation_per_class == 1 and len(split.validation) == 2
    net = frozen(tiny, data.size, CPU, NET)
    rows = net.features(torch.from_numpy(np.array(data.images))).float()
    used = columns(data, split, rows, net.upper)
    found = Task.of(run, data, split, rows, used, net.upper, CPU).solved()
    assert torch.allclose(found.head, first.start.head, atol=0.05)  # features may be in bfloat16

    engine = engine_of(run, data, split, start=first.start)
    images = torch.from_numpy(np.array(data.images)).permute(0, 3, 1, 2)
    exact = (rows.double() @ first.start.head[:, :-1].T.double() + first.start.head[:, -1]).softmax(
        1
    )
    for one in (engine.method.net, engine.method.average):
        assert torch.allclose(engine.probabilities(images, of=one), exact.float(), atol=2e-4)
    assert not torch.allclose(
        engine_of(run, data, split).probabilities(images), exact.float(), atol=0.05
    )
    status = find_module(engine.method, Status)
    assert status is not None and torch.equal(status.model.value, first.start.p_model)


def test_the_solution_teaches_anew(
    photos: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start and five times on the way: the pool's classes, and the last layer."""
    seen = []
    whole = Tuning.teach

    def teach(self: Tuning, found: Any) -> None:
        whole(self, found)
        method = self.engine.method
        assert isinstance(method, Taught)
        heads = [net.head.weight.clone() for net in (method.net, method.final)]
        seen.append((self, found, method.labels.clone(), method.amounts.clone(), heads))

    monkeypatch.setattr(Tuning, "teach", teach)
    monkeypatch.setattr(Tuning, "renew", counted := Counter(Tuning.renew))
    tamatch.train(photos, weights=tiny, steps=20, out=tmp_path / "run", quiet=True)
    assert counted.steps == [1, 3, 6, 10, 15] and len(seen) == 6
    tuning = seen[0][0]
    split, data = tuning.first.split, tuning.first.data
    truth, unknown = data.labels[split.unlabelled], np.isin(split.unlabelled, split.unknown)
    labelled = np.isin(split.unlabelled, split.labelled)
    held_out = np.isin(split.unlabelled, split.validation)
    assert (labelled.sum(), held_out.sum(), unknown.sum()) == (8, 0, 20)
    assert seen[0][1] is tuning.first.solution
    for k, (_, found, labels, amounts, heads) in enumerate(seen):
        assert np.array_equal(labels.numpy()[labelled], truth[labelled])
        assert np.array_equal(labels.numpy()[unknown], found.q.argmax(1).numpy())
        assert np.all(amounts.numpy()[labelled] == 1) and np.all(amounts.numpy()[held_out] == 0)
        assert np.allclose(amounts.numpy()[unknown], tuning.first.solution.belongs)
        assert k == 0 or all(torch.equal(head, found.head[:, :-1].float()) for head in heads)


class Counter:
    """A method that notes after which steps it is called."""

    def __init__(self, whole: Any) -> None:
        self.whole, self.steps = whole, list[int]()

    def __get__(self, tuning: Tuning, kind: type) -> Any:
        self.steps.append(tuning.engine.steps_done)
        return self.whole.__get__(tuning, kind)


def test_a_net_is_not_taught_more_often_than_it_sees_the_pool() -> None:
    assert finetune.renewed(0.0) == () and finetune.renewed(0.2) == (0.75,)
    assert finetune.renewed(1.5) == (0.5, 0.75)
    assert finetune.renewed(5.0) == finetune.renewed(80.0) == (0.05, 0.15, 0.3, 0.5, 0.75)


@pytest.mark.parametrize(
    ("made", "patch", "side", "size"),
    [
        (224, 16, 32, 128), (224, 16, 64, 128), (224, 16, 65, 224), (224, 16, None, 224),
        (224, 14, 32, 126), (96, 16, 32, 96), (224, 32, 20, 128),
    ],
)  # fmt: skip
def test_small_photos_are_tuned_at_a_smaller_size(
    made: int, patch: int, side: float | None, size: int
) -> None:
    assert finetune.tuned_size(made, patch, side) == size


def test_the_first_answer_is_at_its_own_size(photos: Path, tmp_path: Path) -> None:
    large = "vit_64x1_p16_224"
    torch.manual_seed(1)
    save_file(nets.build(large, 5, 224).state_dict(), tmp_path / "w.safetensors")
    asked = {"weights": str(tmp_path / "w.safetensors"), "steps": 6, "out": tmp_path / "run"}
    with pytest.MonkeyPatch.context() as patch:
        stop_at(4, patch)
        with pytest.raises(Stopped):
            tamatch.train(photos, quiet=True, **asked)
    run = tamatch.resume(tmp_path / "run", quiet=True)
    for folder, net in (("", f"tuned/{large}_at_128"), ("first", f"frozen/{large}")):
        assert json.loads((run.path / folder / "run.json").read_text())["config"]["net"] == net
    reason = json.loads((run.path / "run.json").read_text())["chosen"]["net"]
    assert "looks at images at 224 × 224" in reason and "tuned at 128 × 128" in reason
    model = tamatch.load(run.path)
    assert model.facts.net == f"tuned/{large}_at_128" and model.net.size == 128
    assert model.predict(sorted((photos / "test" / "light").glob("*.png"))).label == ["light"] * 5
    again = tamatch.train(photos, quiet=True, **asked | {"out": tmp_path / "again"})
    assert end_of(again.path) == end_of(run.path)


@pytest.mark.parametrize(
    "net",
    ["tuned/wrn_10_1_at_64", f"tuned/{NET}_at_small", f"tuned/{NET}_at_30", f"tuned/{NET}_at_0"],
)
def test_only_transformers_have_a_size_of_their_own(net: str, photos: Path, tiny: str) -> None:
    with pytest.raises(UsageError, match="comes the size, in pixels, at which a transformer"):
        ask({"data": str(photos), "weights": tiny, "net": net}).run  # noqa: B018
    with pytest.raises(UsageError, match="is not a net"):
        ask({"data": str(photos), "weights": tiny, "net": f"frozen/{NET}_at_16"}).run  # noqa: B018


def test_a_worse_net_is_not_kept(
    photos: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = iter([np.zeros(3, bool), np.ones(3, bool)])
    monkeypatch.setattr(tune, "mistakes", lambda *_: next(wrong))
    run = tamatch.train(photos, weights=tiny, steps=20, out=tmp_path / "run", quiet=True)
    assert run.tuning is not None and not run.tuning["kept"]
    assert run.tuning["reason"] == (
        "The first answer is kept: of 3 held-out labels, only tuning errs on 3, only the first "
        "answer on 0."
    )
    model = tamatch.load(run.path)
    assert model.facts.net == f"frozen/{NET}"
    for name in ("model/model.safetensors", "predictions/pool.csv", "trust.json"):
        assert (run.path / name).read_bytes() == (run.path / "first" / name).read_bytes()
    page = (run.path / "report.html").read_text()
    assert "The first answer is kept" in page and "Error over steps" not in page
    assert not read_folder(run.path).notes
    for words in (["evaluate"], ["label", "--out", str(tmp_path / "labels.csv")]):
        assert main([words[0], str(run.path), *words[1:]]) == 0
    assert tamatch.resume(run.path, quiet=True).tuning == run.tuning


def test_folds_are_of_what_was_kept(
    tuned: tamatch.Finished, photos: Path, tiny: str, tmp_path: Path
) -> None:
    """Labels that judge a threshold do not also choose between two nets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finetune, "keeps", lambda *_: (False, "Not kept."))
        first = tamatch.train(photos, weights=tiny, steps=4, out=tmp_path / "first", quiet=True)
        for run, net in ((tuned, "tuned"), (first, "frozen")):
            found = tamatch.label(
                run.path, tmp_path / f"{net}.csv", precision=0.5, folds=2, overwrite=True
            )
            assert found.cut is not None and found.cut.images == 8
            model = json.loads((run.path / "folds" / "1-of-2" / "model" / "model.json").read_text())
            assert model["net"] == f"{net}/{NET}"


def test_without_a_test_set_the_held_out_labels_tell(
    photos: Path, tiny: str, tmp_path: Path
) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    shutil.rmtree(folder / "test")
    run = tamatch.train(folder, weights=tiny, steps=6, out=tmp_path / "run", quiet=True)
    assert run.accuracy is None and run.tuning is not None and run.tuning["kept"]
    page = (run.path / "report.html").read_text()
    assert "Error on held-out labels" in page and "each of 2 labels held out once" in page
    assert "no labelled image was held out" not in page
    assert verdict_on(run.path).endswith("has 0.0 % (0.0 to 65.8 %) on 2 labels kept from it.")
    known = "no labelled test images.*each held out once, the error was 0.0 %"
    with pytest.raises(DataError, match=known):  # these labels were learnt
        tamatch.evaluate(run.path)
    with pytest.raises(DataError, match="has none"):
        tamatch.label(run.path, tmp_path / "labels.csv", precision=0.1)


@pytest.mark.parametrize(
    ("worse", "better", "passes", "kept", "told"),
    [
        (1, 2, 0.5, True, "only tuning errs on 1, only the first answer on 2."),
        (1, 1, 0.5, False, "on 1, after 0.5 passes through the unlabelled images."),
        (0, 0, 50, True, "says little, and after 50.0 passes through the unlabelled images tuning"),
        (2, 0, 50, True, "only tuning errs on 2, only the first answer on 0; that says little"),
        (3, 0, 50, False, "only tuning errs on 3, only the first answer on 0."),
        (4, 1, 50, True, "that says little"),
        (5, 1, 50, False, "only tuning errs on 5, only the first answer on 1."),
        (0, 3, 50, True, "only tuning errs on 0, only the first answer on 3."),
        (40, 30, 50, True, "that says little"),
        (40, 20, 50, False, "only the first answer on 20."),
    ],
)
def test_held_out_labels_must_speak_against_a_long_tuning_and_for_a_short_one(
    worse: int, better: int, passes: float, kept: bool, told: str
) -> None:
    found, why = finetune.keeps(worse, better, 100, passes)
    assert found == kept and told in why and why.startswith("The tuned net") == kept
    assert finetune.keeps(0, 0, 0, passes)[0] == (passes > 1)


@given(st.integers(0, 6), st.integers(0, 6))
def test_how_often_chance_makes_so_many_mistakes(worse: int, better: int) -> None:
    both = worse + better
    exact = sum(sides.bit_count() >= worse for sides in range(2**both)) / 2**both
    assert finetune.by_chance(worse, better) == pytest.approx(exact)
    assert finetune.by_chance(worse, better) >= finetune.by_chance(worse + 1, better)


def end_of(run: Path) -> dict[str, Any]:
    """All that a run leaves, but for the clock's part in it."""
    end = fingerprint(run)
    result: Any = end["result"]
    result["first_answer"].pop("features_seconds")
    for rung in result["tuning"]["ladder"]:
        rung.pop("seconds")
    return end


def stop_at(number: int, patch: pytest.MonkeyPatch) -> None:
    whole = Training.after_step

    def stopped(self: Training, asked: int) -> None:
        whole(self, asked)
        if self.engine.steps_done == number:
            raise KeyboardInterrupt

    patch.setattr(Training, "after_step", stopped)


def test_stopped_while_tuning(
    tuned: tamatch.Finished, photos: Path, tiny: str, tmp_path: Path
) -> None:
    where = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        stop_at(13, patch)
        with pytest.raises(Stopped, match="tamatch resume"):
            tamatch.train(photos, weights=tiny, steps=20, out=where, quiet=True)
    assert tamatch.resume(where, quiet=True).tuning["kept"]
    assert end_of(where) == end_of(tuned.path)


def test_stopped_in_the_first_answer(photos: Path, tiny: str, tmp_path: Path) -> None:
    where = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_answer, "learn", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            tamatch.train(photos, weights=tiny, steps=6, out=where, quiet=True)
    assert tamatch.resume(where, quiet=True).tuning is not None
    shutil.rmtree(where)
    with pytest.MonkeyPatch.context() as patch:  # between the two
        patch.setattr(tune, "start_of", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(Stopped, match="tamatch resume"):
            tamatch.train(photos, weights=tiny, steps=6, out=where, quiet=True)
    assert tamatch.resume(where, quiet=True).tuning is not None


@pytest.mark.parametrize(
    ("given", "limit", "cpu", "cuda"),
    [
        ({}, None, "first", "tune"),
        ({"seed": 1, "weights": "x.npz"}, None, "first", "tune"),
        ({"steps": 9}, None, "tune", "tune"),
        ({}, "10m", "tune", "tune"),
        ({"lr": 0.1}, None, "tune", "tune"),
        ({"net": f"frozen/{NET}"}, None, "first", "first"),
        ({"net": f"tuned/{NET}", "weights": "x.npz"}, None, "tune", "tune"),
        ({"method": "fixmatch"}, None, "train", "train"),
        ({"net": "wrn_10_1", "steps": 9}, None, "train", "train"),
        ({"from_": "runs/some", "net": f"tuned/{NET}"}, None, "tune", "tune"),
        ({"from_": "runs/some", "net": "wrn_10_1"}, None, "train", "train"),
    ],
)
def test_what_a_user_says_decides_what_is_trained(
    given: dict[str, Any], limit: str | None, cpu: str, cuda: str
) -> None:
    assert (way_of(given, limit, CPU), way_of(given, limit, CUDA)) == (cpu, cuda)


def timed(step: float) -> Any:
    return lambda draft, speeds: [Speed(0.5, step, 0.01)]


def test_what_fits_into_a_time_is_done(
    photos: Path, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask({"data": str(photos), "weights": tiny})
    monkeypatch.setattr(deciding, "measured", timed(0.1))
    long = decide(asked, "10m")
    assert long.run.net == f"tuned/{NET}" and 2000 < long.run.steps < 6000
    assert long.run.warmup == long.run.steps // 10 and long.run.head == "random"
    assert long.run.validation_per_class == 1 and long.run.baseline == "none"
    short = decide(asked, "30s")
    assert short.run.net == f"tuned/{NET}" and short.run.steps < 200
    monkeypatch.setattr(deciding, "measured", timed(2.0))
    none = decide(asked, "30s")
    assert none.run.net == f"frozen/{NET}" and none.run.steps == 1
    with pytest.raises(UsageError, match=f"Give more --time, or --net frozen/{NET} and no --time."):
        decide(ask({"data": str(photos), "weights": tiny, "net": f"tuned/{NET}"}), "30s")
    assert none.remarks == ("Within 30s there is time for the first answer, but not for tuning.",)


def test_labels_are_held_out_where_there_are_enough(
    photos: Path, tiny: str, tmp_path: Path
) -> None:
    few = tmp_path / "photos"
    shutil.copytree(photos, few)
    for name in ("0.png", "1.png"):
        (few / "train" / "dark" / name).unlink()
    asked = {"weights": tiny, "steps": 20}
    none = decide(ask({"data": str(few), **asked}))
    assert none.run.validation_per_class == 0
    assert 'no label is held out, as of "dark" there are fewer than 4.' in none.remarks[1]
    shutil.copytree(photos / "test", few / "validation")
    assert len(decide(ask({"data": str(few), **asked})).remarks) == 1  # these judge
    own = decide(ask({"data": str(photos), "validation_per_class": 2, **asked}))
    assert own.run.validation_per_class == 2 and "validation_per_class" not in own.reasons
    run = tamatch.train(photos, validation_per_class=2, out=tmp_path / "run", quiet=True, **asked)
    assert run.tuning is not None and run.tuning["labels"] == 4
    config = json.loads((run.path / "first" / "run.json").read_text())["config"]
    assert config["validation_per_class"] == 2


def test_copies_are_not_held_out(photos: Path, tiny: str, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    for i in range(1, 5):
        shutil.copy(folder / "train" / "dark" / "0.png", folder / "train" / "dark" / f"{i}.png")
    decided = decide(ask({"data": str(folder), "weights": tiny, "steps": 20}))
    assert decided.run.net == f"tuned/{NET}" and decided.run.validation_per_class == 0
    assert "no label is held out, as too many of them are copies" in decided.remarks[1]


def test_several_seeds(photos: Path, tiny: str, tmp_path: Path) -> None:
    runs = tamatch.train_seeds("0,1", data=photos, weights=tiny, steps=6, out=tmp_path, quiet=True)
    assert [run.tuning["kept"] for run in runs] == [True, True]
    alone = tamatch.train(photos, weights=tiny, steps=6, seed=1, out=tmp_path / "one", quiet=True)
    assert end_of(alone.path) == end_of(runs[1].path)


def test_a_tuned_net_needs_weights(photos: Path) -> None:
    with pytest.raises(UsageError, match="starts from a pre-trained net: give --weights"):
        decide(ask({"data": str(photos), "net": f"tuned/{NET}"}))


def test_more_labels_go_on_from_a_tuned_net(
    tuned: tamatch.Finished, photos: Path, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("path,label\nunlabelled/0.png,dark\nunlabelled/1.png,light\n")
    run = tamatch.train(photos, from_=tuned.path, labels=labels, out=tmp_path / "two", quiet=True)
    config = json.loads((run.path / "run.json").read_text())["config"]
    assert config["net"] == f"tuned/{NET}" and config["steps"] == 20
    assert run.tuning is not None and run.tuning["labels"] == 2  # held out anew
    assert run.tuning["ladder"][0]["held_out"]["labels"] == 12
    asked = {"from_": tuned.path, "net": f"frozen/{NET}", "out": tmp_path / "three"}
    other = tamatch.train(photos, **asked, quiet=True)
    assert other.result["method"] == "tamatch" and other.tuning is None
