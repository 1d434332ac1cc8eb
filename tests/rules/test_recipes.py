"""The recipes against the benchmark's tables, written out a second time."""

from __future__ import annotations

import pytest

from tamatch.rules import choose, finetune
from tamatch.settings.config import Run
from tamatch.settings.configure import configure

VIT = ["pseudo_label", "pi_model", "mean_teacher", "vat", "mixmatch", "remixmatch", "adamatch",
       "uda", "fixmatch", "flexmatch", "dash", "crmatch", "comatch", "simmatch", "freematch",
       "softmatch", "defixmatch", "tamatch", "supervised"]  # fmt: skip

OPTIONS = {  # protocol (a), pre-trained transformers
    "pseudo_label": {"tau": 0.95, "lambda_u": 1, "rampup": 0.4},
    "pi_model": {"lambda_u": 10, "rampup": 0.4},
    "mean_teacher": {"lambda_u": 50, "rampup": 0.4},
    "vat": {"lambda_u": 1, "epsilon": 6, "xi": 1e-6, "lambda_entropy": 0.06, "rampup": 0.4},
    "mixmatch": {"lambda_u": 10, "alpha": 0.5, "temperature": 0.5, "rampup": 0.4},
    "remixmatch": {"lambda_u": 1.5, "lambda_strong": 0.5, "lambda_rotation": 0.5, "alpha": 0.75,
                   "temperature": 0.5, "rampup": 1 / 64},
    "adamatch": {"tau": 0.95, "momentum": 0.999, "lambda_u": 1},
    "uda": {"tau": 0.8, "temperature": 0.4, "lambda_u": 1},
    "fixmatch": {"tau": 0.95, "lambda_u": 1},
    "flexmatch": {"tau": 0.95, "threshold_warmup": True, "lambda_u": 1},
    "dash": {"rho_decay": 1.27, "rho_scale": 1.0001, "rho_min": 0.05, "temperature": 0.5},
    "crmatch": {"tau": 0.95, "lambda_u": 1, "lambda_distance": 1, "lambda_rotation": 1},
    "comatch": {"tau": 0.95, "link": 0.8, "lambda_contrast": 1, "projection": 64, "queue": 32,
                "alpha": 0.9, "temperature": 0.2, "window": 32},
    "simmatch": {"tau": 0.95, "lambda_instance": 1, "projection": 128, "alpha": 0.9,
                 "temperature": 0.1, "window": 32, "momentum": 0.7},
    "freematch": {"momentum": 0.999, "lambda_f": 0.001, "lambda_u": 1},
    "softmatch": {"n_sigma": 2, "momentum": 0.999, "lambda_u": 1},
    "defixmatch": {"tau": 0.95, "lambda_u": 0.5},
    "tamatch": {"tau": 0.95, "lambda_u": 1, "lambda_model": 0.999, "target": "uniform",
                "clip": "literal"},
    "supervised": {},
}  # fmt: skip


def recipe(data: str, method: str) -> Run:
    return configure({"data": data, "method": method})


@pytest.mark.parametrize(
    ("data", "flips"),
    [
        ("digits", "none"), ("eurosat", "both"), ("cifar10", "horizontal"),
        ("cifar10-lt", "horizontal"), ("cifar100", "horizontal"), ("stl10", "horizontal"),
        ("svhn", "none"), ("svhn-extra", "none"), ("tissuemnist", "both"),
        ("octmnist", "horizontal"),
        ("organamnist", "none"), ("food101", "horizontal"), ("imagenet-1percent", "horizontal"),
        ("some/folder", "horizontal"),
    ],
)  # fmt: skip
def test_what_is_mirrored(data: str, flips: str) -> None:
    assert configure({"data": data}).flips == flips
    assert configure({"data": data, "flips": "none"}).flips == "none"


@pytest.mark.parametrize("method", VIT)
def test_method_values_of_the_transformer_protocol(method: str) -> None:
    assert recipe("cifar100", method).options.items() >= OPTIONS[method].items()


@pytest.mark.parametrize("method", VIT)
@pytest.mark.parametrize(
    ("data", "net", "lr", "layer_decay"),
    [
        ("cifar100", "vit_small_p2_32", 5e-4, 0.5),
        ("stl10", "vit_base_p16_96", 1e-4, 0.65),
        ("eurosat", "vit_small_p2_32", 5e-5, 1.0),
    ],
)
def test_the_transformer_protocol(
    data: str, net: str, lr: float, layer_decay: float, method: str
) -> None:
    run = recipe(data, method)
    assert (run.net, run.lr, run.layer_decay) == (net, lr, layer_decay)
    assert (run.optimizer, run.weight_decay, run.batch, run.unlabelled) == ("adamw", 5e-4, 8, 8)
    assert (run.steps, run.warmup, run.test_every) == (204_800, 5_120, 2_048)
    assert run.ema == (0.999 if method in ("mean_teacher", "comatch", "simmatch") else 0.0)
    assert run.labelled_in_pool == "yes"


