"""Data that hardly are any: a run ends with finite figures, or before it begins with a reason."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamatch
from tamatch.errors import DataError
from tamatch.methods import BY_THEMSELVES
from tests.faults.runs import ANY_DATA, arrays

POOL = [-1] * 12


def noise(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (count, 8, 8, 3), np.uint8)


def one_label_in_a_class(place: Path) -> dict[str, Any]:
    return {"data": arrays(place, noise(20), [0, 0, 0, 1, *POOL], [0, 1, 0, 1])}


def all_images_equal(place: Path) -> dict[str, Any]:
    same = np.full((20, 8, 8, 3), 7, np.uint8)
    return {"data": arrays(place, same, [0, 0, 1, 1, *POOL], [0, 1, 0, 1])}


def one_image_a_class(place: Path) -> dict[str, Any]:
    return {"data": arrays(place, noise(4), [0, 1], [0, 1])}


def no_test_image_of_a_class(place: Path) -> dict[str, Any]:
    return {"data": arrays(place, noise(15), [0, 1, *POOL], [0])}


def batches_larger_than_the_set(place: Path) -> dict[str, Any]:
    data = arrays(place, noise(10), [0, 1, *POOL[:6]], [0, 1])
    return {"data": data, "batch": 64, "unlabelled": 100}


def batches_of_one(place: Path) -> dict[str, Any]:
    data = arrays(place, noise(10), [0, 1, *POOL[:6]], [0, 1])
    return {"data": data, "batch": 1, "unlabelled": 1}


def a_thousand_classes(place: Path) -> dict[str, Any]:
    return {"data": arrays(place, noise(1022), [*range(1000), *POOL], [0, 1] * 5)}


CASES = [
    one_label_in_a_class, all_images_equal, one_image_a_class, no_test_image_of_a_class,
    batches_larger_than_the_set, batches_of_one, a_thousand_classes,
]  # fmt: skip


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [n for v in inner for n in numbers(v)]
    return [value] if isinstance(value, int | float) else []


def comes_to_an_end(tmp_path: Path, case: Callable[[Path], dict[str, Any]], method: str) -> None:
    options = case(tmp_path / "data.npz")
    options["data"] = str(options["data"])
    run = tmp_path / "run"
    tamatch.train(
        out=run, quiet=True, **{**ANY_DATA, "steps": 6, "size": 8, "method": method, **options}
    )
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert all(math.isfinite(n) for n in numbers(rows))
    log = run / "log.txt"
    assert not log.exists() or "not finite" not in log.read_text()  # no step was bad
    model = tamatch.load(run)
    found = model.predict(noise(2)).probabilities
    assert np.isfinite(found).all() and np.allclose(found.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_degenerate_data(tmp_path: Path, case: Callable[[Path], dict[str, Any]]) -> None:
    comes_to_an_end(tmp_path, case, "tamatch")


@pytest.mark.slow
@pytest.mark.parametrize("method", [m for m in BY_THEMSELVES if m != "tamatch"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_degenerate_data_for_every_method(
    tmp_path: Path, case: Callable[[Path], dict[str, Any]], method: str
) -> None:
    comes_to_an_end(tmp_path, case, method)


def a_class_without_labels(place: Path) -> dict[str, Any]:
    return {"data": arrays(place, noise(17), [0, 0, 1, *POOL], [0, 2])}


def one_image_in_all(place: Path) -> dict[str, Any]:
    return {"data": arrays(place, noise(2), [0], [0])}


def one_class(place: Path) -> dict[str, Any]:
    return {"data": arrays(place, noise(18), [4, 4, 4, 4, *POOL], [4, 4])}


def no_label_at_all(place: Path) -> dict[str, Any]:
    np.savez(place, images=noise(12), labels=np.array(POOL))
    return {"data": place}


def a_gamma_that_leaves_a_class_empty(place: Path) -> dict[str, Any]:
    data = arrays(place, noise(14), [0] * 6 + [1] * 6, [0, 1])
    return {"data": data, "head_labelled": 5, "gamma": 100.0}


def more_labels_than_there_are(place: Path) -> dict[str, Any]:
    return {"data": "digits", "labels_per_class": 1000}


REFUSED = {
    a_class_without_labels: 'class "2" has no labelled image',
    one_image_in_all: "has only one class",
    one_class: "has only one class",
    no_label_at_all: "has no labelled image",
    a_gamma_that_leaves_a_class_empty: "leaves none for class",
    more_labels_than_there_are: "1000 are requested",
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.__name__)
def test_what_cannot_be_learned_from_is_refused_before_the_first_step(
    tmp_path: Path, case: Callable[[Path], dict[str, Any]]
) -> None:
    options = {k: str(v) if k == "data" else v for k, v in case(tmp_path / "data.npz").items()}
    with pytest.raises(DataError, match=REFUSED[case]):
        tamatch.train(out=tmp_path / "run", quiet=True, **{**ANY_DATA, "size": 8, **options})


def fully_labelled(tmp_path: Path) -> dict[str, Any]:
    data = arrays(tmp_path / "data.npz", noise(10), [0, 1] * 4, [0, 1])
    return {**ANY_DATA, "data": str(data), "size": 8, "labelled_in_pool": "no"}


def test_an_empty_pool_is_refused_by_methods_that_learn_from_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data has no unlabelled images, but tamatch needs"):
        tamatch.train(out=tmp_path / "run", quiet=True, **fully_labelled(tmp_path))


def test_an_empty_pool_is_nothing_to_supervised_training(tmp_path: Path) -> None:
    options = {**fully_labelled(tmp_path), "method": "supervised"}
    assert tamatch.train(out=tmp_path / "run", quiet=True, **options).result["steps"] == 12


@pytest.mark.parametrize("method", ["tamatch", "supervised"])
def test_a_pool_of_labelled_images_is_told(tmp_path: Path, method: str) -> None:
    options = {**fully_labelled(tmp_path), "labelled_in_pool": "yes", "method": method}
    tamatch.train(out=tmp_path / "run", quiet=True, **options)
    log = tmp_path / "run" / "log.txt"
    told = log.read_text() if log.exists() else ""
    sentence = "There are no unlabelled images: all 8 training images have a label"
    assert told.count(sentence) == (method == "tamatch")
