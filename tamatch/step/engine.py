"""One training step and what surrounds it: batch, loss, update, capture, evaluation, state.

Also one CUDA graph that does a step of several engines at once.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .. import dist
from ..augment import Augment
from ..machine.branches import recorded, working_on
from ..machine.memory import detecting_out_of_memory, free_memory, in_batches
from ..methods.base import Method
from ..nets.base import recompute, recomputes, uncompiled
from ..types import Batch
from .batches import Batches, Prefetcher
from .guard import Guard
from .meter import Meter
from .optim import schedule, set_lr_
from .source import OnHost, Source, stream_key

WARM_STEPS = 3  # real eager steps before the capture: lazy initialisation must not be recorded


@dataclass(frozen=True)
class Pace:
    """The length of a run, the warm-up of its learning rate, and the seed of its steps."""

    steps: int
    warmup: int = 0
    seed: int = 0


class Engine:
    """Trains a method. A step is a pure function of (seed, step) and the saved state."""

    def __init__(
        self,
        method: Method,
        optimizer: Optimizer,
        source: Source,
        augment: Augment,
        pace: Pace,
        *,
        autocast: torch.dtype | None = None,
        graph: bool = False,
    ) -> None:
        self.method, self.optimizer, self.source, self.augment = method, optimizer, source, augment
        self.pace, self.autocast, self.use_graph = pace, autocast, graph
        self.device = source.device
        self.device_step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.steps_done = 0  # the same number on the host
        self.eager_steps = 0  # in this process
        self.meter = Meter(self.device)
        self.guard = Guard(method, optimizer)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.batch = Batches(source, augment, method.views, pace.steps)
        cuda = self.device.type == "cuda"
        self.prefetcher = Prefetcher(source, self.batch) if cuda else None
        self.stream = torch.cuda.Stream(self.device) if cuda else None  # type: ignore[no-untyped-call]

    def step(self) -> None:
        """Everything that happens to a batch; nothing in here waits for the device."""
        if self.prefetcher is None:
            self.learn(self.batch(self.device_step))
        else:
            with self.prefetcher.current(self.device_step) as batch:
                self.learn(batch)
        self.device_step.add_(1)

    def learn(self, batch: Batch) -> None:
        """Loss, gradients and update, then the method's `after_step`, the guard and the meters."""
        self.guard.remember()
        set_lr_(self.optimizer, schedule(self.device_step, self.pace.steps, self.pace.warmup))
        with self.precision():
            loss = self.method(batch)
        loss.total.backward()
        dist.mean_grads_(self.method.parameters())
        self.guard.judge(loss.total)
        self.optimizer.step()  # skipped by itself if the step is bad
        self.optimizer.zero_grad()
        self.method.after_step()
        self.guard.undo()
        self.meter.add_({"total": loss.total, **loss.parts}, self.guard.skipped.bool())

    def precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, self.autocast, enabled=self.autocast is not None)

    def advance(self) -> None:
        """Do one step: replay it where it is captured, run it eagerly elsewhere."""
        with detecting_out_of_memory():
            if self.graph is None:
                self.guard.remember()  # before anything that may run out of memory
            self.prepare_step(self.steps_done)
            if self.graph is None and self.warm:
                self.capture()
            if self.graph is None:
                self.step()
                self.eager_steps += 1
            else:
                self.graph.replay()
        self.steps_done += 1

    @property
    def warm(self) -> bool:
        return self.use_graph and self.eager_steps >= WARM_STEPS

    def reduce_memory(self) -> str | None:
        """Undo a step that ran out of memory, and need less from now on; None if nothing helps."""
        if dist.world() > 1:  # the others cannot undo theirs
            return None
        if recompute(self.method):
            how = "activations are recomputed to save memory"
        elif self.graph is not None:  # it was being recorded: replaying takes no memory
            self.use_graph, how = False, "steps run without a CUDA graph, which does not fit"
        else:
            return None
        self.optimizer.zero_grad()
        self.guard.put_back()
        self.graph, self.eager_steps = None, 0  # warm up anew
        return how

    def prepare_step(self, step: int) -> None:
        """What the host does for a step before it begins."""
        if self.prefetcher is None:
            self.source.prepare(step)
        else:
            self.prefetcher.prepare(step, self.device_step)
        seed = stream_key(self.pace.seed, step) >> 1
        if self.stream is None:
            torch.default_generator.manual_seed(seed)  # not those of GPUs, which nobody draws from
        else:
            torch.manual_seed(seed)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everything between the first step and the last; end what the source began.

        Torch's random generators are the user's: they come out as they went in.
        """
        devices = [] if self.stream is None else [self.device]
        with closing(self.source), torch.random.fork_rng(devices), self.on_stream():
            yield

    def on_stream(self) -> AbstractContextManager[None]:
        """What goes through the net with gradients must run here, before the steps, too: torch
        brings a weight's gradient to the stream where the weight was first used.
        """
        return working_on(self.stream)

    def capture(self) -> None:
        """Record the step once; recording does not run it."""
        torch.cuda.synchronize()
        free_memory()  # for the graph's own; and no old graph may be freed during the capture
        self.guard.remember()  # what is put back if memory runs out
        self.graph = torch.cuda.CUDAGraph()
        with recorded(self.graph, self.stream):
            self.step()

    @torch.no_grad()
    def probabilities(self, images: Tensor | OnHost, of: nn.Module | None = None) -> Tensor:
        """Class probabilities of uint8 images by the final net, as at deployment, or by another."""
        net = (of or self.method.final).eval()
        # few launches on a GPU; memory that the next batch finds in place again on a CPU
        batch = 64 if self.stream is None else 2500
        with uncompiled(), self.precision():
            step = self.device_step  # which the plain view does not depend on
            seen = partial(self.augment, "plain", step=step, slot=step, stream=0)
            rows = in_batches(lambda x: net(seen(x.to(self.device))).logits, images, batch)
        net.train()
        return torch.cat(rows).softmax(-1)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs; random streams depend on the step alone."""
        return {
            "step": self.steps_done,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "meter": self.meter.state_dict(),
            "guard": self.guard.state_dict(),
            "recomputes": recomputes(self.method),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps_done = state["step"]
        self.device_step.fill_(self.steps_done)
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.meter.load_state_dict(state["meter"])
        self.guard.load_state_dict(state["guard"])
        recompute(self.method, wanted=state["recomputes"])
        self.graph, self.eager_steps = None, 0  # a captured step would update the old moments
        if self.prefetcher is not None:
            self.prefetcher.step = None  # what is ready is not of this step


class JointGraph:
    """Replays one step of each of its engines at once.

    A small net leaves most of a GPU idle. In one graph, whose branches are the engines' own
    streams, their kernels fill it together. Nothing is shared between the branches: each engine
    has its state and batches, and draws from a random generator of its own.
    """

    def __init__(self) -> None:
        self.graph: torch.cuda.CUDAGraph | None = None
        self.engines: list[Engine] = []  # those that are captured
        self.generators: list[torch.Generator] = []

    @staticmethod
    def ready(engines: Sequence[Engine]) -> bool:
        """Whether there are several, each after the eager steps that come before a capture."""
        return len(engines) > 1 and all(engine.warm for engine in engines)

    def replay(self, engines: Sequence[Engine]) -> None:
        """One step of each of these engines, which are `ready`; captured first if they are new."""
        if self.engines != [*engines]:
            self.forget()
            with detecting_out_of_memory():
                self.capture(engines)
        assert self.graph is not None
        for engine, generator in zip(engines, self.generators, strict=True):
            with drawing_from(generator):
                engine.prepare_step(engine.steps_done)
        self.graph.replay()
        for engine in engines:
            engine.steps_done += 1

    def forget(self) -> None:
        """Free the graph and its memory."""
        self.graph, self.engines, self.generators = None, [], []

    def capture(self, engines: Sequence[Engine]) -> None:
        """Record a step of each, forked from the present stream and joined to it again."""
        torch.cuda.synchronize()
        free_memory()  # for the graph's own; and no old graph may be freed during the capture
        graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        generators = [torch.Generator(engine.device) for engine in engines]
        for engine, generator in zip(engines, generators, strict=True):
            engine.graph = None  # of steps that it did alone
            engine.guard.remember()  # what is put back if memory runs out
            graph.register_generator_state(generator)
        streams = [engine.stream for engine in engines if engine.stream is not None]
        with recorded(graph, here):
            for stream in streams:
                stream.wait_stream(here)
            try:
                for engine, stream, generator in zip(engines, streams, generators, strict=True):
                    with torch.cuda.stream(stream), drawing_from(generator):
                        engine.step()
            finally:  # a capture cannot end before all its branches are joined, even if it failed
                for stream in streams:
                    here.wait_stream(stream)
        self.graph, self.engines, self.generators = graph, [*engines], generators


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Make this generator torch's default one of its device, to be seeded and to draw from."""
    index = generator.device.index  # none where a device was named without its number
    default = torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]
    own = default.graphsafe_get_state()
    default.graphsafe_set_state(generator)
    try:
        yield
    finally:
        default.graphsafe_set_state(own)
