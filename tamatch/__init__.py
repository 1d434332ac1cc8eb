"""tamatch: learn an image classifier from a few labels and many unlabelled images."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .estimator import SSLClassifier, TaMatchClassifier
    from .methods.base import Method
    from .model import Model, Predictions
    from .run import Finished, resume, train
    from .seeds import resume_seeds, train_seeds
    from .use import load

__all__ = [
    "Finished",
    "Method",
    "Model",
    "Predictions",
    "SSLClassifier",
    "TaMatchClassifier",
    "__version__",
    "load",
    "resume",
    "resume_seeds",
    "train",
    "train_seeds",
]

_HOMES = {
    "Finished": "run",
    "Method": "methods.base",
    "Model": "model",
    "Predictions": "model",
    "SSLClassifier": "estimator",
    "TaMatchClassifier": "estimator",
    "load": "use",
    "resume": "run",
    "resume_seeds": "seeds",
    "train": "run",
    "train_seeds": "seeds",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import tamatch` stays fast and does not load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tamatch' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
