"""What carries tensors between processes: on CPUs as well as on GPUs, wherever there are some."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.distributed_c10d import Backend, BackendConfig

from tamatch import dist


@pytest.mark.parametrize(
    ("gpu", "carried"), [(True, {"cpu": "gloo", "cuda": "nccl"}), (False, {"cpu": "gloo"})]
)
def test_tensors_on_cpus_are_carried_on_any_machine(
    gpu: bool, carried: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch itself reads it. With a GPU and no word on it, it would leave CPUs out."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    found = BackendConfig(Backend(dist.backends())).get_device_backend_map()
    assert carried.items() <= found.items()
