"""What training costs: its memory, estimated before the run, and the seconds of its steps."""

import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .. import dist
from ..machine.memory import OutOfMemory, without_autotuning
from ..modules import restoring
from ..nets.base import uncompiled
from ..settings.hardware import available_memory
from .engine import Engine
from .source import Resident, Subset

PROBES = (2, 4)  # images that are sent through the net to see what each one more needs
VIEW_BYTES = 2 * 3 * 4  # bytes per pixel of a view: three floats, and again in the joint batch


@dataclass(frozen=True)
class Estimate:
    """Bytes that training takes at its peak, without what torch and the system take themselves."""

    weights: int  # with their average, their gradients and the method's memories
    optimizer: int
    guard: int  # what undoes a bad step
    images: int  # those that live on the device
    step: int  # views and activations; it alone grows with the batch

    @property
    def total(self) -> int:
        return self.weights + self.optimizer + self.guard + self.images + self.step

    def facts(self) -> dict[str, int]:
        return {**asdict(self), "total": self.total}

    def share_that_fits(self, room: int) -> float:
        """The share of the batch that fits into `room` bytes; half, if all of it seems to fit."""
        share = 1 - (self.total - room) / self.step
        return max(share, 0.0) if share < 1 else 0.5


def estimate(engine: Engine, held_out: Iterable[Subset]) -> Estimate:
    """The memory of training with the net as it is now, with or without recomputed activations.

    A tiny batch shows what the net needs for an image; all views of a step count as if gradients
    flowed through them.
    """
    method, source = engine.method, engine.source
    weights, buffers = [*method.parameters()], [*method.buffers()]
    learning = [p for p in weights if p.requires_grad]
    resident = source.on_device if isinstance(source, Resident) else ()
    tests = (part.images for part in held_out if isinstance(part.images, Tensor))
    names = (method.views.x, method.views.u)
    views = sum(len(n) * len(s) for n, s in zip(names, engine.batch.slots, strict=True))
    pixels = engine.augment.policy.size**2
    return Estimate(
        weights=bytes_of(weights, buffers, learning),
        optimizer=bytes_of(learning) * (2 if isinstance(engine.optimizer, AdamW) else 1),
        guard=engine.guard.nbytes,
        images=bytes_of(resident, tests),
        step=views * VIEW_BYTES * pixels + bytes_of_passes(engine, views),
    )


def bytes_of(*groups: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for group in groups for tensor in group)


def bytes_of_passes(engine: Engine, views: int) -> int:
    """Bytes that a forward and a backward pass hold for `views`: a line through two probes.

    It need not begin at 0: in half precision there are copies of the weights.
    """
    few, more = (probe(engine, count) for count in PROBES)
    each = (more - few) / (PROBES[1] - PROBES[0])
    return round(few + each * (views - PROBES[0]))


def probe(engine: Engine, count: int) -> int:
    """Bytes that the passes of a few images hold, measured; the net stays as it is."""
    net, size = engine.method.net, engine.augment.policy.size
    with engine.on_stream():
        images = torch.zeros(count, 3, size, size, device=engine.device, requires_grad=True)
        # what torch's compiler meets in a dispatch mode it would never compile later
        with (
            uncompiled(), without_autotuning(), restoring(net), dist.acting_alone(), Peak() as peak
        ):  # fmt: skip
            with engine.precision():
                logits = net(images).logits
            torch.autograd.grad(logits.sum(), [images], allow_unused=True)
    return int(peak.most)


def memory_message(needs: Sequence[Estimate], device: torch.device) -> str | None:
    """What to tell before the steps: on a GPU always, elsewhere if memory will hardly suffice."""
    need, there = sum(n.total for n in needs), available_memory(device)
    if device.type != "cuda" and need <= there:
        return None
    what = "Training" if len(needs) == 1 else f"Training {len(needs)} runs in parallel"
    told = f"{what} takes about {gib(need)} of memory;"
    if device.type == "cuda":
        return f"{told} {device} has {gib(there)} free."
    return (
        f"{told} there are {gib(there)}. The system may end it: a smaller --batch and --unlabelled "
        "need less."
    )


def too_large(
    engine: Engine, batch: int, unlabelled: int, held_out: Iterable[Subset], runs: int = 1
) -> OutOfMemory:
    """The error for a batch that does not fit, with one that does.

    Where too many runs train at the same time, it says how many fit.
    """
    need, there = estimate(engine, held_out), available_memory(engine.device)
    if engine.stream is not None:
        there += torch.cuda.memory_allocated(engine.device)  # what training holds now
    if runs > 1 and need.total <= there:
        fit = min(there // need.total, runs - 1)
        return OutOfMemory(
            f"out of memory: {runs} runs at the same time do not fit into the memory of "
            f"{engine.device}, even with recomputed activations: each needs about "
            f"{gib(need.total)}, but there are {gib(there)}. By this estimate {fit} at a time "
            "fit: resume fewer runs in one command."
        )
    share = need.share_that_fits(there)
    fits = [max(1, int(share * size)) for size in (batch, unlabelled)]
    return OutOfMemory(
        f"out of memory: --batch {batch} --unlabelled {unlabelled} does not fit into the memory of "
        f"{engine.device}, even with recomputed activations: it needs about {gib(need.total)}, "
        f"{gib(need.step)} of them for the batch, but there are {gib(there)}. By this estimate "
        f"--batch {fits[0]} --unlabelled {fits[1]} fits: restart with it."
    )


def gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


class Peak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, counts the bytes of new tensors in use, now and at the peak."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self.alive: set[int] = set()  # storages by address

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would load its compiler, for seconds, to hide what follows from it."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._note((args, kwargs), new=False)
        found = func(*args, **(kwargs or {}))
        self._note(found, new=True)
        return found

    def _note(self, values: Any, *, new: bool) -> None:
        for storage in (v.untyped_storage() for v in tree_leaves(values) if isinstance(v, Tensor)):
            if storage._cdata not in self.alive:
                size = storage.nbytes() if new else 0
                self.alive.add(storage._cdata)
                self.now += size
                self.most = max(self.most, self.now)
                weakref.finalize(storage, self._forget, storage._cdata, size)

    def _forget(self, address: int, size: int) -> None:
        self.alive.discard(address)
        self.now -= size


def timed(engine: Engine, times: int, work: Callable[[], object] | None = None) -> float:
    """Seconds that some steps take, or other work of the engine; the device's included."""
    wait(engine)
    began = time.perf_counter()
    for _ in range(times):
        (work or engine.advance)()
    wait(engine)
    return time.perf_counter() - began


def wait(engine: Engine) -> None:
    """Wait until the device has done all that the engine gave it."""
    if engine.stream is not None:
        engine.stream.synchronize()
