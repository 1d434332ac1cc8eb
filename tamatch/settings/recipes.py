"""The settings each data set is trained with: the paper's protocols, and ours for small data.

There are two protocols: (a) pre-trained ViTs on few labels, (b) wide residual nets from scratch. A
method's signature has its values for (a), its row in `METHODS` what differs in (b), under the name
of CIFAR-10, or for one data set. Names that end in `-tuned` are (a) with a ViT-Tiny.
"""

from dataclasses import dataclass, field
from typing import Any

from ..methods import entry
from ..rules import choose, finetune, pace

Settings = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """Defaults of a `Run`, and of the method's own options."""

    run: Settings
    options: Settings = field(default_factory=dict)


DIGITS: Settings = {
    "net": "wrn_10_1_clean", "labels_per_class": 4, "labelled_in_pool": "yes",
    "flips": "none",  # a mirrored 2 is no digit
    "steps": 1200, "warmup": 0, "batch": 32, "unlabelled": 96,
    "optimizer": "sgd", "lr": 0.03, "weight_decay": 5e-4, "layer_decay": 1.0, "ema": 0.99,
    "log_every": 50, "test_every": 100, "save_every": 300,
    "threads": 1,  # so small a net gains nothing from more, and bits agree on every machine
}  # fmt: skip

FOLDER: Settings = {  # until `choose` has looked at the images and the machine
    "net": choose.CPU_NET, "labelled_in_pool": "yes", "flips": choose.FLIPS,
    "steps": pace.USUAL_STEPS, "warmup": 0,
    "batch": choose.LEAST_BATCH, "unlabelled": choose.CPU_RATIO * choose.LEAST_BATCH,
    "optimizer": "sgd", "lr": 0.03, "weight_decay": 5e-4, "layer_decay": 1.0,
    **pace.averages(pace.USUAL_STEPS), **pace.intervals(pace.USUAL_STEPS),
    "threads": 1,  # unless more are measured to be faster
}  # fmt: skip

USB: Settings = {
    "labelled_in_pool": "yes", "flips": "horizontal",
    "steps": 204_800, "warmup": 5_120, "batch": 8, "unlabelled": 8,
    "optimizer": "adamw", "weight_decay": 5e-4, "ema": 0.0,
    "log_every": 512, "test_every": 2_048, "save_every": 4_096,
}  # fmt: skip

CLASSIC: Settings = {
    "net": "wrn_28_2", "labelled_in_pool": "yes", "flips": "horizontal",
    "steps": 1_048_576, "warmup": 0, "batch": 64, "unlabelled": 448,
    "optimizer": "sgd", "lr": 0.03, "weight_decay": 5e-4, "layer_decay": 1.0, "ema": 0.999,
    "log_every": 1_024, "test_every": 5_120, "save_every": 10_240,
}  # fmt: skip

LONG_TAIL: Settings = {
    **CLASSIC, "labelled_in_pool": "no", "steps": 262_144, "unlabelled": 128,
    "head_labelled": 1500, "head_unlabelled": 3000, "gamma": 100.0,
    "log_every": 256, "test_every": 1_024, "save_every": 8_192,
}  # fmt: skip

MEDICAL: Settings = {  # the benchmark's for TissueMNIST
    **USB, "net": "vit_tiny_p2_32", "lr": 5e-5, "layer_decay": 0.95, "labels_per_class": 10,
}  # fmt: skip

LARGE: Settings = {  # photos of 224 pixels: the benchmark's for Semi-Aves
    **USB, "net": "vit_small_p16_224", "lr": 1e-3, "layer_decay": 0.65,
}  # fmt: skip

