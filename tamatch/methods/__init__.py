"""The methods by name: a table to read, without importing torch.

A row names the class and what is fixed about it; `get` imports it.
"""

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..errors import UsageError, perhaps
from ..own import usercode

if TYPE_CHECKING:
    from .base import Method

AnyMethod: TypeAlias = "str | type[Method]"  # a name, or the class that the user gives


class StepCount(NamedTuple):
    """An option that counts steps: its value in a full-length run, and the least in a short one."""

    most: int
    share: int = 1  # of the run, at most one of so many parts
    least: int = 0


@dataclass(frozen=True)
class MethodEntry:
    """One row of the table."""

    title: str
    path: str  # "module:Class" in this package
    summary: str
    options: dict[str, Any] = field(default_factory=dict)  # what an ablation fixes
    all_labels: bool = False  # trains on every training label there is
    averaged: bool = False  # learns from the average of its weights, so it always has one
    presets: dict[str, dict[str, Any]] = field(default_factory=dict)  # where a data set differs
    counts: dict[str, StepCount] = field(default_factory=dict)  # options that count steps
    taught: bool = False  # learns what is solved on features, so only tuned nets have it


SMALL_POOL = {"unlabelled": 64}  # as many unlabelled as labelled images per step
MEMORY = {"memory_after": StepCount(1024)}  # steps before the memory counts
SHORT_MEMORY = {"memory_after": 100}  # an epoch of the benchmark is most of a short run
TAMATCH_PRESETS = {"cifar10-lt": {"target": "adaptive"}}  # the class shares are unknown


