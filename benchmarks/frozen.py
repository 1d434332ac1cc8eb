"""The error of TaMatch on frozen features, beside other ways to use few labels.

    python benchmarks/frozen.py OUT.json [NAME=FEATURES.npz ...] [--draws 20] [--rivals|--held-out]

A file of features holds `features` (N, D) and `labels` (N,), and `upper`, if only so many of the
features, the first ones, are of the net's last block: whether all are used, for all classifiers,
the labels of a draw decide. Each draw takes 150 images of each
class for the test, then the labels, then a pool of at most 300 images a class with the labels in
it. The pool of a class of rank k is γ^(-k/(C-1)) of that, reversed γ^(k/(C-1)-1); ranks are drawn
anew. Labels may be long-tailed in the same way. Logistic regression has its best C of a grid,
judged on the test images. With --rivals: scikit-learn's semi-supervised classifiers, each with the
best of a grid, also on its own data sets, a third of which is the test; pools of 100 a class. With
--held-out: the cross-validated error and the learning curve with 5 labels a class, beside the test
error with 5 and with 10.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

from tamatch import FeatureClassifier
from tamatch.frozen.blocks import telling
from tamatch.frozen.held_out import learning_curve

Array = np.ndarray[Any, Any]
TEST, POOL, RIVALS_POOL = 150, 300, 100  # images a class
CELLS = {  # labels of the first class, γ of the labels, γ of the pool, pool reversed
    "5 labels": (5, 1, 1, False), "2 labels": (2, 1, 1, False), "10 labels": (10, 1, 1, False),
    "5 labels, pool γ = 10": (5, 1, 10, False),
    "5 labels, pool γ = 10 reversed": (5, 1, 10, True),
    "5 labels, pool γ = 50": (5, 1, 50, False),
    "10 to 1 labels, pool γ = 10": (10, 10, 10, False),
    "10 to 1 labels, pool γ = 10 reversed": (10, 10, 10, True),
}  # fmt: skip
STRENGTHS = (0.01, 0.1, 1.0, 10.0)


def grids() -> dict[str, list[Callable[[], Any]]]:
    """Each rival with its settings."""
    kernels = [{"kernel": "knn", "n_neighbors": k} for k in (5, 10, 20)]
    kernels += [{"kernel": "rbf", "gamma": g} for g in (0.003, 0.03)]
    return {
        "logistic regression": [
            lambda c=c: LogisticRegression(C=c, max_iter=500) for c in STRENGTHS
        ],
        "LabelSpreading": [
            lambda k=k, a=a: LabelSpreading(**k, alpha=a) for k in kernels for a in (0.2, 0.9)
        ],
        "LabelPropagation": [lambda k=k: LabelPropagation(**k, max_iter=2000) for k in kernels],
        "SelfTrainingClassifier": [
            lambda t=t: SelfTrainingClassifier(LogisticRegression(max_iter=500), threshold=t)
            for t in (0.75, 0.9, 0.99)
        ],
        "FeatureClassifier": [FeatureClassifier],
    }  # fmt: skip


def draw(
    labels: Array, seed: int, count: int, tail: float = 1, gamma: float = 1, turned: bool = False,
    most: int = POOL,
) -> Iterator[Array]:  # fmt: skip
    """Positions of labels, of the unlabelled pool and of the test."""
    random = np.random.RandomState(seed)
    classes = int(labels.max()) + 1
    ranks = random.permutation(classes) / (classes - 1)
    parts: list[list[Array]] = [[], [], []]
    for c, rank in enumerate(ranks):
        own = random.permutation(np.flatnonzero(labels == c))
        test = min(TEST, len(own) // 3)
        share = gamma ** (rank - 1 if turned else -rank)
        n = max(1, round(count * tail**-rank))
        pool = max(n + 1, round(min(most, len(own) - test) * share))
        for part, rows in zip(parts, np.split(own[: test + pool], [test, test + n]), strict=True):
            part.append(rows)
    test_rows, known, unlabelled = map(np.concatenate, parts)
    yield from (known, unlabelled, test_rows)


def error(model: Any, x: Array, y: Array, known: Array, pool: Array, test: Array) -> float:
    if isinstance(model, LogisticRegression):
        model.fit(x[known], y[known])
    else:
        model.fit(x[np.r_[known, pool]], np.r_[y[known], np.full(len(pool), -1)])
    return float(100 * np.mean(model.predict(x[test]) != y[test]))


def used(x: Array, y: Array, known: Array, pool: Array, upper: int) -> Array:
    """The features that tell the classes by these labels."""
    labels = torch.tensor(np.r_[y[known], np.full(len(pool), -1)])
    return x[:, : telling(torch.tensor(x[np.r_[known, pool]]), labels, upper).shape[1]]


def standard(x: Array, known: Array, pool: Array) -> Array:
    """For the rivals: columns of deviation 1, as they advise."""
    return StandardScaler().fit(x[np.r_[known, pool]]).transform(x)


def directions(x: Array, known: Array, pool: Array) -> Array:
    """For logistic regression on a net's features: centred, rows of length 10."""
    centred = x - x[np.r_[known, pool]].mean(0)
    return 10 * centred / np.linalg.norm(centred, axis=1, keepdims=True)


