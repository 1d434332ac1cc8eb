"""Every reference by the name of its method: the class `Reference` of each file in this folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from .base import SlowMethod

REFERENCES: dict[str, type[SlowMethod]] = {
    path.stem: import_module(f"{__package__}.{path.stem}").Reference
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if "\nclass Reference(" in path.read_text()
}
