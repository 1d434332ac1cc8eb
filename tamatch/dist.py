"""Several processes, or one: the same calls, which do nothing in a process that is alone."""

from __future__ import annotations

import importlib
import io
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import torch
from torch import Tensor
from torch import distributed as dist
from torch.autograd import Function
from torch.nn import Parameter

from .errors import TamatchError
from .machine import launch

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

TIMEOUT = timedelta(hours=1)  # for the first process, which alone decodes images, tests and saves
BEAT, SILENCE, REMINDER = 5.0, 30.0, 300.0  # seconds, see `watch`
if dist.is_available():
    # Its functions have the group as a default. torch's optimizers import it when first used; by
    # then there is a group, which so outlives its destruction, and gloo's threads can abort the
    # process while the interpreter ends. Imported before, they have none.
    importlib.import_module("torch.distributed.nn.functional")
_acts_alone = False  # as if there were no other process, see `acting_alone`


def alone() -> bool:
    """Whether this is the only process."""
    return _acts_alone or not (dist.is_available() and dist.is_initialized())


@contextmanager
def acting_alone() -> Iterator[None]:
    """Act as if alone in here: for work that the other processes do not do."""
    global _acts_alone
    before, _acts_alone = _acts_alone, True
    try:
        yield
    finally:
        _acts_alone = before


def world() -> int:
    """How many processes train together."""
    return 1 if alone() else dist.get_world_size()


def rank() -> int:
    """Which of them this is; process 0 writes the files."""
    return 0 if alone() else dist.get_rank()


class ProcessLost(TamatchError):
    """Another process of the run is no longer there."""

    in_every_process = True


@contextmanager
def joined() -> Iterator[None]:
    """Join the other processes that torchrun started, if it did: by gloo on CPUs, NCCL on GPUs."""
    if launch.processes() == 1:
        yield
        return
    store, me, count = next(dist.rendezvous("env://", timeout=TIMEOUT))  # type: ignore[attr-defined]
    fresh = dist.PrefixStore(agree_on_prefix(store, me, count), store)  # type: ignore[attr-defined]
    dist.init_process_group(backends(), store=fresh, rank=me, world_size=count, timeout=TIMEOUT)
    ended = Event()
    own: Store = fresh.clone()  # type: ignore[attr-defined]  # gloo may hold the other for long
    watcher = Thread(target=watch, args=(own, me, count, ended), daemon=True)
    watcher.start()
    try:
        yield
        largest(0)  # nobody leaves while another one still has something to do
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise ProcessLost(
            "another process of this run has ended or cannot be reached. The saved checkpoints "
            "are safe: `tamatch resume` continues from the newest one, with any number of "
            "processes."
        ) from error
    finally:
        ended.set()
        watcher.join(BEAT)
        dist.destroy_process_group()


def backends() -> str:
    """What carries the tensors of each device: those of records and counts are always on CPUs.

    Left to itself, torch prepares the GPUs alone on a machine that has some.
    """
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


