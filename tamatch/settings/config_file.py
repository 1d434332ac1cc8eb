"""The YAML file of `--config`, which `--print-config` writes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ..errors import UsageError, one_line
from ..storage.untrusted import parse_yaml
from .config import Run
from .options import flag_of

ELSEWHERE = ("out", "overwrite", "seeds", "time", "config", "print_config")  # options of a command


def read_config(path: Path) -> dict[str, Any]:
    """A YAML file of option names and values, as `--print-config` writes it."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--config {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        why = getattr(error, "problem", None) or one_line(error, 200)
        raise UsageError(f"--config {path} is not valid YAML{where}: {why}.") from None
    if not isinstance(content, dict):
        raise UsageError(f"--config {path} must contain lines of the form `option: value`.")
    if isinstance(content.get("config"), dict):
        raise UsageError(
            f"--config {path} is a run record, not an option file: it has the options of the run "
            "under `config` and the command that repeats it under `command`. --print-config "
            "prints an option file."
        )
    values = {str(k).replace("-", "_"): v for k, v in content.items()}
    for name in ELSEWHERE:
        if name in values:
            raise UsageError(
                f"--config {path}: {flag_of(name)} is not a setting of the run, so no file can "
                "contain it. Give it with the command."
            )
    return values


@contextmanager
def naming_file(path: Path | None, names: Collection[str]) -> Iterator[None]:
    """Prefix errors about options that the file sets with the name of the file."""
    try:
        yield
    except UsageError as error:
        what = str(error).split(". ")[0]  # what follows is advice, which names other options
        flags = re.findall(r"--[\w-]+", what)
        if path and any(flag_of(name.rstrip("_")) in flags for name in names):
            raise type(error)(f"--config {path}: {error}") from None
        raise


def dump(run: Run) -> str:
    """The configuration as YAML that `--config` reads back."""
    flat = {
        k: list(v) if isinstance(v, tuple) else v
        for k, v in run.flat().items()
        if v is not None or k in run.options  # where it is a value, and not the lack of one
    }
    return str(yaml.safe_dump(flat, sort_keys=False))
