"""tamatch: learn an image classifier from a few labels and many unlabelled images."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors as errors

__version__ = "0.1.0"

if sys.platform == "win32":  # files are locked and replaced there by other rules
    raise ImportError(
        "tamatch runs on Linux and macOS. On Windows, install it in the Windows Subsystem for "
        "Linux (WSL); exported ONNX models run anywhere."
    )

if TYPE_CHECKING:
    from .estimators.estimator import SSLClassifier, TaMatchClassifier
    from .estimators.features import FeatureClassifier
    from .loop import SSLLoss
    from .methods.base import Method
    from .model.evaluate import Evaluation, evaluate
    from .model.export import Exported, export
    from .model.load import load
    from .model.model import Model, Predictions
    from .runs.end import Finished
    from .runs.label import Labelled, label
    from .runs.pick import Picked, pick
    from .runs.run import resume, train
    from .runs.seeds import resume_seeds, train_seeds
    from .storage.history import History, history

__all__ = [
    "Evaluation",
    "Exported",
    "FeatureClassifier",
    "Finished",
    "History",
    "Labelled",
    "Method",
    "Model",
    "Picked",
    "Predictions",
    "SSLClassifier",
    "SSLLoss",
    "TaMatchClassifier",
    "__version__",
    "evaluate",
    "export",
    "history",
    "label",
    "load",
    "pick",
    "resume",
    "resume_seeds",
    "train",
    "train_seeds",
]

_HOMES = {
    "Evaluation": "model.evaluate",
    "Exported": "model.export",
    "FeatureClassifier": "estimators.features",
    "Finished": "runs.end",
    "History": "storage.history",
    "Labelled": "runs.label",
    "Method": "methods.base",
    "Model": "model.model",
    "Picked": "runs.pick",
    "Predictions": "model.model",
    "SSLClassifier": "estimators.estimator",
    "SSLLoss": "loop",
    "TaMatchClassifier": "estimators.estimator",
    "evaluate": "model.evaluate",
    "export": "model.export",
    "history": "storage.history",
    "label": "runs.label",
    "load": "model.load",
    "pick": "runs.pick",
    "resume": "runs.run",
    "resume_seeds": "runs.seeds",
    "train": "runs.run",
    "train_seeds": "runs.seeds",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import tamatch` stays fast and does not load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tamatch' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    """For completion: also what has not been imported yet."""
    return sorted({*globals(), *__all__})
