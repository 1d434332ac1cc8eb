"""The YAML file of `--config`, which `--print-config` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ..errors import UsageError
from ..storage.untrusted import parse_yaml
from .config import Run


def read_config(path: Path) -> dict[str, Any]:
    """A YAML file of option names and values, as `--print-config` writes it."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--config {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise UsageError(f"--config {path} is not valid YAML{where}.") from None
    if not isinstance(content, dict):
        raise UsageError(f"--config {path} must contain lines of the form `option: value`.")
    if isinstance(content.get("config"), dict):
        raise UsageError(
            f"--config {path} is a run record, not an option file: it has the options of the run "
            "under `config` and the command that repeats it under `command`. --print-config "
            "prints an option file."
        )
    return {str(k): v for k, v in content.items()}


def dump(run: Run) -> str:
    """The configuration as YAML that `--config` reads back."""
    flat = {
        k: list(v) if isinstance(v, tuple) else v
        for k, v in run.flat().items()
        if v is not None or k in run.options  # where it is a value, and not the lack of one
    }
    return str(yaml.safe_dump(flat, sort_keys=False))
