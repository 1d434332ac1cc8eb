"""When a run is a first answer, with which weights, and how large it looks at the images."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from .. import nets
from ..data import DataSet, own_path
from ..data.feature_cache import missing
from ..errors import DataError, UsageError
from ..nets.features import Frozen, frozen
from ..nets.pretrained import locate
from ..nets.recognise import recognise
from ..nets.timm_net import published
from ..rules.choose import Chosen, choice
from ..settings.config import RUN_OPTIONS, Run
from .inputs import data_of
from .progress import counting
from .start import side_of

# DINOv2's features are the better ones by what is published, and 16 times as slow on a CPU
CPU_WEIGHTS, GPU_WEIGHTS = "vit_tiny", "dinov2_small"
SIZES = (224, 128, 96)  # pixels at which a transformer looks at images, the largest that is in time
MOST_SECONDS = 45.0  # for the features of all images, so that an answer is there within a minute
MEASURED = 8  # images whose features are timed
NEUTRAL = {  # options that say nothing of how a net is trained
    "data", "root", "labels", "size", "weights", "seed", "labels_per_class", "head_labelled",
    "head_unlabelled", "gamma", "gamma_unlabelled", "validation_per_class", "fold",
    "labelled_in_pool", "prior", "baseline", "device", "images", "threads", "precision",
    "deterministic",
}  # fmt: skip
ONE_STEP = {
    "steps": 1, "warmup": 0, "ema": 0.0, "log_every": 1, "test_every": 1, "save_every": 1,
}  # fmt: skip
RULE = (
    "First answer: the pre-trained net stays as it is, and TaMatch is solved on its features. Any "
    "option of training (--time, --steps, --method, --net) trains a net instead."
)


@dataclass(frozen=True)
class First:
    """What was chosen, for which images."""

    chosen: Chosen
    data: DataSet


def wants_first(given: Mapping[str, Any], limit: str | None) -> bool:
    """Whether nothing that the user says, or the run to go on from, is about training a net."""
    net = given.get("net")
    if net is not None and nets.is_frozen(str(net)):
        if limit is not None:
            raise UsageError(f"--net {net} is not trained, so --time has no effect on it.")
        return True
    return limit is None and given.keys() <= NEUTRAL


def weights_for(given: Mapping[str, Any], device: torch.device) -> tuple[str | None, str]:
    """The user's weights, or the usual ones if they can be had; else a line that says why not."""
    if "weights" in given:
        weights: str | None = RUN_OPTIONS["weights"].parse(given["weights"])
        return weights, ""
    usual = GPU_WEIGHTS if device.type == "cuda" else CPU_WEIGHTS
    try:
        locate(usual)
        return usual, ""
    except DataError as error:
        return None, f"A net is trained from scratch, which takes longer and errs more: {error}"


def first_settings(run: Run, given: Mapping[str, Any], device: torch.device) -> First:
    """The net of the run's weights, the size at which it looks at images, and that of the images.

    Images are kept as large as they are, but no larger than the net looks at them.
    """
    side = side_of(own_path(run.data))
    weights, own = str(run.weights), given.get("net")
    sizes = (None,) if own is not None else sizes_of(weights)
    slow = ""
    for pixels in sizes:
        net = net_at(weights, pixels, None if own is None else str(own), device)
        size = size_of_images(net, side)
        if given.get("size") is not None and run.size is not None:
            size = run.size
        with counting("reading images") as count:
            data = data_of(replace(run, normalise=net.normalise), size, count)
        left = missing(data.image_digests(), net.key)
        seconds = left * seconds_for_image(net, data) if left and pixels != sizes[-1] else 0.0
        if seconds <= MOST_SECONDS:
            break
        slow = slow or f"at {net.size}, {left:,} images would take {seconds:.0f} s"
    why = slow or f"as {locate(weights).title} was trained"
    chosen = (
        choice("size", size, f"{size} × {size} pixels", "as the images are" if side == size
               else "no image needs more for this net")
        | choice("net", nets.FROZEN + net.name, nets.FROZEN + net.name,
                 f"looks at images at {net.size} × {net.size} pixels: {why}")
        | Chosen({"weights": weights, "normalise": net.normalise, "flips": "none", **ONE_STEP}, {})
    )  # fmt: skip
    return First(chosen, data)


def sizes_of(weights: str) -> tuple[int, ...]:
    """Sizes that the weights can be used at, from the largest."""
    made = recognise(locate(weights).path)
    own = min(made.size, SIZES[0])
    return (own, *(size for size in SIZES if size < own)) if made.is_transformer else (own,)


def net_at(weights: str, pixels: int | None, own: str | None, device: torch.device) -> Frozen:
    """The frozen net: that of the weights at a size, or the user's at its own."""
    if own is None:
        return frozen(weights, pixels or 0, device)
    name = own.removeprefix(nets.FROZEN)
    size = published(name).size if nets.is_timm(name) else nets.find(name).size
    return frozen(weights, nets.size_in_name(name) or size, device, name)


def size_of_images(net: Frozen, side: float | None) -> int:
    """Where the net resizes images itself, no larger than these are."""
    resizes = nets.size_in_name(net.name) is not None
    return net.size if side is None or not resizes else min(net.size, max(8, math.ceil(side)))


def seconds_for_image(net: Frozen, data: DataSet) -> float:
    """By looking at some, twice: the first time is slower."""
    some = data.images[np.arange(min(MEASURED, len(data.images)))]
    net(some)
    began = time.perf_counter()
    net(some)
    return (time.perf_counter() - began) / len(some)
