"""A net of the user's own: any `nn.Module` from images to logits, behind our interface."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from .. import dist
from ..machine.precision import without_autocast
from ..modules import restoring
from ..own.usercode import blaming
from ..types import Out
from . import title
from .base import Net, Wrapped


class Head(nn.Linear):
    """A last layer that shows its input, and works in its weights' own precision."""

    seen: Tensor | None = None

    def forward(self, features: Tensor) -> Tensor:
        """Logits of (N, width) features."""
        with without_autocast(features.device):
            self.seen = features.to(self.weight.dtype)
            return super().forward(self.seen)


class UserNet(Wrapped):
    """The user's module; `features` are the input of its last linear layer, if there is one."""

    def __init__(
        self,
        model: nn.Module,
        head_name: str | None,
        shapes: Out,
        *,
        channels_last: bool = True,
        sync_point: str | None = None,
    ) -> None:
        logits, features, of_map = (t[0].numel() for t in shapes)
        super().__init__(model, classes=logits, width=features, map_width=of_map)
        self.head_name, self.channels_last, self.sync_point = head_name, channels_last, sync_point

    def forward(self, images: Tensor) -> Out:
        """Classify (N, 3, H, W) images."""
        if not self.channels_last:
            images = images.contiguous()
        return as_out(self.model(images), self.model, self.head_name)

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """As the module's own `depth_of` says, if it has one."""
        own: Callable[[str], tuple[int, int]] = getattr(self.model, "depth_of", super().depth_of)
        return own(parameter.removeprefix("model."))


def as_out(found: Tensor | Out, model: nn.Module, head_name: str | None) -> Out:
    """What the module returned; without a linear head, the logits are the features, too."""
    if isinstance(found, Out):
        return found
    logits = found if found.dtype.itemsize > 2 else found.float()
    features = logits if head_name is None else take_features(model, head_name)
    return Out(logits, features, features)


def take_features(model: nn.Module, head_name: str) -> Tensor:
    """The features of the pass that has just been made."""
    head = model.get_submodule(head_name)
    assert isinstance(head, Head) and head.seen is not None
    features, head.seen = head.seen, None  # kept longer, it would hold the memory of a step
    return features


@torch.no_grad()
def dry_run_net(net: Net, name: str, size: int, device: torch.device) -> None:
    """Pass two images through the net where it will train, to blame it there for what fails."""
    images = torch.zeros(2, 3, size, size, device=device)
    blamed = blaming(f"--net {title(name)}", f"a pass of 2 images on {device}")
    draws = torch.random.fork_rng([device] if device.type == "cuda" else [])
    with blamed, draws, restoring(net), dist.acting_alone():
        net(images)
