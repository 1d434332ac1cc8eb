"""How long a step of FixMatch takes in USB, beside `tamatch bench speed`.

    python benchmarks/usb_speed.py CHECKOUT [--root DATA] [--steps 1000]

The checkout's own `train.py` is run for few and for more steps: the difference is steps alone.
Nothing of it is imported, and nothing in its folder is changed. It needs a GPU, and its own
packages in this Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKERS = 4  # its loaders; the default of one leaves a GPU waiting
LAST_LINES = 5  # of its output that are shown where it fails

WRN = {
    "net": "wrn_28_2", "dataset": "cifar10", "num_classes": 10, "num_labels": 40, "img_size": 32,
    "optim": "SGD", "lr": 0.03, "batch_size": 64, "uratio": 2,
}  # fmt: skip
VIT = {"optim": "AdamW", "lr": 5e-4, "layer_decay": 0.5, "batch_size": 8, "uratio": 1}
WORKS: dict[str, dict[str, object]] = {  # as `tamatch bench speed` calls them
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


def ms_per_step(checkout: Path, work: str, root: Path, steps: int) -> float:
    """Milliseconds of a step, without the program's start and end."""
    few = max(1, steps // 5)
    first, second = (seconds(checkout, work, root, count) for count in (few, few + steps))
    return 1000 * (second - first) / steps


def seconds(checkout: Path, work: str, root: Path, steps: int) -> float:
    """Seconds that the program takes for this many steps, with its start and end."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            **WORKS[work], "algorithm": "fixmatch", "data_dir": root.resolve(),
            "num_train_iter": steps, "num_eval_iter": 2 * steps, "num_log_iter": 2 * steps,
            "num_workers": WORKERS, "save_dir": folder, "gpu": 0, "seed": 0,
        }  # fmt: skip
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "train.py", *words],
            cwd=checkout, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        taken = time.perf_counter() - began
    if done.returncode:
        last = "\n".join(done.stdout.strip().splitlines()[-LAST_LINES:])
        raise SystemExit(f"{checkout}/train.py ended with exit code {done.returncode}:\n{last}")
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="of microsoft/Semi-supervised-learning")
    parser.add_argument("--root", type=Path, default=Path("data"), help="folder of its data")
    parser.add_argument("--steps", type=int, default=1000)
    given = parser.parse_args()
    for work in WORKS:
        ms = ms_per_step(given.checkout, work, given.root, given.steps)
        print(f"{work:22} {ms:8.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
