"""What a finished run says about its model: trust.json, tables of images, pictures of some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.dataset import Indices
from ..judge.calibration import (
    Calibration,
    Floats,
    calibrate,
    calibrate_on_itself,
    tempered,
    uncalibrated,
)
from ..judge.trust import LEVEL, Trust, measure
from ..report.album import MOST
from ..report.sheet import sheet
from ..step.subset import PREDICTION_COLUMNS, Pool, Subset
from ..storage.files import write_bytes, write_json
from ..storage.spreadsheet import write_table
from .pool_predictions import COLUMNS, PoolPredictions

# what the model says about the pool at a temperature, and what trust.json says about that
PredictPool = Callable[[Pool, float], tuple[PoolPredictions, dict[str, Any]]]

NOT_MEASURED = (
    "no labelled image was held out. Add a test folder, or hold out N labelled images per class "
    "with --validation-per-class N"
)
NOT_FITTED = "there are no validation images; --validation-per-class N holds some out"


@dataclass(frozen=True)
class Assessment:
    """Everything there is to say, before it is written down."""

    measured_on: str  # "test", "validation", or "" where no labels were held out
    trust: Trust | None
    probabilities: Mapping[str, Floats]  # by part, with the temperature
    held_out: Mapping[str, Subset]
    pool: Pool | None
    pool_predictions: PoolPredictions | None
    shares: dict[str, Any] | None  # what there is to say about the pool as a whole

    @property
    def temperature(self) -> float:
        """Of the model's confidences; 1 where none was fitted."""
        fitted = None if self.trust is None else self.trust.calibration.temperature
        return 1.0 if fitted is None else fitted


def assess(
    raw: Mapping[str, Floats],
    held_out: Mapping[str, Subset],
    pool: Pool | None,
    predict_pool: PredictPool,
) -> Assessment:
    """From the final net's answers, without a temperature, about all held-out images."""
    measured_on = next((kind for kind in ("test", "validation") if kind in held_out), "")
    trust, temperature = None, 1.0
    if measured_on:
        calibration = calibration_of(raw, held_out)
        trust = measure(raw[measured_on], held_out[measured_on].labels.numpy(), calibration)
        temperature = calibration.temperature or 1.0
    found, shares = None, None
    if pool is not None and len(pool):
        found, shares = predict_pool(pool, temperature)
    spoken = {kind: tempered(p, temperature) for kind, p in raw.items()}
    return Assessment(measured_on, trust, spoken, held_out, pool, found, shares)


def calibration_of(p: Mapping[str, Floats], held_out: Mapping[str, Subset]) -> Calibration:
    """The temperature by the validation images, judged by the test images where there are any."""
    labels = {kind: part.labels.numpy() for kind, part in held_out.items()}
    if "validation" not in p:
        return uncalibrated(p["test"], labels["test"], NOT_FITTED)
    if "test" not in p:
        return calibrate_on_itself(p["validation"], labels["validation"])
    return calibrate(p["test"], labels["test"], p["validation"], labels["validation"])


def write(found: Assessment, folder: Path) -> None:
    """trust.json, predictions/, never_accepted.csv and pictures/."""
    content: dict[str, Any] = {"measured_on": found.measured_on or None, "pool": found.shares}
    content |= {"reason": NOT_MEASURED} if found.trust is None else figures_of(found.trust)
    for kind, p in found.probabilities.items():
        part = found.held_out[kind]
        lines = [part.line(i, int(c), float(p[i, c])) for i, c in enumerate(p.argmax(-1))]
        write_table(folder / "predictions" / f"{kind}.csv", PREDICTION_COLUMNS, lines)
        if kind == found.measured_on:
            for name, places in notable(p, part.labels.numpy()).items():
                content[name] = [described(lines[i], p[i]) for i in places]
                picture(folder, name, part, places)
    if found.pool is not None and found.pool_predictions is not None:
        write_pool(found.pool, found.pool_predictions, folder)
    write_json(folder / "trust.json", content)


def described(line: tuple[str, ...], p: Floats) -> dict[str, Any]:
    """What trust.json says about one image; its confidence is not rounded there."""
    return {**dict(zip(PREDICTION_COLUMNS, line, strict=True)), "confidence": float(p.max())}


def write_pool(pool: Pool, found: PoolPredictions, folder: Path) -> None:
    """Every unlabelled image, and again those that were never accepted."""
    everything = found.lines(pool, range(len(pool)))
    write_table(folder / "predictions" / "pool.csv", COLUMNS, everything)
    if found.accepted is not None:
        never = found.lines(pool, found.never.tolist())
        write_table(folder / "never_accepted.csv", COLUMNS, never)
        picture(folder, "never_accepted", pool, found.never)


def figures_of(trust: Trust) -> dict[str, Any]:
    """The figures as trust.json has them: shares of one, None where there is nothing to divide."""
    classes = [
        {**asdict(one), "precision": one.precision, "recall": one.recall} for one in trust.classes
    ]
    own = {"accuracy": trust.accuracy, "balanced_accuracy": trust.balanced_accuracy}
    return {**asdict(trust), **own, "level": LEVEL, "classes": classes}


def notable(p: Floats, labels: Indices) -> dict[str, Indices]:
    """The images the model is least sure of, and its mistakes, the surest first."""
    confidence = p.max(-1)
    wrong = np.flatnonzero(p.argmax(-1) != labels)
    return {
        "doubtful": np.argsort(confidence, kind="stable")[:MOST],
        "confident_wrong": wrong[np.argsort(-confidence[wrong], kind="stable")][:MOST],
    }


def picture(folder: Path, name: str, part: Subset, places: Indices) -> None:
    if len(places):
        write_bytes(folder / "pictures" / f"{name}.jpg", sheet(part.pixels(places[:MOST])))
