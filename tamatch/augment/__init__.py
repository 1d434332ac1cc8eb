"""Batched image augmentation in which every image draws its own operations.

Works on uint8 batches on any device, without a random generator and without waiting for the
device. See docs/step.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .policy import OPERATIONS, Policy

if TYPE_CHECKING:
    from .stream import uniform
    from .views import Augment

__all__ = ["OPERATIONS", "Augment", "Policy", "uniform"]


def __getattr__(name: str) -> Any:
    """Import what needs torch on first use: a policy alone must stay cheap to import."""
    module = {"Augment": "views", "uniform": "stream"}.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
