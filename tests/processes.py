"""Real `tamatch` processes for tests: start, watch, kill."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tamatch.storage import checkpoint

SMALL = [
    "--net", "wrn_10_1_clean", "--batch", "8", "--unlabelled", "12", "--steps", "60",
    "--log-every", "7", "--test-every", "20", "--save-every", "10", "--tau", "0.5",
    "--head-labelled", "4", "--head-unlabelled", "20",
    "--baseline", "none",
]  # fmt: skip


def environment() -> dict[str, str]:
    return {**os.environ, "CI": "1", "OMP_NUM_THREADS": "1"}


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tamatch", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip


def tamatch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tamatch", *words],
        capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip


def fingerprint(run: Path) -> dict[str, Any]:
    """Everything a run ends with but its wall-clock times: equal means bit-identical."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((run / "result.json").read_text())
    state = checkpoint.load(checkpoint.saved_in(run / "checkpoints")[-1])
    digest = hashlib.sha256()
    feed(digest, state["engine"])
    return {
        "rows": [{k: v for k, v in row.items() if k != "time"} for row in rows],
        "result": {k: v for k, v in result.items() if k != "seconds"},
        "state": digest.hexdigest(),
        "model": hashlib.sha256((run / "model/model.safetensors").read_bytes()).hexdigest(),
        "predictions": (run / "predictions/test.csv").read_text(),
        "split": (run / "split.csv").read_text(),
    }


def feed(digest: Any, value: Any) -> None:
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            digest.update(str(key).encode())
            feed(digest, value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            feed(digest, item)
    elif isinstance(value, torch.Tensor):
        digest.update(value.contiguous().numpy().tobytes())
    else:
        digest.update(repr(value).encode())


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)
