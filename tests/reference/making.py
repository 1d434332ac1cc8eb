"""A reference ready for one step, with all its terms at work."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import simmatch
from .base import SlowMethod
from .data import random_bank, random_params, realistic_batch, realistic_facts
from .records import Facts, NumpyBatch
from .table import REFERENCES

# Without these a single step would lie before a warm-up, between two settings of Dash's ρ, or,
# with the banks of CoMatch and SimMatch unfilled, under a threshold that 0.9 · p cannot reach.
ACTIVE: dict[str, dict[str, Any]] = {
    "dash": {"warm_up": 0, "rho_init": 0.5, "period": 10},
    "comatch": {"epoch": 1, "queue_batches": 2, "threshold": 0.8},
    "simmatch": {"epoch": 1, "threshold": 0.8},
}


def ready(
    name: str, seed: int = 0, *, facts: Facts | None = None, **hyper: Any
) -> tuple[SlowMethod, np.random.Generator]:
    """A method by name with random parameters, and the generator that made them."""
    facts = facts or realistic_facts()
    rng = np.random.default_rng(seed)
    reference: Any = REFERENCES[name]
    params = random_params(rng, facts.classes, heads=reference.heads)
    hyper = ACTIVE.get(name, {}) | hyper
    if name == "simmatch":
        hyper.setdefault("bank", random_bank(rng, simmatch.EMBEDDING, facts.labelled))
    return reference(params, facts, **hyper), rng


def batch_for(method: SlowMethod, rng: np.random.Generator, step: int) -> NumpyBatch:
    """A realistic batch with the views and draws that this method wants."""
    return realistic_batch(rng, method.params, method.facts, type(method), step=step)
