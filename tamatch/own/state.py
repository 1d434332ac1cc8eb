"""What a module of the user's own keeps from step to step although no checkpoint holds it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..errors import UsageError

TORCHS_OWN = {*vars(nn.Module())}  # attributes of every module


def unregistered(module: nn.Module, *besides: nn.Module | None) -> dict[str, Any]:
    """The module's attributes, and those of its parts, that are no weights, buffers or modules.

    Those of the modules `besides` are left out.
    """
    others = {id(part) for other in besides if other is not None for part in other.modules()}
    return {
        f"{place}.{name}" if place else name: value
        for place, part in module.named_modules()
        if id(part) not in others
        for name, value in vars(part).items()
        if name not in TORCHS_OWN
    }


def registered_in(module: nn.Module) -> set[int]:
    """The identities of all that torch knows to belong to the module."""
    things = (module.modules(), module.parameters(), module.buffers())
    return {id(thing) for of_a_kind in things for thing in of_a_kind}


def refuse_loose_weights(module: nn.Module, what: str, *besides: nn.Module | None) -> None:
    """An error if an attribute has weights that nobody will train."""
    registered = registered_in(module)
    for name, value in unregistered(module, *besides).items():
        held = (x for x in pytree.tree_leaves(value) if id(x) not in registered)
        if any(isinstance(x, nn.Parameter) or (isinstance(x, nn.Module) and x.state_dict())
               for x in held):  # fmt: skip
            raise UsageError(
                f"{what}: its {name} has weights that torch does not see, so they are neither "
                "trained nor saved. Use nn.ModuleList, nn.ModuleDict or nn.ParameterList instead "
                "of a list or dictionary."
            )


@contextmanager
def all_saved(module: nn.Module, what: str, *besides: nn.Module | None) -> Iterator[None]:
    """Refuse a module that in here changes something of its own that nobody saves.

    What is new in here, or was None, is no state: one place of a step leaves it for another.
    """
    registered = registered_in(module)
    # a number that is counted up has an error of its own
    before = {n: v for n, v in unregistered(module, *besides).items() if not is_number(v)}
    _held = pytree.tree_leaves(before)  # until the end, so that no id is given again
    marks = {name: mark(value, registered) for name, value in before.items() if value is not None}
    yield
    after = unregistered(module, *besides)
    for name in (n for n in marks if marks[n] != mark(after.get(n), registered)):
        raise UsageError(
            f"{what}: its {name} changes in a step, but no checkpoint holds it, because it is not "
            "registered. Keep what changes in tensors that __init__ registers, with "
            "`self.register_buffer(…)`, and write into them, as in `.mul_(0.9).add_(…)`; draw "
            "random numbers from torch's own generator."
        )


def mark(value: Any, registered: set[int]) -> tuple[object, list[object]]:
    """Differs if something in it is replaced, added, removed or written, or a generator used."""
    leaves, structure = pytree.tree_flatten(value)
    return structure, [mark_of_leaf(leaf, registered) for leaf in leaves]


def mark_of_leaf(leaf: Any, registered: set[int]) -> object:
    match leaf:
        case Tensor() if id(leaf) not in registered:
            return id(leaf), leaf._version
        case torch.Generator():
            return bytes(leaf.get_state())
        case np.random.Generator():
            return repr(leaf.bit_generator.state)
        case random.Random():
            return leaf.getstate()
        case np.ndarray():
            return leaf.tobytes()
        case set():
            return frozenset(leaf)
        case bool() | int() | float() | str():
            return leaf
    return id(leaf)


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


@contextmanager
def in_place(module: nn.Module, what: str) -> Iterator[None]:
    """Refuse a module that replaces a buffer in here, writes one that is not saved, or counts in
    Python.
    """
    buffers = dict(module.named_buffers())
    unsaved = {name: buffers[name]._version for name in buffers.keys() - module.state_dict().keys()}
    attributes = {name: dict(vars(part)) for name, part in module.named_modules()}
    yield
    after = dict(module.named_buffers())
    for name in (n for n in {**buffers, **after} if after.get(n) is not buffers.get(n)):
        raise UsageError(
            f"{what}: its buffer {name} is replaced in a step. Weight averages, checkpoints and "
            "CUDA graphs use the tensor that __init__ registers: write into it, with "
            f"`self.{leaf(name)}.copy_(…)` or as in `self.{leaf(name)}.mul_(0.9).add_(…)`."
        )
    for name in (n for n, version in unsaved.items() if buffers[n]._version != version):
        raise UsageError(
            f"{what}: its buffer {name} changes in a step, but is not saved: register it without "
            "`persistent=False`."
        )
    for place, part in module.named_modules():
        for name, value in vars(part).items():
            # a number that is new here was not counted up: it is only kept for another place
            before = attributes.get(place, {}).get(name, getattr(type(part), name, None))
            if is_number(value) and is_number(before) and before is not value and before != value:
                raise UsageError(
                    f"{what}: its number {place + '.' if place else ''}{name} changes in a step. "
                    "It is not saved, and keeps its first value in a CUDA graph: make it a buffer "
                    f"and write into it, as in `self.{name}.add_(1)`."
                )


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def leaf(name: str) -> str:
    return name.rpartition(".")[2]
