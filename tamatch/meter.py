"""What is reported of the steps, summed on the device and read once in a while."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from . import dist


class Meter(nn.Module):
    """Means of named scalars and vectors since the last read; `max_…` names keep the largest."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.names: list[str] = []

    def add_(self, parts: dict[str, Tensor], bad: Tensor) -> None:
        """Take in the values of one step, unless it was a bad one; the first step names them."""
        for name, value in joint(parts).items():
            if name not in self.names:
                self.names.append(name)
                self.register_buffer(name, torch.zeros_like(value, dtype=torch.float64))
            total, value = self.get_buffer(name), value.masked_fill(bad, 0)
            if name.startswith("max_"):
                torch.maximum(total, value.double(), out=total)
            else:
                total.add_(value)
        self.count.add_(~bad)

    def read(self) -> dict[str, float | list[float]]:
        """The means as Python numbers, and a fresh start; nothing, if no step has counted."""
        count = float(self.count)  # here the host waits for the device
        values: dict[str, float | list[float]] = {}
        for name in self.names if count else ():
            total = self.get_buffer(name)
            values[name] = (total if name.startswith("max_") else total / count).tolist()
            total.zero_()
        self.count.zero_()
        return values

    def load_sums(self, sums: dict[str, Tensor]) -> None:
        """Go on from saved sums, which may come before the first step has named them."""
        for name, value in sums.items():
            if name != "count" and name not in self.names:
                self.names.append(name)
                self.register_buffer(name, value.clone().to(self.count.device))
        self.load_state_dict(sums)


def joint(parts: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values of all processes together: their means, and the largest of `max_…`."""
    if dist.alone():
        return parts
    most = {name: dist.max_(v.clone()) for name, v in parts.items() if name.startswith("max_")}
    rest = {name: value.double() for name, value in parts.items() if name not in most}
    flat = dist.mean_(torch.cat([value.flatten() for value in rest.values()]))
    means = torch.split(flat, [value.numel() for value in rest.values()])
    return most | {n: m.view_as(v) for (n, v), m in zip(rest.items(), means, strict=True)}
