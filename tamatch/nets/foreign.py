"""Nets from elsewhere with this package's interface: timm's, and the user's own."""

import copy
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from .. import dist
from ..errors import UsageError, perhaps
from ..modules import restoring
from ..own.net import Tried, as_out, try_net
from ..own.usercode import blaming
from ..types import Out
from . import CUSTOM, title
from .base import Net
from .pretrained import MEANS

CLASSES = ("classes", "num_classes")  # how the number of classes may be called


class Wrapped(Net):
    """A net from elsewhere, `model`, with this package's interface."""

    def __init__(self, model: nn.Module, *, classes: int, width: int, map_width: int) -> None:
        super().__init__(classes=classes, width=width, map_width=map_width)
        self.model = model

    def loadable(self) -> nn.Module:
        """Weight files name the parameters without our wrapper."""
        return self.model


@dataclass(frozen=True)
class Expected:
    """What the weights that timm publishes for a net expect."""

    size: int  # side of the images in pixels
    patch: int  # images are divided into such squares; 32 pixels for convolutional nets
    normalise: str


def published(name: str) -> Expected:
    """What timm says; for a net without published weights, the usual values."""
    timm, wanted = timm_and_name(name)
    found = timm.get_pretrained_cfg(wanted)
    named = re.search(r"patch(\d+)", wanted)
    patch = int(named[1]) if named else 32
    if found is None:
        return Expected(224, patch, "imagenet")
    normalise = MEANS.get(found.mean[0], "imagenet")
    return Expected(found.input_size[-1], patch, normalise)


def timm_and_name(name: str) -> tuple[Any, str]:
    """The timm package, and what it calls the net."""
    try:
        timm = importlib.import_module("timm")
    except ImportError as error:
        raise UsageError(
            f"{name} needs the timm package, which cannot be imported ({error}). Run `pip install "
            "timm`, or choose a net that `tamatch nets` lists."
        ) from error
    wanted = name.removeprefix("timm/")
    if not timm.is_model(wanted):
        there = [f"timm/{model}" for model in timm.list_models()]
        hint = perhaps(name.split(".")[0], there)
        raise UsageError(f"timm {timm.__version__} has no net {wanted!r}.{hint}")
    return timm, wanted


def build_timm(name: str, classes: int, size: int) -> "TimmNet":
    """Build `timm/NAME` with fresh weights."""
    timm, wanted = timm_and_name(name)
    with blaming(f"--net {name}", f"a net for {size} × {size} pixels (--size)"):
        try:
            model = timm.create_model(wanted, pretrained=False, num_classes=0, img_size=size)
        except TypeError:  # convolutional nets take images of any size and no such argument
            model = timm.create_model(wanted, pretrained=False, num_classes=0)
        with torch.no_grad():
            width = model.eval()(torch.zeros(1, 3, size, size)).shape[1]
    return TimmNet(model.train(), classes, width)


class TimmNet(Wrapped):
    """A timm net without its classifier, and a linear head of our own. `map` is the features."""

    headless = True

    def __init__(self, model: nn.Module, classes: int, width: int) -> None:
        super().__init__(model, classes=classes, width=width, map_width=width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Out:
        """Classify (N, 3, H, W) images."""
        features = self.model(images)
        return self.finish(features, features)

    def converted(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """As timm loads published weights into such a net: renamed, and resized to its images."""
        family = sys.modules[type(self.model).__module__]
        convert = getattr(family, "checkpoint_filter_fn", None)
        if convert is None:
            return tensors
        try:
            return dict(convert(dict(tensors), self.model))
        except Exception:  # another net's weights: the report will say how little of them fits
            return tensors

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """As timm groups the net's parameters; the head comes after its last group."""
        if not hasattr(self.model, "group_matcher"):  # a few have none
            return super().depth_of(parameter)
        head = 1 + max(self._layers.values())
        return self._layers.get(parameter.removeprefix("model."), head), head

    @cached_property
    def _layers(self) -> dict[str, int]:
        group = importlib.import_module("timm.models").group_parameters
        matcher: Any = self.model.group_matcher
        layers: dict[str, int] = group(self.model, matcher(coarse=False), reverse=True)
        return layers


def build_own(name: str, classes: int, size: int) -> Net:
    """Make the net, pass two images through it, and find the features of its last layer."""
    what = f"--net {title(name)}"
    given = CUSTOM.get(name)
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
