"""How fast images are cached and checked, beside two processes of bare Pillow.

    python benchmarks/cache.py [COUNT] [SIDE]

writes COUNT (default 100,000) small JPEGs into a temporary folder, decodes them with Pillow alone
in two processes, then runs `decode_all` and `check` on them, each from an empty cache.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from PIL import Image

from tamatch.data.bulk import decode_all
from tamatch.data.check import check

PROCESSES = 2
CLASSES = 10


def write(job: tuple[Path, int, int, int]) -> None:
    """Smooth pictures with some noise: about the size and cost of photographs this small."""
    folder, first, last, side = job
    random = np.random.RandomState(first)
    y, x = np.mgrid[:side, :side] / side
    for i in range(first, last):
        waves = [np.sin(6 * (a * x + b * y + c)) for a, b, c in random.rand(3, 3)]
        pixels = 128 + 80 * np.stack(waves, axis=-1) + random.randn(side, side, 3) * 8
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        image.save(folder / f"class{i % CLASSES}" / f"{i}.jpg", quality=90)


def decode_bare(files: list[Path]) -> None:
    for file in files:
        with Image.open(file) as image:
            np.asarray(image)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def memory() -> float:
    """Peak MiB of this process, and of the largest of its workers."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(own, workers) / 1024


def main(count: int, side: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "images"
        for c in range(CLASSES):
            (root / f"class{c}").mkdir(parents=True)
        steps = np.linspace(0, count, PROCESSES + 1).astype(int).tolist()
        with get_context("spawn").Pool(PROCESSES) as pool:
            jobs = [(root, a, b, side) for a, b in pairwise(steps)]
            pool.map(write, jobs, chunksize=1)
            files = sorted(root.rglob("*.jpg"))
            total = sum(file.stat().st_size for file in files)
            print(f"{count:,} JPEGs of {side} × {side} pixels, {total / count:,.0f} bytes each")
            halves = [files[k::PROCESSES] for k in range(PROCESSES)]
            bare = seconds(lambda: pool.map(decode_bare, halves, chunksize=1))
        print(f"bare Pillow, {PROCESSES} processes: {count / bare:,.0f} images/s")
        tasks: dict[str, Callable[[], object]] = {
            "decode_all": lambda: decode_all(files, side),
            "check": lambda: check(root, size=side),
        }
        for name, work in tasks.items():
            os.environ["TAMATCH_CACHE"] = str(Path(place) / f"cache-{name}")
            taken = seconds(work)
            print(
                f"{name}: {count / taken:,.0f} images/s, {bare / taken:.0%} of bare Pillow, "
                f"at most {memory():,.0f} MiB"
            )
        again = seconds(lambda: check(root, size=side))
        print(f"check, from the cache: {count / again:,.0f} images/s")


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    main(*(words + [100_000, 64][len(words) :]))
