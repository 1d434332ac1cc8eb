"""Torch's switches, which all runs of a process share: runs that train together must agree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch

from ..errors import UsageError
from ..settings.config import RUN_OPTIONS, Run
from ..settings.hardware import pick_device, pick_precision
from ..settings.options import as_text
from ..storage.folder import RunFolder

SWITCHES = ("precision", "deterministic", "threads")  # options that set them


def refuse_mixed(runs: Sequence[Run], folders: Sequence[RunFolder]) -> None:
    """Refuse runs of which one would get another's switches, and with them other results."""
    found = [switches(run, folder) for run, folder in zip(runs, folders, strict=True)]
    for name, (i, other) in product(SWITCHES, enumerate(found)):
        if other[name] != found[0][name]:
            one, two = (as_text(each[name]) for each in (found[0], other))
            raise UsageError(
                f"{folders[0].path} trains with {RUN_OPTIONS[name].flag} {one} and "
                f"{folders[i].path} with {two}, but runs in one process have the same. Train them "
                "one after the other."
            )


def switches(run: Run, folder: RunFolder) -> dict[str, Any]:
    """What a run needs them to be; the number of threads is that of its start, and of a CPU's."""
    device = pick_device(run.device)
    threads = folder.read().get("threads") or run.threads or torch.get_num_threads()
    return {
        "precision": pick_precision(run, device),
        "deterministic": run.deterministic,
        "threads": threads if device.type == "cpu" else None,
    }
