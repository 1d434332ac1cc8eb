"""Chooses the settings that the user left open, with the rules in `rules`.

The images and the weights decide the size and the net, the split the batches, a measured speed and
the time limit the number of steps, and that number the rest. Each choice has a reason.
"""

import math
import os
import time
from collections.abc import Container
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import methods, nets
from ..data import DATASETS, DataSet, Split, load, own_path
from ..data.check import counted
from ..data.folder import typical_side
from ..errors import DataError, UsageError
from ..machine import launch
from ..machine.precision import native_bf16, restoring_threads
from ..nets.pretrained import Located, locate
from ..progress import Progress, counting
from ..rules import choose, finetune, pace, tails
from ..rules.choose import NOTHING, Chosen, choice
from ..rules.pace import Speed
from ..settings.config import RUN_OPTIONS, Run, target_follows
from ..settings.configure import TARGET, Asked
from ..settings.hardware import pick_device, pick_precision
from ..settings.inputs import data_of, normalised, split_of
from ..storage.folder import RunFolder
from .first_settings import (
    ONE_STEP,
    RULE,
    Look,
    first_settings,
    is_neutral,
    tunable,
    way_of,
    weights_for,
)
from .speed import Speeds

TUNED_RULE = (
    "First answer: TaMatch is solved on the features of the pre-trained net. Then the net is tuned "
    "from there, and kept unless held-out labels speak against it. --net frozen/NAME does without."
)
GPU_IMAGES = 1000.0  # whose features a GPU computes in a second, at least
SOLVED_IMAGES = 250.0  # of the pool, for which a second of solving is enough, cross-validation too
SOLVED_AGAIN = 1500.0  # the same without a validation
OVERHEAD = 10.0  # seconds for what comes before and after the training: imports, the report
PACE_SETTINGS = (  # what follows from the number of steps
    "steps", "warmup", "ema", "norm_momentum", "lambda_target", "log_every", "test_every",
    "save_every",
)  # fmt: skip
SHOWN_SETTINGS = (
    "method", "size", "flips", "net", "normalise", "validation_per_class", "optimizer", "lr",
    "batch", "unlabelled", "steps", "lambda_target", "baseline", "compile", "precision", "threads",
)  # fmt: skip


@dataclass(frozen=True)
class Decided:
    """A complete run, and why each setting that nobody gave has its value."""

    run: Run
    reasons: dict[str, str] = field(default_factory=dict)
    occasion: str = ""  # what it was chosen for
    remarks: tuple[str, ...] = ()  # what not to hope for, and what to think of

    def lines(self) -> list[str]:
        """What the screen shows: the choices that were left open, then the remarks."""
        names = [name for name in SHOWN_SETTINGS if name in self.reasons]
        width = max(map(len, names), default=0)
        shown = [f"  {name:{width}} {self.reasons[name]}" for name in names]
        head = f"Settings chosen for {self.occasion}; your options take precedence:"
        return [*([head] if shown else []), *shown, *self.remarks]

    def announce(self, folder: RunFolder, *, quiet: bool) -> None:
        """Say what was chosen and why, and what in the folder is not of the run."""
        if lines := [*self.lines(), *folder.not_of_the_run()]:
            Progress(folder.log, quiet=quiet).say("\n".join(lines))


class Draft:
    """The settings while they are chosen: each choice may rest on the ones before.

    Within a time limit, the time runs from when the draft is made; so many `runs` share it.
    """

    def __init__(self, asked: Asked, limit: str | None, runs: int) -> None:
        self.asked, self.limit, self.runs = asked, limit, runs
        # What is not to be chosen: what the user says, or the run that this one starts from. Within
        # a time limit, the steps of the earlier run and what follows from them are chosen anew.
        said = {k for k, v in asked.said.items() if v is not None}
        keeps = PACE_SETTINGS if limit is not None else ()
        self.fixed = {k for k in said if k in asked.user or k not in keeps}
        self.device = pick_device(asked.run.device)
        self.gpu = self.device.type == "cuda"
        self.began = time.perf_counter()
        self.chosen = NOTHING

    def __getitem__(self, name: str) -> Any:
        """The value of a setting so far."""
        chosen = name in self.chosen.settings and name not in self.asked.said
        return self.chosen.settings[name] if chosen else getattr(self.asked.run, name)

    def take(self, found: Chosen) -> None:
        self.chosen |= found

    def run(self) -> Run:
        """The run to measure."""
        return self.asked.with_choices(self.chosen.settings)

    def final(self) -> Run:
        """The run to train; what depends on its length is not inherited."""
        chosen = self.chosen.settings
        length = {k: chosen[k] for k in PACE_SETTINGS if k in chosen and k not in self.fixed}
        return self.asked.with_choices(chosen, instead=length)

    def decided(self, run: Run, data: DataSet, *remarks: str) -> Decided:
        """The run on these data, with the reasons of what was chosen and the remarks there are."""
        told = {name: why for name, why in self.chosen.reasons.items() if name not in self.fixed}
        occasion = f"{counted(len(data.images), 'image', 'images')} on {machine(self.device, run)}"
        return Decided(run, told, occasion, tuple(filter(None, remarks)))

    def left(self, limit: str) -> float:
        """The seconds left of a time limit for the training."""
        return pace.parse_time(limit) - OVERHEAD - (time.perf_counter() - self.began)


