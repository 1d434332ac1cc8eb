"""The values of one training step. Everything here is a plain record: no behaviour, no state."""

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class Task:
    """What a method may know of the data: sizes and, where it is known, the class shares."""

    classes: int
    labelled: int  # number of labelled images
    unlabelled: int  # number of images in the unlabelled pool
    labelled_shares: tuple[float, ...]  # class shares of the labelled images
    prior: tuple[float, ...] | None = None  # class shares of the pool, if the user knows them
    steps: int = 1  # length of the run
    batch_labelled: int = 64
    batch_unlabelled: int = 128


class Views(NamedTuple):
    """Which augmented views a method wants of each labelled (x) and unlabelled (u) image."""

    x: tuple[str, ...] = ("weak",)
    u: tuple[str, ...] = ("weak", "strong")


class Batch(NamedTuple):
    """One step's input. The hidden labels of unlabelled images are not here: they cannot leak."""

    x: tuple[Tensor, ...]  # one (B, 3, H, W) tensor per wanted view, in the order of Views.x
    y: Tensor  # (B,) labels, int64
    u: tuple[Tensor, ...]  # one (Bu, 3, H, W) tensor per wanted view, in the order of Views.u
    id_x: Tensor  # (B,) position of each labelled image in 0 … labelled-1; may repeat
    id_u: Tensor  # (Bu,) position of each unlabelled image in 0 … unlabelled-1; may repeat
    step: Tensor  # 0-dim int64, counts from 0
    progress: Tensor  # 0-dim float32, step / steps


class Out(NamedTuple):
    """What a net returns; logits and features in float32, whatever it computes in."""

    logits: Tensor  # (N, classes)
    features: Tensor  # (N, width) pooled features, input of the last linear layer
    map: Tensor  # (N, ...) the last feature map as it was computed (ViT: the pooled features)


@dataclass
class Loss:
    """`total` is what is minimised; `parts` are values for the report alone.

    Parts are scalars or per-class vectors. They are averaged between two log lines, except
    those whose name begins with `max_`, of which the largest is kept.
    """

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)
