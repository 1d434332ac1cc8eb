"""Two real processes that share a function's work, and what each of them returns."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.multiprocessing.spawn import start_processes

PROCESSES = 2
# One process imports torch and the package, and all pairs are forked from it.
multiprocessing.set_forkserver_preload(["tamatch.runs.build"])


def in_both(work: Callable[[], Any], folder: Path) -> list[Any]:
    """`work()` in two processes joined by gloo: process 0's answer and process 1's."""
    start_processes(  # type: ignore[no-untyped-call]
        _join, args=(work, str(folder)), nprocs=PROCESSES, start_method="forkserver"
    )
    return [torch.load(folder / f"{rank}.pt") for rank in range(PROCESSES)]


def _join(rank: int, work: Callable[[], Any], folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES,
        timeout=timedelta(seconds=120),
    )  # fmt: skip
    torch.save(work(), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()
