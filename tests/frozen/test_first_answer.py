"""`tamatch train --data photos`: a run that is solved on the features of a net as it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import tamatch
from tamatch import nets
from tamatch.cli import main
from tamatch.data import DataSet, feature_cache, load
from tamatch.data.check import check
from tamatch.errors import DataError, UsageError
from tamatch.nets import pretrained
from tamatch.nets.features import Frozen
from tamatch.nets.pretrained import Located
from tamatch.report.comparison import verdict_between
from tamatch.runs import first_answer, first_settings, speed
from tamatch.runs.decide import decide
from tamatch.runs.first_answer import features
from tamatch.settings.configure import ask
from tests.frozen.conftest import NET
from tests.photos import dark_and_light


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dark_and_light(tmp_path_factory.mktemp("photos"), 3, 20, (24, 30))


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(speed, "MEASURED_SECONDS", 0.1)  # how fast this machine is matters nowhere


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many images the net has looked at, each time."""
    counts: list[int] = []
    whole = Frozen.features

    def counted(self: Frozen, images: torch.Tensor) -> torch.Tensor:
        counts.append(len(images))
        return whole(self, images)

    monkeypatch.setattr(Frozen, "features", counted)
    yield counts


def test_check_tells_the_sizes_that_are_trained_on(photos: Path, tiny: str) -> None:
    told, asked = check(photos), {"data": str(photos), "device": "cpu"}
    assert decide(ask({**asked, "weights": tiny})).run.size == told.size_pretrained == 24
    scratch = decide(ask({**asked, "weights": "none", "steps": 2})).run
    assert scratch.size == told.size_without_gpu == told.size == 32
    assert "by default 24 × 24 with a pre-trained net, from scratch 32 × 32)" in told.lines()[0]


