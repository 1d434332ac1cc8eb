"""Decode many image files once, on all cores, into the cache."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import numpy as np
from PIL import __version__ as pillow_version

from .cache import DIGESTS, PIXELS, Facts, PixelFile, open_or_build
from .dataset import DIGEST, Digests, Indices, OnProgress, Pixels, Sizes
from .decode import File, Unreadable, decode_bytes, resized, without_warnings

Name = TypeVar("Name", bound=str | Path)

VERSION = 1  # of what the cache holds; raise it when decoding changes
SIZES = "sizes.npy"
IN_PROCESS = 200  # fewer files than this are decoded before worker processes would have started
CHUNKS = 8, 256  # least and most files decoded together


@dataclass(frozen=True)
class Decoded:
    """The images that could be read, and why the others could not."""

    folder: Path  # of the cache, where `fill` may have put more
    images: Pixels  # (M, size, size, 3), a memory map
    digests: Digests  # (M, DIGEST)
    sizes: Sizes  # (M, 2) width and height of the files
    kept: Indices  # (M,) positions in the list of files
    unreadable: tuple[tuple[int, str], ...]  # (position, reason)


@dataclass(frozen=True)
class Chunk:
    """The result of decoding some consecutive files."""

    first: int
    sizes: Sizes
    digests: Digests
    unreadable: dict[int, str]  # by position


def decode_all(
    files: Sequence[str | Path], size: int, draft: bool = True, progress: OnProgress | None = None
) -> Decoded:
    """The decoded files, from the cache; it is built first if files are new or have changed."""

    def fill(pixels: PixelFile) -> Iterator[Chunk]:
        return _decode_chunks(chunks_of(files), partial(decode_chunk, pixels, size, draft))

    return cached(fingerprint(files, f"{size} {draft}"), len(files), size, fill, progress)


def cached(
    key: str,
    count: int,
    size: int,
    fill: Callable[[PixelFile], Iterator[Chunk]],
    progress: OnProgress | None,
) -> Decoded:
    """The images that `fill` writes into a pixel file, chunk by chunk in any order."""

    def build(folder: Path) -> Facts:
        pixels = PixelFile(folder / PIXELS, size)
        pixels.create(count)
        sizes = np.zeros((count, 2), np.int32)
        digests = np.zeros((count, DIGEST), np.uint8)
        unreadable: dict[int, str] = {}
        done = 0
        for chunk in fill(pixels):
            rows = slice(chunk.first, chunk.first + len(chunk.sizes))
            sizes[rows], digests[rows] = chunk.sizes, chunk.digests
            unreadable |= chunk.unreadable
            done += len(chunk.sizes)
            if progress is not None:
                progress(done, count)
        kept = np.setdiff1d(np.arange(count), [*unreadable])
        if unreadable:
            pixels.keep(kept)
        np.save(folder / SIZES, sizes[kept])
        np.save(folder / DIGESTS, digests[kept])
        return {"unreadable": sorted(unreadable.items())}

    entry = open_or_build(key, size, build)
    unreadable = {i: str(reason) for i, reason in entry.facts["unreadable"]}
    return Decoded(
        folder=entry.folder,
        images=entry.images,
        digests=entry.digests,
        sizes=np.load(entry.folder / SIZES),
        kept=np.setdiff1d(np.arange(count), [*unreadable]),
        unreadable=tuple(unreadable.items()),
    )


def cached_blocks(
    key: str,
    count: int,
    size: int,
    blocks: Callable[[], Iterator[Pixels]],
    progress: OnProgress | None,
) -> Decoded:
    """Images that `blocks` yields in order, many at once: grey or colour, of any one size."""

    def fill(pixels: PixelFile) -> Iterator[Chunk]:
        first = 0
        for block in blocks():
            for at in range(0, len(block), CHUNKS[1]):
                part = block[at : at + CHUNKS[1]]
                colour = np.broadcast_to(part, (*part.shape[:3], 3))
                digests = pixels.write(first, (x.tobytes() for x in resized(colour, size)))
                yield Chunk(first, np.full((len(part), 2), part.shape[1:3], np.int32), digests, {})
                first += len(part)

    return cached(key, count, size, fill, progress)


def fingerprint(files: Sequence[str | Path], how: str) -> str:
    """Changes when a file's content, the list of files or the decoding changes.

    A file's change time cannot be set back, unlike its modification time, so together with path
    and length it stands for the content without reading it.
    """
    states = [f"{VERSION} {pillow_version} {how}"]
    for file in files:
        path = file if os.path.isabs(file) else os.path.abspath(file)
        try:
            state = os.stat(path)
            states.append(f"{path}\0{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}")
        except OSError:
            states.append(f"{path}\0")
    return hashlib.sha256(os.fsencode("\0".join(states))).hexdigest()


def chunks_of(files: Sequence[Name]) -> dict[int, Sequence[Name]]:
    """Consecutive files, by the position of the first of them.

    They are small enough for progress and for an even share of the cores, else as large as useful.
    """
    least, most = CHUNKS
    step = min(most, max(least, len(files) // 64))
    return {first: files[first : first + step] for first in range(0, len(files), step)}


def decode_chunk(
    pixels: PixelFile, size: int, draft: bool, first: int, files: Sequence[File]
) -> Chunk:
    """Decode some files into the rows that begin with `first`. Runs in a worker process."""
    blank = bytes(3 * size * size)
    sizes: list[tuple[int, int]] = []
    unreadable: dict[int, str] = {}

    def images() -> Iterator[bytes]:
        for i, file in enumerate(files, first):
            try:
                image, own = decode_bytes(file, size, draft)
            except Unreadable as reason:
                image, own = blank, (0, 0)
                unreadable[i] = str(reason)
            sizes.append(own)
            yield image

    with without_warnings():
        digests = pixels.write(first, images())
    return Chunk(first, np.array(sizes, np.int32), digests, unreadable)


def cores() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _decode_chunks(
    chunks: dict[int, Sequence[str | Path]], work: Callable[[int, Sequence[str | Path]], Chunk]
) -> Iterator[Chunk]:
    """In worker processes, or here if the files are few or no worker can be started."""
    workers = min(cores(), len(chunks))
    if workers > 1 and sum(map(len, chunks.values())) >= IN_PROCESS:
        # `spawn`: a fork of a process that has threads, as every one with torch has, may hang
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        try:
            with _no_script():
                tasks = [pool.submit(work, *chunk) for chunk in chunks.items()]
            for task in as_completed(tasks):
                chunk = task.result()
                del chunks[chunk.first]
                yield chunk
        except BrokenProcessPool:
            pass  # no worker could be started, or one was killed
        finally:
            pool.shutdown(cancel_futures=True)
    for first, files in chunks.items():
        yield work(first, files)


@contextmanager
def _no_script() -> Iterator[None]:
    """Start workers that do not run the user's script again, as `spawn` has them do.

    They need nothing from it, and one without a main guard would train a second time.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
