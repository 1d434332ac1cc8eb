"""Everything that outlives a step: buffers of fixed shape, written in place, checkpointed."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from . import dist
from .errors import UsageError
from .losses import entropy, kl, normalize
from .types import Task

EPS = 1e-6


class Ema(nn.Module):
    """value ← m·value + (1−m)·x, in float64: in float32 a slow average stops moving."""

    value: Tensor
    fresh: Tensor

    def __init__(self, init: Tensor | float, momentum: float, *, from_first: bool = False) -> None:
        super().__init__()
        self.momentum, self.from_first = momentum, from_first
        self.register_buffer("value", torch.as_tensor(init, dtype=torch.float64).detach().clone())
        self.register_buffer("fresh", torch.tensor(from_first))  # the first x replaces `init`

    def update_(self, x: Tensor) -> Tensor:
        x = x.detach().double()
        if not self.from_first:
            return self.value.lerp_(x, 1.0 - self.momentum)
        rate = torch.where(self.fresh, self.value.new_ones(()), 1.0 - self.momentum)
        self.fresh.zero_()
        return self.value.lerp_(x, rate)

    def update_share_(self, count: Tensor) -> Tensor:
        """As `update_` by count / Σ count; where nothing was counted, the value stays."""
        count = count.detach().double()
        total = count.sum()
        share = count / torch.where(total > 0, total, 1.0)
        return self.update_(torch.where(total > 0, share, self.value))


def approach_(
    mine: tuple[Tensor, ...], goal: tuple[Tensor, ...], rate: float, skip: Tensor | None
) -> None:
    """mine ← mine + rate·(goal − mine), for all tensors at once; nothing happens where `skip` is 1.

    That is a step of gradient descent on ½‖mine − goal‖², and so one fused kernel can do it, which
    looks at `skip` on the device.
    """
    torch._fused_sgd_(
        mine, goal, [], lr=rate, weight_decay=1.0, maximize=True, found_inf=skip,
        momentum=0.0, dampening=0.0, nesterov=False, is_first_step=False,
    )  # fmt: skip


def by_type(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """The tensors sorted into lists of one dtype: what torch's kernels over many tensors want."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


class Window(nn.Module):
    """The mean of the last `length` observations; rows not yet written count as zero."""

    rows: Tensor
    at: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(length, width, dtype=torch.float64))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))

    @property
    def value(self) -> Tensor:
        return self.rows.mean(0)

    def update_(self, x: Tensor) -> Tensor:
        self.rows.index_copy_(0, self.at, x.detach().double()[None])
        self.at.add_(1).remainder_(len(self.rows))
        return self.value


class Ring(nn.Module):
    """A first-in-first-out memory of named rows: `Ring(512, z=64, p=10)` has .z and .p."""

    at: Tensor

    def __init__(self, length: int, **widths: int) -> None:
        super().__init__()
        self.length = length
        for name, width in widths.items():
            self.register_buffer(name, torch.zeros(length, width))
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))

    def push_(self, **rows: Tensor) -> None:
        count = len(next(iter(rows.values())))
        first = max(count - self.length, 0)  # earlier ones would be overwritten at once
        where = (self.at + torch.arange(first, count, device=self.at.device)) % self.length
        for name, new in rows.items():
            memory = self.get_buffer(name)
            memory.index_copy_(0, where, new[first:].detach().to(memory.dtype))
        self.at.add_(count).remainder_(self.length)


class Tally(nn.Module):
    """How often each image of the pool was accepted as a pseudo-label.

    In float64, like the other statistics, so that the guard moves all of them by the same kernels.
    """

    count: Tensor

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(task.unlabelled, dtype=torch.float64))

    def add_(self, ids: Tensor, mask: Tensor) -> None:
        """Count the images of this step, in all processes; nothing without their ids."""
        if not isinstance(ids, Tensor):  # a loop of the user's own need not know them
            return
        self.count.index_add_(0, dist.gather(ids), dist.gather(mask).double())


def last_position(ids: Tensor, size: int, keep: Tensor | None = None) -> Tensor:
    """For each position the last one, among those kept, with the same id in 0 … size-1; or -1."""
    position = torch.arange(len(ids), device=ids.device)
    if keep is not None:
        position = torch.where(keep.bool(), position, -1)
    last = torch.full((size,), -1, dtype=torch.int64, device=ids.device)
    return last.scatter_reduce_(0, ids, position, "amax")[ids]


def write_by_id_(memory: Tensor, ids: Tensor, rows: Tensor, keep: Tensor | None = None) -> None:
    """memory[ids[i]] ← rows[i] where keep[i]; of equal ids the last position wins, on any device.

    Plain `index_copy_` leaves the winner of a repeated id open. Here each id first finds the
    last position that writes it, and every writer then writes that position's row.
    """
    winner = last_position(ids, len(memory), keep)  # -1: nobody may write this id
    row = rows[winner.clamp(min=0)].to(memory.dtype)
    written = (winner >= 0).view(-1, *[1] * (rows.dim() - 1))
    memory.index_copy_(0, ids, torch.where(written, row, memory[ids]))


def ratio(target: Tensor, model: Tensor, eps: float = EPS) -> Tensor:
    """r = p_target / p_model; ε keeps it finite for a class that is never predicted."""
    return (target + eps) / (model + eps)


