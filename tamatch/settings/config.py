"""The whole configuration of a run as one flat record, and the options that set it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from ..errors import UsageError
from ..kinds import AT_LEAST_ONE, AT_LEAST_ZERO, FRACTION, POSITIVE, SHARE, Between
from ..methods import entry, get
from ..own.usercode import blaming
from .options import Option, keyword_options, options_of_dataclass


@dataclass(frozen=True, kw_only=True)
class Run:
    """Every setting of a run; what has no default here is set by the recipe of the data set."""

    data: Annotated[str, "name of a data set, or a folder of images"] = "digits"
    root: Annotated[str, "folder that contains a named data set"] | None = None
    labels: Annotated[str, "table of labels to add to the folder's own"] | None = None
    size: (
        Annotated[int, Between(8, 512), "image side in pixels; chosen for your own images"] | None
    ) = None
    normalise: Annotated[
        Literal["own", "half", "imagenet", "clip"],
        "scale colours by the data's statistics, to -1..1, or by ImageNet's or CLIP's",
    ] = "own"
    flips: Annotated[
        Literal["none", "horizontal", "both"],
        "flip images at random: not at all, horizontally, or also vertically",
    ]
    method: Annotated[str, "name of a method, or FILE.py:CLASS"] = "tamatch"
    net: Annotated[str, "name of a net, or FILE.py:NAME; `tamatch nets` lists them"]
    weights: (
        Annotated[str, "pre-trained weights: a name of `tamatch nets`, a file, or none"] | None
    ) = None
    head: Annotated[Literal["random", "zero"], "initial values of the last layer"] = "random"
    from_: Annotated[str, "run whose weights and settings to start from"] | None = None
    seed: Annotated[
        int, Between(0, 2**32 - 1), "seed of the split, the initial weights and all sampling"
    ] = 0

    labels_per_class: Annotated[int, AT_LEAST_ONE, "labelled images per class"] | None = None
    head_labelled: Annotated[int, AT_LEAST_ONE, "labelled images of the largest class"] | None = (
        None
    )
    head_unlabelled: (
        Annotated[int, AT_LEAST_ONE, "unlabelled images of the largest class"] | None
    ) = None
    gamma: Annotated[float, "largest class over smallest; negative: reversed"] = 1.0
    gamma_unlabelled: Annotated[float, "the same for the unlabelled pool"] | None = None
    validation_per_class: Annotated[int, AT_LEAST_ZERO, "labelled images held out per class"] = 0
    fold: Annotated[str, "K/N: hold out the K-th of N parts of the labels"] | None = None
    labelled_in_pool: Annotated[
        Literal["yes", "no"], "whether the labelled images are also in the unlabelled pool"
    ]
    prior: (
        Annotated[tuple[float, ...], "known class shares of the pool, or NAME=SHARE for each class"]
        | dict[str, float]
        | None
    ) = None

    steps: Annotated[int, AT_LEAST_ONE, "training steps"]
    warmup: Annotated[
        int,
        AT_LEAST_ZERO,
        "steps over which the learning rate rises (changes with --steps if not set)",
    ]
    batch: Annotated[int, AT_LEAST_ONE, "labelled images per step"]
    unlabelled: Annotated[int, AT_LEAST_ONE, "unlabelled images per step"]
    replacement: Annotated[bool, "sample with replacement instead of in epochs"] = False
    optimizer: Annotated[Literal["sgd", "adamw"], "optimizer"]
    lr: Annotated[float, POSITIVE, "learning rate"]
    weight_decay: Annotated[float, AT_LEAST_ZERO, "weight decay"]
    layer_decay: Annotated[float, Between(0, 1, open_low=True), "learning rate factor per layer"]
    ema: Annotated[float, SHARE, "momentum of the weight average; 0 for none"]
    norm_momentum: (
        Annotated[
            float, FRACTION, "BatchNorm momentum (weight of the new batch); default: the net's"
        ]
        | None
    ) = None

    log_every: Annotated[int, AT_LEAST_ONE, "steps between log lines"]
    test_every: Annotated[int, AT_LEAST_ONE, "steps between tests"]
    save_every: Annotated[int, AT_LEAST_ONE, "steps between checkpoints"]

    baseline: Annotated[Literal["supervised", "none"], "baseline to train on the same labels"]
    device: Annotated[str, "device: auto, cpu, cuda or cuda:N"] = "auto"
    images: Annotated[
        Literal["auto", "device", "stream"],
        "where the images are kept; results do not depend on it",
    ] = "auto"
    threads: (
        Annotated[int, Between(1, 4096), "CPU threads; the number affects the last bits"] | None
    ) = None
    precision: Annotated[Literal["auto", "fp32", "tf32", "bf16"], "numerical precision"] = "auto"
    deterministic: Annotated[bool, "bit-identical results in every run (CUDA); slower"] = False
    compile: Annotated[bool, "compile the net or use the package's kernels (CUDA)"] = True
    kernels: Annotated[bool, "use the package's kernels, not the compiler's (CUDA)"] = True
    graph: Annotated[bool, "capture the step in a CUDA graph"] = True
    tensorboard: Annotated[bool, "also write event files for TensorBoard"] = False
    wandb: Annotated[bool, "also log to Weights & Biases"] = False
    mlflow: Annotated[bool, "also log to MLflow"] = False

    options: dict[str, Any] = field(default_factory=dict)  # the method's own

    def flat(self) -> dict[str, Any]:
        """Every setting by its option's name, the method's own among them."""
        mine = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**{k: v for k, v in mine.items() if k != "options"}, **self.options}


RUN_OPTIONS: dict[str, Option] = options_of_dataclass(Run)
ALSO_KEYWORDS = {"ema"}  # options of a run that a method also takes as keywords


def method_options(method: str) -> dict[str, Option]:
    """The options a method has of its own, with the defaults its table row fixes."""
    fixed, kind = entry(method).options, get(method)
    with blaming(f"--method {method}", "reading its options"):
        found = keyword_options(kind)
    for name in found:
        if name in RUN_OPTIONS and name not in ALSO_KEYWORDS:
            raise UsageError(
                f"{kind.__name__}'s keyword {name} has the name of an option of the run and would "
                "never get a value: rename it."
            )
    own = {k: o for k, o in found.items() if o is not None and k not in RUN_OPTIONS}
    return {
        k: dataclasses.replace(o, default=fixed[k]) if k in fixed else o for k, o in own.items()
    }
