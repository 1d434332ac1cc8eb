"""Log lines as event files for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import UsageError

MOST_CLASSES = 100  # classes that are drawn one by one


def check_installed() -> None:
    """An error that says how to get the package, where it is missing."""
    if find_spec("tensorboard") is None:
        raise UsageError("--tensorboard needs the package tensorboard: `pip install tensorboard`.")


class Events:
    """Writes beside metrics.jsonl; what a resumed run writes again replaces what it had written."""

    def __init__(self, folder: Path, names: Sequence[str], first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to load, and seldom wanted

        self.names = names
        purge = first_step if first_step > 1 else None
        self.writer = SummaryWriter(str(folder), purge_step=purge)

    def add(self, row: Mapping[str, Any]) -> None:
        """One curve per number, and one per class of a list, if there are not too many classes."""
        kind, step = row["kind"], row["step"]
        for name, value in row.items():
            if name in ("kind", "step"):
                continue
            if isinstance(value, int | float):
                self.writer.add_scalar(f"{kind}/{name}", value, step)
            elif isinstance(value, list) and len(value) == len(self.names) <= MOST_CLASSES:
                for c, one in zip(self.names, value, strict=True):
                    if one is not None:
                        self.writer.add_scalar(f"{kind}/{name}/{c}", one, step)

    def close(self) -> None:
        """Write what is left, and end the thread that writes."""
        self.writer.close()
