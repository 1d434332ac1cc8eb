"""Tries a net of the user's own on two images: its features, its state, and where it waits.

Where code makes the host wait for the device, no CUDA graph can capture it.
"""

import copy
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import UsageError
from ..machine.precision import without_autocast
from ..modules import make_buffers_contiguous
from ..types import Out
from .state import check_resume
from .usercode import blaming, innermost_user_line

IMAGES = 2
aten = torch.ops.aten
SYNCHRONISING = {
    aten._local_scalar_dense, aten.is_nonzero, aten.equal, aten.nonzero, aten.masked_select,
    aten.bincount, aten._unique2, aten.unique_dim,
}  # fmt: skip
COPIES = {Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.cpu}


class Tried(NamedTuple):
    """What a trial has shown of a net."""

    head_name: str | None  # of its last linear layer
    shown: Out  # for the images of the trial, in training
    channels_last: bool  # whether it works in that order of memory
    sync_point: str | None  # where it makes the host wait for the device


class Head(nn.Linear):
    """A last layer that shows its input, and works in its weights' own precision."""

    seen: Tensor | None = None

    def forward(self, features: Tensor) -> Tensor:
        """Logits of (N, width) features."""
        with without_autocast(features.device):
            self.seen = features.to(self.weight.dtype)
            return super().forward(self.seen)


def try_net(model: nn.Module, what: str, classes: int, size: int) -> Tried:
    """Pass two images through the net, once in eval mode and then as two steps of a training.

    Eval mode comes first, where lazy layers draw their weights; the training is that of a copy.
    """
    images = torch.linspace(-1, 1, IMAGES * 3 * size**2).reshape(IMAGES, 3, size, size)
    doing = f"a pass of {IMAGES} images of 3 × {size} × {size}"
    with torch.no_grad(), blaming(what, doing), linear_calls(model.eval(), classes) as calls:
        found = model(images)
    check(found, what, classes, size)
    check_state(model, what)
    head_name = last_linear(calls, found)
    if head_name is not None:
        model.get_submodule(head_name).__class__ = Head
    make_buffers_contiguous(model)
    with blaming(what, "copying the module"):
        trial, other = (copy.deepcopy(model.train()) for _ in range(2))
    outputs: list[Any] = []

    def step(module: nn.Module, number: int) -> Tensor:
        torch.manual_seed(number)
        with blaming(what, f"{doing} in training"):
            outputs.append(module(images))
        check(outputs[-1], what, classes, size, " in training")
        logits: Tensor = getattr(outputs[-1], "logits", outputs[-1])
        return logits

    with torch.random.fork_rng(devices=[]):
        check_resume(trial, lambda: other, step, what)
        if head_name is not None and other.get_submodule(head_name).seen is None:
            head_name = None  # it is for predictions alone
        shown = as_out(outputs[-1], other, head_name)
        if not shown.logits.requires_grad:
            raise UsageError(
                f"{what}: its output has no gradient, so nothing in it can be trained."
            )
        with torch.no_grad():
            with SyncDetector() as waits:
                other(images)
            return Tried(head_name, shown, accepts_channels_last(other, images), waits.place)


def as_out(found: Tensor | Out, model: nn.Module, head_name: str | None) -> Out:
    """What the module returned; without a linear head, the logits are the features, too."""
    if isinstance(found, Out):
        return found
    logits = features = found if found.dtype.itemsize > 2 else found.float()
    if head_name is not None:
        features = take_features(model, head_name)
    return Out(logits, features, features)


def take_features(model: nn.Module, head_name: str) -> Tensor:
    """The features of the pass that has just been made."""
    head = model.get_submodule(head_name)
    assert isinstance(head, Head) and head.seen is not None
    features, head.seen = head.seen, None  # kept longer, it would hold the memory of a step
    return features


@contextmanager
def linear_calls(model: nn.Module, classes: int) -> Iterator[list[tuple[str, Tensor]]]:
    """Name and output of each call of a linear layer that makes a row of `classes` an image."""
    calls: list[tuple[str, Tensor]] = []

    def note(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda module, given, output: calls.append((name, output))

    kinds = (nn.Linear, nn.LazyLinear)  # which becomes the other one in its first call
    layers = ((n, m) for n, m in model.named_modules() if type(m) in kinds)
    hooks = [m.register_forward_hook(note(n)) for n, m in layers if m.out_features == classes]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def last_linear(calls: list[tuple[str, Tensor]], found: Tensor | Out) -> str | None:
    """The layer whose output is the net's, or else the last one called; None if there is none."""
    if isinstance(found, Out):
        return None
    rows = [(name, output) for name, output in calls if output.shape == found.shape]
    return next((n for n, output in rows if output is found), rows[-1][0] if rows else None)


def accepts_channels_last(trial: nn.Module, images: Tensor) -> bool:
    """Whether it works in the order that is fastest on a GPU; the module is lost for other use."""
    order = torch.channels_last
    try:
        trial.to(memory_format=order)(images.to(memory_format=order))  # type: ignore[call-overload]
    except RuntimeError:
        return False
    return True


def check(found: Any, what: str, classes: int, size: int, when: str = "") -> None:
    """Refuse what no method can train on."""
    tensors = tuple(found) if isinstance(found, Out) else (found,)
    fits = all(has_rows(tensor) for tensor in tensors) and all(t.ndim == 2 for t in tensors[:2])
    if not fits or tensors[0].shape[1] != classes:
        shown = " and ".join(map(described, tensors))
        raise UsageError(
            f"{what} returns {shown} for {IMAGES} images of 3 × {size} × {size}{when}; expected "
            f"logits, a tensor of {IMAGES} × {classes} floats."
        )
    logits = tensors[0].detach()
    if bool((logits >= 0).all()) and bool((logits.sum(-1) - 1).abs().max() < 1e-4):
        raise UsageError(
            f"{what} returns probabilities{when}: its rows sum to 1. Expected logits: remove the "
            "softmax at its end."
        )


def has_rows(value: Any) -> bool:
    """Whether it has numbers for each image."""
    numbers = isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2
    return numbers and len(value) == IMAGES


def described(value: Any) -> str:
    if isinstance(value, Tensor):
        kind = "" if value.is_floating_point() else f" ({str(value.dtype).removeprefix('torch.')})"
        return f"a tensor of {' × '.join(map(str, value.shape)) or 'no dimension'}{kind}"
    return f"a {type(value).__name__}"


def check_state(model: nn.Module, what: str) -> None:
    """All that is trained or counted must be a tensor, or a saved model would lack it."""
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            raise UsageError(
                f"{what}: {name} in its state_dict is a {type(value).__name__}, but only tensors "
                "can be saved. Make it a buffer."
            )


class SyncDetector(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, notes the first place that reads a value or makes a shape from values."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.place: str | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = func.overloadpacket
        if packet in SYNCHRONISING or (packet is aten.index and masked(args[1])):
            self.note()
        return func(*args, **(kwargs or {}))

    def note(self) -> None:
        """Keep the line that is being executed, if it is the first."""
        if self.place is None:
            self.place = innermost_user_line(traceback.extract_stack()) or "in a layer of its own"


class CopyDetector(TorchFunctionMode):
    """While active, also notes copies to the host, which are no operation on a CPU."""

    def __init__(self, found: SyncDetector) -> None:
        super().__init__()
        self.found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in COPIES:
            self.found.note()
        return func(*args, **(kwargs or {}))


def masked(indices: Any) -> bool:
    """As in `x[x > 0]`: how many there are is not known before it is computed."""
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)
