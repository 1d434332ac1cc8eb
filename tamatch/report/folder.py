"""Read a run folder. Whatever is missing or broken becomes a note in words, not an error."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from ..errors import DataError, UsageError
from ..storage.files import read_json
from ..storage.folder import folder_advice, no_folder
from ..storage.record import changes
from ..storage.spreadsheet import read_rows
from .metrics import Metrics, read_metrics
from .trust import TrustFile, trust_of
from .words import UNKNOWN, count, duration, number, numbers, table, text, whole

HELD_OUT = ("test", "validation")
MEDIAN_NEEDS = 40  # tests in a run: with fewer, the last 20 reach into its first half
SKIPPED_LISTED = 50
_EXPECTED = ("run.json", "result.json", "metrics.jsonl")

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Figures:
    """The figures of one run: errors and accuracies in percent, utilization as a share of one."""

    method: str
    data: str
    seed: str
    steps: int | None
    finished: bool
    measured_on: str  # "test", "validation", or "" where neither part exists
    images: int | None  # how many images the error was measured on
    error_last: float | None
    error_median: float | None  # of the last 20 tests; None also where the run has too few
    error_best: float | None
    best_step: int | None
    classes: tuple[str, ...]
    per_class: tuple[float, ...]
    utilization: float | None
    seconds: float | None
    held_out: bool = True  # False: there is no labelled image to measure an error on
    labelled_pool: bool = False  # the unlabelled images were the labelled ones over again

    @property
    def accuracy(self) -> float | None:
        """100 minus the last error."""
        return None if self.error_last is None else 100 - self.error_last

    @property
    def balanced_accuracy(self) -> float | None:
        """Mean of the per-class accuracies."""
        known = [value for value in self.per_class if math.isfinite(value)]
        return sum(known) / len(known) if known else None

    @property
    def by_class(self) -> dict[str, float]:
        """The accuracy of each class, by its name."""
        return dict(zip(self.classes, self.per_class, strict=False))

    @property
    def worst(self) -> tuple[str, float] | None:
        """Name and accuracy of the class with the lowest accuracy."""
        pairs = zip(self.classes, self.per_class, strict=False)
        known = [pair for pair in pairs if math.isfinite(pair[1])]
        return min(known, key=lambda pair: pair[1], default=None)


@dataclass(frozen=True)
class RunFiles:
    """The contents of one run folder that a report needs."""

    path: Path
    about: dict[str, object]  # run.json
    result: dict[str, object]  # result.json, empty until the run has finished
    metrics: Metrics
    notes: tuple[str, ...]  # what is missing or broken, in sentences
    baseline: RunFiles | None
    trust: TrustFile  # trust.json, which a run writes when it finishes
    first: RunFiles | None = None  # the first answer that the net was tuned from

    @property
    def config(self) -> dict[str, object]:
        """The resolved configuration."""
        return table(self.about.get("config"))

    @property
    def options(self) -> dict[str, object]:
        """The method's own hyper-parameters."""
        return table(self.config.get("options"))

    @property
    def data(self) -> dict[str, object]:
        """What run.json says about the data set."""
        return table(self.about.get("data"))

    @property
    def labelled(self) -> int | None:
        """How many labelled images it was trained on."""
        return whole(self.data.get("labelled"))

    @property
    def first_answer(self) -> dict[str, object]:
        """What the result says of a run whose net is not trained; empty for any other run."""
        return {} if self.tuning else table(self.result.get("first_answer"))

    @property
    def tuning(self) -> dict[str, object]:
        """What the result says of a run whose net was tuned; empty for any other run."""
        return table(self.result.get("tuning"))

    @property
    def shown(self) -> RunFiles:
        """What there is to report: of a run whose tuning was for nothing, the first answer."""
        return self.first if self.first and self.tuning.get("kept") is False else self

    @property
    def net(self) -> str:
        """The net; of one in a file of the user's own, FILE.py:NAME without where that lies."""
        name = text(self.config.get("net"))
        return Path(name).name if ":" in name else name

    @property
    def baseline_figures(self) -> Figures | None:
        """The figures of the supervised baseline, where one was trained."""
        return None if self.baseline is None else self.baseline.figures

    @property
    def data_facts(self) -> Pairs:
        """Sizes of the parts, and what is known of the unlabelled pool."""
        data, parts = self.data, ("labelled", "unlabelled", "validation", "test")
        if not data:
            return []
        known = "yes" if data.get("true_shares") else "no, so the target is used instead"
        shared = text(data.get("labelled_in_pool"), UNKNOWN)
        return [
            ("Data set", text(data.get("name"), UNKNOWN)),
            *((f"{part.capitalize()} images", count(whole(data.get(part)))) for part in parts),
            ("Labelled images also in the unlabelled pool", shared),
            ("True class shares of the pool known", known),
            ("SHA-256", text(data.get("sha256"), UNKNOWN)),
        ]

    @property
    def configuration(self) -> Pairs:
        """The resolved configuration without the method's own options."""
        settings = ((k.rstrip("_"), v) for k, v in self.config.items() if k != "options")
        return [(name, text(value, "none")) for name, value in settings]

    @property
    def method_options(self) -> Pairs:
        """The method's own hyper-parameters, in words."""
        return [(name, text(value, "none")) for name, value in self.options.items()]

    @property
    def circumstances(self) -> Pairs:
        """Versions, device and times."""
        about, names = self.about, ("device", "threads", "precision")
        return [
            *((name, text(version)) for name, version in table(about.get("versions")).items()),
            *((name, text(about.get(name), UNKNOWN)) for name in names),
            ("net parameters", count(whole(about.get("parameters")))),
            *((name, text(when, UNKNOWN)) for name, when in table(about.get("times")).items()),
            ("training time", duration(number(self.result.get("seconds")))),
        ]

    @cached_property
    def figures(self) -> Figures:
        """From result.json where it is there, else from the last logged rows."""
        about, result, data, train = self.about, self.result, self.data, self.metrics.of("train")
        error_last = number(result.get("error_last"))
        # labels that have judged a tuned net were learnt afterwards
        lent = bool(self.tuning) and "validation_per_class" in table(about.get("chosen"))
        parts = HELD_OUT[:1] if lent else HELD_OUT
        measured_on = next((kind for kind in parts if self.metrics.of(kind).rows), "")
        if error_last is not None:
            measured_on = "test"
        log = self.metrics.of(measured_on)
        per_class = log.last_vector("per_class")
        if measured_on == "test":
            per_class = numbers(result.get("per_class_accuracy")) or per_class
        utilization = number(result.get("utilization"))
        if utilization is None:
            utilization = train.last_scalar("used")
        pool = whole(data.get("unlabelled"))
        labelled_pool = (
            bool(pool) and pool == self.labelled and data.get("labelled_in_pool") is True
        )
        settled = len(self.metrics.of("test").rows) >= MEDIAN_NEEDS
        method = text(self.config.get("method") or result.get("method"), "unknown method")
        names = data.get("name") or result.get("dataset") or self.config.get("data")
        listed = about.get("classes")
        classes = [text(name, "?") for name in listed] if isinstance(listed, list) else []
        needed = max(len(per_class), len(train.last_vector("p_model")))
        return Figures(
            method=Path(method).name,  # of a method in a file, not where that lies
            data=text(names, "unknown data"),
            seed=text(self.config.get("seed", result.get("seed")), "unknown"),
            steps=whole(self.config.get("steps")) or whole(result.get("steps")),
            finished=text(about.get("status")) == "finished" or bool(result),
            measured_on=measured_on,
            images=whole(data.get(measured_on)),
            error_last=log.last_scalar("error") if error_last is None else error_last,
            error_median=number(result.get("error_median20")) if settled else None,
            error_best=number(result.get("error_best")),
            best_step=whole(result.get("best_step")),
            classes=(*classes, *map(str, range(len(classes), needed))),
            per_class=tuple(per_class),
            utilization=None if labelled_pool else utilization,
            seconds=number(result.get("seconds")),
            held_out=bool(measured_on) or any(whole(data.get(k)) != 0 for k in parts),
            labelled_pool=labelled_pool,
        )


