"""What a run writes down of itself, and what it refuses to go on without."""

from __future__ import annotations

import csv
import datetime
import io
import platform
import shlex
from pathlib import Path
from typing import Any

import torch

from . import __version__
from .config import RUN_OPTIONS, Run, method_options
from .data import DataSet, Split, shares, write_split
from .engine import Engine
from .errors import DataError
from .files import write_bytes
from .folder import RunFolder
from .hardware import pick_precision
from .progress import Progress


def record_facts(run: Run, folder: RunFolder, data: DataSet, split: Split, engine: Engine) -> None:
    """Write what the run stands on; on resume, refuse to go on if it has changed."""
    hidden = data.labels[split.unlabelled]
    known = bool(len(hidden)) and bool((hidden >= 0).all())
    facts = {
        "name": data.name,
        "sha256": data.sha256(),
        "labelled": len(split.labelled),
        "unlabelled": len(split.unlabelled),
        "validation": len(split.validation),
        "test": len(split.test),
        "labelled_in_pool": run.labelled_in_pool == "yes",
        "labelled_shares": shares(data.labels[split.labelled], len(data.classes)),
        "true_shares": shares(hidden, len(data.classes)) if known else None,
    }
    before = folder.read()
    if "data" in before:
        check_unchanged(before, {**before, "data": json_like(facts)}, folder)
        torch.set_num_threads(before["threads"])
        return
    write_split(folder.split, data, split)
    folder.update(
        versions={
            "tamatch": __version__, "torch": torch.__version__, "python": platform.python_version(),
        },
        device=str(engine.device), threads=torch.get_num_threads(),
        precision=pick_precision(run, engine.device),
        classes=list(data.classes), data=facts,
        parameters=sum(p.numel() for p in engine.method.net.parameters()),
        times={"started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")},
    )  # fmt: skip


def check_unchanged(before: dict[str, Any], now: dict[str, Any], folder: RunFolder) -> None:
    for name, old in before["data"].items():
        if now["data"][name] != old:
            raise DataError(
                f"resume of {folder.path} refused: the data's {name} was {old}, now it is "
                f"{now['data'][name]}. Start a new run, or bring the old data back."
            )


def json_like(facts: dict[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()}


def tell_of_skipped(folder: RunFolder, data: DataSet, progress: Progress) -> None:
    """Images that cannot be used are named, here and in skipped.csv; training goes on."""
    for note in data.notes:
        progress.say(note)
    if not data.skipped:
        return
    text = io.StringIO()
    csv.writer(text).writerows([("file", "reason"), *data.skipped])
    write_bytes(folder.path / "skipped.csv", text.getvalue().encode())
    (file, reason), total = data.skipped[0], len(data.skipped) + len(data.images)
    progress.say(
        f"{len(data.skipped):,} of {total:,} images cannot be read and are left out "
        f"(skipped.csv): {file}: {reason}"
    )


def command(run: Run, out: Path) -> str:
    """The exact command that repeats a run, every setting spelt out."""
    words = ["tamatch", "train", "--out", str(out)]
    flags = {**RUN_OPTIONS, **method_options(run.method)}
    for name, value in run.flat().items():
        if value is None:
            continue
        flag = flags[name].flag
        if flags[name].type is bool:
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, ",".join(map(repr, value)) if isinstance(value, tuple) else str(value)]
    return shlex.join(words)
