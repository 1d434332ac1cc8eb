"""A net of the user's own, from a file or handed over in Python, behind our interface."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import dist
from ..errors import UsageError
from ..modules import restoring
from ..own import usercode
from ..own.net import Tried, as_out, try_net
from ..own.usercode import blaming
from ..types import Out
from . import is_user_code, title
from .base import Net, Wrapped

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
    tried = try_net(model, what, classes, size)
    return model if isinstance(model, Net) else UserNet(model, tried)


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


class UserNet(Wrapped):
    """The user's module; `features` are the input of its last linear layer, if there is one."""

    def __init__(self, model: nn.Module, tried: Tried) -> None:
        logits, features, of_map = (t[0].numel() for t in tried.shown)
        super().__init__(model, classes=logits, width=features, map_width=of_map)
        self.head_name = tried.head_name
        self.channels_last, self.sync_point = tried.channels_last, tried.sync_point

    def forward(self, images: Tensor) -> Out:
        """Classify (N, 3, H, W) images."""
        if not self.channels_last:
            images = images.contiguous()
        return as_out(self.model(images), self.model, self.head_name)

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """As the module's own `depth_of` says, if it has one."""
        own: Callable[[str], tuple[int, int]] = getattr(self.model, "depth_of", super().depth_of)
        return own(parameter.removeprefix("model."))


@torch.no_grad()
def dry_run_net(net: Net, name: str, size: int, device: torch.device) -> None:
    """Pass two images through the net where it will train, to blame it there for what fails."""
    images = torch.zeros(2, 3, size, size, device=device)
    blamed = blaming(f"--net {title(name)}", f"a pass of 2 images on {device}")
    draws = torch.random.fork_rng([device] if device.type == "cuda" else [])
    with blamed, draws, restoring(net), dist.acting_alone():
        net(images)
