"""Results and data that no training was needed for."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamatch.bench.cells import RECIPE, Cell
from tamatch.bench.results import Curve, Result, Vectors
from tamatch.data import DataSet
from tamatch.settings import recipes

NET = "wrn_10_1_clean"


def result(cell: Cell, error: float = 20.0, **changes: Any) -> Result:
    """A result as a run of this cell would leave it, `error` percent wrong at the end."""
    steps = [10 * i for i in range(1, 31)]
    falling = Curve.of([(s, error + 30 / s) for s in steps])
    fields: dict[str, Any] = {
        "bench": cell.bench, "setting": cell.setting.name, "method": cell.method,
        "seed": cell.seed, "scale": str(cell.scale), "recipe": RECIPE, "classes": list("abcd"),
        "error_last": error, "error_median20": error + 1, "error_best": error - 1,
        "best_step": 290, "per_class_accuracy": [90.0, 80.0, 70.0 + cell.seed, None],
        "error": falling, "utilization": Curve.of([(s, s / 400) for s in steps]),
        "kl_truth": Curve.of([(s, 0.1 / s) for s in steps]), "truth": "pool", "seconds": 1.5,
        "made": {
            "commit": "0123456789abcdef", "gpu": None, "device": "cpu",
            "finished": "2026-11-15T04:18:50+00:00", "source_sha256": 64 * "a",
            "data": {"true_shares": [0.6, 0.2, 0.15, 0.05], "labelled_shares": [0.25] * 4},
        },
        "per_class": Vectors([10, 300], [[40.0, 10.0, 0.0, None], [75.0, 60.0, 50.0, None]]),
        "p_model": Vectors([10, 300], [[0.25, 0.25, 0.25, 0.25], [0.5, 0.3, 0.15, 0.05]]),
        "config": {},
        "variant": cell.variant.name if cell.variant else None,
    }  # fmt: skip
    return Result(**(fields | changes))


def strict_json(path: Path) -> Any:
    """The content of a file that any program can read, not only Python: NaN is no JSON."""

    def refuse(word: str) -> None:
        raise ValueError(f"{path} holds {word}")

    return json.loads(path.read_text(), parse_constant=refuse)


def small_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small nets and batches in place of the paper's: what is tested is the way through."""
    for recipe in recipes.PROTOCOLS.values():
        for name, value in {"net": NET, "batch": 4, "unlabelled": 4}.items():
            monkeypatch.setitem(recipe, name, value)


def noise(name: str) -> DataSet:
    """Noise in the shape of a named data set: enough images for the paper's settings."""
    classes = 100 if name == "cifar100" else 10
    tail = [int(4600 * 100 ** (-c / 9)) + 2 for c in range(10)]
    train = np.repeat(np.arange(classes), tail if name == "cifar10-lt" else 15)
    unknown = np.full(50 if name == "stl10" else 0, -1)
    labels = np.concatenate([train, unknown, np.arange(classes)]).astype(np.int64)
    ends = np.cumsum([0, len(train), len(unknown), 0, classes])
    random = np.random.default_rng(0)
    return DataSet(
        name=name, classes=tuple(f"class {c}" for c in range(classes)), labels=labels,
        images=random.integers(0, 256, (len(labels), 8, 8, 3), np.uint8),
        parts=tuple(np.arange(a, b) for a, b in pairwise(ends)),
        files=[f"{i}" for i in range(len(labels))], mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25),
    )  # fmt: skip