def test_what_is_stopped_goes_on_from_the_features_there_are(
    photos: Path, tiny: str, tmp_path: Path, looked_at: list[int],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    words = ["train", "--data", str(photos), "--weights", tiny, "--out", str(tmp_path / "run")]
    monkeypatch.setattr(feature_cache, "PART", 20)
    whole = Frozen.features

    def interrupted(self: Frozen, images: torch.Tensor) -> torch.Tensor:
        if looked_at:
            raise KeyboardInterrupt
        return whole(self, images)

    with monkeypatch.context() as patch:
        patch.setattr(Frozen, "features", interrupted)
        assert main(words) == 130
    said = capsys.readouterr().err
    assert "tamatch: stopped. The features of each " in said
    assert said.endswith("are kept: the same command goes on from there.\n")
    assert main(words) == 0
    assert looked_at == [20, 12]


def made_by(run: tamatch.Finished) -> dict[str, Any]:
    return json.loads((run.path / "run.json").read_text())["config"]


def test_the_whole_way(
    photos: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "run"
    assert main(["train", "--data", str(photos), "--weights", tiny, "--out", str(where)]) == 0
    out, said = capsys.readouterr()
    assert f"frozen/{NET}: looks at images at 32 × 32 pixels" in said
    assert "  size 24 × 24 pixels: as the images are" in said
    assert "--time 10m tunes the net from there; --method and --net train another one." in said
    assert "error on held-out labels" in out and "With twice as many labels (12)" in out
    for name in ("run.json", "split.csv", "trust.json", "predictions/pool.csv", "log.txt"):
        assert (where / name).exists(), name
    result = json.loads((where / "result.json").read_text())
    assert result["error_last"] == 0 and result["steps"] == 1
    found = result["first_answer"]
    assert found["cross_validation"]["labels"] == 6
    assert sum(found["pool_shares"]) == pytest.approx(1)
    baseline = json.loads((where / "baseline" / "result.json").read_text())
    assert baseline["method"] == "supervised" and baseline["first_answer"]["pool_shares"] is None
    page = (where / "report.html").read_text()
    assert "labels alone: logistic regression" in page and "What the net sees" not in page

    model = tamatch.load(where)
    assert model.facts.net == f"frozen/{NET}" and model.facts.size == 24
    names = sorted((photos / "test" / "light").glob("*.png"))
    assert model.predict(names).label == ["light"] * 3
    listed = (where / "predictions" / "test.csv").read_text().splitlines()[1:]
    for line in listed:  # what the run has told by its features is what the model says
        name, _, label, confidence = line.split(",")
        again = model.predict(photos / name)
        assert again.label == [label]
        assert again.confidence[0] == pytest.approx(float(confidence), abs=0.02)
    for words in (["evaluate"], ["label", "--out", str(tmp_path / "labels.csv")]):
        assert main([words[0], str(where), *words[1:]]) == 0
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 27
    assert main(["export", str(where), "--format", "safetensors"]) == 0


@pytest.fixture
def chosen(photos: Path, tmp_path: Path) -> Path:
    """Images without a test set, ten of them labelled, because they tell much."""
    place = tmp_path / "chosen"
    shutil.copytree(photos / "unlabelled", place)
    lines = [f"{i}.png,{('dark', 'light')[i % 2]},no" for i in range(10)]
    (place / "labels.csv").write_text("\n".join(["file_name,label,drawn", *lines, ""]))
    return place


def test_only_labels_that_were_drawn_at_random_estimate_the_error(
    chosen: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "run"
    add_drawn(chosen, 10)
    assert main(["train", "--data", str(chosen), "--weights", tiny, "--out", str(where)]) == 0
    assert "With twice as many labels (40)" in capsys.readouterr().out
    found = json.loads((where / "result.json").read_text())["first_answer"]
    assert (found["cross_validation"]["labels"], found["chosen"]) == (10, 10)
    page = (where / "report.html").read_text()
    assert "only the 10 that were drawn at random" in page and "The other 10 were chosen" in page


def test_a_few_drawn_labels_give_no_more_than_an_interval(
    chosen: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "run"
    add_drawn(chosen, 4)
    assert main(["train", "--data", str(chosen), "--weights", tiny, "--out", str(where)]) == 0
    out = capsys.readouterr().out
    assert "Only 4 of the labels were drawn at random" in out and "twice" not in out
    page = (where / "report.html").read_text()
    tile = page.split("Error on held-out labels<")[1].split("</dl>")[0]
    assert '<dd class="value">0.0 to 49.0\xa0%</dd>' in tile and "%%" not in tile
    assert "0.0 to 49.0 %" in out and "0.0 % (" not in out


def add_drawn(place: Path, count: int) -> None:
    """So many labels more, of images that were drawn at random."""
    table = place / "labels.csv"
    lots = [f"{i}.png,{('dark', 'light')[i % 2]},yes" for i in range(10, 10 + count)]
    table.write_text(table.read_text() + "\n".join([*lots, ""]))


def test_no_error_is_stated_by_labels_that_were_chosen(
    chosen: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "run"
    assert main(["train", "--data", str(chosen), "--weights", tiny, "--out", str(where)]) == 0
    out = capsys.readouterr().out
    assert "Not measured. All labels are of images that were chosen" in out and "twice" not in out
    found = json.loads((where / "result.json").read_text())["first_answer"]
    assert found["cross_validation"] is None and found["chosen"] == 10
    baseline = json.loads((where / "baseline" / "result.json").read_text())
    assert baseline["first_answer"]["cross_validation"] is None
    assert "No label was held out. All labels are of images" in (where / "report.html").read_text()


def test_added_tables_say_too_what_was_chosen(
    photos: Path, chosen: Path, tiny: str, tmp_path: Path
) -> None:
    table = tmp_path / "more.csv"
    lines = ["unlabelled/0.png,dark,no", "unlabelled/1.png,light,yes", "unlabelled/2.png,dark,"]
    table.write_text("\n".join(["file_name,label,drawn", *lines, ""]))
    run = tamatch.train(photos, weights=tiny, labels=table, out=tmp_path / "run", quiet=True)
    found = run.result["first_answer"]
    assert (found["cross_validation"]["labels"], found["chosen"]) == (8, 1)


@pytest.mark.parametrize("lower", [False, True], ids=["last block", "lower blocks, too"])
def test_lower_blocks_are_used_where_they_are_taken(
    lower: bool, photos: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(features: torch.Tensor, labels: torch.Tensor, upper: int) -> torch.Tensor:
        return features[:, : None if lower else upper]

    monkeypatch.setattr(first_answer, "telling", taken)
    run = tamatch.train(photos, weights=tiny, out=tmp_path / "run", quiet=True)
    assert run.result["first_answer"]["lower_blocks"] is lower and run.accuracy == 100
    said = (run.path / "log.txt").read_text(), run.report_path.read_text()
    assert all(("Colours and textures tell these classes" in text) is lower for text in said)
    weights = load_file(run.path / "model" / "model.safetensors")
    upper = weights["head.weight"].shape[1] // 2
    for name in ("head.weight", "likeness/matrix"):
        assert weights[name][:, :upper].any()
    assert bool(weights["head.weight"][:, upper:].any()) is lower
    assert not weights["likeness/matrix"][:, upper:].any()  # the last block tells what is odd
    answers = tamatch.load(run.path).predict(sorted(photos.glob("unlabelled/*"))[:4])
    assert len(answers.label) == 4


def test_known_features_are_not_computed_again(
    photos: Path, tiny: str, tmp_path: Path, looked_at: list[int]
) -> None:
    first = tamatch.train(photos, weights=tiny, out=tmp_path / "one", quiet=True)
    assert sum(looked_at) == 32  # each image once, also of the baseline; one size needs no timing
    again = tamatch.train(photos, weights=tiny, out=tmp_path / "two", quiet=True)
    assert sum(looked_at) == 32
    ends = [{k: v for k, v in run.result.items() if "seconds" not in k} for run in (first, again)]
    for end in ends:
        del end["first_answer"]["features_seconds"]
    assert ends[0] == ends[1]
    models = [(run.path / "model" / "model.safetensors").read_bytes() for run in (first, again)]
    assert models[0] == models[1]


def test_a_stopped_run_is_resumed_with_what_it_knows(
    photos: Path, tiny: str, tmp_path: Path, looked_at: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tamatch.runs import first_answer

    where, whole = tmp_path / "run", first_answer.learn

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(first_answer, "learn", stopped)
    with pytest.raises(KeyboardInterrupt):
        tamatch.train(photos, weights=tiny, out=where, quiet=True)
    monkeypatch.setattr(first_answer, "learn", whole)
    assert tamatch.resume(where, quiet=True).accuracy == 100
    assert sum(looked_at) == 32
    metrics = (where / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in metrics] == ["test", "train"]
    before = (where / "result.json").read_bytes()
    (where / "report.html").unlink()
    assert tamatch.resume(where, quiet=True).first_answer is not None
    assert (where / "report.html").exists() and (where / "result.json").read_bytes() == before


def test_usual_weights_are_found_by_themselves(
    photos: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Located(Path(tiny), "vit_tiny", "vit_tiny: somewhere, Apache-2.0, 23 MB.")
    monkeypatch.setattr(pretrained, "_published", lambda name: found)
    run = tamatch.train(photos, out=tmp_path / "run", quiet=True)
    assert made_by(run)["weights"] == "vit_tiny" and made_by(run)["net"] == f"frozen/{NET}"
    assert "Weights vit_tiny: somewhere, Apache-2.0" in (run.path / "log.txt").read_text()


def test_without_weights_a_net_is_trained_and_a_line_says_so(photos: Path) -> None:
    found = decide(ask({"data": str(photos)}))
    assert found.run.weights is None and not nets.is_frozen(found.run.net)
    assert found.remarks[0].startswith("A net is trained from scratch")
    assert "HF_HUB_OFFLINE is set" in found.remarks[0] and "\n" not in found.remarks[0]
    assert "use --weights FILE." in found.remarks[0]


@pytest.mark.parametrize(
    "asked", [{"weights": "none"}, {"weights": "none", "steps": 3}, {"method": "fixmatch"},
              {"net": "wrn_10_1_clean"}],
)  # fmt: skip
def test_other_options_train_a_net_and_ask_nobody(
    photos: Path, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_settings, "locate", lambda name: pytest.fail("asked for weights"))
    run = decide(ask({"data": str(photos), **asked})).run
    assert run.weights is None and not nets.is_frozen(run.net)


def test_more_labels_go_on_from_a_first_answer(photos: Path, tiny: str, tmp_path: Path) -> None:
    first = tamatch.train(photos, weights=tiny, out=tmp_path / "one", quiet=True)
    labels = tmp_path / "labels.csv"
    labels.write_text("path,label\nunlabelled/0.png,dark\nunlabelled/1.png,light\n")
    run = tamatch.train(photos, from_=first.path, labels=labels, out=tmp_path / "two", quiet=True)
    assert made_by(run)["net"] == f"frozen/{NET}" and run.first_answer is not None
    assert run.first_answer["cross_validation"]["labels"] == 8


def test_an_error_is_known_without_a_test_set(photos: Path, tiny: str, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    shutil.rmtree(folder / "test")
    run = tamatch.train(folder, weights=tiny, out=tmp_path / "run", quiet=True)
    assert run.accuracy is None and run.first_answer is not None
    assert run.first_answer["cross_validation"]["error"] == 0
    page = (run.path / "report.html").read_text()
    assert "cross-validated" in page.lower() and "Error on held-out labels" in page
    between = verdict_between([run.path])
    assert "tamatch pick --drawn N" in between and "--validation-per-class" not in between
    card = tamatch.export(run.path, "safetensors").path / "README.md"
    assert "By 6 labels that were held out, the error is 0.0 % (0.0 to 39.0 %)" in card.read_text()
    for name in ("dark", "light"):  # one label of each
        for file in sorted((folder / "train" / name).iterdir())[1:]:
            file.unlink()
    run = tamatch.train(folder, weights=tiny, out=tmp_path / "few", quiet=True)
    assert run.first_answer is not None and run.first_answer["cross_validation"] is None
    why = 'each class; "dark", "light" have one. Label one more image of each of them.'
    assert run.first_answer["reason"].endswith(why)
    assert "No label was held out." in (run.path / "report.html").read_text()


def test_shares_of_the_pool_are_estimated_or_given(photos: Path, tiny: str, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    draw = np.random.default_rng(1)
    for i in range(160):
        pixels = draw.integers(0, 120, (24, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "unlabelled" / f"dark{i}.png")
    options: dict[str, Any] = {"weights": tiny, "quiet": True, "baseline": "none"}
    run = tamatch.train(folder, out=tmp_path / "one", **options)
    assert run.first_answer is not None and run.first_answer["pool_shares"][0] > 0.75
    given = tamatch.train(
        folder, prior={"dark": 0.6, "light": 0.4}, out=tmp_path / "two", **options
    )
    assert given.first_answer is not None
    assert given.first_answer["pool_shares"] == pytest.approx([0.6, 0.4])


def test_the_largest_size_in_time(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "large.safetensors"
    save_file(nets.build("vit_64x1_p16_224", 2, 224).state_dict(), file)
    start = {"data": str(photos), "weights": str(file)}
    assert decide(ask(start)).run.net == "frozen/vit_64x1_p16_224"
    monkeypatch.setattr(first_settings, "MOST_SECONDS", -1.0)
    slow = decide(ask(start))
    assert slow.run.net == "frozen/vit_64x1_p16_160" and slow.run.size == 24
    assert "at 224, 32 images would take" in slow.reasons["net"]
    tamatch.train(photos, weights=str(file), out=tmp_path / "run", quiet=True)
    monkeypatch.undo()
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    known = decide(ask(start))
    assert known.run.net == slow.run.net and "known already" in known.reasons["net"]


def test_images_are_read_at_the_sizes_that_are_needed(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "large.safetensors"
    save_file(nets.build("vit_64x1_p16_224", 2, 224).state_dict(), file)
    sizes: list[int] = []

    def read(size: int) -> DataSet:
        sizes.append(size)
        return load(photos, size=size)

    def look() -> first_settings.Look:
        return first_settings.best_look(str(file), read, None, torch.device("cpu"))[0]

    assert (look().net.size, sizes) == (224, [224])
    monkeypatch.setattr(first_settings, "MOST_SECONDS", -1.0)
    slow = look()
    assert slow.data.size == slow.net.size == 160 and sizes == [224, 224, 160]
    features(slow.net, slow.data)
    sizes.clear()
    monkeypatch.undo()
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    assert look().net.size == 160  # its features are known, and the images need not be read at 224
    assert sizes == [160]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"net": f"frozen/{NET}"}, "is not trained, so it needs --weights"),
        ({"net": f"frozen/{NET}", "weights": "x.npz", "method": "fixmatch"}, "use --net vit_64x2"),
        ({"net": "frozen/nothing"}, "is not a net"),
    ],
)
def test_what_a_frozen_net_cannot_do(photos: Path, asked: dict[str, Any], text: str) -> None:
    with pytest.raises((UsageError, DataError), match=text):
        decide(ask({"data": str(photos), **asked}))


def test_a_frozen_net_has_no_time_limit(photos: Path, tiny: str) -> None:
    with pytest.raises(UsageError, match="--time has no effect"):
        decide(ask({"data": str(photos), "net": f"frozen/{NET}", "weights": tiny}), limit="60s")


def test_a_wrong_label_is_shown(tiny: str, tmp_path: Path) -> None:
    folder = dark_and_light(tmp_path / "photos", 6, 20, (24, 30))
    shutil.copy(folder / "unlabelled" / "1.png", folder / "train" / "dark" / "light.png")
    run = tamatch.train(data=str(folder), weights=tiny, out=tmp_path / "run", quiet=True)
    assert run.first_answer is not None and run.first_answer["suspects"] == 1
    table = (run.path / "suspects.csv").read_text().splitlines()
    assert table[1].startswith("train/dark/light.png,dark,light,")
    page = (run.path / "report.html").read_text()
    assert "Labels to look at again" in page and "sheet-suspects" in page
