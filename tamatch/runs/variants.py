"""Runs that follow from a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ..settings.config import Run, method_options
from ..storage.folder import RunFolder


def baseline_config(run: Run) -> Run:
    """The same labels, net, steps and average, without the unlabelled images.

    Where the run goes on from another, its baseline goes on from that one's.
    """
    options = {k: o.default for k, o in method_options("supervised").items()}
    earlier = RunFolder(Path(run.from_)).baseline if run.from_ else None
    start = str(earlier.path) if earlier and earlier.model.exists() else None
    return dataclasses.replace(
        run, method="supervised", baseline="none", options=options, from_=start
    )


def without_start(run: Run) -> Run:
    """The same run for a net whose weights come from a checkpoint: it loads no others first."""
    return dataclasses.replace(run, weights=None, from_=None)