def watch(store: Store, me: int, count: int, ended: Event) -> None:
    """Send heartbeats, and report processes whose heartbeats stop, for which all others wait.

    The first of the others reports. A process that is merely busy, as process 0 is while it tests
    and saves, continues to send them.
    """
    heard = [(b"", time.monotonic())] * count  # the last sign of each process, and when it came
    silent, told = list[int](), 0.0  # who gives no sign, and when that was said; 0: not by us
    with suppress(RuntimeError):  # the store has ended, and the run with it
        while not ended.wait(BEAT):
            store.set(f"life/{me}", uuid4().hex)
            for n in (n for n in range(count) if store.check([f"life/{n}"])):
                if (sign := store.get(f"life/{n}")) != heard[n][0]:
                    heard[n] = sign, time.monotonic()
            now, before = time.monotonic(), silent
            silent = [n for n in range(count) if now - heard[n][1] > SILENCE]
            first = next(n for n in range(count) if n not in silent)
            if me == first and silent and (silent != before or now - told > REMINDER):
                told, since = now, min(heard[n][1] for n in silent)
                names = ", ".join(map(str, silent))
                print(
                    f"tamatch: waiting for process {names} of {count}, without a sign of life for "
                    f"{now - since:.0f} s: it is stopped, or its machine cannot be reached.",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
            elif told and not silent:
                told = 0.0
                print("tamatch: all processes are there again.", file=sys.stderr, flush=True)


def agree_on_prefix(store: Store, me: int, count: int) -> str:
    """A key prefix that the processes which run now agree on, and no earlier ones.

    torchrun keeps the store when it restarts processes, and so the addresses of dead ones in it.
    Here each process asks under a name of its own, and process 0 answers until all have heard it.
    """
    own = uuid4().hex
    store.set(f"here/{me}", own)
    if me > 0:
        agreed: str = store.get(f"{own}/answer").decode()
        store.set(f"{agreed}/{me}", "heard")
        return agreed
    while missing := [n for n in range(1, count) if not store.check([f"{own}/{n}"])]:
        for n in (n for n in missing if store.check([f"here/{n}"])):
            store.set(f"{store.get(f'here/{n}').decode()}/answer", own)  # it may be a dead one's
        time.sleep(0.02)
    return own


def share(count: int) -> range:
    """Which of `count` rows, spread evenly over all processes, are this one's."""
    mine = count // world()
    return range(rank() * mine, (rank() + 1) * mine)


def mine(rows: Tensor, chunk: int | list[int] | None = None) -> Tensor:
    """This process's share of rows that all processes know; of each chunk, where there are some,
    all of one length or each of its own."""
    if alone():
        return rows
    chunks = torch.split(rows, chunk or len(rows))
    return torch.cat([part[(own := share(len(part))).start : own.stop] for part in chunks])


def mean_(x: Tensor) -> Tensor:
    """Average a tensor over all processes, in place."""
    return x if alone() else sum_(x).div_(world())


def sum_(x: Tensor) -> Tensor:
    """Add up a tensor over all processes, in place."""
    if not alone():
        dist.all_reduce(x)
    return x


def max_(x: Tensor) -> Tensor:
    """The largest of a tensor over all processes, in place."""
    if not alone():
        dist.all_reduce(x, dist.ReduceOp.MAX)
    return x


class _Sum(Function):
    """The sum over all processes.

    Each process's x moves the loss of every process, so its gradient is the sum of theirs.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return sum_(x.clone())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return sum_(grads[0].clone())


def total(x: Tensor) -> Tensor:
    """The sum over all processes, with its gradient."""
    return x if alone() else cast(Tensor, _Sum.apply(x))  # type: ignore[no-untyped-call]


def mean(x: Tensor) -> Tensor:
    """The average over all processes, with its gradient."""
    return x if alone() else total(x) / world()


def gather(x: Tensor) -> Tensor:
    """Join the rows of all processes, in rank order; with their gradient, where x has one."""
    if alone():
        return x
    if x.requires_grad and torch.is_grad_enabled():
        parts = [x if r == rank() else torch.zeros_like(x) for r in range(world())]
        return total(torch.cat(parts))
    x = x.contiguous()
    rows = [torch.empty_like(x) for _ in range(world())]
    dist.all_gather(rows, x)
    return torch.cat(rows)


def mean_grads_(parameters: Iterable[Parameter]) -> None:
    """Average the gradients over all processes: one call for all of them together."""
    if alone():
        return
    grads = [p.grad for p in parameters if p.grad is not None]
    flat = mean_(torch.cat([g.flatten() for g in grads]))
    for grad, part in zip(grads, torch.split(flat, [g.numel() for g in grads]), strict=True):
        grad.copy_(part.view_as(grad))


def largest(number: int) -> int:
    """The largest of a number over all processes: what they agree on between two steps."""
    return number if alone() else int(max_(torch.tensor(number)))


def broadcast(value: Any = None) -> Any:
    """Process 0's value in all processes: tensors, numbers, texts, and lists and dicts of them."""
    if alone():
        return value
    buffer = io.BytesIO()
    torch.save(value, buffer)
    content = torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8)
    length = torch.tensor(len(content))
    dist.broadcast(length, 0)
    if rank() > 0:
        content = torch.empty(int(length), dtype=torch.uint8)
    dist.broadcast(content, 0)
    return torch.load(io.BytesIO(content.numpy().tobytes()), "cpu", weights_only=True)
