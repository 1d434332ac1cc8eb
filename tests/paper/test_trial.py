"""`python -m paper.trial`: every row of Table 1 has its turn, and a fault is told."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from paper import trial
from tamatch.bench.speed import Work
from tests.bench.made import small_recipes, strict_json


def test_one_setting_of_each_data_set_is_tried_with_all_its_rows() -> None:
    cells = trial.chosen(Namespace(methods=None, settings=None, steps=200))
    assert {c.setting.name for c in cells} == {"cifar100-200", "stl10-40", "eurosat-20"}
    assert len({c.method for c in cells}) == 20 and len(cells) == 3 * 20 - 2
    assert {c.options["steps"] for c in cells} == {200}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_recipes(monkeypatch)
    monkeypatch.setitem(trial.SIZES, "eurosat", 8)
    trial.images_of.cache_clear()


@pytest.mark.usefixtures("small")
def test_rows_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "trial.json"
    words = "--settings eurosat-20 --methods fixmatch,tamatch --steps 6 --device cpu"
    assert trial.main([*words.split(), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "2 rows of 6 steps, 0 with a fault." in shown
    found = strict_json(out)["trials"]
    assert [t["method"] for t in found] == ["fixmatch", "tamatch"]
    for one in found:
        assert one["fault"] is None and one["steps"] == 6 and one["ms_per_step"] > 0
        assert f"{one['first_loss']:.3f} → {one['last_loss']:.3f}" in shown


@pytest.mark.usefixtures("small")
def test_a_fault_is_told_and_the_next_row_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(cell: Any, run: Any) -> tuple[list[float], float]:
        if cell.method == "fixmatch":
            raise RuntimeError("the device is gone")
        return ([float("nan")] if cell.method == "dash" else [2.0, 1.0]), 1.0

    monkeypatch.setattr(trial, "train", train)
    words = "--settings eurosat-20 --methods fixmatch,dash,tamatch --steps 6"
    out = tmp_path / "trial.json"
    assert trial.main([*words.split(), "--out", str(out)]) == 4
    shown = capsys.readouterr().out
    assert "FAULT: RuntimeError: the device is gone" in shown and "2 with a fault" in shown
    assert "FAULT: the loss is not finite" in shown and "2.000 → 1.000" in shown
    figures = {t["method"]: (t["ms_per_step"], t["last_loss"]) for t in strict_json(out)["trials"]}
    assert figures == {"fixmatch": (None, None), "dash": (1.0, None), "tamatch": (1.0, 1.0)}


def test_noise_has_the_shape_of_the_data() -> None:
    assert trial.CLASSES.keys() == trial.SIZES.keys() == {s.data for s in trial.PLAN.settings}
    data = trial.random_images(Work({}, 100, 8))[0]
    assert len(data.classes) == 100 and data.images.shape[1:] == (8, 8, 3)
