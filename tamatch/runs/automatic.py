"""Chooses what the user left open: asks the data and the machine, by the rules of `choose`."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import methods
from ..data import DATASETS, DataSet, Split, own_path
from ..errors import UsageError
from ..machine.precision import native_bf16
from ..machine.threads import restoring_threads
from ..rules import choose, finetune, pace
from ..rules.choose import NOTHING, Chosen
from ..settings.config import Run
from ..settings.configure import TARGET, configure, user_settings, with_inherited
from ..settings.hardware import pick_device, pick_precision
from ..settings.target import target_follows
from ..storage.folder import RunFolder
from .first_settings import RULE, first_settings, wants_first, weights_for
from .inputs import data_of
from .lineage import split_of
from .progress import Progress, counting
from .speed import Speeds
from .start import fine_tunes, side_of, start_of

OVERHEAD = 10.0  # seconds for what comes before and after the training: imports, the report
PACE_SETTINGS = (  # what follows from the number of steps
    "steps", "warmup", "ema", "norm_momentum", "lambda_target", "log_every", "test_every",
    "save_every",
)  # fmt: skip
SHOWN_SETTINGS = (
    "size", "flips", "net", "normalise", "optimizer", "lr", "batch", "unlabelled", "steps",
    "lambda_target", "baseline", "compile", "precision", "threads",
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


@dataclass
class Draft:
    """A run whose settings are being chosen: each choice may rest on the ones before."""

    given: dict[str, Any]
    config: Path | None
    chosen: Chosen = NOTHING

    @property
    def run(self) -> Run:
        return configure(self.given, self.config, self.chosen.settings)

    def take(self, found: Chosen) -> None:
        self.chosen |= found


@restoring_threads()
def decide(
    given: Mapping[str, Any],
    config: Path | None = None,
    limit: str | None = None,
    runs: int = 1,
) -> Decided:
    """The run that the user asks for, with what is left open chosen; options always win.

    The settings of a person's own images are chosen from these and from the device; with a time
    limit, so are the steps of any run. Where the time matters, the speed is measured. So many
    `runs` share the time, at worst one after the other.
    """
    began = time.perf_counter()
    draft = Draft({k: v for k, v in given.items() if v is not None}, config)
    user = user_settings(draft.given, config)
    if limit is not None and "steps" in user:
        raise UsageError("--steps and --time both set the length of a run: give only one.")
    own = draft.run.data not in DATASETS
    if not own and limit is None:
        return Decided(draft.run, remarks=remarks_on_average(draft.run))

    fixed, device = fixed_by(user, limit), pick_device(draft.run.device)
    from_scratch = ""
    if own and wants_first(given_now := with_inherited(user), limit):
        weights, from_scratch = weights_for(given_now, device)
        if weights is not None:
            return decide_first(draft, given_now, weights, device)
    gpu = device.type == "cuda"
    if limit is not None:
        pace.refuse_too_short(limit, pace.parse_time(limit) - OVERHEAD, gpu=gpu)
    if own:
        draft.take(size_and_net(draft.run, fixed, device))
    with counting("reading images") as count:
        data = data_of(draft.run, draft.run.size, count)
    split = split_of(draft.run, data)
    if own:
        fit_to_data(draft, split, device)
    if limit is not None:
        fit_to_time(draft, Speeds(data, split, pace.parse_time(limit)), fixed, limit, began, runs)
    elif own:
        fit_to_machine(draft, Speeds(data, split), fixed, len(split.unlabelled), runs)
    set_pace(draft, fixed, own=own)
    told = {name: why for name, why in draft.chosen.reasons.items() if name not in fixed}
    run, occasion = draft.run, f"{len(data.images):,} images on {machine(device, draft.run)}"
    remarks = remarks_on(run, user, data, split) if own else ()
    remarks = tuple(filter(None, (from_scratch, *remarks)))
    return Decided(run, told, occasion, (*remarks, *remarks_on_average(run)))


def decide_first(
    draft: Draft, given: Mapping[str, Any], weights: str, device: torch.device
) -> Decided:
    """A run that is solved at once on the features of a frozen net."""
    draft.take(Chosen({"weights": weights}, {}))
    chosen, images = first_settings(draft.run, given, device)
    draft.take(chosen)
    told = {k: why for k, why in chosen.reasons.items() if given.get(k) is None}
    run = draft.run
    return Decided(run, told, f"{images:,} images on {machine(device, run)}", (RULE,))


def fit_to_time(
    draft: Draft, speeds: Speeds, fixed: Container[str], limit: str, began: float, runs: int
) -> None:
    """The steps that fit, and what gives way to them; `began` is when the time began to run."""
    device = pick_device(draft.run.device)

    def left() -> float:
        return pace.parse_time(limit) - OVERHEAD - (time.perf_counter() - began)

    pace.refuse_too_short(limit, left(), gpu=device.type == "cuda")
    if "compile" not in fixed:
        draft.take(pace.compiling(limit, gpu=device.type == "cuda"))
    if "threads" not in fixed and draft.run.data not in DATASETS:
        draft.take(threads_of(draft.run, speeds, device))
    found = speeds.with_baseline(draft.run, runs)
    if "baseline" not in fixed:
        draft.take(pace.baseline_in_time(limit, left(), found))
        found = found[: 1 + (draft.run.baseline == "supervised")]
    draft.take(pace.steps_in_time(limit, left(), found, device.type))


def fit_to_machine(
    draft: Draft, speeds: Speeds, fixed: Container[str], pool: int, runs: int
) -> None:
    """The steps by the data; without a GPU, no more than end in a quarter of an hour."""
    if "steps" in fixed:
        return
    device, wanted = pick_device(draft.run.device), pace.steps(pool, draft.run.unlabelled)
    if device.type != "cuda":
        if "threads" not in fixed:
            draft.take(threads_of(draft.run, speeds, device))
        found = speeds.with_baseline(draft.run, runs)
        wanted = pace.steps_at_most(pace.CPU_SECONDS - OVERHEAD, wanted, found)
    draft.take(wanted)


def fixed_by(user: dict[str, Any], limit: str | None) -> set[str]:
    """What is not to be chosen: what the user says, or the run that this one starts from.

    What the latter says about its length gives way to a time limit.
    """
    said = {k for k, v in with_inherited(user).items() if v is not None}
    return {k for k in said if limit is None or k in user or k not in PACE_SETTINGS}


def set_pace(draft: Draft, fixed: Container[str], *, own: bool) -> None:
    """Fit what depends on the number of steps, also in the place of what is inherited."""
    steps = draft.chosen.settings.get("steps", draft.run.steps)
    draft.chosen = paced(draft, steps, own=own) | draft.chosen
    settings = draft.chosen.settings
    fitted = {k: settings[k] for k in PACE_SETTINGS if k in settings and k not in fixed}
    draft.given = fitted | draft.given


def remarks_on(run: Run, user: Mapping[str, Any], data: DataSet, split: Split) -> tuple[str, ...]:
    """What the user should know of such a run before it begins."""
    return tuple(filter(None, (outlook_of(run, split), balance_of(run, user, data, split))))


def remarks_on_average(run: Run) -> tuple[str, ...]:
    """A run that goes on from another begins with weights that are worth keeping."""
    remark = "" if run.from_ else pace.average_remark(run.steps, run.ema)
    return (remark,) if remark else ()


def size_and_net(run: Run, fixed: Container[str], device: torch.device) -> Chosen:
    """By the images themselves and, where the run starts from weights, by these."""
    place = own_path(run.data)
    side = None if "size" in fixed else side_of(place)
    arrays, gpu = place.suffix == ".npz", device.type == "cuda"
    return start_of(run, fixed, side, arrays=arrays, gpu=gpu)


def outlook_of(run: Run, split: Split) -> str:
    """From a random start, methods with a threshold on confidence want many steps."""
    fresh = run.weights is None and run.from_ is None
    asked = fresh and len(split.unknown) > 0 and "tau" in run.options
    return pace.short_run_remark(run.steps) if asked else ""


def balance_of(run: Run, user: Mapping[str, Any], data: DataSet, split: Split) -> str:
    """A uniform target that nobody asked for may not suit classes with unequal labels."""
    asked = len(split.unknown) > 0 and run.options.get("target") == "uniform"
    if not asked or TARGET & user.keys():
        return ""
    labels = np.bincount(data.labels[split.labelled], minlength=len(data.classes))
    return choose.unequal_labels_remark(labels.tolist(), data.classes)


def fit_to_data(draft: Draft, split: Split, device: torch.device) -> None:
    """The net and the batches by what there is to learn from, the precision by the device."""
    gpu, labelled = device.type == "cuda", len(split.labelled)
    fitting = choose.net(labelled + len(split.unlabelled), gpu=gpu) | choose.batch(
        labelled, gpu=gpu
    )
    draft.chosen = fitting | draft.chosen  # weights have a net of their own
    draft.take(choose.flips())
    draft.take(pool_batch(draft.run, gpu=gpu))
    draft.take(precision_of(draft.run, device))


def pool_batch(run: Run, *, gpu: bool) -> Chosen:
    """Chosen without a word if the method uses labelled images only."""
    found = choose.pool_batch(run.batch, gpu=gpu)
    return found if methods.get(run.method).views.u else Chosen(found.settings, {})


def threads_of(run: Run, speeds: Speeds, device: torch.device) -> Chosen:
    """One thread or all of them on a CPU, by doing some real steps with each."""
    available = torch.get_num_threads()
    if device.type != "cpu" or available == 1:
        return NOTHING
    alone, together = (speeds.of(replace(run, threads=count)).step for count in (1, available))
    return choose.threads(available, alone, together)


def paced(draft: Draft, steps: int, *, own: bool) -> Chosen:
    """What follows from the number of steps."""
    run = draft.run
    settings: dict[str, Any] = {**pace.intervals(steps)}
    target = pace.target_momentum(steps) if own and target_follows(run) else NOTHING
    if own:
        settings |= pace.averages(steps)
        if fine_tunes(run, run.net):
            settings["warmup"] = finetune.warmup(steps)
    return Chosen(settings, {}) | target


def precision_of(run: Run, device: torch.device) -> Chosen:
    """On a CPU it is fixed for the run; on a GPU only shown, so that a resumed run may differ."""
    if run.precision != "auto":
        return NOTHING
    if device.type == "cuda":
        return Chosen({}, choose.precision(pick_precision(run, device), gpu=True).reasons)
    return choose.precision("bf16" if native_bf16() else "fp32", gpu=False)


def machine(device: torch.device, run: Run) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = run.threads or torch.get_num_threads()
    return f"{threads} CPU thread{'s' * (threads != 1)} (of {os.cpu_count()})"
