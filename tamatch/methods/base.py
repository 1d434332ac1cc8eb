"""What every method is: a module from a batch to a loss that owns all it needs."""

from __future__ import annotations  # the reference page shows them as they are written

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from .. import dist
from ..errors import UsageError
from ..kinds import Parity, WeightMomentum
from ..machine.branches import Branch, Result, branch_of
from ..machine.precision import without_autocast
from ..modules import norms_of, tracking
from ..stats import approach_, by_type
from ..types import Batch, Loss, Out, Task, Views


class Method(nn.Module):
    """The engine knows six names of a method: views, forward, after_step, final, parameters
    and state_dict. Extra heads, teachers and memories are submodules or buffers, so they train,
    move and checkpoint without anybody else knowing of them.
    """

    views: Views = Views()
    compiles: ClassVar[bool] = False  # whether this class's `forward` is fit for torch.compile
    alters_inputs: ClassVar[bool] = False  # whether it mixes, turns or perturbs them by itself
    skipped: Tensor | None = None  # 1.0, on the device, while the engine finds a step bad

    def __init__(
        self, net: nn.Module, task: Task, *, ema: WeightMomentum = 0.0, parity: Parity = "ours"
    ) -> None:
        super().__init__()
        self.net, self.task = net, task
        self.ema, self.parity = ema, parity
        self.average = copy.deepcopy(net).requires_grad_(False) if ema > 0 else None

    def forward(self, batch: Batch) -> Loss:
        """The loss of a batch; every method defines its own."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def accelerate(self) -> None:
        """Compile for speed on a GPU: no state changes, and results change by rounding only."""
        author = next(c for c in type(self).__mro__ if "forward" in vars(c))
        if vars(author).get("compiles", False) and dist.alone():
            # The net is fast in a way of its own; what follows are a hundred tiny kernels.
            self.predict = torch.compiler.disable(self.predict)  # type: ignore
            self.forward = torch.compile(self.forward, dynamic=False)  # type: ignore[method-assign]

    def predict(self, *images: Tensor, constant: int | None = None) -> tuple[Out, ...]:
        """One pass over the concatenation, so that BatchNorm sees all views together.

        `constant` is the view whose predictions are constants: no gradient flows through them. A
        net that treats each image independently computes this view in a separate pass without
        gradients, which saves its backward pass; a captured step runs it in parallel.
        """
        if constant is not None and getattr(self.net, "independent", False):
            view = images[constant]
            with branch_of(view) as beside:
                seen = beside(torch.no_grad()(lambda: Out(*self.net(view))))
                others = self.predict(*images[:constant], *images[constant + 1 :])
            return *others[:constant], seen, *others[constant:]
        if not all(map(torch.is_tensor, images)) or len({x.shape[1:] for x in images}) > 1:
            # Dictionaries, or texts of several lengths, in a loop of the user's own.
            return tuple(self._alone(view, i == constant) for i, view in enumerate(images))
        sizes = [len(x) for x in images]
        parts = (t.split(sizes) for t in self.net(torch.cat(images)))
        outs = [Out(*part) for part in zip(*parts, strict=True)]
        if constant is not None:
            outs[constant] = Out(*(t.detach() for t in outs[constant]))
        return tuple(outs)

    def _alone(self, view: Tensor, constant: bool) -> Out:
        """A pass over one view by itself."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not constant):
            return Out(*self.net(view))

    @torch.no_grad()
    def after_step(self) -> None:
        """Move the average: parameters slowly, BatchNorm statistics at once."""
        if self.average is not None:
            (weights, buffers), (live_weights, live_buffers) = self._averaged
            approach_(weights, live_weights, 1 - self.ema, self.skipped)
            for mine, live in zip(by_type(buffers), by_type(live_buffers), strict=True):
                torch._foreach_copy_(mine, live)

    @cached_property
    def _averaged(self) -> list[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
        """Parameters and buffers of the average and of the net: slow to collect in every step."""
        assert self.average is not None
        pair = (self.average, self.net)  # a subclass may test another net than the average
        return [(tuple(net.parameters()), tuple(net.buffers())) for net in pair]

    @property
    def final(self) -> nn.Module:
        """The net that is evaluated and exported: the average where there is one.

        A method may return it as a `Shifted`, which adds a constant to each class's logit.
        """
        return self.net if self.average is None else self.average


class Head(nn.Linear):
    """A second linear layer on a net's features; its logits are float32, as the net's are."""

    def __init__(self, net: nn.Module, task: Task) -> None:
        super().__init__(cast(int, net.width), task.classes)

    def forward(self, out: Out) -> Tensor:  # type: ignore[override]
        with without_autocast(out.features.device):
            return super().forward(out.features)


def quarter_turned(images: Tensor, turns: int) -> Tensor:
    """Images turned counter-clockwise; what is no square image has no way up and stays as it is."""
    square = images.ndim == 4 and images.shape[-1] == images.shape[-2]
    return images.rot90(turns, (-2, -1)) if square else images


def gradient_of(value: Tensor, images: Tensor) -> Tensor:
    """How a value that a net computed from images changes with them."""
    reached = value.requires_grad  # by the images or by weights
    gradient = torch.autograd.grad(value, images, allow_unused=True)[0] if reached else None
    if gradient is None:
        raise UsageError(
            "this method needs the gradient with respect to the images, but none flows back "
            "through the net. Do not run frozen parts of the net under torch.no_grad()."
        )
    return gradient


@contextmanager
def frozen_weights(net: nn.Module) -> Iterator[None]:
    """The weights are constants, so that a gradient of the images costs none of theirs."""
    weights = [weight for weight in net.parameters() if weight.requires_grad]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


@contextmanager
def constant_branch(images: Tensor, *nets: nn.Module) -> Iterator[Branch]:
    """For predictions that serve as constants, such as guesses: no gradient goes through them, and
    the statistics of these nets stay as they are. In a captured step, work that is given to the
    yielded function runs in parallel with what else is done in here.
    """
    with branch_of(images) as beside:

        def aside(predict: Callable[[], Result]) -> Result:
            def without_traces() -> Result:
                with torch.no_grad(), frozen_norm(*nets):
                    return predict()

            return beside(without_traces)

        yield aside


@contextmanager
def frozen_norm(*nets: nn.Module) -> Iterator[None]:
    """BatchNorm still normalises by the batch, but its running statistics stay as they are.

    They are not even written: such a pass may run beside another.
    """
    norms = norms_of(*nets)
    with tracking(norms, [False] * len(norms)):
        yield
