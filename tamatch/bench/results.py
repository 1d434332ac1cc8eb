"""Results: each finished run as a small JSON, in a folder that several machines may fill.

A result is enough for every table and figure, and to trace each number.
"""

import hashlib
import json
import math
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self, TypeVar

from ..errors import DataError
from ..judge.differences import kl
from ..storage.files import read_json, timestamp, write_bytes
from ..storage.folder import RunFolder
from ..storage.typed import UnknownField, typed
from .cells import RECIPE, Cell, named_length

PACKAGE = Path(__file__).parents[1]
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
    def of(cls, points: Sequence[tuple[int, float]], most: int | None = None) -> Self:
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
    ) -> Self:
        """The points, rounded and thinned, both ends among them."""
        kept = thinned(points, max(2, min(POINTS, NUMBERS // classes)))
        rounded = [[None if v is None else round(v, digits) for v in row] for _, row in kept]
        return cls([step for step, _ in kept], rounded)


@dataclass(frozen=True)
class Result:
    """What is kept of a run; errors and accuracies in percent."""

    bench: str  # the first that needed it
    setting: str
    method: str
    seed: int
    scale: str
    recipe: int
    error_last: float | None
    error_median20: float | None
    error_best: float | None  # picked on the test set: an oracle
    best_step: int | None
    per_class_accuracy: list[float | None] | None
    classes: list[str]
    error: Curve  # of every test
    utilization: Curve  # share of pseudo-labels used
    kl_truth: Curve  # KL[p_model ‖ p_truth] in nats
    truth: str  # "pool": the pool's own class shares; "uniform" where they are unknown
    seconds: float
    made: dict[str, Any]  # by which code, when and where
    config: dict[str, Any]
    # the first results lack what follows
    variant: str | None = None  # what differs from the method's recipe, by name
    kl_target: Curve | None = None  # KL[p_model ‖ p_target] in nats
    r_max: Curve | None = None  # 1 + KL[p_model ‖ p_target] / (H(p_model) / C)
    largest_ratio: Curve | None = None  # max over classes of p_target / p_model
    weight: Curve | None = None  # mean over the pseudo-labels used
    max_weight: Curve | None = None
    per_class: Vectors | None = None  # accuracy of each class, in percent
    p_model: Vectors | None = None
    p_target: Vectors | None = None
    abreast: int = 1  # runs that shared the device; `seconds` are those of all together
    clock: Curve | None = None  # seconds of training until each test, without the tests


class Store:
    """Results by cell. A file appears whole or not at all, and its name is the cell's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Path, tuple[tuple[int, ...], Result]] = {}

    def path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.json"

    def has(self, cell: Cell) -> bool:
        return self.path(cell).exists()

    def write(self, cell: Cell, result: Result) -> None:
        fields = asdict(result).items()
        lines = [f"{json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in fields]
        write_bytes(self.path(cell), ("{" + ",\n ".join(lines) + "}\n").encode())

    def read(self, cell: Cell) -> Result:
        """The stored result; an error if the file is not what its name says."""
        path = self.path(cell)
        try:
            result = self._content(path)
        except UnknownField as field:
            raise DataError(
                f"{path} was written by a newer version of tamatch: this one does not know "
                f"{field}. Update tamatch to read it."
            ) from None
        except (ValueError, TypeError):
            raise DataError(f"{path} is damaged. Delete it to repeat the run.") from None
        said = (
            result.setting, result.method, result.variant, result.seed, result.scale, result.recipe
        )  # fmt: skip
        variant = cell.variant.name if cell.variant else None
        named = (cell.setting.name, cell.method_name, variant, cell.seed, str(cell.scale), RECIPE)
        if said != named:
            raise DataError(f"{path} contains the result of another run: {said}. Was it renamed?")
        return result

    def _content(self, path: Path) -> Result:
        """The parsed content of a file; it is read again only if the file has changed."""
        there = path.stat()
        version = (there.st_ino, there.st_mtime_ns, there.st_size)
        if path not in self._known or self._known[path][0] != version:
            self._known[path] = version, typed(read_json(path), Result, closed=True)
        return self._known[path][1]

    def results(self, cells: Iterable[Cell]) -> dict[Cell, Result]:
        """The results there are. Cells of one plan have one recipe version and one scale."""
        return {cell: self.read(cell) for cell in cells if self.has(cell)}

    def of_other_code(self, cells: Iterable[Cell]) -> set[Path]:
        """Results of methods of the user's own that have the same name, but other code."""
        found: set[Path] = set()
        for cell in (cell for cell in cells if cell.code):
            of_any_code = self.path(replace(cell, code="*"))
            found |= {*of_any_code.parent.glob(of_any_code.name)}
        return found - {self.path(cell) for cell in cells}

    def other_scales(self, cells: Sequence[Cell]) -> dict[Fraction, int]:
        """How many of these cells have a result of another length, by its scale."""
        folders = {self.path(cell).parent for cell in cells}
        names = {path.name for folder in folders for path in folder.glob(f"*.*.r{RECIPE}.json")}
        lengths = (named_length(name.split(".")[-3]) for name in names)
        scales = sorted({s for s in lengths if s} - {cell.scale for cell in cells})
        found = {s: sum(self.has(replace(cell, scale=s)) for cell in cells) for s in scales}
        return {scale: count for scale, count in found.items() if count}


def record(cell: Cell, folder: RunFolder) -> Result:
    """The result of a finished run in its folder."""
    run, found, rows = folder.read(), folder.read_result(), folder.rows()
    classes, shares = run["classes"], run["data"]["true_shares"]
    truth = shares or [1 / len(classes)] * len(classes)
    config = {k: v for k, v in run["config"].items() if k != "root"}  # a path of that machine
    if config.get("weights"):
        config["weights"] = start(config["weights"])
    if cell.code:
        config["method"] = Path(cell.method).name
    times = clock(rows)
    scores = ("error_last", "error_median20", "error_best", "best_step", "per_class_accuracy")
    return Result(
        bench=cell.bench, setting=cell.setting.name, method=cell.method_name, seed=cell.seed,
        scale=str(cell.scale), recipe=RECIPE, classes=classes,
        **{name: found[name] for name in scores},
        error=Curve.of(logged(rows, "test", "error")),
        utilization=Curve.of(logged(rows, "train", "used"), POINTS),
        kl_truth=Curve.of(
            [(step, kl(p, truth)) for step, p in logged(rows, "train", "p_model")], POINTS
        ),
        truth="pool" if shares else "uniform",
        seconds=found["seconds"], made=origin(run), config=config,
        variant=cell.variant.name if cell.variant else None,
        clock=Curve.of(times) if times else None,
        **course(rows, len(classes), config["options"].get("eps", RATIO_EPS)),
    )  # fmt: skip


def clock(rows: Sequence[dict[str, Any]]) -> list[tuple[int, float]]:
    """The steps of the tests, and the seconds of training until then.

    A test lasts from the line of the log before it, if that is of the same step, to its own.
    """
    found: list[tuple[int, float]] = []
    spent, step, before = 0.0, 0, 0.0
    for row in (row for row in rows if "time" in row):
        now = row["time"]["seconds"]
        if row["kind"] != "train":
            spent += now - before if row["step"] == step else 0.0
            if row["kind"] == "test":
                found.append((row["step"], now - spent))
        step, before = row["step"], now
    return found


def thinned(points: Sequence[Point], most: int | None) -> Sequence[Point]:
    """At most `most` of them, evenly spread, both ends included."""
    if most is None or len(points) <= most:
        return points
    gap = (len(points) - 1) / (most - 1)
    return [points[round(i * gap)] for i in range(most)]


def logged(rows: Sequence[dict[str, Any]], kind: str, *names: str) -> list[tuple[Any, ...]]:
    """The step and these values of each line of a kind that has them."""
    found = (row for row in rows if row["kind"] == kind and all(name in row for name in names))
    return [(row["step"], *(row[name] for name in names)) for row in found]


def course(rows: Sequence[dict[str, Any]], classes: int, eps: float = RATIO_EPS) -> dict[str, Any]:
    """The curves of the learning status, the weights and each class's accuracy, where logged."""
    pairs = logged(rows, "train", "p_model", "p_target")
    tests = logged(rows, "test", "per_class")
    curves = {
        "kl_target": [(step, kl(p, q)) for step, p, q in pairs],
        "r_max": [(step, bound(p, q)) for step, p, q in pairs],
        "largest_ratio": [(step, largest_ratio(p, q, eps)) for step, p, q in pairs],
        **{name: logged(rows, "train", name) for name in ("weight", "max_weight")},
    }
    vectors = {
        "p_model": logged(rows, "train", "p_model"),
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


def start(weights: str | None) -> str:
    """What a net starts from: the name of its file, which machines keep in different folders."""
    return Path(weights).name if weights else "random weights"


def origin(run: dict[str, Any]) -> dict[str, Any]:
    """Code, versions and machine behind a result."""
    kept = ("device", "precision", "threads", "data")
    return {
        "finished": timestamp(), "commit": commit(), "source_sha256": source_digest(),
        "versions": run["versions"], "gpu": gpu(run["device"]), **{k: run[k] for k in kept},
    }  # fmt: skip


def commit() -> str | None:
    """The commit, `+` if the package was changed since; without git, that in TAMATCH_COMMIT."""
    head = git("rev-parse", "HEAD")
    # the package may lie in the ignored folder of another repository
    if head is None or git("ls-files", "--error-unmatch", "__init__.py") is None:
        return os.environ.get("TAMATCH_COMMIT")
    return head + ("+" if git("status", "--porcelain", "--", ".") else "")


def git(*words: str) -> str | None:
    command = ["git", "-C", str(PACKAGE), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def source_digest() -> str:
    """SHA-256 of the package's Python files: tells two states of the code apart without git."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def gpu(device: str) -> str | None:
    if not device.startswith("cuda"):
        return None
    import torch

    return torch.cuda.get_device_name(device)