def effective_weights(counts: Tensor) -> Tensor:
    """1/(1−β^n) with β = 1−1/n̄, divided by its mean over the classes, float64 (C,)."""
    weights = 1 / (1 - (1 - 1 / counts.mean().clamp(min=1 + EPS)).pow(counts))
    return weights / weights.mean()


def log_shares(shares: Tensor) -> Tensor:
    """log π, float32 (C,): what logit adjustment adds to the logits of a loss."""
    return (shares + EPS).log().float()


def start_of_target(task: Task, target: Literal["uniform", "labelled", "prior"]) -> Tensor:
    """The class shares p_target begins with."""
    if target == "prior" and task.prior is None:
        raise UsageError(
            "--target prior needs --prior: the comma-separated class shares of the pool."
        )
    shares = {
        "uniform": (1 / task.classes,) * task.classes,
        "labelled": task.labelled_shares,
        "prior": task.prior,
    }
    return torch.tensor(shares[target], dtype=torch.float64)


class FittedStrength(nn.Module):
    """K for which softmax(z + K·a) fits labelled images, as if all classes had equally many.

    Newton's method on E[v·H(y, softmax(z + K·a))], v = 1/(C·π_y), which is convex in K: each batch
    makes 1−m of a step, by a running curvature. K stays where labels are known by heart, since
    slope and curvature vanish there.
    """

    LEAST, MOST = 1e-3, 4.0  # curvature; |K|
    value: Tensor
    weights: Tensor  # v

    def __init__(self, task: Task, momentum: float) -> None:
        super().__init__()
        self.register_buffer("value", torch.zeros((), dtype=torch.float64))
        shares = start_of_target(task, "labelled")
        weights = torch.where(shares > 0, 1 / (task.classes * shares.clamp(min=EPS)), 0.0)
        self.register_buffer("weights", weights)
        self.curvature = Ema(self.LEAST, momentum)

    def update_(self, logits: Tensor, y: Tensor, a: Tensor) -> None:
        """Take a step on the logits and labels of a batch."""
        z, a = logits.detach().double(), a.double()
        p = (z + self.value * a).softmax(-1)
        mean = p @ a
        weights = self.weights[y]
        slope = (weights * (mean - a[y])).mean()
        curvature = (weights * (p @ a.square() - mean.square())).mean()
        slope, curvature = dist.mean_(torch.stack([slope, curvature])).unbind()
        step = slope / self.curvature.update_(curvature).clamp(min=self.LEAST)
        self.value.sub_((1 - self.curvature.momentum) * step).clamp_(-self.MOST, self.MOST)


class Status(nn.Module):
    """The learning status: what the model predicts on average against what it should.

    p_model ← λm·p_model + (1−λm)·mean(p^w), or the mean of the last `window` batches;
    p_target ← λt·p_target + (1−λt)·(p_model, or the mean labelled prediction).

    With `late`, a step uses what the steps before it left, and adds its own afterwards. With
    `of="generated"`, which is late as well, p_model is the mean of what pseudo-labels are made of.
    """

    def __init__(
        self,
        task: Task,
        *,
        momentum: float = 0.999,
        target: Literal["uniform", "labelled", "prior"] = "uniform",
        target_momentum: float = 1.0,
        follow: Literal["model", "labelled"] = "model",
        window: int = 0,
        from_first: bool = False,
        eps: float = EPS,
        late: bool = False,
        of: Literal["raw", "generated"] = "raw",
    ) -> None:
        super().__init__()
        self.eps, self.of, self.late = eps, of, late or of == "generated"
        uniform = torch.full((task.classes,), 1 / task.classes, dtype=torch.float64)
        self.model: Ema | Window = (
            Window(window, task.classes)
            if window
            else Ema(uniform, momentum, from_first=from_first)
        )
        self.target = Ema(start_of_target(task, target), target_momentum)
        self.follow = follow

    def observe_(self, p: Tensor, p_x: Tensor) -> None:
        """Update p_model, then p_target; both are global over all processes."""
        self.model.update_(dist.mean_(p.detach().double().mean(0)))
        if self.target.momentum < 1:
            followed = self.model.value
            if self.follow == "labelled":
                followed = dist.mean_(p_x.detach().double().mean(0))
            self.target.update_(followed)

    @property
    def shares(self) -> Tensor:
        """p_model for reports: it sums to 1 even while its window is not full yet."""
        return normalize(self.model.value) if isinstance(self.model, Window) else self.model.value

    @property
    def ratio(self) -> Tensor:
        """r = p_target / p_model, float32 (C,)."""
        return ratio(self.target.value, self.model.value, self.eps).float()

    def align(self, p: Tensor) -> Tensor:
        """Normalize(p ⊙ r), (N, C): the predictions moved towards p_target."""
        return normalize(p * self.ratio)

    def restore(self, p: Tensor) -> Tensor:
        """Normalize(p / r), (N, C): predictions that favour p_target moved towards p_model."""
        return normalize(p / self.ratio)

    @property
    def bound(self) -> Tensor:
        """r_max = 1 + KL[p_model ‖ p_target] / (H(p_model) / C), float32 scalar."""
        p, q = self.model.value, self.target.value.clamp(min=EPS)
        return (1 + kl(p, q) / (entropy(p).clamp(min=1e-12) / len(p))).float()
