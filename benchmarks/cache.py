"""How fast images are cached and checked, beside two processes of bare Pillow.

    python benchmarks/cache.py [COUNT] [SIDE] [ROUNDS]

writes COUNT (default 100,000) small JPEGs into a temporary folder. In each round they are decoded
with Pillow alone to arrays in two processes, by `decode_all` and by `check`, each from an empty
cache and every second round in the opposite order: a machine that is busy with other work, or
with writing the last one's cache to disk, slows all three alike.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

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


def decode_bare(files: list[str]) -> None:
    for file in files:
        with Image.open(file) as image:
            np.asarray(image)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall seconds, and CPU seconds of this process and its finished workers."""
    start, used = time.perf_counter(), cpu()
    work()
    return time.perf_counter() - start, cpu() - used


def cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used)


def peak() -> float:
    """MiB of this process, or of the largest of its workers."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(own, workers) / 1024


def in_processes(work: Callable[[Any], None], jobs: list[Any]) -> None:
    pool = get_context("spawn").Pool(PROCESSES)
    pool.map(work, jobs, chunksize=1)
    pool.close()
    pool.join()


def use_cache(place: str, task: str, empty: bool) -> None:
    folder = Path(place) / f"cache of {task}"
    if empty:
        shutil.rmtree(folder, ignore_errors=True)
    os.environ["TAMATCH_CACHE"] = str(folder)


def main(count: int, side: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "images"
        for c in range(CLASSES):
            (root / f"class{c}").mkdir(parents=True)
        steps = np.linspace(0, count, PROCESSES + 1).astype(int).tolist()
        in_processes(write, [(root, a, b, side) for a, b in pairwise(steps)])
        files = sorted(map(str, root.rglob("*.jpg")))
        mean = sum(map(os.path.getsize, files)) / count
        print(f"{count:,} JPEGs of {side} × {side} pixels, {mean:,.0f} bytes each")
        halves = [files[k::PROCESSES] for k in range(PROCESSES)]
        tasks: dict[str, Callable[[], object]] = {
            "bare Pillow": lambda: in_processes(decode_bare, halves),
            "decode_all": lambda: decode_all(files, side),
            "check": lambda: check(root, size=side),
        }
        walls: dict[str, list[float]] = {name: [] for name in tasks}
        cpus: dict[str, list[float]] = {name: [] for name in tasks}
        for number in range(1, rounds + 1):
            for name, work in list(tasks.items())[:: 1 if number % 2 else -1]:
                use_cache(place, name, empty=True)
                taken, used = timed(work)
                walls[name].append(taken)
                cpus[name].append(used)
                print(
                    f"round {number}, {name}: {count / taken:,.0f} images/s, "
                    f"{used / count * 1e6:.0f} µs CPU each, at most {peak():,.0f} MiB",
                    flush=True,
                )
        for name in ("decode_all", "check"):
            by_wall, by_cpu = (
                median(a / b for a, b in zip(times["bare Pillow"], times[name], strict=True))
                for times in (walls, cpus)
            )
            print(
                f"{name}: {by_wall:.0%} of bare Pillow's rate, {by_cpu:.0%} by CPU time, "
                f"medians of {rounds} rounds"
            )
        use_cache(place, "check", empty=False)
        again, _ = timed(lambda: check(root, size=side))
        print(f"check, from the cache: {count / again:,.0f} images/s")


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    main(*(words + [100_000, 64, 3][len(words) :]))
