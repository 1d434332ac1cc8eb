"""Any net of the timm package, if the user has it, behind this package's interface."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UsageError, perhaps
from ..own.usercode import blaming
from ..types import Out
from .base import Wrapped
from .pretrained import MEANS


@dataclass(frozen=True)
class Expected:
    """What the weights that timm publishes for a net expect."""

    size: int  # side of the images in pixels
    patch: int  # images are divided into such squares; 32 pixels for convolutional nets
    normalise: str


def published(name: str) -> Expected:
    """Ask timm; a net that it publishes no weights for is taken to be like most."""
    timm, wanted = find(name)
    found = timm.get_pretrained_cfg(wanted)
    named = re.search(r"patch(\d+)", wanted)
    patch = int(named[1]) if named else 32
    if found is None:
        return Expected(224, patch, "imagenet")
    normalise = MEANS.get(found.mean[0], "imagenet")
    return Expected(found.input_size[-1], patch, normalise)


def find(name: str) -> tuple[Any, str]:
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


def build(name: str, classes: int, size: int) -> TimmNet:
    """Build `timm/NAME` with fresh weights."""
    timm, wanted = find(name)
    with blaming(f"--net {name}", f"a net for {size} × {size} pixels (--size)"):
        model = _create(timm, wanted, size)
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


def _create(timm: Any, name: str, size: int) -> nn.Module:
    model: nn.Module
    try:
        model = timm.create_model(name, pretrained=False, num_classes=0, img_size=size)
    except TypeError:  # convolutional nets take images of any size and no such argument
        model = timm.create_model(name, pretrained=False, num_classes=0)
    return model
