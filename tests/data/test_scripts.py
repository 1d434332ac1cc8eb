"""Worker processes and the script that needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from tamatch.data.bulk import IN_PROCESS
from tests.processes import environment

SCRIPT = """
from tamatch.data import load
print(len(load({folder!r}).images))
"""


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(IN_PROCESS // 2):
            image = Image.fromarray(np.full((4, 4, 3), i, np.uint8))
            image.save(tmp_path / "photos" / name / f"{i}.png")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(tmp_path / "photos")))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False,
        env={**environment(), "TAMATCH_CACHE": str(tmp_path / "cache"),
             "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{IN_PROCESS}\n", "")
