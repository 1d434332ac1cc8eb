"""A method of the package beside its reference: the same weights, batches, draws and state."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import Parameter

from tamatch import methods
from tamatch.methods import abc, mixing, regmixmatch, remixmatch, vat
from tamatch.methods.base import Method
from tamatch.types import Batch, Loss, Task
from tests.toynet import ToyNet

from .base import SlowMethod
from .making import batch_for
from .records import Array, NumpyBatch, Params, Result
from .storage import load_state

# The method's names of the loss terms, and the reference's. Both are before their factors.
TERMS = {
    "sup": "labelled",
    "unsup": "unlabelled",
    "mixed": "mixed",
    "class_aware": "class_aware",
    "strong": "unmixed",
    "fair": "fairness",
    "entropy": "entropy",
    "anti": "anti",
    "contrast": "contrast",
    "instance": "instance",
    "distance": "distance",
    "rotation": "rotation",
    "balanced": "balanced",
    "second": "second",
    "smooth": "smooth",
    "assign": "assign",
}


def task_of(reference: SlowMethod, prior: tuple[float, ...] | None = None) -> Task:
    """The reference's facts as the package's record."""
    return Task(**dataclasses.asdict(reference.facts), prior=prior)


def twin(
    reference: SlowMethod, name: str, dtype: torch.dtype = torch.float64, **options: Any
) -> Any:
    """The method of this name with the weights and the state of the reference."""
    row = methods.entry(name)
    net = ToyNet.of(reference.params).to(dtype)
    prior = options.pop("prior", None)
    method = methods.get(name)(net, task_of(reference, prior), **{**row.options, **options})
    if dtype == torch.float64:  # otherwise the buffers have the precision they were made with
        method.double()
    with torch.no_grad():
        for key, parameter in weights(method).items():
            parameter.copy_(torch.tensor(reference.params[key]))
    load_state(method, reference)
    return method


def weights(method: Method) -> dict[str, Parameter]:
    """The trained parameters under the reference's names."""
    return {
        name.removeprefix("net.").replace("project.", "projector."): parameter
        for name, parameter in method.named_parameters()
        if parameter.requires_grad
    }


def arrays(method: Method) -> Params:
    """The trained parameters as the reference takes them."""
    return {name: p.detach().double().numpy().copy() for name, p in weights(method).items()}


def torch_batch(batch: NumpyBatch, dtype: torch.dtype = torch.float64) -> Batch:
    """The same batch as the package's record."""
    return Batch(
        x=tuple(torch.tensor(view, dtype=dtype) for view in batch.x),
        y=torch.tensor(batch.y),
        u=tuple(torch.tensor(view, dtype=dtype) for view in batch.u),
        id_x=torch.tensor(batch.id_x),
        id_u=torch.tensor(batch.id_u),
        step=torch.tensor(batch.step),
        progress=torch.tensor(batch.progress, dtype=dtype),
    )


def inject(patch: pytest.MonkeyPatch, batch: NumpyBatch, dtype: torch.dtype) -> None:
    """Let the method draw the random numbers of this batch."""
    draws = batch.draws
    if "lam" in draws:
        lam = torch.tensor(max(draws["lam"], 1 - draws["lam"]), dtype=dtype)
        partner = torch.tensor(draws["perm"])
        patch.setattr(mixing, "mixup_draw", lambda *_: (lam, partner))
    if "lams" in draws:
        lams = torch.tensor(np.maximum(draws["lams"], 1 - draws["lams"]), dtype=dtype)
        partners = torch.tensor(draws["partners"])
        patch.setattr(mixing, "mixup_draw", lambda *_: (lams, partners))
    if "boxes" in draws:
        share, centre = np.sqrt(draws["boxes"][:, 0]), draws["boxes"][:, 1:]
        numbers = (0.1 + 0.7 * share, centre, draws["order"], draws["choice"], draws["any_class"])
        drawn = regmixmatch.Draw(*map(torch.tensor, numbers))
        patch.setattr(regmixmatch, "mix_draw", lambda *_: drawn)
    if "rotation" in draws:
        turn = torch.tensor(draws["rotation"])
        patch.setattr(remixmatch, "turn_draw", lambda count, device: turn)
    if "lots_x" in draws:
        lots = [torch.tensor(draws[name], dtype=dtype) for name in ("lots_u", "lots_x")]
        patch.setattr(abc, "lots", lambda count, device: lots.pop(0))
    if "d" in draws:
        noise = torch.tensor(draws["d"], dtype=dtype)
        patch.setattr(vat, "direction_draw", lambda images: noise)


def expected_terms(result: Result) -> dict[str, float]:
    """The reference's loss terms under the method's names."""
    parts = dict(result.parts)
    if "labelled_strong" in parts:  # DeFixMatch reports the mean of its two labelled terms
        parts["labelled"] = (parts["labelled"] + parts.pop("labelled_strong")) / 2
    return {ours: parts[theirs] for ours, theirs in TERMS.items() if theirs in parts}


class Pair:
    """The two of them, going through the same steps."""

    def __init__(
        self,
        reference: SlowMethod,
        method: Any,
        rng: np.random.Generator,
        patch: pytest.MonkeyPatch,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.reference, self.method = reference, method
        self.rng, self.patch, self.dtype = rng, patch, dtype

    def step(self, step: int) -> tuple[NumpyBatch, Result, Loss]:
        """One step of both on a fresh batch, and the method's gradients."""
        batch = batch_for(self.reference, self.rng, step)
        inject(self.patch, batch, self.dtype)
        result = self.reference.step(batch)
        self.method.zero_grad()
        loss = self.method(torch_batch(batch, self.dtype))
        loss.total.backward()
        return batch, result, loss

    def learn(self, rate: float = 0.02) -> None:
        """Move the weights of both by the method's gradients."""
        with torch.no_grad():
            for parameter in weights(self.method).values():
                if parameter.grad is not None:
                    parameter.sub_(rate * parameter.grad)
        self.method.after_step()
        self.reference.after_step(arrays(self.method))


def gradients(method: Method) -> dict[str, Array]:
    """The method's gradients under the reference's names; a missing one is zero."""
    return {
        name: np.zeros(p.shape) if p.grad is None else p.grad.double().numpy()
        for name, p in weights(method).items()
    }
