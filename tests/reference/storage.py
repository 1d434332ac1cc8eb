"""What a method remembers, under the names of its reference."""

from __future__ import annotations

from operator import attrgetter

import torch
from torch import Tensor

from tamatch.methods.base import Method

from .base import SlowMethod


def stored(method: Method, reference: SlowMethod) -> dict[str, Tensor]:
    """The method's state under the reference's names; the tensors themselves, not copies."""
    places = {k: v for k, v in reference.stored.items() if k in reference.remembered()}
    return {name: attrgetter(place)(method) for name, place in places.items()}


def load_state(method: Method, reference: SlowMethod) -> None:
    """Give the method what the reference remembers."""
    tensors = stored(method, reference)
    with torch.no_grad():
        for name, value in reference.remembered().items():
            tensors[name].copy_(torch.tensor(value))
            average, _, attribute = reference.stored[name].rpartition(".")
            if attribute == "value":  # what it holds is no start to be replaced
                attrgetter(average)(method).fresh.zero_()