def test_medical_images_and_photos_follow_the_transformer_protocol() -> None:
    run = recipe("tissuemnist", "fixmatch")
    assert (run.net, run.lr, run.layer_decay) == ("vit_tiny_p2_32", 5e-5, 0.95)
    assert (run.labels_per_class, run.steps, run.warmup, run.batch) == (10, 204_800, 5_120, 8)
    assert recipe("pathmnist", "simmatch").options["temperature"] == 0.2
    run = recipe("imagenet-10percent", "fixmatch")  # whose labels a list names
    assert (run.net, run.lr, run.labels_per_class) == ("vit_small_p16_224", 1e-3, None)


def test_what_single_data_sets_change() -> None:
    assert recipe("stl10", "comatch").options["lambda_contrast"] == 5
    assert recipe("eurosat", "simmatch").options["temperature"] == 0.2


@pytest.mark.parametrize("method", VIT)
def test_the_long_tailed_protocol(method: str) -> None:
    run = recipe("cifar10-lt", method)
    assert (run.net, run.optimizer, run.lr, run.weight_decay) == ("wrn_28_2", "sgd", 0.03, 5e-4)
    assert (run.steps, run.warmup, run.test_every) == (262_144, 0, 1_024)
    assert (run.batch, run.unlabelled) == (64, 64 if method == "remixmatch" else 128)
    assert (run.ema, run.labelled_in_pool) == (0.999, "no")
    if method == "tamatch":
        assert run.options["target"] == "adaptive"


@pytest.mark.parametrize("method", VIT)
@pytest.mark.parametrize(
    ("data", "net", "weight_decay"),
    [
        ("cifar10", "wrn_28_2", 5e-4), ("cifar100-classic", "wrn_28_8", 1e-3),
        ("stl10-classic", "wrn_37_2", 5e-4), ("svhn-extra", "wrn_28_2", 5e-4),
    ],
)  # fmt: skip
def test_the_classic_protocol(data: str, net: str, weight_decay: float, method: str) -> None:
    run = recipe(data, method)
    assert (run.net, run.weight_decay, run.optimizer, run.lr) == (net, weight_decay, "sgd", 0.03)
    assert (run.labels_per_class, run.warmup, run.labelled_in_pool) == (4, 0, "yes")
    small = ("pseudo_label", "pi_model", "mean_teacher", "vat", "mixmatch", "remixmatch")
    assert (run.batch, run.unlabelled) == (64, 64 if method in small else 448)
    assert (run.steps, run.test_every, run.ema) == (1_048_576, 5_120, 0.999)
    if method == "mixmatch":
        assert run.options["lambda_u"] == (150 if data == "cifar100-classic" else 100)
    if method == "comatch":
        assert run.options["queue"] == 5
        assert run.options["lambda_contrast"] == (5 if data == "stl10-classic" else 1)


@pytest.mark.parametrize("method", VIT)
@pytest.mark.parametrize("data", ["eurosat-tuned", "cifar10-tuned"])
def test_the_recipe_of_photos_on_a_gpu_under_the_name_of_a_data_set(data: str, method: str) -> None:
    """What the rules say of photos of 64 pixels and the file of a ViT-Tiny at 224."""
    run = recipe(data, method)
    side = finetune.image_size(64, 16, 14, gpu=True)
    patch = finetune.patch_for(side, 16, finetune.grid(14, gpu=True))
    assert (run.size, run.net) == (side, f"vit_tiny_p{patch}_{side}") == (112, "vit_tiny_p8_112")
    said = {"normalise": "half", "optimizer": "adamw", "lr": 1e-3, "layer_decay": 0.65}
    assert {name: getattr(run, name) for name in said} == said and run.head == "zero"
    batch = choose.batch(40, gpu=True).settings["batch"]
    assert (run.batch, run.unlabelled) == (batch, 3 * batch) == (8, 24)
    assert (run.steps, run.warmup, run.ema) == (10_000, 1_000, 0.999)
    assert run.flips == ("both" if data == "eurosat-tuned" else "horizontal")
    if method == "mixmatch":  # not 100, as from scratch
        assert run.options["lambda_u"] == recipe("cifar100", method).options["lambda_u"]
    if method == "simmatch":
        assert run.options["temperature"] == (0.2 if data == "eurosat-tuned" else 0.1)
