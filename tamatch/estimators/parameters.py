"""From the parameters of a classifier to the run that it trains."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..rules import choose, finetune, pace
from ..runs.decide import start_of
from ..settings.config import RUN_OPTIONS, Run
from ..settings.configure import configure
from ..settings.hardware import pick_device
from ..settings.target import target_follows

PARAMETERS = (  # of a classifier that are settings of a run
    "net", "weights", "size", "flips", "steps", "batch", "unlabelled", "optimizer", "lr",
    "weight_decay", "ema", "device",
)  # fmt: skip
FOR_IMAGES = ("net", "weights", "size", "head", "normalise", "flips", "images")
IN_OPTIONS = (  # of a run; the others are parameters, hide labels, or are for its folder
    "prior", "labelled_in_pool", "warmup", "replacement", "layer_decay", "norm_momentum", "head",
    "normalise", "images", "threads", "precision", "deterministic", "compile", "kernels",
    "graph",
)  # fmt: skip
FROM_SCRATCH = {
    "net": "wrn_16_1_clean", "batch": 32, "unlabelled": 96, "optimizer": "sgd", "lr": 0.03,
}  # fmt: skip
# a compiled net pays off after minutes only
FIXED = {"data": "arrays", "compile": False, "baseline": "none"}


def run_of(given: dict[str, Any], options: dict[str, Any], side: int | None, labelled: int) -> Run:
    """The run for images of this side, or for vectors if it is None, with this many labels.

    What is neither `given` nor among the `options` is chosen by the rules for a person's own
    images, as far as they apply to arrays.
    """
    check_options(options)
    values = {**FIXED, **given, **options}
    for name in FOR_IMAGES if side is None else ():
        if name in values:
            raise UsageError(
                f"{name}=… is for images, but X contains rows of numbers. Leave it out."
            )
    if side is None or "weights" not in given:
        chosen = FROM_SCRATCH
    else:
        chosen = pretrained(configure(values), values, side, labelled)
    run = configure(values, chosen=chosen)
    target = pace.target_momentum(run.steps).settings if target_follows(run) else {}
    return configure(values, chosen={**pace.averages(run.steps), **target, **chosen})


def pretrained(run: Run, given: dict[str, Any], side: int, labelled: int) -> dict[str, Any]:
    """What suits a start from weights, as for a run on a folder."""
    gpu = pick_device(run.device).type == "cuda"
    start = start_of(run, given, side, arrays=True, gpu=gpu)
    batch = choose.batch(labelled, gpu=gpu)
    pool = choose.pool_batch(given.get("batch", batch.settings["batch"]), gpu=gpu)
    warm = {"warmup": finetune.warmup(run.steps)} if "lr" in start.settings else {}
    return {**(start | batch | pool).settings, **warm}


def check_options(options: dict[str, Any]) -> None:
    """Those of a run must not contradict the parameters, or hide labels that were given."""
    for name in options:
        if name == "from" or (name in RUN_OPTIONS and name not in IN_OPTIONS):
            hint = f" Pass {name} as a parameter of the classifier." if name in PARAMETERS else ""
            raise UsageError(
                f"options does not take {name}: it takes the options of the method and "
                f"{', '.join(IN_OPTIONS)}.{hint}"
            )