def cells(
    every: Array, y: Array, upper: int, draws: int, only: list[str], found: dict[str, Any]
) -> Iterator[None]:
    for name, cell in CELLS.items():
        if only and name not in only:
            continue
        ours, seconds, rivals, lower = [], [], [], 0
        for seed in range(draws):
            parts = [*draw(y, seed, *cell)]
            start = time.process_time()
            x = used(every, y, parts[0], parts[1], upper)
            lower += x.shape[1] > upper
            ours.append(error(FeatureClassifier(), x, y, *parts))
            seconds.append(time.process_time() - start)
            scaled = directions(x, *parts[:2])
            rivals.append(
                [error(LogisticRegression(C=c, max_iter=500), scaled, y, *parts) for c in STRENGTHS]
            )
        best = int(np.mean(rivals, 0).argmin())
        regression = [row[best] for row in rivals]
        found[name] = {
            "FeatureClassifier": summary(ours), "logistic regression": summary(regression),
            "C": STRENGTHS[best], "draws above": int(np.sum(np.array(ours) > regression)),
            "seconds": round(float(np.median(seconds)), 2), "lower blocks used": lower,
        }  # fmt: skip
        print(name, json.dumps(found[name], ensure_ascii=False), flush=True)
        yield


def rivals(every: Array, y: Array, upper: int, draws: int, table: dict[str, Any]) -> Iterator[None]:
    for name, settings in grids().items():
        errors = []
        for make in settings:
            row = []
            for seed in range(draws):
                parts = [*draw(y, seed, 5, most=RIVALS_POOL)]
                x = used(every, y, parts[0], parts[1], upper)
                scaled = x if name == "FeatureClassifier" else standard(x, *parts[:2])
                row.append(error(make(), scaled, y, *parts))
            errors.append(row)
        table[name] = summary(min(errors, key=np.mean))
        print(" ", name, table[name]["mean"], flush=True)
        yield


def held_out(
    every: Array, y: Array, upper: int, draws: int, table: dict[str, Any]
) -> Iterator[None]:
    """Does the interval from the labels alone contain the test error?"""
    table["draws"] = []
    classes = int(y.max()) + 1
    for seed in range(draws):
        known, pool, test = draw(y, seed, 10)
        fewer = np.concatenate([known[y[known] == c][:5] for c in range(classes)])
        others = np.r_[np.setdiff1d(known, fewer), pool]
        x = used(every, y, fewer, others, upper)
        curve = learning_curve(
            torch.tensor(x[fewer]), torch.tensor(y[fewer]), torch.tensor(x[others]), classes
        )
        last = curve.outcomes[-1]
        row = {
            "cross-validated": 100 * last.error, "low": 100 * last.interval[0],
            "high": 100 * last.interval[1], "doubled": [100 * v for v in curve.doubled],
            "test": error(FeatureClassifier(), x, y, fewer, others, test),
            "test with 10": error(FeatureClassifier(), x, y, known, pool, test),
        }  # fmt: skip
        table["draws"].append(row)
        rows = table["draws"]
        table["covered"] = sum(r["low"] <= r["test"] <= r["high"] for r in rows)
        table["doubled covered"] = sum(
            r["doubled"][0] <= r["test with 10"] <= r["doubled"][2] for r in rows
        )
        print(json.dumps(row), table["covered"], table["doubled covered"], len(rows), flush=True)
        yield


def summary(errors: list[float]) -> dict[str, Any]:
    return {
        "mean": round(float(np.mean(errors)), 2), "deviation": round(float(np.std(errors)), 2),
        "draws": [round(e, 2) for e in errors],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("features", nargs="*")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--cells", nargs="*", default=[], choices=CELLS)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = {}
    for name, path in (item.split("=", 1) for item in options.features):
        with np.load(path) as file:
            x, y = file["features"].astype(np.float32), file["labels"].astype(np.int64)
            data[name] = x, y, int(file["upper"]) if "upper" in file else x.shape[1]
    if options.rivals:
        own = {"digits": load_digits, "wine": load_wine, "breast cancer": load_breast_cancer}
        for name, load in own.items():
            x, y = load(return_X_y=True)
            data[name] = x, y, x.shape[1]
    record: dict[str, Any] = {}
    for name, (x, y, upper) in data.items():
        print(name, flush=True)
        record[name] = {}
        if options.rivals:
            parts = rivals(x, y, upper, options.draws, record[name])
        elif options.held_out:
            parts = held_out(x, y, upper, options.draws, record[name])
        else:
            parts = cells(x, y, upper, options.draws, options.cells, record[name])
        for _ in parts:
            options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