@restoring_threads()
def decide(asked: Asked, limit: str | None = None, runs: int = 1) -> Decided:
    """The run that the user asks for, with the rest chosen; what the user says is never changed.

    Settings for a person's own images depend on these and on the device. Within a time limit, the
    speed is measured; so many `runs` share the time, at worst one after the other.
    """
    if limit is not None and "steps" in asked.user:
        raise UsageError("--steps and --time both set the length of a run: give only one.")
    run = asked.run
    own = run.data not in DATASETS
    if not own and limit is None:
        return Decided(run, remarks=tuple(filter(None, [remark_on_average(run)])))

    draft, from_scratch = Draft(asked, limit, runs), ""
    if own and (way := way_of(asked.said, limit, draft.device)) != "train":
        weights, from_scratch = weights_for(asked.said, draft.device)
        if weights is not None and way == "tune" and not tunable(weights, asked.said):
            way = "first" if is_neutral(asked.said, limit) else "train"
        if weights is not None and way == "first":
            return decide_first(draft, weights)
        if weights is not None and way == "tune":
            return decide_tuned(draft, weights)
    if limit is not None:
        pace.refuse_too_short(limit, pace.parse_time(limit) - OVERHEAD, gpu=draft.gpu)
    if own:
        place = own_path(run.data)
        side = None if "size" in draft.fixed else side_of(place)
        draft.take(start_of(run, draft.fixed, side, arrays=place.suffix == ".npz", gpu=draft.gpu))
    with counting("reading images") as count:
        data = data_of(run, count, size=draft["size"], normalise=draft["normalise"])
    split = split_of(run, data, draft["size"])
    if own:
        choose_form(draft, data, split)
        fit_to_data(draft, split)
    if limit is not None:
        fit_to_time(draft, Speeds(data, split, pace.parse_time(limit)), limit)
    elif own and "steps" not in draft.fixed:
        fit_to_machine(draft, Speeds(data, split), len(split.unlabelled))
    return concluded(draft, data, split, from_scratch, own=own)


def decide_first(draft: Draft, weights: str) -> Decided:
    """A run that is solved at once on the features of a frozen net."""
    draft.take(Chosen({"weights": weights}, {}))
    side = side_of(own_path(draft.asked.run.data))
    chosen, look = first_settings(draft.run(), draft.asked.said, side, draft.device)
    draft.take(chosen)
    return draft.decided(draft.run(), look.data, RULE)


def decide_tuned(draft: Draft, weights: str) -> Decided:
    """A run whose net is tuned from the first answer on, if there is time for it."""
    draft.take(Chosen({"weights": weights}, {}))
    side, asked = side_of(own_path(draft.asked.run.data)), draft.asked.run
    first, look = first_settings(draft.run(), draft.asked.said, side, draft.device)
    data = normalised(look.data, look.net.normalise)
    chosen = {k: v for k, v in first.settings.items() if k not in (*ONE_STEP, "threads")}
    draft.take(Chosen(chosen, first.reasons) | tuned_net(look, side, first.reasons["net"]))
    draft.take(finetune.tuning(look.net.normalise))
    split = split_of(asked, data, draft["size"])
    choose_form(draft, data, split, look)
    fit_to_data(draft, split)
    draft.take(choice("baseline", "none", "none", "the first answer has one: labels alone"))
    if draft.fixed.isdisjoint(("validation_per_class", "fold")):
        split = hold_out(draft, data, split)
    if "steps" not in draft.fixed and draft.limit is None and draft.gpu:
        draft.take(finetune.tuned_steps(len(split.unlabelled), draft["unlabelled"]))
    elif "steps" not in draft.fixed:
        speeds = Speeds(data, split, pace.parse_time(draft.limit) if draft.limit else math.inf)
        within = draft.limit or pace.duration_in_words(pace.CPU_SECONDS)
        if not tuned_in_time(draft, speeds, within, looks(draft, look, split)):
            alone = f"Within {within} there is time for the first answer, but not for tuning."
            if "net" in draft.fixed:
                net = nets.FROZEN + nets.first_of(draft["net"])
                raise UsageError(f"{alone} Give more --time, or --net {net} and no --time.")
            found = decide_first(Draft(draft.asked, draft.limit, draft.runs), weights)
            return replace(found, remarks=(alone,))
    judged = "" if len(split.validation) else unjudged(data, split)
    return concluded(draft, data, split, TUNED_RULE, judged, own=True)


