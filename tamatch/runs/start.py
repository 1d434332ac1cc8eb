"""What a run does before its first step: read the data, build the engine, say what it found."""

import io
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from ..augment import Policy
from ..data import DATASETS, DataSet, Split
from ..data.dataset import Indices
from ..data.splits import Mask
from ..model.model import Facts
from ..progress import Progress, counting
from ..settings.config import Run
from ..settings.configure import baseline_config, without_start
from ..settings.inputs import data_of, learnt_by, lineage, split_of
from ..step.engine import Engine
from ..step.source import LABELLED, UNLABELLED, Pool, Subset
from ..storage.events import Callbacks
from ..storage.files import write_bytes
from ..storage.folder import RunFolder
from .build import Start, engine_of
from .record import record_facts, record_skipped
from .training import Training

HELD_OUT = ("validation", "test")
COLUMNS = 8
TILE = 64  # pixels of an image in the picture, at least


@dataclass(frozen=True)
class Job:
    """A run to finish: its settings, its folder, and what shows its progress."""

    run: Run
    folder: RunFolder
    progress: Progress
    is_baseline: bool = False  # of a run that has already remarked on the same data
    callbacks: Callbacks | None = None  # of the user's own, for the run and not its baseline
    kept: bool = True  # its folder outlives it; if not, nothing is made for its readers alone

    @property
    def baseline(self) -> Self:
        run, folder = baseline_config(self.run), self.folder.baseline
        return replace(self, run=run, folder=folder, is_baseline=True, callbacks=None)


class SharedData:
    """The data sets and held-out images of several runs; each seed has its own training images."""

    def __init__(self) -> None:
        self.sets: dict[tuple[str | int | None, ...], DataSet] = {}
        self.held_out: list[tuple[torch.device | None, Subset]] = []

    def data(self, run: Run) -> DataSet:
        key = (run.data, run.root, run.labels, run.size, run.normalise)
        if key not in self.sets:
            with counting("reading images") as count:
                self.sets[key] = data_of(run, count)
        return self.sets[key]

    def subset(self, data: DataSet, indices: Indices, device: torch.device | None) -> Subset:
        for place, known in self.held_out:
            if known.data is data and place == device and np.array_equal(known.indices, indices):
                return known
        self.held_out.append((device, Subset(data, indices, device)))
        return self.held_out[-1][1]


def prepare(
    job: Job, shared: SharedData, *, started: bool, start: Start | None = None,
    kind: type[Training] = Training,
) -> tuple[Training, Split]:  # fmt: skip
    """Read the data, build the engine, and write down what the run stands on."""
    run, folder, progress = job.run, job.folder, job.progress
    data = shared.data(run)
    record_skipped(folder, data)
    told = job.is_baseline or start is not None  # by the run, or by the first answer
    if not told:
        remark_on_skipped(data, progress)
    split = split_of(run, data, run.size, folder.split)
    engine = engine_of(
        *(without_start(run) if started else run, data, split, progress.say),
        start=None if started else start,
    )
    seen = seen_of(data, split, learnt_by(lineage(run.from_), data, run.size))
    net, place = engine.method.net, engine.source.place
    record_facts(run, folder, data, split, net, engine.device, place, seen)
    if not folder.views.exists():
        save_views(engine, folder.views)
    parts = {"validation": split.validation, "test": thinned(split.test, run.test_images)}
    if len(parts["test"]) < len(split.test) and not job.is_baseline:
        progress.say(f"Tests use {len(parts['test']):,} of {len(split.test):,} test images.")
    device = engine.device if engine.source.place == "device" else None
    held_out = {k: shared.subset(data, part, device) for k, part in parts.items() if len(part)}
    pool = Pool(data, split) if engine.method.views.u else None
    if not (started or told):
        remark_on_data(run, data, split, pool, seen, progress)
    facts = Facts.of(run.net, data)
    training = kind(
        run, engine, folder, held_out, facts, progress, pool, job.callbacks, kept=job.kept
    )
    return training, split


def thinned(test: Indices, most: int | None) -> Indices:
    """At most so many of the test images, evenly spread over them."""
    if most is None or most >= len(test):
        return test
    return test[np.arange(most) * len(test) // most]


def remark_on_skipped(data: DataSet, progress: Progress) -> None:
    """Name an image that cannot be read; skipped.csv lists all of them."""
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
    """Warnings about the data before the first step; `pool` is None if the method reads none."""
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
    """Warn about held-out images that are also labelled training images."""
    before = f", here or in {run.from_}" if run.from_ else ""
    for role in HELD_OUT:
        if seen[role]:
            progress.say(
                f"{seen[role]:,} of {len(getattr(split, role)):,} {role} images are also labelled "
                f"training images{before}: the error will look too good. `{check_command(run)}` "
                "lists identical images."
            )


def remark_on_contradictions(run: Run, data: DataSet, split: Split, progress: Progress) -> None:
    """Warn about identical labelled images with different labels."""
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


def save_views(engine: Engine, path: Path) -> None:
    """The first batch of the run: one row per view, one column per image."""
    engine.source.prepare(0)
    start = torch.zeros_like(engine.device_step)
    batch = engine.batch(start)
    rows = []
    for kind, ids, views in ((LABELLED, batch.id_x, batch.x), (UNLABELLED, batch.id_u, batch.u)):
        if views:
            images = engine.source.images(kind, ids)
            plain = engine.augment("plain", images, start, engine.batch.slots[kind], stream=0)
            rows += [row[:COLUMNS] for row in (plain, *views)]
    filled = [functional.pad(row, (*[0] * 7, COLUMNS - len(row))) for row in rows]  # mean colour
    write_bytes(path, as_png(torch.stack(filled), engine.augment.policy))


def as_png(rows: Tensor, policy: Policy) -> bytes:
    """A picture of rows of images, each enlarged if it is small, with white edges."""
    mean, std = (rows.new_tensor(v)[:, None, None] for v in (policy.mean, policy.std))
    pixels = ((rows * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)
    scale = max(1, TILE // policy.size)
    tiles = pixels.permute(0, 1, 3, 4, 2).cpu().numpy()  # (rows, columns, H, W, 3)
    tiles = tiles.repeat(scale, axis=2).repeat(scale, axis=3)
    tiles = np.pad(tiles, ((0, 0), (0, 0), (2, 2), (2, 2), (0, 0)), constant_values=255)
    r, c, h, w, _ = tiles.shape
    buffer = io.BytesIO()
    sheet = Image.fromarray(tiles.transpose(0, 2, 1, 3, 4).reshape(r * h, c * w, 3))
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
