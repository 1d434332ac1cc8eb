"""Without a GPU: the Triton kernels by NumPy, with every address they touch checked."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("more", [(), pytest.param(("all",), marks=pytest.mark.slow)])
def test_interpreted_kernels(more: tuple[str, ...]) -> None:
    """In a process of its own: what stands in the place of Triton stays there."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.gpu.numpy_triton", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
