"""What GPU tests share."""

from __future__ import annotations

import pytest

from tamatch.settings.hardware import set_up_torch


@pytest.fixture
def same_kernels() -> None:
    """What `--deterministic` sets: equal steps give equal bits."""
    set_up_torch("fp32", deterministic=True)
