"""What a run says at its end: its result, trust.json, tables and pictures of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..data.dataset import DataSet, Indices
from ..judge.trust import Floats, calibration_of, measure, sweep, tempered
from ..methods.base import Method
from ..model.model import BELONGS, Model
from ..pseudo.account import accepted, class_shares, generated, threshold
from ..report.album import MOST, sheet
from ..settings.config import Run
from ..step.engine import Engine
from ..step.source import PREDICTION_COLUMNS, UNLABELLED, Pool, Subset
from ..storage.files import timestamp, write_bytes, write_json
from ..storage.folder import RunFolder
from ..storage.history import History, history
from ..storage.record import digests
from ..storage.spreadsheet import write_table

CHUNK = 8192  # images whose probabilities are held at once
COLUMNS = (*PREDICTION_COLUMNS, "second", "pseudo_label", "pseudo_confidence", "accepted")
ODD = 0.5  # images that belong to the classes less than that rather belong to none

NOT_MEASURED = (
    "no labelled image was held out. Add a test folder, or hold out N labelled images per class "
    "with --validation-per-class N"
)
Rows = Sequence[dict[str, Any]]  # lines of metrics.jsonl


@dataclass(frozen=True)
class PoolPredictions:
    """One entry per image of the pool.

    Predictions are the model's own. Pseudo-labels are what the method makes of the answer of the
    net in training, for example by rescaling, before it compares the confidence with τ.
    """

    predicted: Indices
    confidence: Floats
    second: Indices
    pseudo_label: Indices
    pseudo_confidence: Floats
    drawn: npt.NDArray[np.bool_]  # at least once in training
    accepted: Indices | None  # how often in training; None where the method has no such rule
    belongs: Floats | None = None  # 0 … 1, to any class at all; None where that is not known

    @property
    def never(self) -> Indices:
        """Positions of the images that were drawn and never accepted, the most doubtful first."""
        if self.accepted is None:
            return np.empty(0, np.int64)
        places = np.flatnonzero(self.drawn & (self.accepted == 0))
        return places[np.argsort(self.confidence[places], kind="stable")]

    @property
    def odd(self) -> Indices:
        """Positions of the images that rather belong to no class, the oddest first."""
        if self.belongs is None:
            return np.empty(0, np.int64)
        order = np.argsort(self.belongs, kind="stable")
        return order[: int((self.belongs < ODD).sum())]

    @property
    def columns(self) -> tuple[str, ...]:
        return COLUMNS if self.belongs is None else (*COLUMNS, BELONGS)

    def lines(self, pool: Pool, places: Iterable[int]) -> Iterator[tuple[str, ...]]:
        """The lines of the table for these images; `columns` names the cells."""
        names = pool.data.classes
        for i in places:
            yield (
                *pool.line(i, int(self.predicted[i]), float(self.confidence[i])),
                names[self.second[i]],
                names[self.pseudo_label[i]],
                f"{self.pseudo_confidence[i]:.6f}",
                "" if self.accepted is None else str(self.accepted[i]),
                *([] if self.belongs is None else [f"{self.belongs[i]:.6f}"]),
            )


def predict_pool(engine: Engine, pool: Pool, temperature: float = 1.0) -> PoolPredictions:
    """Predict every image of the pool without augmentation; the engine stays as it is."""
    starts = range(0, len(pool), CHUNK)
    parts = [predict_images(engine, pool.images[i : i + CHUNK], temperature) for i in starts]
    best, confidence, second, label, sure = map(np.concatenate, zip(*parts, strict=True))
    count = accepted(engine.method)
    times = None if count is None else count.cpu().numpy().astype(np.int64)[pool.places]
    return PoolPredictions(
        best, confidence, second, label, sure, drawn(engine)[pool.places], accepted=times
    )


def predict_images(engine: Engine, images: torch.Tensor, temperature: float) -> tuple[Any, ...]:
    """The first five columns of a `PoolPredictions` for some images."""
    p = engine.probabilities(images)
    sure, label = pseudo_label_probabilities(engine, images, p).max(-1)
    own = tempered(p.cpu().numpy(), temperature)
    order = np.argsort(-own, axis=-1, kind="stable")
    best, second = order[:, 0], order[:, min(1, own.shape[1] - 1)]
    return best, own.max(-1), second, label.cpu().numpy(), sure.double().cpu().numpy()


@torch.no_grad()
def pseudo_label_probabilities(
    engine: Engine, images: torch.Tensor, final: torch.Tensor | None = None
) -> torch.Tensor:
    """(n, C): what pseudo-labels are made from, by the trained net itself and not its average.

    `final`, the probabilities by the final net, is reused where that is the same net.
    """
    method = engine.method
    if method.average is not None or final is None:
        final = engine.probabilities(images, of=method.net)
    return generated(method, final)


def drawn(engine: Engine) -> npt.NDArray[np.bool_]:
    """Which images of the pool the whole training sees, in all processes together."""
    whole = copy(engine.source.samplers[UNLABELLED])
    whole.slots = range(whole.batch)
    seen, steps = np.zeros(whole.count, bool), engine.pace.steps
    block = whole.count // whole.batch + 1  # about a pass: the ids of all steps may not fit
    for step in range(0, steps, block):
        if seen.all():
            break
        seen[whole.ids(step, min(block, steps - step))] = True
    return seen


def told_by(method: Method) -> dict[str, Any]:
    """What a method knows about the pool."""
    return {**class_shares(method), "tau": threshold(method)}


def summary(found: PoolPredictions, pool: Pool, told: Mapping[str, Any]) -> dict[str, Any]:
    """What trust.json says about the pool."""
    truth = pool.truth
    right = None if truth is None else found.pseudo_label == truth
    counts = np.bincount(found.predicted, minlength=pool.classes)
    return {
        "images": len(pool),
        "drawn": int(found.drawn.sum()),
        "never_accepted": None if found.accepted is None else len(found.never),
        "predicted_shares": (counts / len(pool)).tolist(),
        "accuracy": None if truth is None else float((found.predicted == truth).mean()),
        **told,
        "sweep": [asdict(level) for level in sweep(found.pseudo_confidence, right)],
    }


# what the model says about the pool at a temperature, and what trust.json says about that
PredictPool = Callable[[Pool, float], tuple[PoolPredictions, dict[str, Any]]]


def write_answers(
    folder: RunFolder,
    model: Model,
    raw: Mapping[str, Floats],
    held_out: Mapping[str, Subset],
    pool: Pool | None,
    predict_pool: PredictPool,
) -> PoolPredictions | None:
    """Write the model and what it says about all images; of these, the pool.

    That is trust.json, predictions/, never_accepted.csv, odd.csv and pictures/. `raw` is what the
    model predicts for held-out images, without the temperature that is fitted here.
    """
    measured_on = next((kind for kind in ("test", "validation") if kind in held_out), None)
    content: dict[str, Any] = {"measured_on": measured_on, "pool": None}
    temperature, found = 1.0, None
    if measured_on is None:
        content["reason"] = NOT_MEASURED
    else:
        labels = {kind: part.labels.numpy() for kind, part in held_out.items()}
        calibration = calibration_of(raw, labels)
        trust = measure(raw[measured_on], labels[measured_on], calibration)
        content |= trust.figures()
        temperature = calibration.temperature or 1.0
    if pool is not None and len(pool):
        found, content["pool"] = predict_pool(pool, temperature)
    model.facts = replace(model.facts, temperature=temperature)
    model.save(folder.model)
    for kind, part in held_out.items():
        p = tempered(raw[kind], temperature)
        lines = [part.line(i, int(c), float(p[i, c])) for i, c in enumerate(p.argmax(-1))]
        write_table(folder.path / "predictions" / f"{kind}.csv", PREDICTION_COLUMNS, lines)
        if kind == measured_on:
            for name, places in notable(p, part.labels.numpy()).items():
                content[name] = [described(lines[i], p[i]) for i in places]
                picture(folder.path, name, part, places)
    if pool is not None and found is not None:
        write_pool(pool, found, folder.path)
    write_json(folder.path / "trust.json", content)
    return found


def described(line: tuple[str, ...], p: Floats) -> dict[str, Any]:
    """What trust.json says about one image; its confidence is not rounded there."""
    return {**dict(zip(PREDICTION_COLUMNS, line, strict=True)), "confidence": float(p.max())}


def write_pool(pool: Pool, found: PoolPredictions, folder: Path) -> None:
    """Every unlabelled image, and again those never accepted and those that belong to no class."""
    everything = found.lines(pool, range(len(pool)))
    write_table(folder / "predictions" / "pool.csv", found.columns, everything)
    if found.accepted is not None:
        never = found.lines(pool, found.never.tolist())
        write_table(folder / "never_accepted.csv", found.columns, never)
        picture(folder, "never_accepted", pool, found.never)
    if len(found.odd):
        odd = found.lines(pool, found.odd.tolist())
        write_table(folder / "odd.csv", found.columns, odd)
        picture(folder, "odd", pool, found.odd)


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


def junk_of(found: PoolPredictions | None, data: DataSet) -> dict[str, Any] | None:
    """What the result says of images that belong to no class; None where it is not known."""
    if found is None or found.belongs is None:
        return None
    share = float(1 - found.belongs.mean())
    return {"share": share, "images": len(found.odd), "marked": len(data.of_no_class)}


def result_of(run: Run, rows: Rows, seconds: float) -> dict[str, Any]:
    """What the log says about the whole run; error_best is chosen on the test set: an oracle."""
    tests = [row for row in rows if row["kind"] == "test"]
    trained = [row for row in rows if row["kind"] == "train"]
    last = tests[-1] if tests else {}
    best = min(tests, key=lambda row: (row["error"], row["step"]), default=last)
    return {
        "method": run.method,
        "dataset": run.data,
        "seed": run.seed,
        "steps": run.steps,
        "error_last": last.get("error"),
        "error_median20": median(row["error"] for row in tests[-20:]) if tests else None,
        "error_best": best.get("error"),
        "best_step": best.get("step"),
        "per_class_accuracy": last.get("per_class"),
        "utilization": trained[-1].get("used") if trained else None,
        "seconds": round(seconds, 3),
    }


def write_result(folder: RunFolder, result: dict[str, Any], step: int) -> None:
    """Write the result, with the reason of a chosen method; run.json says that the run is over."""
    before = folder.read()
    if (why := before.get("chosen", {}).get("method")) is not None:
        result["method_reason"] = why
    write_json(folder.result, result)
    times = {**before.get("times", {}), "finished": timestamp()}
    folder.checked(folder.split.name)
    files, mark = digests(folder.path), folder.mark()
    folder.update(status="finished", step=step, times=times, files=files, metrics=mark)


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder and its result."""

    path: Path
    result: dict[str, Any]
    baseline: dict[str, Any] | None = None  # the result of its supervised baseline

    @property
    def accuracy(self) -> float | None:
        """Test accuracy of the last step in percent; None without a test part."""
        return accuracy_of(self.result)

    @property
    def baseline_accuracy(self) -> float | None:
        """The same of the supervised baseline; None also where none was trained."""
        return None if self.baseline is None else accuracy_of(self.baseline)

    @property
    def per_class(self) -> list[float] | None:
        """The same for each class, in the order of the model's classes."""
        return self.result["per_class_accuracy"]  # type: ignore[no-any-return]

    @property
    def method_reason(self) -> str | None:
        """Why the run has the plain or the long-tailed form of TaMatch; None for a given method."""
        return self.result.get("method_reason")

    @property
    def first_answer(self) -> dict[str, Any] | None:
        """Of a pre-trained net as it is: the error by cross-validation, the learning curve and the
        estimated class shares of the pool; None for a run without such an answer.
        """
        return self.result.get("first_answer")

    @property
    def junk(self) -> dict[str, Any] | None:
        """Images that belong to no class: the estimated `share` of the unlabelled ones, how many
        `images` rather do, which odd.csv lists, and how many were `marked` by a person. None for
        a run without features of a pre-trained net.
        """
        return self.result.get("junk")

    @property
    def tuning(self) -> dict[str, Any] | None:
        """Of a run that tunes its net from there: whether that is kept and why, and the `ladder`
        from labels alone to the tuned net, each with its errors and seconds; None for other runs.
        """
        return self.result.get("tuning")

    @property
    def history(self) -> History:
        """The curves of the run as arrays, or as data frames."""
        return history(self.path)

    @property
    def report_path(self) -> Path:
        """The page that explains the run."""
        return self.path / "report.html"


def accuracy_of(result: dict[str, Any]) -> float | None:
    error = result["error_last"]
    return None if error is None else round(100 - error, 6)
