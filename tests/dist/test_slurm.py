"""The example for Slurm calls a bench with the job's share of the runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "slurm.sh"


def test_a_job_of_an_array_makes_its_share(tmp_path: Path) -> None:
    stand_in = tmp_path / "tamatch"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    job = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MAX": "8"}
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ["bash", str(EXAMPLE), "lt", "--root", "a folder"]
    done = subprocess.run(words, env=job | path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["bench", "lt", "--root", "a folder", "--cell", "3/8"]
