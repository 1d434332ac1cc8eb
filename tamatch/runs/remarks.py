"""What a run says about its data before it trains on them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ..data import DATASETS, DataSet, Split
from ..data.splits import Mask
from ..settings.config import Run
from ..step.subset import Pool
from .progress import Progress

HELD_OUT = ("validation", "test")


def remark_on_skipped(data: DataSet, progress: Progress) -> None:
    """Images that cannot be used are named, here and in skipped.csv; training goes on."""
    for note in data.notes:
        progress.say(note)
    if data.skipped:
        (file, reason), total = data.skipped[0], len(data.skipped) + len(data.images)
        progress.say(
            f"{len(data.skipped):,} of {total:,} images cannot be read and are left out "
            f"(see skipped.csv): {file}: {reason}"
        )


def remark_on_data(
    run: Run,
    data: DataSet,
    split: Split,
    pool: Pool | None,
    seen: Mapping[str, int],
    progress: Progress,
    *,
    cross_validated: bool = False,
) -> None:
    """What is better known before a long run than after it; no `pool`: the method has none."""
    if pool is not None and not len(pool):
        progress.say(
            f"There are no unlabelled images: all {len(split.labelled):,} training images have a "
            "label, and they are used as unlabelled images, too."
        )
    if not (cross_validated or any(len(getattr(split, role)) for role in HELD_OUT)):
        progress.say(
            "There are no test images, so no error will be measured. --validation-per-class N "
            "holds out N labelled images per class for that."
        )
    if run.data not in DATASETS:
        remark_on_seen(run, split, seen, progress)
        remark_on_contradictions(run, data, split, progress)


def seen_of(data: DataSet, split: Split, learnt: Mask) -> dict[str, int]:
    """How many held-out images were `learnt` before, or equal one that the run learns from."""
    digests = data.image_digests()
    known = {*map(bytes, digests[split.labelled])}
    return {
        role: sum(bool(learnt[i]) or bytes(digests[i]) in known for i in getattr(split, role))
        for role in HELD_OUT
    }


def remark_on_seen(run: Run, split: Split, seen: Mapping[str, int], progress: Progress) -> None:
    """Images that are learnt by heart say nothing of others."""
    before = f", here or in {run.from_}" if run.from_ else ""
    for role in HELD_OUT:
        if seen[role]:
            progress.say(
                f"{seen[role]:,} of {len(getattr(split, role)):,} {role} images are also labelled "
                f"training images{before}: the error will look too good. `{check_command(run)}` "
                "lists identical images."
            )


def remark_on_contradictions(run: Run, data: DataSet, split: Split, progress: Progress) -> None:
    """Of equal images with different labels, one is wrong, and few labels must not be."""
    digests, labels = data.image_digests(), dict[bytes, set[int]]()
    for i in split.labelled:
        labels.setdefault(bytes(digests[i]), set()).add(int(data.labels[i]))
    if twice := sum(len(own) > 1 for own in labels.values()):
        what = "1 labelled image occurs" if twice == 1 else f"{twice:,} labelled images occur"
        progress.say(
            f"{what} again, identical to the last pixel, with a different label: one of the two "
            f"is wrong. `{check_command(run)}` lists identical images."
        )


def check_command(run: Run) -> str:
    return shlex.join(["tamatch", "check", run.data])