def choose_form(draft: Draft, data: DataSet, split: Split, look: Look | None = None) -> None:
    """The plain or the long-tailed form of TaMatch, unless the user says anything of the method."""
    said = {name for name, value in draft.asked.said.items() if value is not None}
    if {"method", "prior"} & said or said - RUN_OPTIONS.keys():
        return
    labels = np.bincount(data.labels[split.labelled], minlength=len(data.classes))
    pool, plain = None, tails.PLAIN if look is None or launch.processes() > 1 else tails.SOLVED
    if look is not None and len(split.unknown):
        from .first_answer import columns, features  # with what only these runs need
        from .tune import solved

        rows = features(look.net, data)
        upper = look.net.upper
        used = columns(data, split, rows, upper)
        pool = solved(draft.run(), data, split, rows, used, upper).found.shares.tolist()
    found = tails.form(labels.tolist(), pool, len(split.unknown), plain)
    draft.take(Chosen({"baseline": draft.asked.run.baseline}, {}) | found)


def hold_out(draft: Draft, data: DataSet, split: Split) -> Split:
    """Choose how many labels judge the tuned net; the split without these."""
    counts = np.bincount(data.labels[split.labelled], minlength=len(data.classes))
    found = finetune.held_out(int(counts.min()))
    run = replace(draft.asked.run, **found.settings)
    try:
        split = split_of(run, data, draft["size"])
    except DataError:  # too many are copies of others
        return split
    draft.take(found)
    return split


def unjudged(data: DataSet, split: Split) -> str:
    """A remark on a tuned net that no label judges."""
    labels = np.bincount(data.labels[split.labelled], minlength=len(data.classes))
    return finetune.unjudged_remark(labels.tolist(), data.classes)


def tuned_net(look: Look, side: float | None, why: str) -> Chosen:
    """The net of the first answer, on smaller images if these are small."""
    made, size = look.net.name, nets.size_in_name(look.net.name)
    name, told = nets.TUNED + made, f"tuned from the first answer on; {why.partition(': ')[2]}"
    at = size and finetune.tuned_size(size, nets.patch_in_name(made), side)
    if at != size:
        name, told = f"{name}{nets.AT}{at}", f"{told}; tuned at {at} × {at}, which is faster"
    return choice("net", name, name, told)


def tuned_in_time(draft: Draft, speeds: Speeds, limit: str, looks: tuple[float, float]) -> bool:
    """Choose as many steps as fit beside so many seconds; False if these are too few.

    Of the seconds, the latter are needed whenever a net is taught anew.
    """
    before, anew = (draft.runs * seconds for seconds in looks)
    if draft.left(limit) - before < (pace.GPU_SECONDS if draft.gpu else 1):
        return False
    if "compile" not in draft.fixed:
        draft.take(pace.compiling(limit, gpu=draft.gpu))
    found = measured(draft, speeds)
    if methods.is_taught(draft["method"]):
        steps = pace.steps_within(draft.left(limit) - before, found)
        passes = steps * draft["unlabelled"] / max(1, len(speeds.split.unlabelled))
        before += len(finetune.renewed(passes)) * anew
    if pace.steps_within(draft.left(limit) - before, found) < pace.LEAST_STEPS:
        return False
    left = draft.left(limit) - before
    draft.take(pace.steps_in_time(limit, left, found, draft.device.type))
    return True


