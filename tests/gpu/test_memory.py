"""On a GPU: the estimate beside the allocator's own count, and a real lack of memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tamatch
from tamatch.data import load, make_split
from tamatch.nets.base import recompute, recomputes
from tamatch.runs.build import engine_of
from tamatch.settings.configure import configure
from tamatch.settings.hardware import available_memory
from tamatch.settings.inputs import split_plan
from tamatch.step.cost import estimate
from tamatch.step.engine import Engine
from tests.contract.test_contract import assert_equal
from tests.tiny import tiny_engine

pytestmark = pytest.mark.gpu

FACTOR = 2.5  # torch's convolutions borrow memory while they choose their algorithm
NETS = {"wrn_28_2": 32, "vit_tiny_p2_32": 32, "vit_base_p16_96": 96}
BATCH = {"batch": 32, "unlabelled": 64}


@pytest.fixture(autouse=True)
def all_memory() -> Iterator[None]:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def leave(room: int) -> None:
    """So many bytes, beside what tests before this one hold."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + room) / total)
    assert 0.99 * room < available_memory(torch.device("cuda")) < 1.5 * room


def engine_with(net: str, **settings: Any) -> Engine:
    run = configure({
        "net": net, "size": NETS[net], "device": "cuda", "graph": False, "compile": False,
        **BATCH, **settings,
    })  # fmt: skip
    data = load("digits", None, run.size)
    return engine_of(run, data, make_split(data, split_plan(run)))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize("net", NETS)
def test_the_estimate_is_near_the_allocator_s_count(
    net: str, recomputed: bool, precision: str, record_property: Any
) -> None:
    before = torch.cuda.memory_allocated()
    engine = engine_with(net, precision=precision)
    if recomputed:
        recompute(engine.method)
    found = estimate(engine, [])
    torch.cuda.reset_peak_memory_stats()
    with engine.running():
        for _ in range(2):
            engine.advance()
    torch.cuda.synchronize()
    most = torch.cuda.max_memory_allocated() - before
    print(f"\n{net} {precision} {recomputed=}: {found.total / most:.2f} of {most / 2**20:.0f} MiB")
    assert 1 / FACTOR < found.total / most < FACTOR


@pytest.mark.parametrize("graph", [False, True])
def test_a_real_lack_of_memory_is_survived(graph: bool, tmp_path: Any) -> None:
    """Room for a step with recomputed activations, but not for one that keeps them."""
    options = {
        "net": "wrn_28_2", "size": 32, "device": "cuda", "batch": 128, "unlabelled": 512,
        "steps": 8, "log_every": 4, "test_every": 8, "save_every": 8, "baseline": "none",
        "precision": "fp32", "graph": graph, "compile": False,
    }  # fmt: skip
    leave(4 * 2**30)
    tamatch.train(out=tmp_path / "run", quiet=True, **options)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "cuda ran out of memory in step 0. From here on, activations are recomputed" in log
    assert ("steps run without a CUDA graph" in log) <= graph


def test_too_little_even_so_names_a_batch_that_fits(tmp_path: Any) -> None:
    options = {
        "net": "wrn_28_2", "size": 32, "device": "cuda", "batch": 1024, "unlabelled": 4096,
        "steps": 8, "baseline": "none", "precision": "fp32", "compile": False,
    }  # fmt: skip
    leave(4 * 2**30)
    with pytest.raises(tamatch.errors.UsageError, match=r"--batch 1024 .* does not fit"):
        tamatch.train(out=tmp_path / "run", quiet=True, **options)


@pytest.mark.usefixtures("same_kernels")
@pytest.mark.parametrize("name", ["tamatch", "vat"])
def test_a_captured_recomputed_step_is_the_plain_one(name: str) -> None:
    engines = [tiny_engine(name, device="cuda", graph=graph, ema=0.9) for graph in (False, True)]
    recompute(engines[1].method)
    states = []
    for engine in engines:
        with engine.running():
            for _ in range(8):
                engine.advance()
        torch.cuda.synchronize()
        states.append(engine.state_dict())
        assert states[-1].pop("recomputes") == recomputes(engine.method)
    assert engines[1].graph is not None
    assert_equal(*states)
