"""Two processes with half a batch each equal one process with the whole batch, for every method.

On made-up batches that exercise every mask and memory; `tests/dist` does it with a real engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tamatch import dist
from tamatch.methods import METHODS, get
from tamatch.methods.base import Method
from tamatch.types import Batch
from tests.dist.pair import in_both
from tests.reference.cases import OWN, Case
from tests.reference.data import realistic_batch, realistic_facts
from tests.reference.link import task_of, torch_batch
from tests.tiny import teach
from tests.toynet import ToyNet

STEPS = 3
MEMORY = {"memory_after": 1, "tau": 0.8}
OPTIONS: dict[str, dict[str, Any]] = {
    "mean_teacher": {"ema": 0.8},
    "vat": {"xi": 0.1},  # a short probe measures rounding, which depends on the batch's size
    "adamatch": {"momentum": 0.6},
    "dash": {"supervised_steps": 1, "rho_period": 1},
    "comatch": MEMORY | {"queue": 2},
    "simmatch": MEMORY,
    "freematch": {"init_threshold": 0.95, "momentum": 0.9, "lambda_f": 0.5},
    "softmatch": {"momentum": 0.6},
    "tamatch": {"lambda_model": 0.6, "lambda_target": 0.7},
}
SETTINGS = {name: (name, OPTIONS.get(name, {})) for name in METHODS}
SETTINGS |= {case.id: (case.name, case.options) for case in OWN if case.options}
SETTINGS |= {
    "freematch, parity": ("freematch", {"lambda_f": 0.5, "parity": "usb"}),
    "uda, parity": ("uda", {"parity": "usb"}),
    "simmatch, parity": ("simmatch", MEMORY | {"parity": "usb"}),
    "softmatch, from raw": ("softmatch", {"momentum": 0.6, "learn_from": "raw"}),
    "softmatch, parity": ("softmatch", {"momentum": 0.6, "parity": "usb"}),
    "tamatch, freematch": ("tamatch", {"select": "freematch", "weigh": "class*gaussian"}),
    "tamatch, flexmatch": ("tamatch", {"select": "flexmatch"}),
    "tamatch_lt, fitted": ("tamatch_lt", {"fit_test": True, "lambda_model": 0.6}),
    "adamatch, class weights": ("adamatch", {"weigh": "class", "momentum": 0.6}),
}


def patched(patch: pytest.MonkeyPatch) -> None:
    """No rounding to float32."""
    patch.setattr(torch.Tensor, "float", torch.Tensor.double)


def half(batch: Batch) -> Batch:
    """This process's rows."""

    def mine(rows: Tensor) -> Tensor:
        return rows.chunk(dist.world())[dist.rank()]

    x, u = tuple(map(mine, batch.x)), tuple(map(mine, batch.u))
    return batch._replace(x=x, u=u, y=mine(batch.y), id_x=mine(batch.id_x), id_u=mine(batch.id_u))


def made(name: str, options: dict[str, Any]) -> tuple[Method, Iterator[Batch]]:
    """The method, and its batches; an id of the first half of a batch returns in the second."""
    family = METHODS[name].path.partition(":")[0]
    facts = realistic_facts(batch_unlabelled=16)
    reference, rng = Case(family, facts=facts).made(0)
    torch.manual_seed(0)
    method = get(name)(
        ToyNet.of(reference.params), task_of(reference), **METHODS[name].options | options
    )
    teach(method)
    first = 0 if name == "dash" else 50
    steps = range(first, first + STEPS)
    kind = type(reference)
    batches = (realistic_batch(rng, reference.params, facts, kind, step) for step in steps)
    return method.double(), map(torch_batch, batches)


def trajectory(name: str, options: dict[str, Any]) -> dict[str, Tensor]:
    """Losses, and everything that the method knows at the end."""
    method, batches = made(name, options)
    losses = []
    for batch in batches:
        method.zero_grad()
        total = method(half(batch)).total
        total.backward()
        dist.mean_grads_(method.parameters())
        with torch.no_grad():
            for parameter in method.parameters():
                if parameter.grad is not None:
                    parameter.sub_(0.02 * parameter.grad)
        method.after_step()
        losses.append(dist.mean_(total.detach().clone()))
    return {"loss": torch.stack(losses), **method.state_dict()}


def work() -> dict[str, dict[str, Tensor]]:
    """In one of the processes: all methods, one after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patched(patch)
        return {key: trajectory(*setting) for key, setting in SETTINGS.items()}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Tensor]]]:
    """What the two processes end with."""
    return in_both(work, tmp_path_factory.mktemp("processes"))


@pytest.mark.parametrize("key", SETTINGS)
def test_two_processes_equal_one(
    key: str, both: list[dict[str, dict[str, Tensor]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    patched(monkeypatch)
    one = trajectory(*SETTINGS[key])
    for results in both:
        assert results[key].keys() == one.keys()
        for name, value in one.items():
            torch.testing.assert_close(results[key][name], value, rtol=1e-9, atol=1e-9, msg=name)


def test_each_process_saw_other_images() -> None:
    """Or else the comparison would say nothing."""
    method, batches = made("fixmatch", {})
    batch = next(batches)
    halves = [tuple(view.chunk(2)[rank] for view in batch.u) for rank in range(2)]
    assert not torch.equal(halves[0][0], halves[1][0])
    assert set(batch.id_u[:8].tolist()) & set(batch.id_u[8:].tolist())
    assert method.task.batch_unlabelled == 16
