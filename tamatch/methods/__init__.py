"""The methods by name: a table to read, without importing torch.

A row names the class and what is fixed about it; `get` imports it.
"""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import usercode
from ..errors import UsageError

if TYPE_CHECKING:
    from .base import Method


@dataclass(frozen=True)
class MethodEntry:
    """One row of the table."""

    title: str
    path: str  # "module:Class" in this package
    summary: str
    options: dict[str, Any] = field(default_factory=dict)  # what an ablation fixes
    all_labels: bool = False  # trains on every training label there is


METHODS: dict[str, MethodEntry] = {
    "supervised": MethodEntry(
        "Supervised", "supervised:Supervised", "labelled images alone, the baseline"
    ),
    "fully_supervised": MethodEntry(
        "Fully Supervised", "supervised:FullySupervised", "every training label known", {}, True
    ),
    "pseudo_label": MethodEntry(
        "Pseudo-Labeling", "pseudo_label:PseudoLabel", "confident predictions become labels"
    ),
    "mean_teacher": MethodEntry(
        "Mean Teacher", "mean_teacher:MeanTeacher", "the running average of the weights teaches"
    ),
    "pi_model": MethodEntry(
        "Π-Model", "pi_model:PiModel", "two weak views must be predicted alike"
    ),
    "vat": MethodEntry("VAT", "vat:VAT", "predictions must withstand the worst small change"),
    "mixmatch": MethodEntry(
        "MixMatch", "mixmatch:MixMatch", "sharpened guesses, mixed with labelled images"
    ),
    "remixmatch": MethodEntry(
        "ReMixMatch", "remixmatch:ReMixMatch", "MixMatch with alignment, strong views, rotations"
    ),
    "adamatch": MethodEntry(
        "AdaMatch", "adamatch:AdaMatch", "predictions and threshold follow the labelled batch"
    ),
    "uda": MethodEntry("UDA", "uda:UDA", "the strong view agrees with the sharpened weak one"),
    "fixmatch": MethodEntry(
        "FixMatch", "fixmatch:FixMatch", "confident weak predictions label the strong view"
    ),
    "flexmatch": MethodEntry(
        "FlexMatch", "flexmatch:FlexMatch", "lower thresholds for classes learnt less"
    ),
    "dash": MethodEntry("Dash", "dash:Dash", "a falling bound on the loss selects pseudo-labels"),
    "crmatch": MethodEntry(
        "CRMatch", "crmatch:CRMatch", "FixMatch whose features keep views and rotations apart"
    ),
    "comatch": MethodEntry(
        "CoMatch", "comatch:CoMatch", "classes and embeddings correct each other by a graph"
    ),
    "simmatch": MethodEntry(
        "SimMatch", "simmatch:SimMatch", "views agree on classes and on near labelled images"
    ),
    "freematch": MethodEntry(
        "FreeMatch", "freematch:FreeMatch", "thresholds that follow the confidence, and fairness"
    ),
    "softmatch": MethodEntry(
        "SoftMatch", "softmatch:SoftMatch", "all pseudo-labels count, the less sure ones less"
    ),
    "defixmatch": MethodEntry(
        "DeFixMatch", "defixmatch:DeFixMatch", "FixMatch less the same loss on labelled images"
    ),
    "tamatch": MethodEntry(
        "TaMatch", "tamatch:TaMatch", "debiased generation and utilization of pseudo-labels"
    ),
    "tamatch_no_rescaling": MethodEntry(
        "TaMatch w/o Rescaling", "tamatch:TaMatch", "ablation: raw predictions", {"generate": "raw"}
    ),
    "tamatch_no_weighting": MethodEntry(
        "TaMatch w/o Weighting", "tamatch:TaMatch", "ablation: all weights 1", {"weigh": "even"}
    ),
    "tamatch_no_clipping": MethodEntry(
        "TaMatch w/o Clipping", "tamatch:TaMatch", "ablation: unbounded weights", {"clip": "none"}
    ),
    "tamatch_no_ema_target": MethodEntry(
        "TaMatch w/o EMA Target",
        "tamatch:TaMatch",
        "ablation: the target does not move",
        {"lambda_target": 1.0},
    ),
}


CUSTOM: dict[str, type[Method]] = {}  # classes that were handed over, by "FILE.py:CLASS"


def entry(name: str) -> MethodEntry:
    """The row of a method, or an error that names the near miss."""
    if name in METHODS:
        return METHODS[name]
    file, colon, cls = name.rpartition(":")
    if colon and file.endswith(".py"):
        return MethodEntry(cls, name, "a method of your own")
    small = name.lower().replace("-", "_")
    near = [small] if small in METHODS else difflib.get_close_matches(small, METHODS, n=3)
    hint = f"Perhaps you meant {' or '.join(near)}." if near else "`tamatch methods` lists them."
    raise UsageError(f"--method {name} is not a method. {hint}")


def get(name: str) -> type[Method]:
    """The class behind a name, or behind FILE.py:CLASS."""
    if name not in METHODS:
        return own_class(name)
    module, _, cls = entry(name).path.partition(":")
    found: type[Method] = getattr(import_module(f"{__name__}.{module}"), cls)
    return found


def register(cls: type[Method]) -> str:
    """The FILE.py:CLASS name of a user's class, under which a resumed run finds it again."""
    try:
        name = f"{Path(inspect.getfile(cls)).resolve()}:{cls.__qualname__}"
    except (OSError, TypeError):
        raise UsageError(
            f"method {cls.__qualname__} is not defined in a file, so a resumed run could not "
            "find it again. Put the class into a .py file and import it from there."
        ) from None
    CUSTOM[name] = cls
    return name


def own_class(name: str) -> type[Method]:
    """Import a user's class from its file."""
    from .base import Method

    entry(name)
    if name in CUSTOM:
        return CUSTOM[name]
    file, _, cls = name.rpartition(":")
    found = usercode.find("--method", name)  # anew, if the file has changed
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise UsageError(f"--method {name}: {file} has no class {cls} that is a tamatch.Method.")
    return found
