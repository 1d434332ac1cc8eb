"""A net whose logits are shifted when it is tested: logit adjustment after training.

The shift is saved beside the net's weights, so a saved model needs no code of the method's.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

KEY = "logit_shift"  # of the shift among saved tensors; the others keep the net's own names


class Shifted(nn.Module):
    """What a method may return as `final`: the net, with one number added to each class's logit."""

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
