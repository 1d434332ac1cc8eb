"""What is reported of the steps, summed on the device and read once in a while."""

import torch
from torch import Tensor

from .. import dist
from ..errors import UsageError


class Meter:
    """Means of named scalars and vectors since the last read; `max_…` names keep the largest.

    The first step says which names there are. All values are parts of one flat tensor, so that a
    step needs a handful of kernels whatever it reports.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self.shapes: dict[str, torch.Size] = {}

    @torch.no_grad()
    def add_(self, parts: dict[str, Tensor], bad: Tensor) -> None:
        """Take in the values of one step, unless it was a bad one."""
        parts = joint(parts)
        if not self.shapes:
            self._lay_out(parts)
        self._compare({name: value.shape for name, value in parts.items()})
        values = [parts[name] for name in self.shapes]
        for dtype in {value.dtype for value in values}:
            here = [i for i, value in enumerate(values) if value.dtype == dtype]
            torch._foreach_copy_([self.present[i] for i in here], [values[i] for i in here])
        self.step.masked_fill_(bad, 0)
        largest = torch.maximum(self.total, self.step)
        torch.where(self.is_max, largest, self.total.add_(self.step), out=self.total)
        self.count.add_(~bad)

    def read(self) -> dict[str, float | list[float]]:
        """The means as Python numbers, and a fresh start; nothing, if no step has counted."""
        count = float(self.count)  # here the host waits for the device
        values: dict[str, float | list[float]] = {}
        if count:
            means = torch.where(self.is_max, self.total, self.total / count).cpu()
            parts = self._cut(means)
            values = {name: part.tolist() for name, part in zip(self.shapes, parts, strict=True)}
            self.total.zero_()
        self.count.zero_()
        return values

    def state_dict(self) -> dict[str, Tensor]:
        """The sums by name, and of how many steps they are."""
        totals = self._cut(self.total) if self.shapes else []
        return {"count": self.count, **dict(zip(self.shapes, totals, strict=True))}

    def load_state_dict(self, sums: dict[str, Tensor]) -> None:
        """Go on from saved sums."""
        self.count.copy_(sums["count"])
        parts = {name: value for name, value in sums.items() if name != "count"}
        if parts and not self.shapes:
            self._lay_out(parts)
        for name, total in zip(self.shapes, self._cut(self.total) if parts else [], strict=True):
            total.copy_(parts[name])

    def _lay_out(self, parts: dict[str, Tensor]) -> None:
        self.shapes = {name: value.shape for name, value in parts.items()}
        largest = [name.startswith("max_") for name, v in parts.items() for _ in range(v.numel())]
        device = self.count.device
        self.is_max = torch.tensor(largest, device=device)
        self.total = torch.zeros(len(largest), dtype=torch.float64, device=device)
        self.step = torch.zeros_like(self.total)
        self.present = self._cut(self.step)

    def _compare(self, shapes: dict[str, torch.Size]) -> None:
        names = {**self.shapes, **shapes}
        if other := [n for n in names if shapes.get(n) != self.shapes.get(n)]:
            raise UsageError(
                f"the part {other[0]!r} of the method's loss is missing in some steps, or changes "
                "its shape. Return the same parts in every step, as zeros where there is nothing "
                "to report."
            )

    def _cut(self, line: Tensor) -> list[Tensor]:
        shapes = self.shapes.values()
        pieces = torch.split(line, [shape.numel() for shape in shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def joint(parts: dict[str, Tensor]) -> dict[str, Tensor]:
    """The values of all processes together: their means, and the largest of `max_…`."""
    if dist.alone():
        return parts
    most = {name: dist.max_(v.clone()) for name, v in parts.items() if name.startswith("max_")}
    rest = {name: value.double() for name, value in parts.items() if name not in most}
    flat = dist.mean_(torch.cat([value.flatten() for value in rest.values()]))
    means = torch.split(flat, [value.numel() for value in rest.values()])
    return most | {n: m.view_as(v) for (n, v), m in zip(rest.items(), means, strict=True)}
