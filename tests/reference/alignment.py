"""Distribution alignment: p rescaled by (p_target + 1e-6) / (p_model + 1e-6).

Both kinds update before use. They keep their numbers in the method's own `state`.
"""

from __future__ import annotations

import numpy as np

from .primitives import mean_row, moved, normalise
from .records import Array, Values

EPSILON = 1e-6
QUEUE = 32
QUEUE_STORED = {"queue": "status.model.rows", "queue_pointer": "status.model.at"}


def rescaled(p: Array, model: Array, target: Array) -> Array:
    """p̃ = normalise(p ⊙ (p_target + 1e-6) / (p_model + 1e-6))."""
    return normalise(p * ((target + EPSILON) / (model + EPSILON)))


def follow_model(state: Values, p: Array, momentum: float) -> None:
    """Move p_model by a batch; the first batch sets it."""
    if "p_model" in state:
        state["p_model"] = moved(state["p_model"], mean_row(p), momentum)
    else:
        state["p_model"] = mean_row(p)


def start_queue(state: Values, classes: int, length: int = QUEUE) -> None:
    """An empty ring of batch means: rows of zeros."""
    state["queue"] = np.zeros((length, classes))
    state["queue_pointer"] = np.array(0)


def align_by_queue(state: Values, p: Array) -> Array:
    """Write the batch mean, then align to uniform by the mean of all rows, written or not."""
    queue, pointer = state["queue"].copy(), int(state["queue_pointer"])
    queue[pointer] = mean_row(p)
    state["queue"], state["queue_pointer"] = queue, np.array((pointer + 1) % len(queue))
    uniform = np.full(p.shape[1], 1 / p.shape[1])
    return rescaled(p, mean_row(queue), uniform)
