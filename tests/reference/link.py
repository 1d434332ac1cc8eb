"""A method of the package beside its reference: the same weights, batches, draws and state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from tamatch import methods
from tamatch.methods import mixing, remixmatch, vat
from tamatch.methods.base import Method
from tamatch.types import Batch, Loss, Task
from tests.toynet import ToyNet

from .base import SlowMethod
from .making import batch_for
from .records import Array, NumpyBatch, Params, Result, Values

# The method's names of the loss terms, and the reference's. Both are before their factors.
TERMS = {
    "sup": "labelled",
    "unsup": "unlabelled",
    "strong": "unmixed",
    "fair": "fairness",
    "entropy": "entropy",
    "anti": "anti",
    "contrast": "contrast",
    "instance": "instance",
    "distance": "distance",
    "rotation": "rotation",
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
        patch.setattr(mixing, "mixup_draw", lambda count, alpha, device: (lam, partner))
    if "rotation" in draws:
        turn = torch.tensor(draws["rotation"])
        patch.setattr(remixmatch, "turn_draw", lambda count, device: turn)
    if "d" in draws:
        noise = torch.tensor(draws["d"], dtype=dtype)
        patch.setattr(vat, "direction_draw", lambda images: noise)


def expected_terms(result: Result) -> dict[str, float]:
    """The reference's loss terms under the method's names."""
    parts = dict(result.parts)
    if "labelled_strong" in parts:  # DeFixMatch reports the mean of its two labelled terms
        parts["labelled"] = (parts["labelled"] + parts.pop("labelled_strong")) / 2
    return {ours: parts[theirs] for ours, theirs in TERMS.items() if theirs in parts}


def status_of(method: Any) -> Any:
    """The learning status, wherever the method keeps it."""
    owner = getattr(method, "labeler", method)
    return getattr(owner, "status", None)


def running(method: Any) -> dict[str, Tensor]:
    status = status_of(method)
    return {"p_model": status.model.value, "p_target": status.target.value}


def queue(method: Any) -> dict[str, Tensor]:
    window = method.status.model
    return {"queue": window.rows, "queue_pointer": window.at}


# Where each method keeps what its reference remembers; the tensors themselves, not copies.
STORED: dict[str, Callable[[Any], dict[str, Tensor]]] = {
    "mean_teacher": lambda m: {f"teacher.{k}": p for k, p in m.average.named_parameters()},
    "remixmatch": running,
    "adamatch": running,
    "tamatch": running,
    "softmatch": lambda m: {
        "p_model": m.labeler.status.model.value,
        "mean": m.labeler.weigh.mean.value,
        "variance": m.labeler.weigh.variance.value,
    },
    "flexmatch": lambda m: {
        "memory": m.labeler.select.labels,
        "counts": m.labeler.select.counts,
        "beta": m.labeler.select.beta,
    },
    "freematch": lambda m: {
        "threshold": m.labeler.select.threshold.value,
        "class_means": m.labeler.select.shares.value,
        "class_means of fairness": m.fairness.shares.value,
        "class_counts": m.fairness.histogram.value,
    },
    "dash": lambda m: {"rho_init": m.rho_init},
    "comatch": lambda m: {
        "bank_features": m.memory.f,
        "bank_p": m.memory.p,
        "bank_pointer": m.memory.at,
        **queue(m),
    },
    "simmatch": lambda m: {"bank": m.bank.T, "bank_labels": m.labels, **queue(m)},
}


def name_of(reference: SlowMethod) -> str:
    return type(reference).__module__.rpartition(".")[2]


def stored(method: Method, reference: SlowMethod) -> dict[str, Tensor]:
    """The method's state under the reference's names."""
    return STORED.get(name_of(reference), lambda m: {})(method)


def expected_state(reference: SlowMethod) -> Values:
    """The reference's state in the form in which the method stores it."""
    state: dict[str, npt.NDArray[Any]] = dict(reference.state)
    name = name_of(reference)
    if name == "flexmatch":  # the method counts "never sure" as one more class
        none = reference.facts.classes
        state["memory"] = np.where(state["memory"] < 0, none, state["memory"])
        state["counts"] = np.bincount(state["memory"], minlength=none + 1)
    if name == "freematch":
        state["class_means of fairness"] = state["class_means"]
    if name == "dash":  # ρ and k follow from the step, and the losses are summed
        state = {"rho_init": state["rho_init"]}
    return state


def load_state(method: Method, reference: SlowMethod) -> None:
    """Give the method what the reference remembers."""
    tensors = stored(method, reference)
    with torch.no_grad():
        for name, value in expected_state(reference).items():
            tensors[name].copy_(torch.tensor(value))
        if "p_model" in reference.state:
            status_of(method).model.fresh.zero_()


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
    """The method's gradients under the reference's names; none is zero."""
    return {
        name: np.zeros(p.shape) if p.grad is None else p.grad.double().numpy()
        for name, p in weights(method).items()
    }
