"""tamatch: learn an image classifier from a few labels and many unlabelled images."""

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
    from .estimators.estimator import SSLClassifier as SSLClassifier
    from .estimators.estimator import TaMatchClassifier as TaMatchClassifier
    from .estimators.features import FeatureClassifier as FeatureClassifier
    from .loop import SSLLoss as SSLLoss
    from .methods.base import Method as Method
    from .model.evaluate import Evaluation as Evaluation
    from .model.evaluate import evaluate as evaluate
    from .model.export import Exported as Exported
    from .model.export import export as export
    from .model.load import load as load
    from .model.model import Model as Model
    from .model.model import Predictions as Predictions
    from .runs.end import Finished as Finished
    from .runs.label import Labelled as Labelled
    from .runs.label import label as label
    from .runs.pick import Picked as Picked
    from .runs.pick import pick as pick
    from .runs.run import resume as resume
    from .runs.run import train as train
    from .runs.seeds import resume_seeds as resume_seeds
    from .runs.seeds import train_seeds as train_seeds
    from .storage.history import History as History
    from .storage.history import history as history

_NAMES = {  # of each module that is imported when one of them is used
    "estimators.estimator": ("SSLClassifier", "TaMatchClassifier"),
    "estimators.features": ("FeatureClassifier",),
    "loop": ("SSLLoss",),
    "methods.base": ("Method",),
    "model.evaluate": ("Evaluation", "evaluate"),
    "model.export": ("Exported", "export"),
    "model.load": ("load",),
    "model.model": ("Model", "Predictions"),
    "runs.end": ("Finished",),
    "runs.label": ("Labelled", "label"),
    "runs.pick": ("Picked", "pick"),
    "runs.run": ("resume", "train"),
    "runs.seeds": ("resume_seeds", "train_seeds"),
    "storage.history": ("History", "history"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> Any:
    """Import on first use: `import tamatch` stays fast and does not load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tamatch' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    """For completion: also what has not been imported yet."""
    return sorted({*globals(), *__all__})
