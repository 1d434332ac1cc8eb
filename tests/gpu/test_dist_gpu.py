"""On one GPU: what several processes do, as far as it can be had there.

A group of one process makes every call by NCCL and captures them. Two processes share the GPU by
gloo, which has to wait for the device and so cannot be captured. Only NCCL between two is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed

import tamatch
from tamatch import dist
from tamatch.methods import METHODS
from tamatch.settings.hardware import set_up_torch
from tests.contract.test_contract import assert_equal
from tests.dist.pair import in_both
from tests.dist.test_every_method import SETTINGS, State, trained
from tests.dist.test_runs import assert_alike, half
from tests.dist.torchrun import DOZEN, torchrun
from tests.gpu.test_capture import run
from tests.processes import fingerprint
from tests.tiny import tiny_engine

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("same_kernels")]
ON_GPU = [*DOZEN, "--device", "cuda", "--precision", "fp32", "--deterministic"]
# Soft labels for all: of hard ones on the edge, rounding changes whole images (by up to 9 % of the
# loss in a dozen steps, where weights differ by 1e-6).
ON_GPU += ["--method", "uda", "--tau", "0.0001"]


def on_the_gpu(key: str, steps: int) -> State:
    name, options = SETTINGS[key]
    state = trained(name, {**options, "device": "cuda"}, steps)
    return {part: {k: v.cpu() for k, v in values.items()} for part, values in state.items()}


def every_setting() -> dict[str, list[State]]:
    set_up_torch("fp32", deterministic=True)
    return {key: [on_the_gpu(key, steps) for steps in (1, 4)] for key in SETTINGS}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[State]]]:
    return in_both(every_setting, tmp_path_factory.mktemp("pair"))


@pytest.mark.parametrize("key", SETTINGS)
def test_two_processes_on_one_gpu(key: str, both: list[dict[str, list[State]]]) -> None:
    """They stay equal to the last bit, and their first step is that of one but for rounding."""
    first, second = (results[key] for results in both)
    assert_equal(first, second)
    one = on_the_gpu(key, 1)
    for name, value in one["method"].items():
        torch.testing.assert_close(first[0]["method"][name], value, rtol=1e-3, atol=1e-4, msg=name)


@pytest.fixture(scope="module")
def by_nccl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run by torchrun whose only process talks to itself by NCCL."""
    made = tmp_path_factory.mktemp("nccl") / "run"
    words = ["train", "--out", str(made), *ON_GPU]
    code, said = torchrun(*words, module="tests.dist.grouped", processes=1)
    assert code == 0 and "captured in a group of 1" in said and "nccl" in said, said
    return made


def test_resume_of_a_run_by_nccl(by_nccl: Path, tmp_path: Path) -> None:
    """Stopped at its last checkpoint but one, it ends with the same bits."""
    rest = half(by_nccl, tmp_path / "run")
    code, said = torchrun("resume", str(rest), module="tests.dist.grouped", processes=1)
    assert code == 0 and "captured in a group of 1" in said, said
    assert fingerprint(rest) == fingerprint(by_nccl)


def test_a_run_by_two_processes_on_one_gpu(by_nccl: Path, tmp_path: Path) -> None:
    """It is the run of one, and one process can finish it."""
    two = tmp_path / "two"
    words = ["train", "--out", str(two), *ON_GPU, "--no-graph"]
    code, said = torchrun(*words, module="tests.dist.grouped")
    assert code == 0, said
    assert_alike(two, by_nccl)
    rest = half(two, tmp_path / "rest")
    tamatch.resume(rest, quiet=True)
    assert_alike(rest, by_nccl)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    meeting: Path = tmp_path_factory.mktemp("group") / "meeting"
    distributed.init_process_group(init_method=f"file://{meeting}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize("name", METHODS)
def test_captured_and_resumed_in_a_group(name: str, group: None) -> None:
    """Bit for bit the group's eager steps; the first of these is the step of a process alone."""
    options = {"xi": 0.1} if name == "vat" else {}
    with dist.acting_alone():
        alone = run(tiny_engine(name, device="cuda", **options), 1)
    assert not dist.alone()
    eager = run(tiny_engine(name, device="cuda", **options), 1)
    for key, value in alone.method.net.state_dict().items():
        found = eager.method.net.state_dict()[key]
        torch.testing.assert_close(found, value, rtol=1e-3, atol=1e-4, msg=key)
    first = run(tiny_engine(name, device="cuda", graph=True, **options), 5)
    assert first.graph is not None
    assert_equal(first.state_dict(), run(eager, 4).state_dict())
    second = tiny_engine(name, device="cuda", graph=True, **options)
    second.load_state_dict(first.state_dict())
    run(second, 5)
    assert second.graph is not None
    assert_equal(second.state_dict(), run(eager, 5).state_dict())
