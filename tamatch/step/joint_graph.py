"""One CUDA graph that does a step of several engines at once, each on a stream of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from ..machine.branches import recorded
from ..machine.memory import detecting_out_of_memory, free_memory
from .engine import Engine


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
        """Several, and each has done the eager steps that come before a capture?"""
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
        """Let go of the graph and its memory."""
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
        with recorded(graph, here):
            for engine in engines:
                own_stream(engine).wait_stream(here)
            try:
                for engine, generator in zip(engines, generators, strict=True):
                    with torch.cuda.stream(own_stream(engine)), drawing_from(generator):
                        engine.step()
            finally:  # a capture cannot end before all its branches are joined, even if it failed
                for engine in engines:
                    here.wait_stream(own_stream(engine))
        self.graph, self.engines, self.generators = graph, [*engines], generators


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Torch's default generator of that device is this one, to be seeded and to draw from."""
    index = generator.device.index  # none where a device was named without its number
    default = torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]
    own = default.graphsafe_get_state()
    default.graphsafe_set_state(generator)
    try:
        yield
    finally:
        default.graphsafe_set_state(own)


def own_stream(engine: Engine) -> torch.cuda.Stream:
    assert engine.stream is not None, "only a GPU has streams"
    return engine.stream
