"""Values over the steps of a run, few enough for a small file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..judge.differences import kl

POINTS = 64  # of a curve that is only drawn
RATIO_EPS = 1e-6  # in training, unless an option says otherwise: a class may never be predicted
NUMBERS = 1280  # of a curve of vectors: fewer points where there are many classes

Point = TypeVar("Point")


@dataclass(frozen=True)
class Curve:
    """Values over steps."""

    step: list[int]
    value: list[float]

    @classmethod
    def of(cls, points: Sequence[tuple[int, float]], most: int | None = None) -> Curve:
        """The finite points, rounded; at most `most`, evenly spread, both ends among them."""
        finite = thinned([(step, value) for step, value in points if math.isfinite(value)], most)
        return cls([step for step, _ in finite], [round(value, 6) for _, value in finite])


@dataclass(frozen=True)
class Vectors:
    """One value per class over steps; None for a class without test images."""

    step: list[int]
    value: list[list[float | None]]

    @classmethod
    def of(
        cls, points: Sequence[tuple[int, Sequence[float | None]]], classes: int, digits: int
    ) -> Vectors:
        """The points, rounded and thinned, both ends among them."""
        kept = thinned(points, max(2, min(POINTS, NUMBERS // classes)))
        rounded = [[None if v is None else round(v, digits) for v in row] for _, row in kept]
        return cls([step for step, _ in kept], rounded)


def thinned(points: Sequence[Point], most: int | None) -> Sequence[Point]:
    """At most `most` of them, evenly spread, both ends included."""
    if most is None or len(points) <= most:
        return points
    gap = (len(points) - 1) / (most - 1)
    return [points[round(i * gap)] for i in range(most)]


def course(rows: Sequence[dict[str, Any]], classes: int, eps: float = RATIO_EPS) -> dict[str, Any]:
    """How the learning status, the weights and the accuracy of each class went, where logged."""
    trained = [row for row in rows if row["kind"] == "train"]
    tests = [(row["step"], row["per_class"]) for row in rows if row["kind"] == "test"]
    pairs = [
        (row["step"], row["p_model"], row["p_target"])
        for row in trained
        if "p_model" in row and "p_target" in row
    ]
    curves = {
        "kl_target": [(step, kl(p, q)) for step, p, q in pairs],
        "r_max": [(step, bound(p, q)) for step, p, q in pairs],
        "largest_ratio": [(step, largest_ratio(p, q, eps)) for step, p, q in pairs],
        **{
            name: [(row["step"], row[name]) for row in trained if name in row]
            for name in ("weight", "max_weight")
        },
    }
    vectors = {
        "p_model": [(step, p) for step, p, _ in pairs],
        "p_target": [(step, q) for step, _, q in pairs],
    }
    return {
        **{name: Curve.of(points, POINTS) for name, points in curves.items() if points},
        **{name: Vectors.of(points, classes, 6) for name, points in vectors.items() if points},
        **({"per_class": Vectors.of(tests, classes, 2)} if tests else {}),
    }


def bound(p: Sequence[float], q: Sequence[float]) -> float:
    """r_max of TaMatch's weights from p_model and p_target."""
    entropy = -sum(a * math.log(a) for a in p if a > 0)
    return 1 + len(p) * kl(p, q) / max(entropy, 1e-12)


def largest_ratio(p: Sequence[float], q: Sequence[float], eps: float) -> float:
    """The largest scaling factor r(c) = p_target(c) / p_model(c)."""
    return max((b + eps) / (a + eps) for a, b in zip(p, q, strict=True))
