"""From names to objects: the net, the method, the optimizer and the engine of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from . import methods, nets, optim
from .augment import Augment, Policy
from .config import Run
from .data import DataSet, Split, SplitPlan, shares
from .engine import Engine, Pace
from .errors import DataError, UsageError
from .hardware import pick_device, pick_images, pick_precision, prepare
from .nets.norm import share_norms
from .nets.weights import load_weights
from .sampler import keyed
from .source import Draw, Resident, Source, Streamed
from .types import Task

SEEDS = {"init": 1, "steps": 2, "views": 3, "batches": 4}  # independent streams of one seed


def engine_of(
    run: Run, data: DataSet, split: Split, say: Callable[[str], None] | None = None
) -> Engine:
    """An engine at step 0, on the device the run asks for.

    `say` is told of loaded weights and of images that do not live on the device.
    """
    device = pick_device(run.device)
    if run.threads is not None:
        torch.set_num_threads(run.threads)
    autocast = prepare(pick_precision(run, device))
    torch.manual_seed(keyed(run.seed, SEEDS["init"]) >> 1)
    net = nets.build(run.net, len(data.classes), data.size)
    if run.weights is not None:
        loaded = load_weights(net, Path(run.weights))
        if say is not None:
            say(str(loaded))
    method = methods.get(run.method)(net, task_of(run, data, split), ema=run.ema, **run.options)
    share_norms(method)
    method.to(device)
    if device.type == "cuda":
        method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    groups = optim.parameter_groups(
        method, lr=run.lr, weight_decay=run.weight_decay, layer_decay=run.layer_decay,
        depth_of=net.depth_of,
    )  # fmt: skip
    policy = Policy(
        data.size, data.mean, data.std,
        horizontal_flip="horizontal" in data.flips, vertical_flip="vertical" in data.flips,
    )  # fmt: skip
    engine = Engine(
        method,
        optim.build_optimizer(run.optimizer, groups),
        source_of(run, data, split, device, reads_pool=bool(method.views.u), say=say),
        Augment(policy, keyed(run.seed, SEEDS["views"])).to(device),
        Pace(run.steps, run.warmup, keyed(run.seed, SEEDS["steps"])),
        autocast=autocast,
        graph=run.graph and device.type == "cuda",
    )
    if run.compile and device.type == "cuda":
        net.compile()
    return engine


def source_of(
    run: Run,
    data: DataSet,
    split: Split,
    device: torch.device,
    *,
    reads_pool: bool,
    say: Callable[[str], None] | None = None,
) -> Source:
    """The images of the run, on the device if all that it reads has room there."""
    if reads_pool and not len(split.unlabelled):
        raise DataError(
            f"{data.name} has no unlabelled image, and {run.method} learns from them. Add some, "
            "or let the labelled ones count (--labelled-in-pool yes), or use --method supervised."
        )
    seed = keyed(run.seed, SEEDS["batches"])
    draw = Draw(run.batch, run.unlabelled, seed, reads_pool, run.replacement)
    images = len(split.labelled) + len(split.validation) + len(split.test)
    pixels = 3 * data.size**2 * (images + reads_pool * len(split.unlabelled))
    if pick_images(run, pixels, device) == "device":
        return Resident(data, split, draw, device)
    if say is not None:
        say(f"Streaming {pixels / 2**20:,.1f} MiB of images to {device} (--images {run.images}).")
    return Streamed(data, split, draw, device)


def split_plan(run: Run) -> SplitPlan:
    """What to draw from the data; a fully supervised run draws every label."""
    everything = methods.entry(run.method).all_labels
    return SplitPlan(
        labels_per_class=None if everything else run.labels_per_class,
        head_labelled=None if everything else run.head_labelled,
        head_unlabelled=run.head_unlabelled,
        gamma=1.0 if everything else run.gamma,
        gamma_unlabelled=run.gamma_unlabelled,
        validation_per_class=run.validation_per_class,
        labelled_in_pool=run.labelled_in_pool == "yes",
        seed=run.seed,
    )


def task_of(run: Run, data: DataSet, split: Split) -> Task:
    if run.prior is not None and len(run.prior) != len(data.classes):
        raise UsageError(
            f"--target gives {len(run.prior)} class shares, but {data.name} has "
            f"{len(data.classes)} classes."
        )
    return Task(
        classes=len(data.classes),
        labelled=len(split.labelled),
        unlabelled=len(split.unlabelled),
        labelled_shares=shares(data.labels[split.labelled], len(data.classes)),
        prior=run.prior,
        steps=run.steps,
        batch_labelled=run.batch,
        batch_unlabelled=run.unlabelled,
    )
