"""Which images are labelled, unlabelled or held out: exactly as the benchmark draws them."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import DataError, UsageError
from .dataset import UNKNOWN, DataSet, Indices, Split, numbered

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SplitPlan:
    """What to draw, of options in their ranges. `None` counts mean all there is.

    Balanced: `labels_per_class`. Long-tailed: `head_labelled` images of the largest class and
    `gamma` times fewer of the smallest; the pool likewise, with `head_unlabelled` and its own
    `gamma_unlabelled` (None: as `gamma`; negative: the last class is the largest). With
    `pool_shape="middle"`, the middle class of the pool is the largest.
    """

    labels_per_class: int | None = None
    labelled_in_pool: bool = True
    seed: int = 0
    head_labelled: int | None = None
    head_unlabelled: int | None = None
    gamma: float = 1.0
    gamma_unlabelled: float | None = None
    pool_shape: Literal["tail", "middle"] = "tail"
    validation_per_class: int = 0  # taken out of the labelled images, never out of the test part
    fold: tuple[int, int] | None = None  # (k, n): every n-th labelled image is held out as well

    def __post_init__(self) -> None:
        for option, value in (("gamma", self.gamma), ("gamma-unlabelled", self.gamma_unlabelled)):
            if value is not None and not 1 <= abs(value) < np.inf:
                raise UsageError(f"--{option} must be 1 or more, or -1 or less, got {value:g}.")
        if self.labels_per_class is not None and self.head_labelled is not None:
            raise UsageError("--labels-per-class and --head-labelled cannot be used together.")
        if self.gamma != 1 and self.head_labelled is None:
            raise UsageError("--gamma needs --head-labelled, the size of the largest class.")
        if self.gamma_unlabelled is not None and self.head_unlabelled is None:
            raise UsageError("--gamma-unlabelled needs --head-unlabelled.")
        if self.pool_shape != "tail" and self.head_unlabelled is None:
            raise UsageError("--pool-shape needs --head-unlabelled.")
        if self.fold is not None and not (self.fold[1] >= 2 and 1 <= self.fold[0] <= self.fold[1]):
            k, n = self.fold
            raise UsageError(f"--fold takes K/N with 1 ≤ K ≤ N and N ≥ 2, got {k}/{n}.")


def read_fold(text: str | None) -> tuple[int, int] | None:
    """`--fold 2/5` as numbers."""
    if text is None:
        return None
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal()):
        raise UsageError(f"--fold takes K/N, such as 1/5 for the first of five parts; got {text}.")
    return int(part), int(parts)


@dataclass(frozen=True)
class Past:
    """What the earlier runs that a run continues from did with the images of a data set."""

    learnt: Mask  # trained on with their labels, so never held out
    held_out: Mask  # and not learnt by any: held out again, before others

    def of(self, images: Indices) -> "Past":
        return Past(self.learnt[images], self.held_out[images])


def long_tail(head: int, gamma: float, classes: int) -> list[int]:
    """n_c = floor(head · μ^c) with μ = |γ|^(-1/(C-1)), the last one floor(head / |γ|)."""
    if classes == 1:
        return [head]
    ratio = abs(gamma)
    mu = np.power(1 / ratio, 1 / (classes - 1))
    counts = [int(head * np.power(mu, c)) for c in range(classes - 1)] + [int(head / ratio)]
    return counts if gamma > 0 else counts[::-1]


def make_split(data: DataSet, plan: SplitPlan, past: Past | None = None) -> Split:
    """Draw each class's labelled images from the training part, and the pool from the rest.

    For each class in order, its ascending indices are shuffled; the first n_c are labelled and
    the following ones unlabelled. This consumes a fresh `RandomState(seed)` exactly as the
    reference benchmark does, so that our 40 labels are its 40 labels. What validates is then taken
    out of the labelled images; equal ones stay together, so that none of them is learnt from.
    """
    drawn = _drawn(data, plan)
    if not plan.validation_per_class and plan.fold is None:
        return drawn
    labels = data.labels[drawn.labelled]
    alike = numbered(data.image_digests()[drawn.labelled])
    classes = np.bincount(np.unique([alike, labels], axis=1)[0])  # of each number
    apart = classes[alike] == 1  # what has a copy in another class is not held out
    held = np.zeros(len(labels), bool)
    for c, name in enumerate(data.classes):
        own = np.flatnonzero(labels == c)
        before = past and past.of(drawn.labelled[own])
        held[own] = _validating(name, plan.validation_per_class, alike[own], apart[own], before)
        own = own[~held[own]]
        held[own] = apart[own] & _folded(plan.fold, alike[own])
    return _without(drawn, held)


def make_split_again(data: DataSet, plan: SplitPlan, held_out: Mask) -> Split:
    """As `make_split`, with exactly these labelled images held out, as they were before."""
    drawn = _drawn(data, plan)
    return _without(drawn, held_out[drawn.labelled])


def _drawn(data: DataSet, plan: SplitPlan) -> Split:
    """The split before labelled images are held out."""
    _check_classes(data)
    labelled_counts, pool_counts = _counts(data, plan)
    random = np.random.RandomState(plan.seed)
    train = data.part("train")
    if data.shuffled_first:
        order = np.arange(len(train))
        random.shuffle(order)
        train = train[order]

    labelled: list[Indices] = []
    rest: list[Indices] = []
    for c, (count, pool) in enumerate(zip(labelled_counts, pool_counts, strict=True)):
        own = train[data.labels[train] == c]
        taken = len(own) if count is None else count
        end = len(own) if pool is None else taken + pool
        _check_supply(data, plan, c, len(own), taken, end)
        random.shuffle(own)
        labelled.append(own[:taken])
        rest.append(own[taken:end])

    chosen = np.concatenate(labelled)
    hidden = _hidden(data, np.concatenate(rest), chosen, plan.labelled_in_pool)
    return Split(
        labelled=chosen,
        unlabelled=np.concatenate([chosen, hidden]) if plan.labelled_in_pool else hidden,
        validation=data.part("validation"),
        test=data.part("test"),
    )


def _without(split: Split, held: Mask) -> Split:
    """Move these labelled images to the validation part, and out of the pool."""
    away = split.labelled[held]
    return replace(
        split,
        labelled=split.labelled[~held],
        unlabelled=split.unlabelled[~np.isin(split.unlabelled, away)],
        validation=np.concatenate([split.validation, away]),
    )


def _validating(name: str, count: int, alike: Indices, apart: Mask, past: Past | None) -> Mask:
    """Choose `count` images of a class, from its end; copies of one are chosen with it.

    Those that were held out before are taken first, and then those with the fewest copies.
    """
    none = np.zeros(len(alike), bool)
    learnt, before = (past.learnt, past.held_out) if past else (none, none)
    numbers, from_end, copies = np.unique(alike[::-1], return_index=True, return_counts=True)
    order = np.lexsort((from_end, copies, ~np.isin(numbers, alike[before])))
    held, away = 0, []
    for i in order[~np.isin(numbers[order], alike[learnt | ~apart])]:
        if held < count and held + copies[i] < len(alike):
            held += copies[i]
            away.append(numbers[i])
    if held < count:
        why, cure = (
            ("the run of --from was trained on the others", "label more, or train without --from")
            if learnt.any()
            else ("the others have copies among the training images", "or label more")
        )
        raise DataError(
            f'class "{name}": only {held} of its {len(alike)} labelled images can be held out, as '
            f"{why}, but --validation-per-class is {count}. Request fewer, {cure}."
        )
    return np.isin(alike, away)


def _folded(fold: tuple[int, int] | None, alike: Indices) -> Mask:
    """Which of a class's labelled images a fold holds out; a single one always stays."""
    numbers = [*dict.fromkeys(alike.tolist())]
    if fold is None or len(numbers) < 2:
        return np.zeros(len(alike), bool)
    return np.isin(alike, numbers[fold[0] - 1 :: fold[1]])


