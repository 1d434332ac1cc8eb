"""`tamatch` by torchrun as far as one GPU goes: a process that is its own group, or two by gloo.

A process of its own joins a group all the same, by NCCL where its tensors are on a GPU. Two share
the GPU, which NCCL refuses. Each captured step is reported.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import torch
from torch import distributed

from tamatch import dist
from tamatch.cli import main
from tamatch.machine import launch
from tamatch.settings import hardware
from tamatch.step.engine import Engine


def capture(engine: Engine) -> None:
    whole_capture(engine)
    print(f"captured in a group of {dist.world()} by {distributed.get_backend_config()}")


if __name__ == "__main__":
    if launch.processes() == 1:
        dist.launch = SimpleNamespace(processes=lambda: 2)  # type: ignore[assignment]
    else:
        dist.backends = lambda: "gloo"
        hardware.own_gpu = lambda device: torch.device("cuda", 0)
    whole_capture, Engine.capture = Engine.capture, capture  # type: ignore[method-assign]
    sys.exit(main())
