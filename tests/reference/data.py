"""Random parameters and batches with realistic confidence: about half of the images pass 0.95."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .base import SlowMethod
from .net import CLASSES, GAIN, MAP_WIDTH, PIXELS, WIDTH, NumpyNet
from .primitives import softmax, unit
from .records import Array, Facts, Ints, NumpyBatch, Params

CONFIDENT = 0.97
DOUBTFUL = 0.9
NOISE = {"weak": 0.03, "medium": 0.15, "strong": 0.3}
TRIES = 5000


def labels_of(classes: int, labelled: int) -> Ints:
    """The label of every labelled image: all classes occur, the first ones more often."""
    position = np.arange(labelled) / labelled
    return np.floor(classes * position**1.5).astype(np.int64)


def realistic_facts(
    classes: int = 5,
    batch_labelled: int = 8,
    batch_unlabelled: int = 16,
    *,
    labelled: int = 40,
    unlabelled: int = 60,
    steps: int = 100,
) -> Facts:
    """Facts of a small task whose labelled classes are unequal."""
    counts = np.bincount(labels_of(classes, labelled), minlength=classes)
    return Facts(
        classes=classes,
        labelled=labelled,
        unlabelled=unlabelled,
        labelled_shares=tuple(float(v) for v in counts / labelled),
        steps=steps,
        batch_labelled=batch_labelled,
        batch_unlabelled=batch_unlabelled,
    )


def random_params(
    rng: np.random.Generator, classes: int, heads: Mapping[str, tuple[int, ...]] | None = None
) -> Params:
    """Net parameters whose classes can be told apart with 0.95, and heads of the given shapes."""
    directions = rng.normal(size=(classes, WIDTH))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    nearest = (directions @ directions.T - 2 * np.eye(classes)).max(axis=1)
    gain = 7 / (4 * 0.8 * float(np.mean(1 - nearest)))
    params = {
        "A": rng.normal(size=(WIDTH, PIXELS)) / np.sqrt(PIXELS),
        "M": rng.normal(size=(MAP_WIDTH, PIXELS)) / np.sqrt(PIXELS),
        "W": gain * directions,
        "b": 0.3 * rng.normal(size=classes),
    }
    own = {WIDTH: GAIN * params["W"], CLASSES: params["b"]}  # a second head is as sure as the net's
    for name, shape in (heads or {}).items():
        zeros = np.zeros([classes if length == CLASSES else length for length in shape])
        base = own.get(shape[-1], zeros) if shape[0] == CLASSES else zeros
        params[name] = base + 0.5 * rng.normal(size=base.shape)
    return params


def image_of(rng: np.random.Generator, params: Params, label: int) -> Array:
    """An image that the net takes, more or less surely, for this class."""
    towards = params["W"][label] / np.linalg.norm(params["W"][label])
    features = 0.95 * rng.uniform(0.05, 1) * towards
    flat = np.linalg.pinv(params["A"]) @ np.arctanh(features)
    image: Array = (flat + 0.1 * rng.normal(size=PIXELS)).reshape(3, 4, 4)
    return image


def image_with(rng: np.random.Generator, params: Params, confident: bool) -> Array:
    """An image of a random class, drawn until its confidence is on the wanted side of 0.95."""
    for _ in range(TRIES):
        image = image_of(rng, params, int(rng.integers(len(params["b"]))))
        top = float(softmax(NumpyNet(params)(image[None]).logits).max())
        if top >= CONFIDENT if confident else top <= DOUBTFUL:
            return image
    raise RuntimeError("these parameters give no image of the wanted confidence")


def views_of(rng: np.random.Generator, images: Array, views: tuple[str, ...]) -> tuple[Array, ...]:
    """The images themselves as the first view, and noisy copies as the others."""
    noisy = [images + NOISE[name] * rng.normal(size=images.shape) for name in views[1:]]
    return (images, *noisy)[: len(views)]


def repeating(rng: np.random.Generator, size: int, batch: int) -> Ints:
    """Random ids of which the last two repeat the first two, in this order."""
    ids = rng.integers(size, size=batch)
    ids[-2:] = ids[:2]
    return ids


def realistic_batch(
    rng: np.random.Generator,
    params: Params,
    facts: Facts,
    method: type[SlowMethod],
    step: int = 0,
) -> NumpyBatch:
    """A batch with the views and draws of a method; half of the unlabelled images are confident."""
    id_x = repeating(rng, facts.labelled, facts.batch_labelled)
    y = labels_of(facts.classes, facts.labelled)[id_x]
    labelled = np.stack([image_of(rng, params, int(label)) for label in y])
    sure = rng.permutation(np.arange(facts.batch_unlabelled) % 2 == 0)
    unlabelled = np.stack([image_with(rng, params, bool(flag)) for flag in sure])
    return NumpyBatch(
        x=views_of(rng, labelled, method.x_views),
        y=y,
        u=views_of(rng, unlabelled, method.u_views),
        id_x=id_x,
        id_u=repeating(rng, facts.unlabelled, facts.batch_unlabelled),
        step=step,
        progress=step / facts.steps,
        draws=method.drawn(rng, facts),
    )


def random_bank(rng: np.random.Generator, rows: int, columns: int) -> Array:
    """A random matrix with columns of length 1: the start of SimMatch's memory."""
    bank = rng.normal(size=(columns, rows))
    return unit(bank).T
