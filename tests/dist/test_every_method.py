"""Two processes train as one does, for every method: the same net, batch, views and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from tamatch.methods import METHODS
from tests.dist.pair import in_both
from tests.tiny import tiny_engine

STEPS = 5
SEEDS = range(3)
EARLY = {"memory_after": 1, "tau": 0.2}  # memories count within these few steps
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in METHODS} | {
    # At the usual length the probe measures rounding, which depends on the batch's size.
    "vat": ("vat", {"xi": 0.1}),
    "dash": ("dash", {"supervised_steps": 1, "rho_period": 1}),
    "comatch": ("comatch", {**EARLY, "queue": 1}),
    "simmatch": ("simmatch", EARLY),
    "freematch": ("freematch", {"lambda_f": 0.5, "momentum": 0.9}),
    "freematch, parity": ("freematch", {"lambda_f": 0.5, "momentum": 0.9, "parity": "usb"}),
    "an average": ("tamatch", {"ema": 0.9}),
}
FEW = ("fixmatch", "flexmatch", "comatch", "an average")  # tests/methods compares all of them
State = dict[str, dict[str, Tensor]]


@contextmanager
def exactly() -> Iterator[None]:
    """Double precision: no activation near zero takes the other slope for a rounding error."""
    torch.set_default_dtype(torch.float64)
    try:
        with mock.patch.object(Tensor, "float", Tensor.double):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def trained(name: str, options: dict[str, Any], steps: int = STEPS) -> State:
    """Weights and statistics, momenta and meters after a few steps."""
    engine = tiny_engine(name, **options)
    with engine.running():
        for _ in range(steps):
            engine.advance()
    momenta = engine.optimizer.state_dict()["state"]
    return {
        "method": engine.method.state_dict(),
        "optimizer": {str(k): v["momentum_buffer"] for k, v in momenta.items()},
        "meter": engine.meter.state_dict(),
    }


def few_of_them() -> dict[str, State]:
    single = {f"seed {seed}": trained("tamatch", {"seed": seed}) for seed in SEEDS}
    with exactly():
        return single | {key: trained(*SETTINGS[key]) for key in FEW}


def all_of_them() -> dict[str, State]:
    with exactly():
        return {key: trained(*setting) for key, setting in SETTINGS.items()}


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, State]]:
    return in_both(few_of_them, tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, State]]:
    return in_both(all_of_them, tmp_path_factory.mktemp("pair"))


@pytest.mark.parametrize("key", FEW)
def test_two_processes_equal_one(key: str, few: list[dict[str, State]]) -> None:
    with exactly():
        assert_equal(trained(*SETTINGS[key]), [results[key] for results in few], within=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("key", SETTINGS)
def test_two_processes_equal_one_by_every_method(key: str, both: list[dict[str, State]]) -> None:
    with exactly():
        assert_equal(trained(*SETTINGS[key]), [results[key] for results in both], within=1e-9)


def test_two_processes_equal_one_in_single_precision(few: list[dict[str, State]]) -> None:
    """Mostly: see `exactly`."""
    equal = 0
    for seed in SEEDS:
        one = trained("tamatch", {"seed": seed})
        with suppress(AssertionError):
            assert_equal(one, [results[f"seed {seed}"] for results in few], within=1e-5)
            equal += 1
    assert equal > len(SEEDS) / 2


def assert_equal(one: State, both: list[State], within: float) -> None:
    """The two processes to the last bit, and the one process but for rounding."""
    for part, values in one.items():
        for name, value in values.items():
            first, second = (results[part][name] for results in both)
            assert torch.equal(first, second), f"{name} differs between the processes"
            torch.testing.assert_close(first, value, rtol=within, atol=within, msg=name)


def test_training_moves_further_than_the_tolerance() -> None:
    """Or else the comparison would say nothing."""
    before, after = tiny_engine("fixmatch").method.state_dict(), trained(*SETTINGS["fixmatch"])
    for name, value in after["method"].items():
        if name.startswith("net.") and value.dim() > 1:
            assert (value - before[name]).abs().max() > 1e-3, name
