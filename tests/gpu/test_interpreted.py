"""Without a GPU: the kernels by Triton's interpreter, where Triton is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton: pip install triton")
def test_interpreted_kernels() -> None:
    """In a process of its own: a kernel is compiled or interpreted as its module was imported."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.gpu.interpreted"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
