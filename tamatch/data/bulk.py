"""Decode many image files once, on all cores, into the cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import IO

import numpy as np
from PIL import __version__ as pillow_version

from .cache import Facts, open_or_build
from .dataset import Indices, Pixels, Progress, Sizes
from .decode import Unreadable, decode
from .pixelfile import PixelFile

VERSION = 1  # of what the cache holds; raise it when decoding changes
PIXELS = "pixels.npy"
SIZES = "sizes.npy"
IN_PROCESS = 200  # fewer files than this are decoded before worker processes would have started
CHUNK = 64

Row = tuple[int, int, str]  # width and height of a file, or the reason why it was not read


@dataclass(frozen=True)
class Decoded:
    """The images that could be read, and the others' reasons."""

    images: Pixels  # (M, size, size, 3), a memory map
    kept: Indices  # (M,) positions in the list of files
    sizes: Sizes  # (M, 2) width and height of the files
    unreadable: tuple[tuple[int, str], ...]  # (position, reason)


def decode_all(
    files: Sequence[Path], size: int, draft: bool = True, progress: Progress | None = None
) -> Decoded:
    """Read the files from the cache, decoding them first if it does not know them as they are."""
    return cached(
        fingerprint(files, f"{size} {draft}"),
        len(files),
        size,
        partial(_decode_files, files, size, draft, progress),
    )


def cached(
    key: str, count: int, size: int, fill: Callable[[PixelFile], Iterator[tuple[int, Row]]]
) -> Decoded:
    """The images that `fill` writes into a pixel file; it yields (position, row) for each."""

    def build(folder: Path) -> Facts:
        pixels = PixelFile(folder / PIXELS, size)
        pixels.create(count)
        sizes = np.zeros((count, 2), np.int32)
        unreadable: dict[int, str] = {}
        for i, (width, height, reason) in fill(pixels):
            sizes[i] = width, height
            if reason:
                unreadable[i] = reason
        if unreadable:
            pixels.keep(np.setdiff1d(np.arange(count), list(unreadable)))
        np.save(folder / SIZES, np.delete(sizes, list(unreadable), axis=0))
        return {"count": count, "unreadable": sorted(unreadable.items())}

    entry, facts = open_or_build(key, build)
    unreadable = tuple((i, reason) for i, reason in facts["unreadable"])
    return Decoded(
        images=PixelFile(entry / PIXELS, size).open(),
        kept=np.setdiff1d(np.arange(count), [i for i, _ in unreadable]),
        sizes=np.load(entry / SIZES),
        unreadable=unreadable,
    )


def fingerprint(files: Sequence[Path], how: str) -> str:
    """Changes when a file's content, the list of files or the decoding changes.

    A file's change time cannot be set back, unlike its modification time, so together with path
    and length it stands for the content without reading it.
    """
    digest = hashlib.sha256(f"{VERSION} {pillow_version} {how}".encode())
    for file in files:
        digest.update(b"\0" + os.fsencode(file.absolute()))
        try:
            state = file.stat()
        except OSError:
            continue
        digest.update(f"\0{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}".encode())
    return digest.hexdigest()


def _decode_files(
    files: Sequence[Path], size: int, draft: bool, progress: Progress | None, pixels: PixelFile
) -> Iterator[tuple[int, Row]]:
    """Decode in worker processes, or here if the files are few or no worker can be started."""
    chunks = {first: list(files[first : first + CHUNK]) for first in range(0, len(files), CHUNK)}
    done = 0
    for first, rows in _finished(chunks, partial(decode_chunk, pixels, size, draft)):
        yield from enumerate(rows, first)
        done += len(rows)
        if progress is not None:
            progress(done, len(files))


def _finished(
    chunks: dict[int, list[Path]], work: Callable[[int, list[Path]], list[Row]]
) -> Iterator[tuple[int, list[Row]]]:
    """Each chunk's rows as they become ready; takes finished chunks out of `chunks`."""
    workers = min(cores(), len(chunks))
    if workers > 1 and sum(map(len, chunks.values())) >= IN_PROCESS:
        # `spawn`: a fork of a process that has threads, as every one with torch has, may hang
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        try:
            tasks = {pool.submit(work, first, chunk): first for first, chunk in chunks.items()}
            for task in as_completed(tasks):
                rows = task.result()
                del chunks[tasks[task]]
                yield tasks[task], rows
        except BrokenProcessPool:
            pass  # e.g. a script without a main guard: its workers cannot start
        finally:
            pool.shutdown(cancel_futures=True)
    for first, chunk in chunks.items():
        yield first, work(first, chunk)


def cores() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def decode_chunk(
    pixels: PixelFile, size: int, draft: bool, first: int, files: Sequence[Path | IO[bytes]]
) -> list[Row]:
    """Decode some files into the rows that begin with `first`. Runs in a worker process."""
    images = np.zeros((len(files), size, size, 3), np.uint8)
    rows: list[Row] = []
    for i, file in enumerate(files):
        try:
            images[i], (width, height) = decode(file, size, draft)
            rows.append((width, height, ""))
        except Unreadable as reason:
            rows.append((0, 0, str(reason)))
    pixels.write(first, images)
    return rows
