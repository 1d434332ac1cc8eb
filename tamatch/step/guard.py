"""Undoes steps whose values are not finite, on the device and without waiting for the host."""

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .. import dist
from ..methods.base import Method
from ..stats import by_type

ALLOWED_BAD_STEPS = 3  # of a run; after one more nothing moves any longer


class Guard(nn.Module):
    """Judges each step on the device, and undoes the bad ones there.

    A step is bad if its loss, a gradient or a statistic that it wrote is not finite. The fused
    optimizers read `found_inf` and leave weights and moments alone, as the method's average does
    with `skipped`; the rest of the state, which is small, is remembered before each step and put
    back after a bad one. One bad step too many freezes the run as it was before that step, so
    that the step can be replayed.
    """

    skipped: Tensor  # 1.0 while the present step does not count
    count: Tensor  # bad steps since the start; in a frozen run, all steps after them as well

    def __init__(self, method: Method, optimizer: Optimizer) -> None:
        super().__init__()
        device = next(method.parameters()).device
        self.register_buffer("skipped", torch.zeros((), dtype=torch.float32, device=device), False)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64, device=device))
        self.one = torch.ones((), dtype=torch.float32, device=device)
        optimizer.found_inf, optimizer.grad_scale = self.skipped, None  # type: ignore[attr-defined]
        method.skipped = self.skipped
        self.learning = by_type(p for p in method.parameters() if p.requires_grad)
        floats = (b for b in method.buffers() if b.is_floating_point())
        self.statistics = by_type(b for b in floats if b.isfinite().all())  # some may begin as ∞
        own = {*method.average.parameters()} if method.average is not None else set()
        rest = [p for p in method.parameters() if not p.requires_grad and p not in own]
        self.state = [Snapshot(tensors) for tensors in by_type([*method.buffers(), *rest])]

    @property
    def nbytes(self) -> int:
        """What undoing takes: the state before a step, after it, and the one that is chosen."""
        return sum(tensors.both.nbytes + tensors.chosen.nbytes for tensors in self.state)

    def remember(self) -> None:
        """Before a step: note all state that is not the optimizer's."""
        for tensors in self.state:
            tensors.remember()

    @torch.no_grad()
    def judge(self, loss: Tensor) -> None:
        """Between the gradients and the update: is all of it finite?"""
        self.skipped.copy_(self.count > ALLOWED_BAD_STEPS)
        grads = [[p.grad for p in same if p.grad is not None] for same in self.learning]
        for tensors in ([loss.detach()], *grads, *self.statistics):
            torch._amp_foreach_non_finite_check_and_unscale_(tensors, self.skipped, self.one)
        dist.max_(self.skipped)  # bad for one process is bad for all
        self.count.add_(self.skipped)

    def undo(self) -> None:
        """After a step: if it was bad, put back what was noted."""
        row = self.skipped.long().view(1)
        for tensors in self.state:
            tensors.choose(row)

    def put_back(self) -> None:
        """Undo a step that did not come to its update."""
        self.skipped.fill_(1.0)
        self.undo()


class Snapshot:
    """Tensors of one type after (row 0) and before (row 1) a step, all moved by a few kernels."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.views = [t.as_strided((t.numel(),), (1,)) for t in tensors]  # as they lie in memory
        sizes = [len(view) for view in self.views]
        self.after, self.before = self.both = self.views[0].new_empty(2, sum(sizes))
        self.chosen = torch.empty_like(self.both[:1])
        self.parts = torch.split(self.chosen[0], sizes)

    def remember(self) -> None:
        torch.cat(self.views, out=self.before)

    def choose(self, row: Tensor) -> None:
        torch.cat(self.views, out=self.after)
        torch.index_select(self.both, 0, row, out=self.chosen)
        torch._foreach_copy_(self.views, self.parts)
