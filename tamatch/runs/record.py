"""What run.json says of a run, checked when it is resumed, and remarks on its data."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..data import DataSet, Split, read_split, shares, write_split
from ..data.splitfile import ROLES
from ..data.splits import Mask
from ..errors import DataError
from ..settings.config import RUN_OPTIONS, Run, method_options
from ..settings.hardware import pick_precision
from ..settings.options import Option, typed
from ..step.engine import Engine
from ..step.subset import Pool
from ..storage.files import timestamp
from ..storage.folder import RunFolder
from ..storage.spreadsheet import write_table
from .progress import Progress

HELD_OUT = ("validation", "test")


def record_facts(
    run: Run,
    folder: RunFolder,
    data: DataSet,
    split: Split,
    engine: Engine,
    seen: Mapping[str, int],
) -> None:
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
        for change in changes(before, json_like(facts), folder, data, split):
            raise DataError(
                f"cannot resume {folder.path}: {change}. Undo the change, or start a new run with "
                "a different --out."
            )
        torch.set_num_threads(before["threads"])
        return
    write_split(folder.split, data, split)
    folder.update(
        versions={
            "tamatch": __version__, "torch": torch.__version__, "python": platform.python_version(),
        },
        device=str(engine.device), threads=torch.get_num_threads(),
        precision=pick_precision(run, engine.device), images=engine.source.place,
        classes=list(data.classes), data=facts, seen=seen,
        parameters=sum(p.numel() for p in engine.method.net.parameters()),
        times={"started": timestamp()},
    )  # fmt: skip


def changes(
    before: dict[str, Any], now: dict[str, Any], folder: RunFolder, data: DataSet, split: Split
) -> Iterator[str]:
    """How the data differ from those a run began with, the plainest way to say it first."""
    began, other = before["data"], ""
    try:
        listed: Split | None = read_split(folder.split, data)
    except DataError as error:
        listed, other = None, str(error).rstrip(".")
    for role in ROLES:
        if now[role] != began[role]:
            told = f"split.csv lists {began[role]:,} {role} images, now there are {now[role]:,}"
            yield f"{told} ({other})" if other else told
    if before["classes"] != list(data.classes):
        yield f"the classes were {before['classes']}, now they are {list(data.classes)}"
    if listed is None:
        yield other
    else:
        for role in ROLES:
            if not np.array_equal(getattr(listed, role), getattr(split, role)):
                yield f"split.csv lists different {role} images than are drawn now"
    for name, value in began.items():
        if now[name] != value:
            yield f"{name.replace('_', ' ')} of the data was {value}, now it is {now[name]}"


def json_like(facts: dict[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()}


def record_skipped(folder: RunFolder, data: DataSet) -> None:
    if data.skipped:
        write_table(folder.path / "skipped.csv", ("file", "reason"), data.skipped)


def tell_of_skipped(data: DataSet, progress: Progress) -> None:
    """Images that cannot be used are named, here and in skipped.csv; training goes on."""
    for note in data.notes:
        progress.say(note)
    if data.skipped:
        (file, reason), total = data.skipped[0], len(data.skipped) + len(data.images)
        progress.say(
            f"{len(data.skipped):,} of {total:,} images cannot be read and are left out "
            f"(see skipped.csv): {file}: {reason}"
        )


def seen_of(data: DataSet, split: Split, learnt: Mask) -> dict[str, int]:
    """How many held-out images were `learnt` before, or equal one that the run learns from."""
    digests = data.image_digests()
    known = {*map(bytes, digests[split.labelled])}
    return {
        role: sum(bool(learnt[i]) or bytes(digests[i]) in known for i in getattr(split, role))
        for role in HELD_OUT
    }


def tell_of_seen(run: Run, split: Split, seen: Mapping[str, int], progress: Progress) -> None:
    """Images that are learnt by heart say nothing of others."""
    command = shlex.join(["tamatch", "check", run.data])
    before = f", here or in {run.from_}" if run.from_ else ""
    for role in HELD_OUT:
        if seen[role]:
            progress.say(
                f"{seen[role]:,} of {len(getattr(split, role)):,} {role} images are also labelled "
                f"training images{before}: the error will look too good. `{command}` "
                "lists identical images."
            )


def tell_of_contradictions(run: Run, data: DataSet, split: Split, progress: Progress) -> None:
    """Of equal images with different labels, one is wrong, and few labels must not be."""
    digests, labels = data.image_digests(), dict[bytes, set[int]]()
    for i in split.labelled:
        labels.setdefault(bytes(digests[i]), set()).add(int(data.labels[i]))
    if twice := sum(len(own) > 1 for own in labels.values()):
        command = shlex.join(["tamatch", "check", run.data])
        what = "1 labelled image occurs" if twice == 1 else f"{twice:,} labelled images occur"
        progress.say(
            f"{what} again, identical to the last pixel, with a different label: one of the two "
            f"is wrong. `{command}` lists identical images."
        )


def tell_of_no_held_out(progress: Progress) -> None:
    """Better known before a long run than after it."""
    progress.say(
        "There are no test images, so no error will be measured. --validation-per-class N "
        "holds out N labelled images per class for that."
    )


def tell_of_no_pool(pool: Pool, labelled: int, progress: Progress) -> None:
    """A method for unlabelled images may have none but the labelled ones: likely not meant."""
    if not len(pool):
        progress.say(
            f"There are no unlabelled images: all {labelled:,} training images have a "
            "label, and they are used as unlabelled images, too."
        )


def command(run: Run, out: Path) -> str:
    """The exact command that repeats a run, every setting spelt out."""
    words = ["tamatch", "train", "--out", str(out)]
    for name, option in RUN_OPTIONS.items():
        value = getattr(run, name)
        if option.type is bool:
            words.append(option.flag if value else option.flag.replace("--", "--no-", 1))
        elif value is not None:
            words += spelt(option, value)
    for name, option in method_options(run.method).items():
        words += spelt(option, run.options[name])
    return shlex.join(words)


def spelt(option: Option, value: Any) -> list[str]:
    """An option and its value as words of a command; a value that looks like an option is tied."""
    text = typed(value)
    return [f"{option.flag}={text}"] if text.startswith("-") else [option.flag, text]