def _counts(data: DataSet, plan: SplitPlan) -> tuple[list[int | None], list[int | None]]:
    """How many images of each class are asked for, labelled and in the pool."""
    classes = len(data.classes)
    labelled: list[int | None] = [plan.labels_per_class] * classes
    pool: list[int | None] = [None] * classes
    if plan.head_labelled is not None:
        labelled = _tail(data, "gamma", plan.head_labelled, plan.gamma)
    if plan.head_unlabelled is not None:
        if data.train_in_pool or (data.labels[_unlabelled_images(data)] == UNKNOWN).any():
            raise DataError(
                f"--head-unlabelled needs a label for every image of the pool, but {data.name} has "
                "unlabelled images. Leave the option out."
            )
        own = plan.gamma if plan.gamma_unlabelled is None else plan.gamma_unlabelled
        pool = _tail(data, "gamma-unlabelled", plan.head_unlabelled, own)
        if plan.pool_shape == "middle":
            pool = [*pool[::2][::-1], *pool[1::2]]
    return labelled, pool


def _tail(data: DataSet, option: str, head: int, gamma: float) -> list[int | None]:
    counts: list[int | None] = [*long_tail(head, gamma, len(data.classes))]
    if 0 in counts:
        raise DataError(
            f"--{option} {gamma:g} with {head} images in the largest class leaves none for class "
            f'"{data.classes[counts.index(0)]}". Use more images, or a smaller imbalance.'
        )
    return counts


