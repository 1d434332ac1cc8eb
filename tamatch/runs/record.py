"""What run.json and checkpoints say about a run: written when it begins, checked on resume."""

import dataclasses
import hashlib
import json
import os
import platform
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from .. import __version__, dist, methods, nets
from ..data import DataSet, Split, read_split, shares, write_split
from ..data.splitfile import ROLES
from ..errors import DataError, UsageError
from ..machine import launch
from ..settings.config import Run, as_words
from ..settings.hardware import pick_precision
from ..storage.files import timestamp
from ..storage.folder import RunFolder
from ..storage.record import MACHINE, file_digest
from ..storage.spreadsheet import write_table

LAST_BITS = "The run continues; results may differ in the last bits."
NEW_CODE = "The run continues with the new code."
Conditions = dict[str, str]


def begin(run: Run, folder: RunFolder, reasons: Mapping[str, str] | None = None) -> None:
    """Write down what is to be trained and why, in place of what an older run has left there."""
    folder.make_room()
    config = dataclasses.asdict(run)
    # where the paths among the settings begin; of the machine, so that no report shows it
    started: dict[str, Any] = {
        "command": command(run, folder.path), "started_in": os.getcwd(),
    }  # fmt: skip
    if reasons is not None:
        started["chosen"] = dict(reasons)
    if (name := launch.name()) is not None:
        started["torchrun"] = name
    folder.update(status="new", step=0, config=config, **started)


def began_here(folder: RunFolder) -> bool:
    """Did this torchrun command begin the run itself, before it restarted its processes?"""
    name = launch.name() if folder.record.exists() else None
    return name is not None and folder.read().get("torchrun") == name


def record_facts(
    run: Run,
    folder: RunFolder,
    data: DataSet,
    split: Split,
    net: nn.Module,
    device: torch.device,
    place: str,
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
        "labelled_shares": [*shares(data.labels[split.labelled], len(data.classes))],
        "true_shares": [*shares(hidden, len(data.classes))] if known else None,
    }
    before = folder.read()
    if "data" in before:
        if change := next(changes(before, facts, folder, data, split), None):
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
        device=str(device), threads=torch.get_num_threads(),
        precision=pick_precision(run, device), images=place,
        classes=list(data.classes), data=facts, seen=seen,
        files={folder.split.name: file_digest(folder.split)},
        parameters=sum(p.numel() for p in net.parameters()),
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


def record_skipped(folder: RunFolder, data: DataSet) -> None:
    if data.skipped:
        write_table(folder.path / "skipped.csv", ("file", "reason"), data.skipped)


def command(run: Run, out: Path) -> str:
    """The exact command that repeats a run, every setting spelt out."""
    given = {k: v for k, v in run.flat().items() if v is not None or k in run.options}
    words = (word for name, value in given.items() for word in as_words(name, value))
    return shlex.join(["tamatch", "train", "--out", str(out), *words])


def conditions(run: Run, device: torch.device) -> Conditions:
    """The settings, the versions and the device, as a checkpoint keeps them."""
    settings = {k: v for k, v in dataclasses.asdict(run).items() if k not in MACHINE}
    net = nets.CUSTOM.own_name(run.net)
    own = {"file of the net": code_digest(net)} if nets.is_user_code(run.net) else {}
    cuda = device.type == "cuda"
    return {
        "settings": json.dumps(settings, sort_keys=True),
        "version of tamatch": __version__,
        "version of torch": str(torch.__version__),
        "device": torch.cuda.get_device_name(device) if cuda else device.type,
        "file of the method": code_digest(methods.CUSTOM.own_name(run.method)),
        **own,
        "number of processes": str(dist.world()),
    }


def code_digest(name: str) -> str:
    """Checksum of the file of FILE.py:NAME; empty for what lies in no file."""
    file = Path(name.rpartition(":")[0])
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file.is_file() else ""


def changes_since(then: Conditions, now: Conditions) -> list[str]:
    """What has changed since a checkpoint, in words; an error if it is a setting of the run."""
    old, new = json.loads(then["settings"]), json.loads(now["settings"])
    other = [f"{k} was {v!r}, now it is {new.get(k)!r}" for k, v in old.items() if v != new.get(k)]
    if other:
        raise UsageError(
            f"the settings in run.json differ from those of the checkpoint: {'; '.join(other)}. "
            "Change them back, or start a new run with a different --out."
        )
    return [
        f"The {name} has changed since the checkpoint, from {then[name] or 'no file'} to "
        f"{now[name] or 'no file'}. {NEW_CODE if name.startswith('file') else LAST_BITS}"
        for name in now
        if name != "settings" and then[name] != now[name]
    ]
