"""From names to objects: the net, the method, the optimizer and the engine of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from torch import nn

from .. import methods, nets
from ..augment import Augment, Policy
from ..data import DataSet, Progress, Split, SplitPlan, load, shares
from ..errors import DataError, UsageError
from ..nets.norm import set_momentum, share_norms
from ..nets.own import rehearse
from ..nets.weights import load_weights, zero_head
from ..settings.compiler import accelerate
from ..settings.config import Run, method_options
from ..settings.hardware import pick_device, pick_images, pick_precision, prepare
from ..settings.target import in_order
from ..step import optim
from ..step.engine import Engine, Pace
from ..step.sampler import keyed
from ..step.source import Draw, Resident, Source, Streamed
from ..storage.folder import RunFolder
from ..types import Task
from ..usercode import blaming
from .model import Model
from .rehearsal import try_method

SEEDS = {"init": 1, "steps": 2, "views": 3, "batches": 4}  # independent streams of one seed
COLOURS = {  # mean and spread of the colours that published weights were trained with
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


def engine_of(
    run: Run, data: DataSet, split: Split, say: Callable[[str], None] | None = None
) -> Engine:
    """An engine at step 0, on the device the run asks for.

    `say` is told of loaded weights and of images that do not live on the device.
    """
    device = pick_device(run.device)
    if run.threads is not None:
        torch.set_num_threads(run.threads)
    autocast = prepare(pick_precision(run, device), deterministic=run.deterministic)
    own = run.method not in methods.METHODS
    with drawing(keyed(run.seed, SEEDS["init"]) >> 1):
        net = nets.build(run.net, len(data.classes), data.size)
        if run.weights is not None:
            loaded = load_weights(net, Path(run.weights))
            if say is not None:
                say(str(loaded))
        if run.head == "zero":
            zero_head(net)
        if run.from_ is not None:
            go_on_from(Path(run.from_), net, run, data)
            if say is not None:
                say(f"The weights of {run.from_} are the start.")
        with blaming(f"--method {run.method}", "building it") if own else nullcontext():
            kind, task = methods.get(run.method), task_of(run, data, split)
            method = kind(net, task, ema=run.ema, **run.options)
    if run.norm_momentum is not None:
        set_momentum(method, run.norm_momentum)
    share_norms(method)
    method.to(device)
    if device.type == "cuda" and net.channels_last:
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
        graph=run.graph and device.type == "cuda" and net.waits is None,
    )
    if run.graph and device.type == "cuda" and net.waits is not None and say is not None:
        say(f"The net waits for the GPU ({net.waits}): its steps run without a CUDA graph.")
    if nets.is_own(run.net):
        with engine.precision():
            rehearse(net, run.net, data.size, device)
    if own:
        try_method(engine, run.method)
    if run.compile and device.type == "cuda":
        accelerate(net, method, say)
    return engine


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


def data_of(run: Run, size: int | None, progress: Progress | None = None) -> DataSet:
    """The data of a run, with the labels that were given to it."""
    root, labels = (Path(p) if p else None for p in (run.root, run.labels))
    return normalised(load(run.data, root, size, progress, labels), run)


def normalised(data: DataSet, run: Run) -> DataSet:
    """The data with the mean and spread of colours that the run takes for 0 and 1."""
    if run.normalise == "own":
        return data
    mean, std = COLOURS[run.normalise]
    return dataclasses.replace(data, mean=mean, std=std)


def go_on_from(path: Path, net: nn.Module, run: Run, data: DataSet) -> None:
    """Put the model of a finished run, its head included, into a net for the same classes."""
    before = Model.load(path / "model", run.net if nets.is_own(run.net) else None)
    if before.facts.classes != data.classes:
        raise DataError(
            f"--from {path}: that run has the classes {', '.join(before.facts.classes)}; "
            f"{data.name} has {', '.join(data.classes)}. Train without --from."
        )
    try:
        assert before.net is not None
        net.load_state_dict(before.net.state_dict())
    except RuntimeError:
        raise UsageError(
            f"--from {path}: its {before.facts.net} at {before.facts.size} pixels does not fit "
            f"{run.net} at {data.size}. Leave --net and --size out."
        ) from None


@contextmanager
def drawing(seed: int) -> Iterator[None]:
    """Torch's generator starts from here, and comes out as it went in: it is the user's."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


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
        fold=read_fold(run.fold),
    )


def read_fold(text: str | None) -> tuple[int, int] | None:
    """`--fold 2/5` as numbers."""
    if text is None:
        return None
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal()):
        raise UsageError(f"--fold takes K/N, such as 1/5 for the first of five parts; got {text}.")
    return int(part), int(parts)


def task_of(run: Run, data: DataSet, split: Split) -> Task:
    prior = None if run.prior is None else in_order(run.prior, data.classes, data.name)
    return Task(
        classes=len(data.classes),
        labelled=len(split.labelled),
        unlabelled=len(split.unlabelled),
        labelled_shares=shares(data.labels[split.labelled], len(data.classes)),
        prior=prior,
        steps=run.steps,
        batch_labelled=run.batch,
        batch_unlabelled=run.unlabelled,
    )
