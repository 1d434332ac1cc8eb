"""Runs by torchrun: real processes on this machine, two if not said otherwise."""

from __future__ import annotations

import subprocess
import sys
from typing import TextIO

from tests.processes import environment

DOZEN = [
    "--net", "wrn_10_1_clean", "--batch", "8", "--unlabelled", "12", "--steps", "12",
    "--ema", "0.9", "--log-every", "3", "--test-every", "6", "--save-every", "4",
    "--tau", "0.2", "--baseline", "none", "--threads", "1", "--device", "cpu",
]  # fmt: skip


def launch(
    *words: str,
    module: str = "tamatch",
    processes: int = 2,
    restarts: int = 0,
    to: TextIO | None = None,
    **variables: str,
) -> subprocess.Popen[str]:
    """`torchrun -m tamatch …`, started; what the processes say goes to a file, if any."""
    out = subprocess.PIPE if to is None else to
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    start += ["--max-restarts", str(restarts), "-m", module, *words]
    return subprocess.Popen(
        start, stdout=out, stderr=out, text=True,
        env={**environment(), **variables},
    )  # fmt: skip


def torchrun(
    *words: str, module: str = "tamatch", processes: int = 2, restarts: int = 0, **variables: str
) -> tuple[int, str]:
    """The same to its end: exit code, and all that was said."""
    process = launch(*words, module=module, processes=processes, restarts=restarts, **variables)
    try:
        said = "".join(process.communicate(timeout=300))
    finally:
        process.terminate()  # which ends what it has started
    return process.returncode, said
