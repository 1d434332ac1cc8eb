"""What torchrun tells its processes, in environment variables; any other process is alone."""

from __future__ import annotations

import os
import platform
import shlex
import sys


def processes() -> int:
    """How many there are, on all machines together."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def local_rank() -> int:
    """Which one this is on its own machine, counted from 0: the number of its GPU, too."""
    return int(os.environ["LOCAL_RANK"]) if processes() > 1 else 0


def local_processes() -> int:
    """How many processes there are on this machine."""
    return int(os.environ["LOCAL_WORLD_SIZE"]) if processes() > 1 else 1


def leads() -> bool:
    """Is this the one that writes the files and speaks to the user?"""
    return processes() == 1 or os.environ["RANK"] == "0"


def restarts() -> int:
    """How often torchrun has started the processes of this machine anew."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def name() -> str | None:
    """Names a torchrun command, the same before and after it has restarted its processes.

    By its `--rdzv-id`; where it has none, by the torchrun process of this machine.
    """
    given = os.environ.get("TORCHELASTIC_RUN_ID")
    own = f"process {os.getppid()} on {platform.node()}" if given == "none" else given
    return own and f"{own}: {shlex.join(sys.argv[1:])}"