# fmt: off
METHODS: dict[str, MethodEntry] = {
    "supervised": MethodEntry(
        "Supervised", "supervised:Supervised", "labelled images only, the baseline"
    ),
    "fully_supervised": MethodEntry(
        "Fully Supervised", "supervised:FullySupervised", "every training label known", {}, True
    ),
    "pseudo_label": MethodEntry(
        "Pseudo-Labeling", "pseudo_label:PseudoLabel", "confident predictions become labels",
        presets={"cifar10": SMALL_POOL},
    ),
    "mean_teacher": MethodEntry(
        "Mean Teacher", "mean_teacher:MeanTeacher", "the running average of the weights teaches",
        averaged=True, presets={"cifar10": SMALL_POOL},
    ),
    "pi_model": MethodEntry(
        "Π-Model", "pi_model:PiModel", "two weak views must get the same prediction",
        presets={"cifar10": SMALL_POOL},
    ),
    "vat": MethodEntry(
        "VAT", "vat:VAT", "predictions must withstand the worst small perturbation",
        presets={"cifar10": SMALL_POOL},
    ),
    "mixmatch": MethodEntry(
        "MixMatch", "mixmatch:MixMatch", "sharpened guesses, mixed with labelled images",
        presets={
            "cifar10": {**SMALL_POOL, "lambda_u": 100.0}, "cifar10-lt": {"lambda_u": 100.0},
        },
    ),
    "remixmatch": MethodEntry(
        "ReMixMatch", "remixmatch:ReMixMatch", "MixMatch with alignment, strong views, rotations",
        presets={"cifar10": SMALL_POOL, "cifar10-lt": SMALL_POOL},
    ),
    "adamatch": MethodEntry(
        "AdaMatch", "adamatch:AdaMatch", "predictions and threshold follow the labelled batch"
    ),
    "uda": MethodEntry("UDA", "uda:UDA", "the strong view agrees with the sharpened weak one"),
    "fixmatch": MethodEntry(
        "FixMatch", "fixmatch:FixMatch", "confident weak predictions label the strong view"
    ),
    "flexmatch": MethodEntry(
        "FlexMatch", "flexmatch:FlexMatch", "lower thresholds for classes learnt less well"
    ),
    "dash": MethodEntry(
        "Dash", "dash:Dash", "a falling bound on the loss selects pseudo-labels",
        counts={
            "rho_period": StepCount(10_240, 20, 1), "supervised_steps": StepCount(2_048, 100, 1),
        },
    ),
    "crmatch": MethodEntry(
        "CRMatch", "crmatch:CRMatch", "FixMatch whose features keep views and rotations apart"
    ),
    "comatch": MethodEntry(
        "CoMatch", "comatch:CoMatch", "classes and embeddings correct each other through a graph",
        averaged=True, counts=MEMORY,
        presets={
            "cifar10": {"queue": 5}, "cifar10-lt": {"queue": 5}, "digits": SHORT_MEMORY,
            "stl10": {"lambda_contrast": 5.0},
        },
    ),
    "simmatch": MethodEntry(
        "SimMatch", "simmatch:SimMatch", "views agree on classes and on similar labelled images",
        averaged=True, counts=MEMORY,
        presets={"digits": SHORT_MEMORY, "eurosat": {"temperature": 0.2}},
    ),
    "freematch": MethodEntry(
        "FreeMatch", "freematch:FreeMatch",
        "thresholds that follow the confidence, plus a fairness loss",
    ),
    "softmatch": MethodEntry(
        "SoftMatch", "softmatch:SoftMatch", "all pseudo-labels count, less confident ones less"
    ),
    "defixmatch": MethodEntry(
        "DeFixMatch", "defixmatch:DeFixMatch", "FixMatch minus the same loss on labelled images"
    ),
    "efficientmatch": MethodEntry(
        "EfficientMatch", "efficientmatch:EfficientMatch", "FixMatch and mixed images, few a step",
        presets={"cifar10": {"unlabelled": 192}},
    ),
    "regmixmatch": MethodEntry(
        "RegMixMatch", "regmixmatch:RegMixMatch", "FreeMatch and images pasted into others",
        presets={d: {"tau_mix": 0.99, "lambda_cam": 0.0} for d in ("cifar100", "stl10", "eurosat")},
    ),
    "shrinkmatch": MethodEntry(
        "ShrinkMatch", "shrinkmatch:ShrinkMatch", "FixMatch; unsure images, with fewer classes"
    ),
    "sequencematch": MethodEntry(
        "SequenceMatch", "sequencematch:SequenceMatch", "FixMatch and a medium view, in a sequence"
    ),
    "infomatch": MethodEntry(
        "InfoMatch", "infomatch:InfoMatch", "two strong views and CutMix; FreeMatch's thresholds",
    ),
    # New rows are put here; below are the methods for long tails, and TaMatch.
    "saw": MethodEntry(
        "SAW", "saw:SAW", "FixMatch with weights by the effective number of images of a class"
    ),
    "abc": MethodEntry("ABC", "abc:ABC", "FixMatch beside a head that sees balanced classes"),
    "daso": MethodEntry(
        "DASO", "daso:DASO", "pseudo-labels of frequent classes blended with prototypes",
        averaged=True,
    ),
    "acr": MethodEntry(
        "ACR", "acr:ACR", "two heads, and an adjustment that follows the pool's class shares"
    ),
    "cdmad": MethodEntry(
        "CDMAD", "cdmad:CDMAD", "logits minus those of a blank image, in pseudo-labels and tests"
    ),
    "simpro": MethodEntry(
        "SimPro", "simpro:SimPro", "logits adjusted by class shares that EM estimates"
    ),
    "ccl": MethodEntry(
        "CCL", "ccl:CCL", "two heads and contrast between images, by the pool's class shares"
    ),
    "tamatch": MethodEntry(
        "TaMatch", "tamatch:TaMatch", "debiased generation and utilization of pseudo-labels",
        presets=TAMATCH_PRESETS,
    ),
    "tamatch_lt": MethodEntry(
        "TaMatch-LT", "tamatch_lt:TaMatchLT", "TaMatch for long tails: r corrects both losses",
    ),
    "tamatch_solved": MethodEntry(
        "TaMatch, solved", "taught:Taught", "a tuned net learns TaMatch as solved on its features",
        taught=True,
    ),
    "tamatch_no_rescaling": MethodEntry(
        "TaMatch w/o Rescaling", "tamatch:TaMatch", "ablation: raw predictions",
        {"generate": "raw"}, presets=TAMATCH_PRESETS,
    ),
    "tamatch_no_weighting": MethodEntry(
        "TaMatch w/o Weighting", "tamatch:TaMatch", "ablation: all weights 1", {"weigh": "even"},
        presets=TAMATCH_PRESETS,
    ),
    "tamatch_no_clipping": MethodEntry(
        "TaMatch w/o Clipping", "tamatch:TaMatch", "ablation: unbounded weights", {"clip": "none"},
        presets=TAMATCH_PRESETS,
    ),
    "tamatch_no_ema_target": MethodEntry(
        "TaMatch w/o EMA Target", "tamatch:TaMatch", "ablation: the target does not move",
        {"lambda_target": 1.0}, presets=TAMATCH_PRESETS,
    ),
}
# fmt: on


def is_taught(name: str) -> bool:
    """Whether it is a method of tuned nets alone."""
    return name in METHODS and METHODS[name].taught


BY_THEMSELVES = tuple(name for name in METHODS if not is_taught(name))


def is_method(thing: Any) -> bool:
    """Whether it is a method's class."""
    from .base import Method

    return isinstance(thing, type) and issubclass(thing, Method)


CUSTOM = usercode.UserObjects(
    "method", "FILE.py:CLASS", "a name, FILE.py:CLASS, or a subclass of tamatch.Method",
    "class {} derived from tamatch.Method", is_method,
)  # fmt: skip
is_user_code = usercode.is_own


def entry(name: str) -> MethodEntry:
    """The row of a method, or an error that names the near miss."""
    if name in METHODS:
        return METHODS[name]
    if is_user_code(name):
        return MethodEntry(name.rpartition(":")[2], name, "a method of your own")
    hint = perhaps(name, METHODS) or " `tamatch methods` lists them."
    if name.endswith(".py"):
        hint = f" Perhaps you meant {name}:CLASS, a class in that file."
    raise UsageError(f"--method {name} is not a method.{hint}")


def get(name: str) -> "type[Method]":
    """The class behind a name, or behind FILE.py:CLASS."""
    row = entry(name)
    if name not in METHODS:
        own: type[Method] = CUSTOM.get(name)
        return own
    module, _, cls = row.path.partition(":")
    found: type[Method] = getattr(import_module(f"{__name__}.{module}"), cls)
    return found
