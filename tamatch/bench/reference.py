"""The time of a training step of the reference benchmark, from a checkout that the user has.

Its `train.py` is run twice, for few and for more steps: the difference is steps alone. Nothing of
it is imported, and nothing in its folder is changed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..errors import UsageError

WORKERS = 4  # its loaders; the default of one leaves a GPU waiting
LINES = 5  # of its output that are shown where it fails

WRN = {
    "net": "wrn_28_2", "dataset": "cifar10", "num_classes": 10, "num_labels": 40, "img_size": 32,
    "optim": "SGD", "lr": 0.03, "batch_size": 64, "uratio": 2,
}  # fmt: skip
VIT = {"optim": "AdamW", "lr": 5e-4, "layer_decay": 0.5, "batch_size": 8, "uratio": 1}
WORKS: dict[str, dict[str, object]] = {
    "wrn_28_2 64+128": WRN,
    "wrn_28_2 64+448": {**WRN, "uratio": 7},
    "vit_small_p2_32 8+8": {
        **VIT, "net": "vit_small_patch2_32", "dataset": "cifar100", "num_classes": 100,
        "num_labels": 200, "img_size": 32,
    },
    "vit_base_p16_96 8+8": {
        **VIT, "net": "vit_base_patch16_96", "dataset": "stl10", "num_classes": 10,
        "num_labels": 40, "img_size": 96,
    },
}  # fmt: skip


def measure(checkout: Path, work: str, root: Path, steps: int) -> float:
    """Milliseconds of a step of its FixMatch."""
    program, few = program_of(checkout), max(1, steps // 5)
    first, second = (seconds(program, work, root, count) for count in (few, few + steps))
    return 1000 * (second - first) / steps


def program_of(checkout: Path) -> Path:
    """What trains there; an error, if nothing does."""
    program = checkout / "train.py"
    if not program.is_file():
        raise UsageError(
            f"--reference {checkout}: train.py not found. Give a checkout of the reference "
            "benchmark (github.com/microsoft/Semi-supervised-learning)."
        )
    return program


def seconds(program: Path, work: str, root: Path, steps: int) -> float:
    """How long its program takes for this many steps, all else included."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            **WORKS[work], "algorithm": "fixmatch", "data_dir": root.resolve(),
            "num_train_iter": steps, "num_eval_iter": 2 * steps, "num_log_iter": 2 * steps,
            "num_workers": WORKERS, "save_dir": folder, "gpu": 0, "seed": 0,
        }  # fmt: skip
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, program.name, *words],
            cwd=program.parent, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        taken = time.perf_counter() - began
    if done.returncode:
        last = "\n".join(f"    {line}" for line in done.stdout.strip().splitlines()[-LINES:])
        raise UsageError(
            f"{program} ended with exit code {done.returncode}:\n{last}\nIt needs a GPU, its own "
            f"packages in this Python, and its data in {root} (--root)."
        )
    return taken
