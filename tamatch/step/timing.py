"""How long steps take, the device's work included."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine


def timed(engine: Engine, steps: int) -> float:
    """Seconds of some steps."""
    wait(engine)
    began = time.perf_counter()
    for _ in range(steps):
        engine.advance()
    wait(engine)
    return time.perf_counter() - began


def wait(engine: Engine) -> None:
    """Until the device has done all that the engine gave it."""
    if engine.stream is not None:
        engine.stream.synchronize()
