"""Images that belong to no class: in a first answer, its tables and its model."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import tamatch
from tamatch.cli import main
from tamatch.data.labels import NONE_OF_THESE
from tamatch.frozen.junk import solve_with_junk
from tamatch.frozen.likeness import PREFIX, Likeness
from tests.frozen.test_choosing import clusters
from tests.photos import dark_and_light

ODD = 20  # of the images in the folder `strange`


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAMATCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def green(place: Path, seed: int) -> None:
    """Stripes in a colour that no class has."""
    draw = np.random.default_rng(seed)
    pixels = draw.integers(0, 60, (24, 30, 3), dtype=np.uint8)
    pixels[:, ::4, 1] += 190
    place.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(place)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = dark_and_light(tmp_path_factory.mktemp("data") / "strange", 5, 40, (24, 30))
    for i in range(ODD):
        green(folder / "unlabelled" / f"green{i}.png", i)
    return folder


@pytest.fixture(scope="module")
def run(strange: Path, tiny: str, tmp_path_factory: pytest.TempPathFactory) -> tamatch.Finished:
    out = tmp_path_factory.mktemp("runs") / "strange"
    return tamatch.train(strange, weights=tiny, out=out, quiet=True)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [*csv.DictReader(file)]


def test_a_first_answer_finds_and_weighs_them(run: tamatch.Finished) -> None:
    assert run.junk is not None and run.junk["images"] == ODD and run.junk["marked"] == 0
    assert run.junk["share"] == pytest.approx(ODD / 60, abs=0.1)
    odd = rows_of(run.path / "odd.csv")
    assert {row["image"] for row in odd} == {f"unlabelled/green{i}.png" for i in range(ODD)}
    assert [float(row["belongs"]) for row in odd] == sorted(float(row["belongs"]) for row in odd)
    assert run.first_answer is not None  # as many dark as light ones, whatever the odd ones are
    assert run.first_answer["pool_shares"] == pytest.approx([0.5, 0.5], abs=0.05)
    told = json.loads((run.path / "trust.json").read_text())["pool"]
    assert told["p_model"] == pytest.approx([0.5, 0.5], abs=0.05)
    page = (run.path / "report.html").read_text()
    assert "20 of 60 unlabelled images rather belong to none of the classes" in page
    assert "sheet-odd" in page and run.accuracy == 100


def test_the_terminal_says_so(run: tamatch.Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(run.path)]) == 0
    assert "odd.csv lists them." in capsys.readouterr().out


def test_new_images_have_it_too(run: tamatch.Finished, strange: Path, tmp_path: Path) -> None:
    new = [tmp_path / "new" / f"{i}.png" for i in range(6)]
    for i, path in enumerate(new):
        green(path, 1000 + i)
    usual = sorted((strange / "test").rglob("*.png"))
    found = tamatch.load(run.path).predict([*usual, *new]).belongs
    assert found is not None and found.shape == (16,)
    assert found[:10].min() > 0.5 > found[10:].max()
    for words in (["--format", "jsonl"], ["--top", "2"], []):
        table = tmp_path / "answers"
        assert main(["predict", str(run.path), *map(str, new), "--out", str(table), *words]) == 0
        lines = table.read_text().splitlines()
        told = (
            [json.loads(line) for line in lines] if "jsonl" in words else [*csv.DictReader(lines)]
        )
        assert [float(row["belongs"]) for row in told] == pytest.approx(found[10:], abs=1e-3)
        table.unlink()
    assert len(tamatch.load(run.path).predict([]).belongs) == 0  # type: ignore[arg-type]


def test_the_table_of_labels_has_it(
    run: tamatch.Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "labels.csv"
    for words in ([], ["--overwrite"]):
        assert main(["label", str(run.path), "--out", str(table), *words]) == 0
    assert "20 of the unlabelled images rather belong to none of the classes" in (
        capsys.readouterr().out
    )
    own = {row["image"]: row["belongs"] for row in rows_of(run.path / "predictions" / "pool.csv")}
    for row in rows_of(table):
        given = row["accepted"] == "given"
        assert row["belongs"] == ("1.000000" if given else own[row["file_name"]])
        assert given or (float(row["belongs"]) < 0.5) == ("green" in row["file_name"])


def test_a_tuned_net_takes_it_from_the_first_answer(
    strange: Path, tiny: str, tmp_path: Path
) -> None:
    """It has learnt the labels, so to its features all other images are odd."""
    run = tamatch.train(strange, weights=tiny, steps=60, lr=0.01, out=tmp_path / "run", quiet=True)
    assert run.tuning is not None and run.tuning["kept"] and run.junk is not None
    assert run.junk["images"] == ODD
    first = tamatch.train(
        strange, weights=tiny, validation_per_class=1, out=tmp_path / "first", quiet=True
    )
    belongs = [
        {r["image"]: r["belongs"] for r in rows_of(x.path / "odd.csv")} for x in (run, first)
    ]
    assert belongs[0] == belongs[1]


def test_a_mark_by_a_person_counts(strange: Path, tiny: str, tmp_path: Path) -> None:
    table = tmp_path / "marks.csv"
    marked = [f"unlabelled/green{i}.png" for i in range(3)]
    table.write_text("\n".join(["file_name,label", *(f"{m},{NONE_OF_THESE}" for m in marked)]))
    out = tmp_path / "run"
    run = tamatch.train(strange, labels=table, weights=tiny, out=out, quiet=True)
    assert run.junk is not None and (run.junk["images"], run.junk["marked"]) == (ODD - 3, 3)
    seen = {row["image"] for row in rows_of(run.path / "predictions" / "pool.csv")}
    assert len(seen) == 57 and not seen & {*marked}


def test_a_tuned_net_knows_it_by_its_own_features(strange: Path, tiny: str, tmp_path: Path) -> None:
    run = tamatch.train(strange, weights=tiny, steps=20, out=tmp_path / "run", quiet=True)
    assert run.tuning is not None and run.tuning["kept"] and run.junk is not None
    first = tamatch.load(run.path / "first")
    tuned = tamatch.load(run.path)
    assert first.likeness is not None and tuned.likeness is not None
    assert not torch.equal(first.likeness.mean, tuned.likeness.mean)
    assert "belongs" in rows_of(run.path / "predictions" / "pool.csv")[0]


def test_other_runs_have_no_such_column(strange: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = tamatch.train(
        strange, weights="none", net="wrn_10_1_clean", steps=2, baseline="none", out=out, quiet=True
    )
    assert run.junk is None and tamatch.load(out).predict([]).belongs is None
    assert main(["label", str(out), "--out", str(tmp_path / "labels.csv")]) == 0
    assert "belongs" not in rows_of(tmp_path / "labels.csv")[0]


def test_a_damaged_likeness_is_refused(run: tamatch.Finished) -> None:
    tensors = load_file(run.path / "model" / "model.safetensors")
    assert Likeness.taken_from(dict(tensors), 2) is not None
    with pytest.raises(ValueError, match="classes of its likeness"):
        Likeness.taken_from(dict(tensors), 3)
    tensors[PREFIX + "usual"] = torch.zeros(3)
    with pytest.raises(ValueError, match="usual of its likeness"):
        Likeness.taken_from(tensors, 2)


def test_junk_of_a_new_kind_is_less_like_the_classes() -> None:
    """Of six clusters three are classes, two are in the pool as well, and one is nowhere."""
    x, y = clusters((60,) * 6)
    order = torch.cat([(y == c).nonzero()[:, 0] for c in range(6)])
    x, y = x[order], y[order]
    known = torch.cat([(y == c).nonzero()[:5, 0] for c in range(3)])
    new = torch.arange(len(y)) % 4 == 0
    new[known] = False
    pool = ~new & (y < 5)
    pool[known] = False
    found = solve_with_junk(x[known], y[known], x[pool], 3)
    likeness = Likeness.of(x[known], y[known], x[pool], found.weight, 3, x[:0])
    belongs = likeness(x[new])
    least = belongs[y[new] < 3].min()
    assert least > belongs[(y[new] == 3) | (y[new] == 4)].max()  # as in the pool
    assert least > belongs[y[new] == 5].mean()
