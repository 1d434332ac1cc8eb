"""Read a run folder. Whatever is missing or broken becomes a note in words, not an error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..storage.files import read_json
from ..storage.folder import folder_advice, no_folder
from ..storage.record import changes
from .metrics import Metrics, read_metrics
from .trust import TrustFile, trust_of
from .values import table, text, whole
from .words import count

_EXPECTED = ("run.json", "result.json", "metrics.jsonl")


@dataclass(frozen=True)
class RunFiles:
    """The contents of one run folder that a report needs."""

    path: Path
    about: dict[str, object]  # run.json
    result: dict[str, object]  # result.json, empty until the run has finished
    metrics: Metrics
    notes: tuple[str, ...]  # what is missing or broken, in sentences
    baseline: RunFiles | None = None
    trust: TrustFile | None = None  # trust.json, which a run writes when it finishes

    @property
    def config(self) -> dict[str, object]:
        """The resolved configuration."""
        return table(self.about.get("config"))

    @property
    def data(self) -> dict[str, object]:
        """What run.json says about the data set."""
        return table(self.about.get("data"))

    @property
    def finished(self) -> bool:
        """Whether the run came to its planned end."""
        return text(self.about.get("status")) == "finished" or bool(self.result)


def read_folder(path: Path) -> RunFiles:
    """Read a run folder and, where there is one, the supervised baseline inside it."""
    if not path.is_dir():
        raise no_folder(path)
    if not _is_run(path):
        raise UsageError(
            f"{path} is not a run folder: it contains none of {', '.join(_EXPECTED)}. "
            f"{folder_advice(path)}"
        )
    inner = path / "baseline"
    return _read(path, _read(inner, None) if _is_run(inner) else None)


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
    trust = _read_json(path / "trust.json", notes) if (path / "trust.json").exists() else {}
    return RunFiles(path, about, result, metrics, tuple(notes), baseline, trust_of(trust))


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