def looks(draft: Draft, look: Look, split: Split) -> tuple[float, float]:
    """Seconds of features and solutions before tuning and after it, and of each time between."""
    made, tuned = look.net.name, nets.body_of(draft["net"])
    each = 1 / GPU_IMAGES if draft.gpu else look.seconds_each
    part = ((nets.size_in_name(tuned) or 1) / (nets.size_in_name(made) or 1)) ** 2
    images, pool = len(look.data.images), len(split.unlabelled)
    begun = 0 if tuned == made else images
    before = (look.left + part * (begun + images - pool)) * each + pool / SOLVED_IMAGES
    return before, (len(split.labelled) + pool) * part * each + pool / SOLVED_AGAIN


def start_of(
    run: Run, fixed: Container[str], side: float | None, *, arrays: bool, gpu: bool
) -> Chosen:
    """The size of the images and, for pre-trained weights, the net and how it is trained.

    `fixed` settings are not changed. `side` is that of most images in pixels, and that of `arrays`.
    """
    if run.weights is not None and "net" in fixed and nets.is_timm(run.net):
        return timm_start(run, fixed, gpu=gpu)
    chosen = image_size(run, fixed, side, arrays=arrays, gpu=gpu)
    if run.weights is None:
        return chosen
    weights = locate(run.weights)
    if "net" not in fixed:
        chosen = chosen | net_for_weights(run, weights, fixed, side, gpu=gpu)
    net = chosen.settings.get("net", run.net)
    if not fine_tunes(run, net):
        return chosen
    if nets.is_user_code(net):
        return chosen | finetune.user_net_recipe()
    from ..nets.recognise import colours_of  # torch is slow to load

    return chosen | finetune.recipe(weights.normalise or colours_of(net))


def fine_tunes(run: Run, net: str) -> bool:
    """Whether the run starts from weights, with a net that is fine-tuned gently."""
    kinds = nets.is_transformer, nets.is_timm, nets.is_tuned, nets.is_user_code
    return run.weights is not None and any(kind(net) for kind in kinds)


def timm_start(run: Run, fixed: Container[str], *, gpu: bool) -> Chosen:
    """For weights of a timm net: what timm says about them."""
    from ..nets.foreign import published  # torch is slow to load

    made = published(run.net)
    recipe = finetune.recipe(made.normalise)
    if "size" in fixed:
        return recipe
    pixels = finetune.published_size(made.size, made.patch, gpu=gpu)
    slow = "" if gpu else " without a GPU"
    why = f"{run.net} is made for {made.size}" + f", which is slow{slow}" * (pixels < made.size)
    return choice("size", pixels, f"{pixels} × {pixels} pixels", why) | recipe


