"""The memory limit of a container or a job, as Linux tells it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tamatch.machine import memory
from tamatch.settings import hardware


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        pytest.param("0::/", {"memory.max": "max"}, math.inf, id="none"),
        pytest.param("0::/", {}, math.inf, id="none at all"),
        pytest.param("0::/", {"memory.max": "512"}, 512, id="container"),
        pytest.param(
            "0::/slurm/job", {"slurm/memory.max": "300", "slurm/job/memory.max": "max"}, 300,
            id="of a group around it",
        ),
        pytest.param(
            "0::/a/b", {"a/memory.max": "900", "a/b/memory.max": "400"}, 400, id="the least"
        ),
        pytest.param(
            "4:memory:/job\n0::/", {"memory/job/memory.limit_in_bytes": "700"}, 700, id="version 1"
        ),
        pytest.param(
            "3:cpu,memory:/docker/4f", {"memory/memory.limit_in_bytes": "800"}, 800,
            id="version 1 in a container, which sees only its own group",
        ),
        pytest.param("4:cpu:/", {"memory/memory.limit_in_bytes": "1"}, math.inf, id="another's"),
    ],
)  # fmt: skip
def test_the_limit_is_the_least_of_all_groups(
    own: str, files: dict[str, str], limit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, list_of_own = tmp_path / "cgroup", tmp_path / "self"
    list_of_own.write_text(f"{own}\n")
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(f"{text}\n")
    monkeypatch.setattr(memory, "GROUPS", groups)
    monkeypatch.setattr(memory, "OWN", list_of_own)
    assert memory.memory_limit() == limit


def test_there_is_none_where_there_are_no_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "OWN", tmp_path / "missing")
    assert memory.memory_limit() == math.inf


def test_training_on_a_cpu_counts_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "memory_limit", lambda: 2.0**20)
    assert hardware.available_memory(torch.device("cpu")) == 2**20
    monkeypatch.setattr(hardware, "memory_limit", lambda: math.inf)
    assert hardware.available_memory(torch.device("cpu")) > 2**28
