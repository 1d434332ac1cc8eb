"""Paths that a user gives; and files that are written whole or not at all, by one process."""

import errno
import fcntl
import json
import os
import platform
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from ..errors import StorageError, UsageError
from .untrusted import parse_json


def path_of(value: Any, what: str) -> Path:
    """A value as a path; `what` begins the error message: "out takes a folder"."""
    if isinstance(value, str | os.PathLike) and os.fspath(value):
        return Path(value)
    got = repr(value) if value is None or isinstance(value, str) else type(value).__name__
    hint = " Perhaps you meant its path." if hasattr(value, "path") else ""
    raise UsageError(f"{what}, as a str or Path; got {got}.{hint}")


def config_path(value: Any) -> Path | None:
    """The file of options, where there is one."""
    if isinstance(value, Mapping):
        raise UsageError(
            "config takes a YAML file. Pass options in a dict as keywords: train(**options)."
        )
    return None if value is None else path_of(value, "config takes a YAML file")


def refuse_existing(
    place: Path, *, is_folder: bool, overwrite: bool, option: str = "--out"
) -> None:
    """Never lose an older file unasked."""
    if place.exists() and place.is_dir() != is_folder:
        found, wanted = ("folder", "file") if place.is_dir() else ("file", "folder")
        raise UsageError(f"{option} {place} is a {found}; give a {wanted}.")
    taken = any(place.iterdir()) if place.is_dir() else place.exists()
    if taken and not overwrite:
        raise UsageError(
            f"{place} already exists. Choose a different {option}, or use --overwrite."
        )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` into one line that names the file."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from error


def own(path: Path) -> Path:
    """The same path; an error if it is a link or not a regular file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return path
    if stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1):
        raise OSError(errno.EMLINK, "it is a link to another file, which stays as it is")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return path


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder survive a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_parent(path: Path) -> None:
    """Make the folder that a file is to lie in, and those above it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # a file is in the way
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file atomically: temporary neighbour, fsync, rename, fsync of the folder."""
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        make_parent(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.unlink(missing_ok=True)
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file: the whole of it, or nothing."""
    with writing(path), own(path).open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        content = line.encode(errors="replace") + b"\n"  # a file's name may be no text
        try:
            if file.write(content) < len(content):  # the disk had room for a part of it
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(before)
            raise


def timestamp() -> str:
    """Now, in UTC, as records hold it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_json(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, text.encode() + b"\n")


def read_bytes(path: Path) -> bytes:
    """The content of a regular file: a pipe or a device would never come to its end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return path.read_bytes()


def read_json(path: Path) -> Any:
    return parse_json(read_bytes(path))


class Locked(UsageError):
    """Another running process holds the lock."""


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file of `what`, or raise `Locked` with the process that holds it.

    The system releases the lock when a process ends, even if it is killed: the file that it leaves
    behind then locks nothing.
    """
    with take(path, what) as file:
        with writing(path):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}\n")
            file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def take(path: Path, what: str) -> TextIO:
    """Open and lock the file that lies at `path`."""
    with writing(path):
        make_parent(path)
        while True:
            file = own(path).open("a+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "another process"
                file.close()
                raise Locked(f"{what} is in use by {holder}. Wait until it has finished.") from None
            except FileNotFoundError:
                pass
            file.close()  # the last holder has just deleted it: another one may make it anew
