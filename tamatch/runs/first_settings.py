"""When a run is a first answer, with which weights, and how large it looks at the images."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch

from .. import nets
from ..data import DataSet
from ..data.feature_cache import holds_some, missing
from ..errors import DataError, UsageError
from ..nets.features import Frozen, frozen
from ..nets.foreign import published
from ..nets.pretrained import locate
from ..nets.recognise import recognise
from ..progress import counting
from ..rules.choose import LOOKS, Chosen, choice, looked_at
from ..settings.config import RUN_OPTIONS, Run
from ..settings.inputs import data_of

# DINOv2's features are the better ones by what is published, and 16 times as slow on a CPU
CPU_WEIGHTS, GPU_WEIGHTS = "vit_tiny", "dinov2_small"
MOST_SECONDS = 45.0  # for features at a larger size, so that an answer is there in a minute
MEASURED = 20  # images whose features are timed
NEUTRAL = {  # options that say nothing of how a net is trained
    "data", "root", "labels", "size", "weights", "seed", "labels_per_class", "head_labelled",
    "head_unlabelled", "gamma", "gamma_unlabelled", "pool_shape", "validation_per_class", "fold",
    "labelled_in_pool", "prior", "baseline", "device", "images", "threads", "precision",
    "deterministic",
}  # fmt: skip
ONE_STEP: dict[str, Any] = {
    "steps": 1, "warmup": 0, "ema": 0.0, "log_every": 1, "test_every": 1, "save_every": 1,
}  # fmt: skip
RULE = (
    "First answer: the pre-trained net stays as it is, and TaMatch is solved on its features. "
    "--time 10m tunes the net from there; --method and --net train another one."
)
Way = Literal["first", "tune", "train"]  # features alone; then the net; a net from its start


@dataclass(frozen=True)
class Look:
    """A way to look at the images: the net at a size, and the images once they are needed."""

    net: Frozen
    read: Callable[[], DataSet]

    @cached_property
    def data(self) -> DataSet:
        return self.read()

    @property
    def is_known(self) -> bool:
        """Whether all images have features; where none have, the images are not read to tell."""
        return holds_some(self.net.key) and self.left == 0

    @property
    def left(self) -> int:
        """How many images have no features yet."""
        return missing(self.data.image_digests(), self.net.key)

    def seconds(self, images: int) -> float:
        """For those of `images` that have none; the images are not read where none have any."""
        return (self.left if holds_some(self.net.key) else images) * self.seconds_each

    @cached_property
    def seconds_each(self) -> float:
        """For the features of an image, whatever it shows; the first time is slower."""
        some = np.zeros((MEASURED, self.net.size, self.net.size, 3), np.uint8)
        self.net(some)
        began = time.perf_counter()
        self.net(some)
        return (time.perf_counter() - began) / MEASURED


def way_of(given: Mapping[str, Any], limit: str | None, device: torch.device) -> Way:
    """What is made of the images, by what the user says or the run to go on from.

    Another net, another method or a last layer of the user's choice is trained as it is.
    """
    net = given.get("net")
    if net is not None and nets.is_frozen(str(net)):
        if limit is not None:
            raise UsageError(f"--net {net} is not trained, so --time has no effect on it.")
        return "first"
    if net is not None and nets.is_tuned(str(net)):
        return "tune"
    if given.keys() & {"net", "method", "head", "from_"}:
        return "train"
    return "first" if is_neutral(given, limit) and device.type != "cuda" else "tune"


def is_neutral(given: Mapping[str, Any], limit: str | None) -> bool:
    """Whether nothing that is said is about training a net."""
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


def first_settings(
    run: Run, given: Mapping[str, Any], side: float | None, device: torch.device
) -> tuple[Chosen, Look]:
    """The net at a size, and the size of the images, with reasons; the way to look at them.

    `side` is that of most images, in pixels. The net looks at them at the largest size whose
    features are known already, or are in time. Images are kept as large as they are, but no larger
    than the net looks at them.
    """
    names = None if given.get("net") is None else [nets.first_of(run.net)]

    def read(size: int) -> DataSet:
        with counting("reading images") as count:
            return data_of(run, count, size=size)

    fixed = run.size if given.get("size") is not None else None
    look, why = best_look(str(run.weights), read, side, device, names, fixed)
    name, at, size = nets.FROZEN + look.net.name, look.net.size, look.data.size
    own = "as the images are" if side == size else f"enough for the net's {at}"
    facts = {"normalise": look.net.normalise, "flips": "none", "threads": torch.get_num_threads()}
    chosen = (
        choice("size", size, f"{size} × {size} pixels", own)
        | choice("net", name, name, f"looks at images at {at} × {at} pixels; {why}")
        | Chosen(facts | ONE_STEP, {})
    )
    return chosen, look


def tunable(weights: str, given: Mapping[str, Any]) -> bool:
    """Whether the net of the weights is a transformer, or one that the user wants tuned."""
    return given.get("net") is not None or recognise(locate(weights).path).is_transformer


def best_look(
    weights: str, read: Callable[[int], DataSet], side: float | None, device: torch.device,
    names: list[str] | None = None, size: int | None = None,
) -> tuple[Look, str]:  # fmt: skip
    """The best way to look at the images within MOST_SECONDS, and why it is this one.

    `read` has the images at a size. `names` are nets to choose from, by default all sizes of that
    of the weights; with `size`, the images have it, whatever the net.
    """
    looks = []
    for name in names or names_of(weights):
        net = frozen(weights, size_for(name), device, name)
        images = size or size_of_images(net, side)
        looks.append(Look(net, partial(read, images)))
        if looks[-1].is_known:
            break
    first, last = looks[0], looks[-1]
    best = f"as large as {locate(weights).title} is made for"
    if last.is_known:
        return last, best if last is first else "these features are known already"
    count = len(first.data.images)
    look = next((look for look in looks[:-1] if look.seconds(count) <= MOST_SECONDS), last)
    if look is first:
        return look, best
    return look, f"at {first.net.size}, {count:,} images would take {first.seconds(count):.0f} s"


def names_of(weights: str) -> list[str]:
    """The net of the weights, for images of the sizes that it can be used at, from the largest."""
    made = recognise(locate(weights).path)
    own = min(made.size, LOOKS[0])
    sizes = [own, *(size for size in LOOKS if size < own)] if made.is_transformer else [own]
    return [made.at(max(1, round(size / made.patch)) * made.patch, made.patch) for size in sizes]


def size_for(name: str) -> int:
    """The side of the images that a net is made for."""
    if nets.is_timm(name):
        return published(name).size
    return nets.size_in_name(name) or nets.find(name).size


def size_of_images(net: Frozen, side: float | None) -> int:
    """Where the net resizes images itself, no larger than these are."""
    resizes = nets.size_in_name(net.name) is not None
    return looked_at(side, net.size) if resizes else net.size