TUNED_LABELS = 40  # in all, by which the batch is chosen: 8 of them, as in USB's protocol
TUNED_BATCH = choose.batch(TUNED_LABELS, gpu=True).settings
TUNED: Settings = {  # what `choose`, `finetune` and `pace` say of photos of 64 pixels on a GPU
    **finetune.recipe().settings, "net": "vit_tiny_p8_112", "size": 112,
    "labelled_in_pool": "yes", "flips": choose.FLIPS, "labels_per_class": 4, "weight_decay": 5e-4,
    **TUNED_BATCH, **choose.pool_batch(TUNED_BATCH["batch"], gpu=True).settings,
    "steps": pace.USUAL_STEPS, "warmup": finetune.warmup(pace.USUAL_STEPS),
    "ema": pace.ema_momentum(pace.USUAL_STEPS),
    "log_every": 100, "test_every": 500, "save_every": 2_500,
}  # fmt: skip
TUNED_SETS: dict[str, Settings] = {
    "cifar10-tuned": TUNED,
    "eurosat-tuned": {**TUNED, "labels_per_class": 2, "flips": "both"},
}

SVHN: Settings = {**CLASSIC, "labels_per_class": 4, "flips": "none"}  # as in FixMatch's paper
CLASSIC_SETS: dict[str, Settings] = {
    "cifar100-classic": {
        **CLASSIC, "net": "wrn_28_8", "weight_decay": 1e-3, "labels_per_class": 4,
    },
    "stl10-classic": {**CLASSIC, "net": "wrn_37_2", "labels_per_class": 4},
    "svhn": SVHN,
    "svhn-extra": SVHN,
}  # fmt: skip

MEDICAL_FLIPS = {
    # tissues and cells have no up and down
    "tissuemnist": "both", "pathmnist": "both", "bloodmnist": "both", "dermamnist": "both",
    "octmnist": "horizontal", "pneumoniamnist": "horizontal", "retinamnist": "horizontal",
    "breastmnist": "horizontal",
    # a left kidney is another class than a right one
    "organamnist": "none", "organcmnist": "none", "organsmnist": "none",
}  # fmt: skip
OTHER_SETS: dict[str, Settings] = {
    **{name: {**MEDICAL, "flips": flips} for name, flips in MEDICAL_FLIPS.items()},
    "food101": {**LARGE, "labels_per_class": 4},
    "imagenet-1percent": LARGE,
    "imagenet-10percent": LARGE,
}

PROTOCOLS: dict[str, Settings] = {
    "digits": DIGITS,
    "cifar10": {**CLASSIC, "labels_per_class": 4},
    "cifar10-lt": LONG_TAIL,
    "cifar100": {
        **USB, "net": "vit_small_p2_32", "lr": 5e-4, "layer_decay": 0.5, "labels_per_class": 2,
    },
    "stl10": {
        # the paper's table prints layer decay 0.95, the benchmark's final configuration 0.65
        **USB, "net": "vit_base_p16_96", "lr": 1e-4, "layer_decay": 0.65, "labels_per_class": 4,
    },
    "eurosat": {
        **USB, "net": "vit_small_p2_32", "lr": 5e-5, "layer_decay": 1.0, "labels_per_class": 2,
        "flips": "both",  # an aerial image has no up and down
    },
    **TUNED_SETS,
    **CLASSIC_SETS,
    **OTHER_SETS,
}  # fmt: skip

LIKE = {
    **dict.fromkeys(CLASSIC_SETS, "cifar10"),
    **dict.fromkeys(("eurosat-tuned", *OTHER_SETS), "eurosat"),
}
BESIDES: dict[tuple[str, str], Settings] = {  # what such a set changes in one method
    ("cifar100-classic", "mixmatch"): {"lambda_u": 150.0},
    ("stl10-classic", "comatch"): {"lambda_contrast": 5.0},
}


def defaults(data: str, method: str, *, named: bool) -> Recipe:
    """The recipe for a data set and a method, with what the method's row changes in it.

    Digits and a person's own images get a supervised baseline, unless the user named a method.
    """
    run, row = dict(PROTOCOLS.get(data, FOLDER)), entry(method)
    small = data == "digits" or data not in PROTOCOLS
    run["baseline"] = "supervised" if small and not named else "none"
    if row.averaged:
        run["ema"] = max(run["ema"], 0.99 if small else 0.999)
    preset = row.presets.get(LIKE.get(data, data), {}) | BESIDES.get((data, method), {})
    run |= {name: value for name, value in preset.items() if name in run}
    return Recipe(run, {name: value for name, value in preset.items() if name not in run})
