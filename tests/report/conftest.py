"""A realistic run folder made from formulas and a seeded generator: nothing is trained."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tamatch.judge.trust import measure, sweep
from tamatch.report.album import sheet
from tamatch.runs.end import NOT_MEASURED, notable

MakeRun = Callable[..., Path]
DIGITS = [str(digit) for digit in range(10)]


def normalised(values: list[float]) -> list[float]:
    total = sum(values)
    return [value / total for value in values]


def accuracies(classes: int, floor: float, progress: float) -> list[float]:
    """Classes learn at different speeds; the last of them slowest."""
    speeds = [6 - 4 * index / classes for index in range(classes)]
    start = 100 / classes
    return [
        round(100 - (100 - start) * math.exp(-speed * progress) - floor * (7 - speed) / 4, 2)
        for speed in speeds
    ]


def train_row(step: int, steps: int, classes: int, rng: random.Random) -> dict[str, Any]:
    progress = step / steps
    skew = 0.6 * math.exp(-3 * progress)
    model = normalised([1 + skew * math.cos(3 * i) + 0.02 * rng.random() for i in range(classes)])
    used = 1 - math.exp(-4 * progress)
    accept = [min(1.0, used * (1.1 - 0.4 * i / classes)) for i in range(classes)]
    used_by_class = [share * rate for share, rate in zip(model, accept, strict=True)]
    sup, unsup = 2.3 * math.exp(-6 * progress), 0.3 * used * (1.2 - progress)
    return {
        "step": step,
        "kind": "train",
        "sup": sup,
        "unsup": unsup,
        "total": sup + unsup,
        "lr": 0.03 * math.cos(7 * math.pi * progress / 16),
        "used": sum(used_by_class),
        "used_by_class": used_by_class,
        "predicted_by_class": model,
        "weight": 1 + skew / 4,
        "max_weight": 1 + skew,
        "p_model": model,
        "p_target": [1 / classes] * classes,
        "entropy": 2.3 - 2 * progress + 0.05 * rng.random(),
        "gradient_norm": 1 + rng.random(),
        "time": {"seconds": step / 60},
    }


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_trust(path: Path, classes: list[str], per_class: list[float], *, pool: bool) -> None:
    """trust.json, never_accepted.csv and pictures/, with or without held-out images and a pool."""
    random = np.random.default_rng(0)
    content: dict[str, Any] = {"measured_on": None, "reason": NOT_MEASURED, "pool": None}
    if per_class:
        labels = np.arange(500) % len(classes)
        right = random.random(500) < np.array(per_class)[labels] / 100
        guess = np.where(right, labels, (labels + random.choice([1, 2, 5], 500)) % len(classes))
        p = np.full((500, len(classes)), 0.05 / len(classes))
        p[np.arange(500), guess] += np.where(right, random.beta(8, 1, 500), random.random(500))
        p /= p.sum(-1, keepdims=True)
        content = {"measured_on": "test", "pool": None, **measure(p, labels).figures()}
        for name, places in notable(p, labels).items():
            content[name] = [
                {
                    "image": f"{i}.png", "label": classes[labels[i]],
                    "predicted": classes[guess[i]], "confidence": float(p[i].max()),
                }
                for i in places
            ]  # fmt: skip
            write_sheet(path / "pictures" / f"{name}.jpg", random)
    if pool:
        even = [1 / len(classes)] * len(classes)
        levels = sweep(random.beta(8, 1, 1257), random.random(1257) < 0.9)
        content["pool"] = {
            "images": 1257, "drawn": 1257, "never_accepted": 2, "predicted_shares": even,
            "accuracy": 0.9, "p_model": even, "p_target": even, "factors": [1.01] * len(classes),
            "weights": [1.02] * len(classes), "tau": 0.95, "sweep": [asdict(one) for one in levels],
        }  # fmt: skip
        never = [["image", "label", "predicted", "confidence"]]
        never += [["a.png", "", classes[0], "0.31"], ["'=b.png", "", classes[-1], "0.42"]]
        with (path / "never_accepted.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(
                [cell.encode("utf-8", "replace").decode() for cell in row] for row in never
            )
        write_sheet(path / "pictures" / "never_accepted.jpg", random)
    write_json(path / "trust.json", content)


def write_sheet(path: Path, random: np.random.Generator) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(sheet(random.integers(0, 256, (32, 8, 8, 3), np.uint8)))


def write_views(path: Path) -> None:
    rng = random.Random(0)
    image = Image.new("RGB", (16 * 34, 2 * 34), "white")
    for left in range(0, 16 * 34, 34):
        for top in (0, 34):
            colour = tuple(rng.randrange(256) for _ in range(3))
            image.paste(colour, (left + 2, top + 2, left + 32, top + 32))
    image.save(path)


def write_run(
    path: Path,
    *,
    method: str = "tamatch",
    data: str = "digits",
    seed: int = 0,
    steps: int = 3000,
    classes: list[str] | None = None,
    floor: float = 2.0,
    test: bool = True,
    truth: bool = True,
    status: str = "finished",
    options: dict[str, Any] | None = None,
    full: bool = True,
) -> Path:
    """Write every file a run writes; `full=False` writes what the supervised baseline logs."""
    names = DIGITS if classes is None else classes
    count, rng = len(names), random.Random(seed)
    floor += 0.3 * seed
    reached = steps if status == "finished" else steps // 2
    path.mkdir(parents=True, exist_ok=True)
    errors, per_class, used = [], [], None
    with (path / "metrics.jsonl").open("w") as file:
        for step in range(50, reached + 1, 50):
            row = train_row(step, steps, count, rng)
            used = row["used"] if full else None
            if not full:
                row = {name: row[name] for name in ("step", "kind", "sup", "total", "lr", "time")}
            file.write(json.dumps(row) + "\n")
            if test and step % 100 == 0:
                per_class = accuracies(count, floor, step / steps)
                errors.append(100 - sum(per_class) / count + 0.4 * rng.random())
                row = {"step": step, "kind": "test", "error": errors[-1], "per_class": per_class}
                file.write(json.dumps(row) + "\n")
    shares = [1 / count] * count
    about = {
        "status": status,
        "step": reached,
        "config": {
            "method": method, "data": data, "net": "cnn_small", "seed": seed, "steps": steps,
            "batch": 64, "out": str(path), "ema": 0.999, "weights": None,
            "options": options if options is not None else {"tau": 0.95, "lambda_u": 1.0},
        },
        "command": f"tamatch train --data {data} --method {method} --seed {seed} --steps {steps}",
        "versions": {"tamatch": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
        "device": "cpu", "threads": 2, "precision": "fp32", "classes": names,
        "data": {
            "name": data, "sha256": "0123456789abcdef" * 4, "labelled": 4 * count,
            "unlabelled": 1257, "validation": 0, "test": 500 if test else 0,
            "labelled_in_pool": True, "labelled_shares": shares,
            "true_shares": shares if truth else None,
        },
        "times": {"started": "2026-01-05T10:00:00Z", "finished": "2026-01-05T10:00:45Z"},
        "parameters": 123456,
    }  # fmt: skip
    write_json(path / "run.json", about)
    if status != "finished":
        return path
    write_json(
        path / "result.json",
        {
            "method": method, "dataset": data, "seed": seed, "steps": steps,
            "error_last": errors[-1] if errors else None,
            "error_median20": median(errors[-20:]) if errors else None,
            "error_best": min(errors) if errors else None,
            "best_step": 100 * (1 + errors.index(min(errors))) if errors else None,
            "per_class_accuracy": per_class or None,
            "utilization": used, "seconds": 45.2,
        },
    )  # fmt: skip
    (path / "split.csv").write_text("image,hash,role,label\n0.png,ab,labelled,0\n")
    write_views(path / "batch.png")
    write_trust(path, names, per_class, pool=full)
    return path


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Write a run under the test's own folder: make_run("name", baseline=True, …)."""

    def make(name: str = "run", *, baseline: bool = True, **settings: Any) -> Path:
        path = write_run(tmp_path / name, **settings)
        if baseline:
            write_run(
                path / "baseline",
                **{**settings, "method": "supervised", "floor": 8.0, "options": {}, "full": False},
            )
        return path

    return make
