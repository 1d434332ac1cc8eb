"""What a module of the user's own keeps from step to step although no checkpoint holds it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..errors import UsageError

Loose = Tensor | nn.Module | torch.Generator


def loose(module: nn.Module, *besides: nn.Module | None) -> dict[str, list[Loose]]:
    """By attribute: what could hold state and is not registered, itself or in lists and the like.

    The modules `besides` are left out.
    """
    things = (module.modules(), module.parameters(), module.buffers())
    registered = {id(thing) for of_a_kind in things for thing in of_a_kind}
    others = {id(part) for other in besides if other is not None for part in other.modules()}
    found: dict[str, list[Loose]] = {}
    for place, part in module.named_modules():
        for name, value in vars(part).items() if id(part) not in others else ():
            held = [x for x in pytree.tree_leaves(value) if isinstance(x, Loose)]
            if kept := [x for x in held if id(x) not in registered]:
                found[f"{place}.{name}" if place else name] = kept
    return found


def refuse_loose_weights(module: nn.Module, what: str, *besides: nn.Module | None) -> None:
    """An error if an attribute has weights that nobody will train."""
    for name, kept in loose(module, *besides).items():
        if any(isinstance(x, nn.Parameter) or (isinstance(x, nn.Module) and x.state_dict())
               for x in kept):  # fmt: skip
            raise UsageError(
                f"{what}: its {name} has weights that torch does not see, so they are neither "
                "trained nor saved. Use nn.ModuleList, nn.ModuleDict or nn.ParameterList instead "
                "of a list or dictionary."
            )


@contextmanager
def all_saved(module: nn.Module, what: str, *besides: nn.Module | None) -> Iterator[None]:
    """Refuse a module that in here changes tensors or generators of its own that nobody saves."""
    before = loose(module, *besides)  # held until the end, so that no id is given again
    marks = {name: mark(kept) for name, kept in before.items()}
    yield
    after = loose(module, *besides)
    for name in (n for n in marks if marks[n] != mark(after.get(n, []))):
        raise UsageError(
            f"{what}: its {name} changes in a step, but no checkpoint holds it, because it is not "
            "registered. Register tensors in __init__, with `self.register_buffer(…)`, and write "
            "into them, as in `.mul_(0.9).add_(…)`; draw random numbers from torch's own generator."
        )


def mark(kept: list[Loose]) -> list[object]:
    """Differs if a tensor is replaced or written, or a generator used."""
    return [
        bytes(x.get_state()) if isinstance(x, torch.Generator) else (id(x), x._version)
        for x in kept
    ]


@contextmanager
def draws_from_torch(what: str) -> Iterator[None]:
    """Refuse random numbers that are drawn in here from a generator that no step seeds."""
    before = other_generators()
    yield
    after = other_generators()
    for source in (name for name, state in before.items() if after[name] != state):
        raise UsageError(
            f"{what}: a step draws from {source}. A resumed run would draw other numbers, and a "
            "CUDA graph repeats the first: draw from torch, as in `torch.rand(…)`."
        )


def other_generators() -> dict[str, object]:
    """The states of Python's generator and of NumPy's."""
    state = pytree.tree_leaves(np.random.get_state(legacy=False))
    numpys = [np.asarray(part).tobytes() for part in state]
    return {"Python's random": random.getstate(), "np.random": numpys}
