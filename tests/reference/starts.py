"""States in the middle of training, with which a reference and its method can begin."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import SlowMethod

PRIOR = (0.3, 0.25, 0.2, 0.15, 0.1)


def skewed(reference: SlowMethod, rng: np.random.Generator) -> None:
    """A model that prefers some classes by far."""
    shares = rng.dirichlet(np.full(reference.facts.classes, 0.4)) + 0.004
    reference.state["p_model"] = shares / shares.sum()


def skewed_pool(reference: SlowMethod, rng: np.random.Generator) -> None:
    """Class shares that were estimated, and that are unequal."""
    shares = rng.dirichlet(np.full(reference.facts.classes, 0.4), size=2) + 0.004
    names = ("pool", "used")
    reference.state.update(zip(names, shares / shares.sum(1, keepdims=True), strict=True))


def skewed_against_shares(reference: SlowMethod, rng: np.random.Generator) -> None:
    """The same, with the labelled class shares as the target."""
    skewed(reference, rng)
    reference.state["p_target"] = np.array(reference.facts.labelled_shares)


def skewed_against_prior(reference: SlowMethod, rng: np.random.Generator) -> None:
    """The same, with known class shares of the pool as the target."""
    skewed(reference, rng)
    reference.state["p_target"] = np.array(PRIOR)


def one_head(reference: SlowMethod, rng: np.random.Generator) -> None:
    """TaMatch-LT without its second head, and skewed."""
    del reference.params["second.weight"], reference.params["second.bias"]
    skewed(reference, rng)


def half_learnt(reference: Any, rng: np.random.Generator) -> None:
    """FlexMatch: classes learnt more or less, some images never sure."""
    shares = rng.dirichlet(np.full(reference.facts.classes + 1, 2.0))
    memory = rng.choice(reference.facts.classes + 1, size=reference.facts.unlabelled, p=shares)
    reference.state["memory"] = memory.astype(np.int64) - 1
    reference.recount()


def hardly_learnt(reference: Any, rng: np.random.Generator) -> None:
    """FlexMatch: most images were never sure."""
    half_learnt(reference, rng)
    unsure = rng.permutation(reference.facts.unlabelled)[: reference.facts.unlabelled * 2 // 3]
    reference.state["memory"][unsure] = -1
    reference.recount()


def far_apart(reference: SlowMethod, rng: np.random.Generator) -> None:
    """CRMatch: faint images, so that noise turns the distance of a strong view right round."""
    reference.params["A"] *= 3
    reference.params["distance.bias"] *= 0


def well_on(reference: SlowMethod, rng: np.random.Generator) -> None:
    """FreeMatch: a high threshold, and classes that are predicted unequally often."""
    classes = reference.facts.classes
    reference.state["threshold"] = np.array(0.95)
    reference.state["class_means"] = 0.2 / classes + 0.8 * rng.dirichlet(np.full(classes, 3.0))
    counts = rng.dirichlet(np.full(classes, 3.0))
    if "class_counts" in reference.state:  # InfoMatch has none
        reference.state["class_counts"] = counts


def narrow(reference: SlowMethod, rng: np.random.Generator) -> None:
    """SoftMatch: a mean and a variance that tell the images apart."""
    skewed(reference, rng)
    reference.state["mean"], reference.state["variance"] = np.array(0.85), np.array(0.02)


def narrow_and_flat(reference: SlowMethod, rng: np.random.Generator) -> None:
    """The same where a second softmax leaves even a certain image e / (e + C − 1)."""
    skewed(reference, rng)
    top = np.e / (np.e + reference.facts.classes - 1)
    reference.state["mean"], reference.state["variance"] = np.array(0.95 * top), np.array(0.002)


def filled(reference: SlowMethod, rng: np.random.Generator) -> None:
    """CoMatch: a memory of other images, its ring and the queue in the middle."""
    rows, width = reference.state["bank_features"].shape
    features = rng.normal(size=(rows, width))
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    reference.state["bank_features"] = features / lengths
    reference.state["bank_p"] = rng.dirichlet(np.full(reference.facts.classes, 0.3), size=rows)
    reference.state["bank_pointer"] = np.array(rows - 5)
    queued(reference, rng)


def visited(reference: SlowMethod, rng: np.random.Generator) -> None:
    """SimMatch: all labelled images seen once, the queue in the middle."""
    labels = rng.integers(reference.facts.classes, size=reference.facts.labelled)
    reference.state["bank_labels"] = labels
    queued(reference, rng)


def queued(reference: SlowMethod, rng: np.random.Generator) -> None:
    """CoMatch and SimMatch: the alignment's queue is full, and about to begin anew."""
    rows, classes = reference.state["queue"].shape
    reference.state["queue"] = rng.dirichlet(np.ones(classes), size=rows)
    reference.state["queue_pointer"] = np.array(rows - 1)
