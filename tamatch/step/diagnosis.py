"""Runs a step slowly, to name the first tensor in it that is not finite."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .. import dist
from ..methods.base import Method
from ..nets.base import uncompiled
from ..types import Batch
from .engine import Engine
from .guard import ALLOWED_BAD_STEPS

Named = Iterable[tuple[str, Tensor]]


def explain(engine: Engine) -> str:
    """Which step froze the run and why; it is replayed, and the engine ends with it."""
    # the guard counts every step since the one that froze the run
    step = engine.steps_done - int(engine.guard.count) + ALLOWED_BAD_STEPS
    if not dist.alone():  # where one process stops to look, the others would wait for ever
        return f"step {step:,} (resume in one process to see which value)"
    engine.device_step.fill_(step)
    engine.prepare_step(step)
    engine.source.prepare(step)  # again: a prefetcher has gone on to the step after it
    with uncompiled(), engine.precision():
        found = first_not_finite_in_step(engine.method, engine.batch(engine.device_step))
    return f"step {step:,}: {found or 'a value that was finite when the step was replayed'}"


def first_not_finite_in_step(method: Method, batch: Batch) -> str | None:
    """Words for the first value of a step that is NaN or infinite; the weights stay as they are.

    Looked at in the order in which a step meets them: images, weights, outputs of the layers,
    parts of the loss, gradients from the last layer to the first, statistics.
    """
    images = (("input images", view) for view in (*batch.x, *batch.u))
    weights = ((f"weight {name}", p) for name, p in method.named_parameters())
    if found := first_not_finite(images) or first_not_finite(weights):
        return found
    finite = {n: b for n, b in method.named_buffers() if is_finite(b)}  # some may begin as ∞
    outputs: list[str] = []
    hooks = [
        module.register_forward_hook(partial(note_if_not_finite, name, outputs))
        for name, module in method.named_modules()
        if name
    ]
    try:
        loss = method(batch)
    finally:
        for hook in hooks:
            hook.remove()
    if outputs:
        return f"output of {outputs[0]}"
    parts = ((f"loss part {name}", value) for name, value in loss.parts.items())
    if found := first_not_finite(parts) or first_not_finite([("loss", loss.total)]):
        return found
    loss.total.backward()
    last_first = reversed([*method.named_parameters()])
    grads = ((f"gradient of {n}", p.grad) for n, p in last_first if p.grad is not None)
    statistics = ((f"statistic {n}", b) for n, b in finite.items())
    return first_not_finite(grads) or first_not_finite(statistics)


def first_not_finite(tensors: Named) -> str | None:
    return next((name for name, tensor in tensors if not is_finite(tensor)), None)


def is_finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def note_if_not_finite(
    name: str, outputs: list[str], module: nn.Module, given: Any, output: Any
) -> None:
    """As a hook: add the module's name to `outputs` if the module returns such a value."""
    tensors = output if isinstance(output, tuple) else (output,)
    if not all(is_finite(t) for t in tensors if isinstance(t, Tensor)):
        outputs.append(name)


def overflow(method: nn.Module, optimizer: Optimizer) -> str | None:
    """The first weight or moment that an update made infinite: no state to go on from."""
    moments = ((n, t) for state in optimizer.state.values() for n, t in state.items())
    return first_not_finite((*method.named_parameters(), *moments))
