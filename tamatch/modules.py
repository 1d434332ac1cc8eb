"""Torch modules: BatchNorm statistics, restoring state, and nets whose logits are shifted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

KEY = "logit_shift"  # of the shift among saved tensors; the others keep the net's own names


def norms_of(*modules: nn.Module) -> list[_BatchNorm]:
    return [m for module in modules for m in module.modules() if isinstance(m, _BatchNorm)]


@contextmanager
def tracking(norms: Sequence[_BatchNorm], tracked: Sequence[bool]) -> Iterator[None]:
    """Set for each layer whether it updates its running statistics in here."""
    before = [norm.track_running_stats for norm in norms]
    try:
        for norm, now in zip(norms, tracked, strict=True):
            norm.track_running_stats = now
        yield
    finally:
        for norm, then in zip(norms, before, strict=True):
            norm.track_running_stats = then


@contextmanager
def restoring(module: nn.Module, *, weights: bool = False) -> Iterator[None]:
    """Restore the module's buffers (BatchNorm's statistics) afterwards, and with `weights` also its
    parameters.
    """
    tensors = [*module.buffers(), *(module.parameters() if weights else ())]
    before = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)


def make_buffers_contiguous(module: nn.Module) -> None:
    """Make buffers contiguous: elements of an expanded one share memory, and cannot be written."""
    for part in module.modules():
        for name, buffer in part._buffers.items():
            if buffer is not None and not is_lazy(buffer):
                part._buffers[name] = buffer.contiguous()


class Shifted(nn.Module):
    """What a method may return as `final`: the net, with one number added to each class's logit.

    Used for logit adjustment after training. The shift is saved beside the net's weights, so a
    saved model does not need the method's code.
    """

    logit_shift: Tensor

    def __init__(self, net: nn.Module, shift: Tensor) -> None:
        super().__init__()
        self.net = net
        self.register_buffer(KEY, shift.detach())

    def forward(self, images: Tensor) -> Any:
        out = self.net(images)
        return out._replace(logits=out.logits + self.logit_shift)

    @property
    def width(self) -> int:
        """Length of a row of the net's features."""
        found: int = self.net.width  # type: ignore[assignment]
        return found


def unshifted(net: nn.Module) -> nn.Module:
    """The net itself."""
    return net.net if isinstance(net, Shifted) else net


def tensors_of(net: nn.Module) -> dict[str, Tensor]:
    """What is saved of a net: its weights under their own names, and its shift, if it has one."""
    tensors = dict(unshifted(net).state_dict())
    return {**tensors, KEY: net.logit_shift} if isinstance(net, Shifted) else tensors


def with_tensors(net: nn.Module, tensors: dict[str, Tensor]) -> nn.Module:
    """A net with saved tensors, shifted if one of them says so."""
    weights = {name: tensor for name, tensor in tensors.items() if name != KEY}
    net.load_state_dict(weights)
    return Shifted(net, tensors[KEY]) if KEY in tensors else net