def _check_classes(data: DataSet) -> None:
    """Refuse data with fewer than two classes."""
    if not data.classes:
        raise DataError(
            f"{data.name} has no labelled images. Label a few of each class: in one folder per "
            "class, or in a table with the columns file_name,label."
        )
    if len(data.classes) == 1:
        raise DataError(
            f'{data.name} has only one class, "{data.classes[0]}", and at least two are needed. '
            f"{data.hint or 'Add a folder for each other class.'}"
        )


def _check_supply(data: DataSet, plan: SplitPlan, c: int, own: int, taken: int, end: int) -> None:
    """Every class needs a labelled image, and as many images as the plan asks for."""
    name = data.classes[c]
    if own == 0:
        train = data.labels[data.part("train")]
        known = ", ".join(f"{k} {int((train == i).sum())}" for i, k in enumerate(data.classes))
        raise DataError(
            f'class "{name}" has no labelled images ({known[:200]}). '
            "Label at least one, or remove the class."
        )
    if own < end or own < taken:
        raise DataError(
            f'class "{name}" has {own} labelled image{"s" * (own != 1)} in {data.name}, '
            f"but {max(taken, end)} are requested. Request fewer, or label more."
        )
    if taken <= plan.validation_per_class:
        raise DataError(
            f'class "{name}" has {taken} labelled image{"s" * (taken != 1)}: '
            f"--validation-per-class {plan.validation_per_class} would leave none for training. "
            "Request fewer, label more, or use --fold 1/5: it holds out a fifth of each class, but "
            "never its only image."
        )


def _unlabelled_images(data: DataSet) -> Indices:
    """Images that come without a label, or whose label the publisher keeps out of training."""
    train = data.part("train")
    return np.concatenate([train[data.labels[train] == UNKNOWN], data.part("unlabelled")])


def _hidden(data: DataSet, rest: Indices, labelled: Indices, labelled_in_pool: bool) -> Indices:
    """The pool without the labelled images that `labelled_in_pool` puts in front of it.

    STL-10's benchmark pool is the publisher's unlabelled images and then the whole training
    part, so that a labelled image is in it twice; asked to keep them apart, we do.
    """
    if not data.train_in_pool:
        return np.concatenate([rest, _unlabelled_images(data)])
    train = data.part("train")
    again = train if labelled_in_pool else train[~np.isin(train, labelled)]
    return np.concatenate([data.part("unlabelled"), again])
