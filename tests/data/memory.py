"""How much memory this process holds."""

from __future__ import annotations

import os
from pathlib import Path

STATUS = Path("/proc/self/statm")


def resident() -> int:
    """Bytes in memory now; 0 where the system does not tell, so that differences are 0 too."""
    if not STATUS.exists():
        return 0
    return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
