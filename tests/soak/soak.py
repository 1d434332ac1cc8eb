"""Trains for a long time and watches: memory and open files must not grow.

`python -m tests.soak.soak MINUTES` shares the time between images that live in memory and images
that are streamed. Logging, testing and saving happen as in any run, only more often.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.processes import start

PLACES = ("device", "stream")  # where the images live
SETTINGS = [
    "--net", "wrn_10_1_clean", "--batch", "4", "--unlabelled", "8", "--steps", "1_000_000_000",
    "--log-every", "10", "--test-every", "200", "--save-every", "100", "--baseline", "none",
    "--threads", "1", "--device", "cpu",
]  # fmt: skip
EVERY = 2.0  # seconds between two looks
GROWTH = 8 * 2**20  # bytes by which the last quarter may lie above the second
GRACE = 60.0  # seconds until a stopped run must have ended


@dataclass(frozen=True)
class Look:
    """What a process holds at one moment."""

    memory: int  # resident bytes
    files: int  # open handles


def look(process: int) -> Look:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return Look(pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{process}/fd")))


def growth(looks: list[Look]) -> Look:
    """The last quarter against the second one; the first is the start-up."""
    quarter = len(looks) // 4
    second, last = looks[quarter : 2 * quarter], looks[-quarter:]
    return Look(
        round(median(x.memory for x in last) - median(x.memory for x in second)),
        # a file is open for a moment now and then: what never closes raises the least
        min(x.files for x in last) - min(x.files for x in second),
    )


def watch(place: str, seconds: float, run: Path) -> bool:
    """Train for so long; tell what grew, and whether it may."""
    process = start("train", "--out", str(run), "--images", place, *SETTINGS)
    looks: list[Look] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        looks.append(look(process.pid))
        time.sleep(EVERY)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=GRACE)
    grown = growth(looks)
    sound = (
        process.returncode == 128 + signal.SIGTERM and grown.memory <= GROWTH and grown.files <= 0
    )
    print(
        f"{place}: {seconds / 60:.1f} min, {error.strip().splitlines()[-1]}\n"
        f"  memory {looks[-1].memory / 2**20:.1f} MiB at the end, grown by "
        f"{grown.memory / 2**20:+.2f} MiB (at most {GROWTH / 2**20:.0f}); "
        f"{looks[-1].files} files open, grown by {grown.files:+d}; "
        f"{len(looks)} looks: {'flat' if sound else 'NOT FLAT'}",
        flush=True,
    )
    return sound


def main(minutes: float) -> int:
    with tempfile.TemporaryDirectory() as folder:
        share = 60 * minutes / len(PLACES)
        sound = [watch(place, share, Path(folder) / place) for place in PLACES]
    return 0 if all(sound) else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
