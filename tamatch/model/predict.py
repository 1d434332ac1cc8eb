"""Labels for image files, folders and lists of names: `tamatch predict`."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Literal, TextIO, cast

from ..data.decode import FOREIGN, SUFFIXES
from ..data.layout import identities_above, identity
from ..errors import DataError, UsageError
from ..progress import counting
from ..storage.files import make_parent, writing
from ..storage.folder import RunFolder, removing_empty_folders
from ..storage.spreadsheet import neutralise, printable
from .load import load
from .model import BELONGS, Predictions

Format = Literal["csv", "jsonl"]
STDIN = "-"
PIECE = 1 << 16  # bytes of names read at once, at most
DIGITS = 6  # of a probability


def predict(
    path: str | Path,
    images: Sequence[str],
    out: Path | None = None,
    *,
    null: bool = False,
    format: Format = "csv",
    top: int | None = None,
    overwrite: bool = False,
    net: str | None = None,
) -> int:
    """Write what a run's model predicts for files and folders of images; return how many.

    Images that cannot be read are named on stderr, and are an error after all others are written.
    """
    if top is not None and top < 1:
        raise UsageError(f"--top must be at least 1, got {top}.")
    for word in images:
        if word != STDIN and not os.path.exists(word):
            raise UsageError(f"{word} does not exist. Give image files, folders, or - for stdin.")
    if null and STDIN not in images:
        raise UsageError(
            "-0 applies only to file names read from stdin: give - instead of the images."
        )
    for word in images:
        if RunFolder(Path(word)).holds_run():
            raise UsageError(f"{word} is a run, not an image. Give the run first, then the images.")
    model = load(path, net)
    files: Iterable[str] = images_of(images, cast(BufferedIOBase, sys.stdin.buffer), null=null)
    total = 0  # unknown, where names come from stdin
    if STDIN not in images:
        files = list(files)
        total = len(files)
    unread = 0

    def skip(image: str, reason: str) -> None:
        nonlocal unread
        unread += 1
        print(f"tamatch: {printable(image)} is left out: {reason}", file=sys.stderr)

    done = 0
    with output(out, sys.stdout, overwrite=overwrite) as file, counting("predicting") as count:
        classes, belonging = model.facts.classes, model.likeness is not None
        if format == "csv":
            write = csv_rows(file, classes, top, belonging)
        else:
            write = json_rows(file, classes, top)
        for names, found in model.stream(files, skip=skip):
            write(names, found)
            file.flush()
            done += len(names)
            count(done + unread, total)
        if not (done or unread):
            raise DataError(f"no images found in {', '.join(map(printable, images))}.")
        if not done:  # in here, so that no empty table is left behind
            raise unreadable(unread, unread)
    if unread:
        raise unreadable(unread, done + unread)
    return done


def unreadable(count: int, total: int) -> DataError:
    rest = " The others were written." if count < total else ""
    return DataError(f"{count:,} of {total:,} images could not be read; see above.{rest}")


def images_of(words: Sequence[str], stdin: BufferedIOBase, *, null: bool = False) -> Iterator[str]:
    """The image files that the words name, in order: files, all images of folders, `-` for stdin.

    stdin has one name per line, or names that end with a NUL byte.
    """
    for word in words:
        if word == STDIN:
            yield from names_in(stdin, b"\0" if null else b"\n")
        elif os.path.isdir(word):
            yield from images_below(word)
        else:
            yield word


def names_in(stdin: BufferedIOBase, end: bytes) -> Iterator[str]:
    """The names as they arrive; a pipe may be long, and is never held whole."""
    rest, padding = b"", b"\r" if end == b"\n" else b""  # before a line end of Windows
    while piece := stdin.read1(PIECE):
        *whole, rest = (rest + piece).split(end)
        names = (name.rstrip(padding) for name in whole)
        yield from (os.fsdecode(name) for name in names if name)
    if rest:
        yield os.fsdecode(rest)


def images_below(folder: str) -> Iterator[str]:
    """Every image in a folder and its folders; hidden ones are left out, links are followed.

    Those in formats that cannot be read are among them, so that they are told.
    """
    seen = identities_above(folder)
    for here, folders, files in os.walk(folder, followlinks=True):
        if (own := identity(here)) in seen:  # a link back to where we come from
            folders.clear()
            continue
        seen.add(own)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and name.lower().endswith((*SUFFIXES, *FOREIGN)):
                yield os.path.join(here, name)


Write = Callable[[Sequence[str], Predictions], None]


def csv_rows(
    out: TextIO, classes: Sequence[str], top: int | None, belonging: bool = False
) -> Write:
    """The header comes with the first images, so that there is none by itself."""
    rows = csv.writer(out, lineterminator="\n")
    more = range(2, min(top, len(classes)) + 1) if top else ()
    last = [f"{what}_{i}" for i in more for what in ("label", "confidence")]
    every = () if top else [f"p_{name}" for name in classes]
    known = [BELONGS] if belonging else []
    unwritten = [["path", "label", "confidence", *last, *known, *every]]

    def write(files: Sequence[str], found: Predictions) -> None:
        rows.writerows(unwritten)
        unwritten.clear()
        ranked, belongs = found.top(top or 1), found.belongs
        for i, (file, best, p) in enumerate(zip(files, ranked, found.probabilities, strict=True)):
            cells = [cell for name, share in best for cell in (neutralise(name), number(share))]
            cells += [] if belongs is None else [number(belongs[i])]
            whole = () if top else map(number, p)
            rows.writerow([neutralise(printable(file)), *cells, *whole])

    return write


def json_rows(out: TextIO, classes: Sequence[str], top: int | None) -> Write:
    """The classes of a line are in order, best first."""
    what = "top" if top else "probabilities"

    def write(files: Sequence[str], found: Predictions) -> None:
        ranked, belongs = found.top(top or len(classes)), found.belongs
        for i, (file, best) in enumerate(zip(files, ranked, strict=True)):
            shares = {name: round(share, DIGITS) for name, share in best}
            label, confidence = next(iter(shares.items()))
            row: dict[str, Any] = {"path": file, "label": label, "confidence": confidence}
            row |= {} if belongs is None else {BELONGS: round(float(belongs[i]), DIGITS)}
            out.write(json.dumps({**row, what: shares}) + "\n")

    return write


def number(share: float) -> str:
    return f"{share:.{DIGITS}f}"


@contextmanager
def output(path: Path | None, screen: TextIO, *, overwrite: bool) -> Iterator[TextIO]:
    """The screen, or a file that appears when it is complete, with its folder if that is new."""
    if path is None:
        yield screen
        return
    if path.is_dir() or (path.exists() and not overwrite):
        what = "is a folder" if path.is_dir() else "already exists"
        raise UsageError(
            f"{path} {what}. Choose a different name, or use --overwrite to replace a file."
        )
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with removing_empty_folders(path.parent), writing(path):
        make_parent(path)
        try:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                yield file
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