def net_for_weights(
    run: Run, weights: Located, fixed: Container[str], side: float | None, *, gpu: bool
) -> Chosen:
    """The net that the weights were made for, and the size: a transformer has its own."""
    from ..nets.recognise import recognise  # torch is slow to load

    found = recognise(weights.path)
    if not found.is_transformer:
        return finetune.net(found.net, found.net, weights.title)
    row = finetune.grid(found.grid, gpu=gpu)
    pixels = finetune.image_size(side, found.patch, found.grid, gpu=gpu)
    if "size" in fixed and run.size is not None:
        pixels = run.size
    patch = finetune.patch_for(pixels, found.patch, row)
    cut = finetune.net(found.at(pixels, patch), found.net, weights.title, pixels // patch)
    return finetune.size(pixels, side) | cut


def image_size(
    run: Run, fixed: Container[str], side: float | None, *, arrays: bool, gpu: bool
) -> Chosen:
    """The size in a transformer's name, or by the images; arrays are not enlarged."""
    if "size" in fixed:
        return NOTHING
    if "net" in fixed and (size := nets.size_in_name(run.net)) is not None:
        return choice("size", size, f"{size} × {size} pixels", f"what {run.net} is made for")
    found = choose.image_size(side, gpu=gpu)
    if arrays and side is not None and side < found.settings["size"]:
        shown = f"{side:.0f} × {side:.0f} pixels"
        return choice("size", int(side), shown, "as the images are; they are not made larger")
    return found


def side_of(place: Path) -> float | None:
    """The typical side of the images in pixels; None if none can be read."""
    if place.suffix == ".npz":
        return load(place).size
    with counting("listing files") as count:
        return typical_side(place, count)


def fit_to_data(draft: Draft, split: Split) -> None:
    """The net and the batches by what there is to learn from, the precision by the device."""
    gpu, labelled, asked = draft.gpu, len(split.labelled), draft.asked.run
    images = labelled + len(split.unlabelled)
    fitting = choose.net(images, gpu=gpu) | choose.batch(labelled, gpu=gpu)
    draft.chosen = fitting | draft.chosen  # weights have a net of their own
    draft.take(choose.flips())
    pool = choose.pool_batch(draft["batch"], gpu=gpu)
    reads_pool = bool(methods.get(asked.method).views.u)
    draft.take(pool if reads_pool else Chosen(pool.settings, {}))
    draft.take(precision_of(asked, draft.device))


def precision_of(run: Run, device: torch.device) -> Chosen:
    """On a CPU it is fixed for the run; on a GPU only shown, so that a resumed run may differ."""
    if run.precision != "auto":
        return NOTHING
    if device.type == "cuda":
        return Chosen({}, choose.precision(pick_precision(run, device), gpu=True).reasons)
    return choose.precision("bf16" if native_bf16() else "fp32", gpu=False)


def fit_to_time(draft: Draft, speeds: Speeds, limit: str) -> None:
    """As many steps as fit; compiling and the baseline give way."""
    pace.refuse_too_short(limit, draft.left(limit), gpu=draft.gpu)
    if "compile" not in draft.fixed:
        draft.take(pace.compiling(limit, gpu=draft.gpu))
    found = measured(draft, speeds)
    if "baseline" not in draft.fixed:
        draft.take(pace.baseline_in_time(limit, draft.left(limit), found))
        found = found[: 1 + (draft["baseline"] == "supervised")]
    draft.take(pace.steps_in_time(limit, draft.left(limit), found, draft.device.type))


def fit_to_machine(draft: Draft, speeds: Speeds, pool: int) -> None:
    """The steps by the data; without a GPU, no more than end in a quarter of an hour."""
    wanted = pace.steps(pool, draft["unlabelled"])
    if not draft.gpu:
        seconds = pace.CPU_SECONDS - OVERHEAD
        wanted = pace.steps_at_most(seconds, wanted, measured(draft, speeds))
    draft.take(wanted)


def measured(draft: Draft, speeds: Speeds) -> list[Speed]:
    """The speed of the run and of its baseline; on a CPU, threads are chosen by it as well."""
    run, available = draft.run(), torch.get_num_threads()
    own, cpu = run.data not in DATASETS, draft.device.type == "cpu"
    if own and cpu and available > 1 and "threads" not in draft.fixed:
        alone, together = (replace(run, threads=count) for count in (1, available))
        found = choose.threads(available, speeds.of(alone).step, speeds.of(together).step)
        draft.take(found)
        run = alone if found.settings["threads"] == 1 else together
    return speeds.with_baseline(run, draft.runs)


def concluded(draft: Draft, data: DataSet, split: Split, *told: str, own: bool) -> Decided:
    """The run with what follows from its number of steps, and more remarks than these.

    On the person's `own` images: that few steps from random weights do not suffice for a confidence
    threshold, and that the target is uniform by default while classes have unequal labels.
    """
    draft.chosen = paced(draft, own=own) | draft.chosen
    run, remarks = draft.final(), [*told]
    asked = own and len(split.unknown) > 0
    if asked and run.weights is None and run.from_ is None and "tau" in run.options:
        remarks.append(pace.short_run_remark(run.steps))
    if asked and run.options.get("target") == "uniform" and not TARGET & draft.asked.user.keys():
        labels = np.bincount(data.labels[split.labelled], minlength=len(data.classes))
        remarks.append(choose.unequal_labels_remark(labels.tolist(), data.classes))
    return draft.decided(run, data, *remarks, remark_on_average(run))


def paced(draft: Draft, *, own: bool) -> Chosen:
    """What follows from the number of steps."""
    run = draft.asked.run
    steps = draft.chosen.settings.get("steps", run.steps)
    settings: dict[str, Any] = {**pace.intervals(steps, gpu=draft.gpu)}
    target = pace.target_momentum(steps) if own and target_follows(run) else NOTHING
    if own:
        settings |= pace.averages(steps)
        if fine_tunes(run, draft["net"]):
            settings["warmup"] = finetune.warmup(steps)
    return Chosen(settings, {}) | target


def remark_on_average(run: Run) -> str:
    """A remark if the average keeps too much of the initial weights, unless these are trained."""
    return "" if run.from_ else pace.average_remark(run.steps, run.ema)


def machine(device: torch.device, run: Run) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = run.threads or torch.get_num_threads()
    return f"{threads} CPU thread{'s' * (threads != 1)} (of {os.cpu_count()})"