def read_folder(path: Path) -> RunFiles:
    """Read a run folder and, where they are, its supervised baseline and its first answer."""
    if not path.is_dir():
        raise no_folder(path)
    if not _is_run(path):
        raise UsageError(
            f"{path} is not a run folder: it contains none of {', '.join(_EXPECTED)}. "
            f"{folder_advice(path)}"
        )
    inner, first = path / "baseline", path / "first"
    found = _read(path, _read(inner, None) if _is_run(inner) else None)
    return replace(found, first=read_folder(first)) if _is_run(first) else found


def _is_run(path: Path) -> bool:
    return any((path / name).is_file() for name in _EXPECTED)


def _read(path: Path, baseline: RunFiles | None) -> RunFiles:
    notes: list[str] = []
    about = _read_json(path / "run.json", notes)
    result = _read_json(path / "result.json", notes) if (path / "result.json").exists() else {}
    metrics = Metrics({})
    if (path / "metrics.jsonl").is_file():
        metrics = read_metrics(path / "metrics.jsonl")
    else:
        notes.append("metrics.jsonl is missing, so there are no curves.")
    if metrics.unreadable:
        notes.append(
            f"{metrics.unreadable} lines of metrics.jsonl cannot be read and are left out."
        )
    notes += [*_state_of(about, result), *changes(path, about)]
    trust, file = TrustFile(), path / "trust.json"
    try:
        trust = trust_of(_read_json(file, notes) if file.exists() else {})
    except TypeError:
        notes.append("trust.json is damaged: a value in it is missing or of the wrong kind.")
    return RunFiles(path, about, result, metrics, tuple(notes), baseline, trust)


def _read_json(path: Path, notes: list[str]) -> dict[str, object]:
    try:
        return table(read_json(path))
    except FileNotFoundError:
        notes.append(f"{path.name} is missing, so its contents are unknown here.")
    except (OSError, ValueError, RecursionError):
        notes.append(f"{path.name} cannot be read (it is damaged or not JSON).")
    return {}


def _state_of(about: dict[str, object], result: dict[str, object]) -> list[str]:
    status = text(about.get("status"))
    step, steps = whole(about.get("step")), whole(table(about.get("config")).get("steps"))
    where = "" if step is None else f" at step {count(step)}"
    where += "" if step is None or steps is None else f" of {count(steps)}"
    if status == "finished" and not result:
        return [
            "The run has finished, but result.json is missing; the figures are the last logged."
        ]
    if status in ("", "finished"):
        return []
    so_far = "All figures are the latest logged."
    if status == "running":
        return [f"This run has not finished: it was{where or ' running'} when last saved. {so_far}"]
    if status == "stopped":
        return [f"This run was stopped{where}; tamatch resume continues it. {so_far}"]
    return [f"This run {status}{where}. {so_far}"]


def skipped_files(path: Path) -> tuple[int, Pairs]:
    """How many images were left out, and the first of them with the reason."""
    rows = read_rows(path, "file", "reason")
    try:
        listed = [(row["file"], row["reason"]) for row in islice(rows, SKIPPED_LISTED)]
        return len(listed) + sum(1 for _ in rows), listed
    except DataError:
        return 0, []
