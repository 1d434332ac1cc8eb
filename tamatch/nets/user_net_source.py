"""Where a net of the user's own comes from: a file, or an object that was handed over in Python."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from ..errors import UsageError
from ..own import usercode
from ..own.usercode import blaming
from . import is_user_code, title
from .base import Net
from .user_net_check import checked_net

CLASSES = ("classes", "num_classes")  # how the number of classes may be called
CUSTOM = usercode.UserObjects()  # modules, and what makes them


def register(net: Any) -> str:
    """Name a module, or what makes one, so that a run can ask for it: FILE.py:NAME if that works.

    A module itself, or a function that no file has, is found again in this process alone.
    """
    if not (isinstance(net, nn.Module) or callable(net)):
        raise UsageError(
            "net takes a name, FILE.py:NAME, an nn.Module, or a class or function that makes one; "
            f"got {type(net).__name__}."
        )
    return CUSTOM.add(net)


def register_as(name: str, net: Any) -> None:
    """From now on `net` is what is meant by the name that a run has for its net."""
    if not is_user_code(name):
        raise UsageError(f"--net works only for runs with your own net; this one uses {name}.")
    if isinstance(net, str) and not is_user_code(net):
        raise UsageError(f"--net {net}: this run uses your own net; give FILE.py:NAME.")
    own_name = net if isinstance(net, str) else register(net)
    CUSTOM.substitute(name, source(own_name), own_name)


def source(name: str) -> Any:
    """The module, class or function behind a name; that of a file is imported."""
    if name in CUSTOM.things:
        return CUSTOM.things[name]
    if usercode.is_object(name):
        raise UsageError(
            f"the net {name} was passed as a Python object, which is not available here. Pass it "
            "again: tamatch.resume(RUN, net=…), or --net FILE.py:NAME with the class or function "
            "that makes it."
        )
    found = usercode.find("--net", name)
    if not callable(found):
        file, _, attribute = name.rpartition(":")
        raise UsageError(f"--net {name}: {file} has no class or function {attribute}.")
    return found


def build(name: str, classes: int, size: int) -> Net:
    """Make the net, pass two images through it, and find the features of its last layer."""
    what = f"--net {title(name)}"
    given = source(name)
    if isinstance(given, nn.Module):
        with blaming(what, "copying the module"):
            model: Any = copy.deepcopy(given).cpu().train()
    else:
        with blaming(what, "building it"):
            model = make(what, given, classes, size)
    if not isinstance(model, nn.Module):
        raise UsageError(f"{what} must return an nn.Module, but returned a {type(model).__name__}.")
    return checked_net(model, what, classes, size)


def make(what: str, maker: Callable[..., Any], classes: int, size: int) -> Any:
    """Call a class or function: the number of classes comes first or by name, `size` by name."""
    parameters = inspect.signature(maker).parameters.values()
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    known: dict[str, int] = {"size": size} if "size" in names else {}
    first = next((p for p in parameters if p.name != "size"), None)
    if by_name := next((name for name in CLASSES if name in names), None):
        return maker(**known, **{by_name: classes})
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        raise UsageError(
            f"{what} has no argument for the number of classes: it must be the first argument, or "
            "be named classes or num_classes."
        )
    return maker(classes, **known)
