"""`tamatch` by torchrun with short intervals of `dist.watch`; says its process number first."""

from __future__ import annotations

import os
import sys

from tamatch import dist
from tamatch.cli import main

if __name__ == "__main__":
    dist.BEAT, dist.SILENCE, dist.REMINDER = 0.1, 1.5, 2.0
    print(f"rank {os.environ['RANK']} is {os.getpid()}", flush=True)
    sys.exit(main())
