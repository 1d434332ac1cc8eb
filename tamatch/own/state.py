"""The state of a module of the user's own: a resumed run must go on as if it had not stopped.

Two steps are done, and the second again by a fresh module that loads the state after the first.
"""

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..errors import UsageError
from .usercode import blaming

TORCHS_OWN = {*vars(nn.Module())}  # attributes of every module
TOLERANCE = {"cpu": 1e-5, "cuda": 1e-3}  # relative; a GPU may add up in another order

Snapshot = dict[str, tuple[object, list[Any]]]  # structure and leaves of each attribute
M = TypeVar("M", bound=nn.Module)


def check_resume(
    module: M,
    fresh: Callable[[], M],
    step: Callable[[M, int], Tensor],
    what: str,
    besides: tuple[str, ...] = (),
) -> M:
    """Refuse a module whose second `step` differs when a fresh one repeats it from saved state.

    Attributes of the parts named in `besides` are not compared. Returns the fresh module, now used.
    """
    before = unsaved(module, besides)
    with draws_from_torch(what), keeps_buffers(module, what):
        step(module, 0)
        saved = copy.deepcopy(module.state_dict())
        result = step(module, 1)
    after = unsaved(module, besides)
    with blaming(what, "loading its saved state"):
        other = fresh()
        other.load_state_dict(saved)
    again = step(other, 1)
    resumed = unsaved(other, besides)
    # what no step has changed may differ: a time, a name of its own
    changed = [n for n in after if n not in before or not alike(after[n], before[n])]
    for name in (n for n in changed if not alike(after[n], resumed.get(n))):
        raise not_saved(module, name, after[name], what)
    state, state_again = module.state_dict(), other.state_dict()
    differing = [name for name in state if not alike(state[name], state_again[name])]
    if differing or not alike(result, again):
        perhaps = [name for name in changed if after[name][1]]  # the others refer to what is saved
        hint = f" (perhaps {', '.join(perhaps)})" if perhaps else ""
        raise UsageError(
            f"{what}: a step that is repeated from the saved state has another "
            f"{differing[0] if differing else 'result'}. It depends on something that no "
            f"checkpoint holds{hint}, such as a list that grows or a random generator of its own. "
            "Keep state in registered buffers, and draw from torch's generator."
        )
    return other


def not_saved(
    module: nn.Module, name: str, value: tuple[object, list[Any]], what: str
) -> UsageError:
    """The error for state that changes and is not saved, with what to do."""
    if name in dict(module.named_buffers()):
        return UsageError(
            f"{what}: its buffer {name} changes in a step, but is not saved: register it without "
            "`persistent=False`."
        )
    structure, leaves = value
    if structure == pytree.tree_structure(0) and type(leaves[0]) in (int, float):
        return UsageError(
            f"{what}: its number {name} changes in a step. It is not saved, and keeps its first "
            "value in a CUDA graph: make it a buffer and write into it, as in "
            f"`self.{leaf(name)}.add_(1)`."
        )
    return UsageError(
        f"{what}: its {name} changes in a step, but no checkpoint holds it, because it is not "
        "registered. Keep what changes in tensors that __init__ registers, with "
        "`self.register_buffer(…)`, and write into them, as in `.mul_(0.9).add_(…)`; draw random "
        "numbers from torch's own generator."
    )


def unsaved(module: nn.Module, besides: tuple[str, ...] = ()) -> Snapshot:
    """A copy of what a module and its parts have beside their `state_dict`."""
    saved, registered = module.state_dict().keys(), registered_in(module)
    found: Snapshot = {
        name: ("buffer", [buffer.detach().clone()])
        for name, buffer in module.named_buffers()
        if name not in saved
    }
    for name, value in unregistered(module, besides).items():
        leaves, structure = pytree.tree_flatten(value)
        found[name] = structure, [copied(x) for x in leaves if id(x) not in registered]
    return found


def unregistered(module: nn.Module, besides: tuple[str, ...] = ()) -> dict[str, Any]:
    """The attributes of a module and its parts that are no weights, buffers or modules."""
    return {
        f"{place}.{name}" if place else name: value
        for place, part in module.named_modules()
        if place.partition(".")[0] not in besides
        for name, value in vars(part).items()
        if name not in TORCHS_OWN
    }


def registered_in(module: nn.Module) -> set[int]:
    """The identities of all that torch knows to belong to the module."""
    things = (module.modules(), module.parameters(), module.buffers())
    return {id(thing) for of_a_kind in things for thing in of_a_kind}


def copied(leaf: Any) -> Any:
    """The value of a leaf, as far as values can be compared; of other objects their type."""
    match leaf:
        case Tensor():
            return leaf.detach().clone()
        case torch.Generator():
            return leaf.get_state()
        case np.random.Generator():
            return repr(leaf.bit_generator.state)
        case random.Random():
            return leaf.getstate()
        case np.ndarray():
            return leaf.tobytes()
        case set():
            return frozenset(leaf)
        case None | bool() | int() | float() | str():
            return leaf
    return type(leaf)


def alike(one: Any, other: Any) -> bool:
    """Whether two values are equal; tensors up to rounding."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or not one.is_floating_point():
            return torch.equal(one, other)
        tolerance = TOLERANCE.get(one.device.type, 0.0)
        a, b = (torch.nan_to_num(x.detach().double()) for x in (one, other))
        return bool((a - b).norm() <= tolerance * (a.norm() + b.norm()))
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return False
    return bool(one == other or (one != one and other != other))


@contextmanager
def keeps_buffers(module: nn.Module, what: str) -> Iterator[None]:
    """Refuse a module that replaces a buffer in here: it must be written in place."""
    before = dict(module.named_buffers())
    yield
    after = dict(module.named_buffers())
    for name in (n for n in {**before, **after} if after.get(n) is not before.get(n)):
        raise UsageError(
            f"{what}: its buffer {name} is replaced in a step. Weight averages, checkpoints and "
            "CUDA graphs use the tensor that __init__ registers: write into it, with "
            f"`self.{leaf(name)}.copy_(…)` or as in `self.{leaf(name)}.mul_(0.9).add_(…)`."
        )


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


def refuse_loose_weights(module: nn.Module, what: str, besides: tuple[str, ...]) -> None:
    """An error if an attribute has weights that nobody will train."""
    registered = registered_in(module)
    for name, value in unregistered(module, besides).items():
        held = (x for x in pytree.tree_leaves(value) if id(x) not in registered)
        if any(isinstance(x, nn.Parameter) or (isinstance(x, nn.Module) and x.state_dict())
               for x in held):  # fmt: skip
            raise UsageError(
                f"{what}: its {name} has weights that torch does not see, so they are neither "
                "trained nor saved. Use nn.ModuleList, nn.ModuleDict or nn.ParameterList instead "
                "of a list or dictionary."
            )


def leaf(name: str) -> str:
    return name.rpartition(".")[2]
