"""A configuration of USB becomes a command that does the same, and says what it does not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tamatch import nets
from tamatch.cli import main
from tamatch.errors import UsageError
from tamatch.methods import METHODS
from tamatch.settings.config import Run, method_options
from tamatch.settings.configure import configure
from tamatch.settings.recipes import PROTOCOLS
from tamatch.settings.usb import (
    DATA_NAMES,
    METHOD_NAMES,
    NET_NAMES,
    OPTION_NAMES,
    OPTION_NAMES_OF,
    translate,
)

USB: dict[str, Any] = {  # as its files of protocol (a) have them
    "algorithm": "fixmatch", "save_dir": "./saved_models", "resume": True, "epoch": 200,
    "num_train_iter": 204800, "num_log_iter": 512, "num_eval_iter": 2048, "batch_size": 8,
    "eval_batch_size": 16, "num_warmup_iter": 5120, "num_labels": 200, "uratio": 1, "ema_m": 0.0,
    "hard_label": True, "T": 0.5, "p_cutoff": 0.95, "ulb_loss_ratio": 1.0, "img_size": 32,
    "crop_ratio": 0.875, "optim": "AdamW", "lr": "5e-04", "layer_decay": 0.5, "momentum": 0.9,
    "weight_decay": 5e-4, "amp": False, "clip": 0.0, "use_cat": True, "net": "vit_small_patch2_32",
    "net_from_name": False, "data_dir": "./data", "dataset": "cifar100", "num_classes": 100,
    "train_sampler": "RandomSampler", "seed": 0, "gpu": None, "use_pretrain": False,
}  # fmt: skip
CLASSIC: dict[str, Any] = {
    "dataset": "cifar10", "num_classes": 10, "num_labels": 40, "num_train_iter": 1048576,
    "num_warmup_iter": 0, "num_eval_iter": 5120, "num_log_iter": 1024, "batch_size": 64,
    "uratio": 7, "ema_m": 0.999, "optim": "SGD", "lr": 0.03, "layer_decay": 1.0, "net": "wrn_28_2",
}  # fmt: skip


def given(tmp_path: Path, **changes: Any) -> Path:
    file = tmp_path / "usb.yaml"
    values = {k: v for k, v in {**USB, **changes}.items() if v != "left out"}
    file.write_text(yaml.safe_dump(values))
    return file


def run_of(command: str) -> Run:
    words = [part for word in shlex.split(command)[2:] for part in word.split("=")]
    flags = (w.removeprefix("--").replace("-", "_") for w in words[::2])
    return configure(dict(zip(flags, words[1::2], strict=True)))


def test_the_protocols_are_our_recipes(tmp_path: Path) -> None:
    assert translate(given(tmp_path)).command == (
        "tamatch train --method fixmatch --data cifar100 --root ./data"
    )
    classic = translate(given(tmp_path, **CLASSIC))
    assert classic.command == "tamatch train --method fixmatch --data cifar10 --root ./data"
    assert not any("not taken over" in remark for remark in classic.remarks)


def test_what_differs_is_an_option(tmp_path: Path) -> None:
    changes = {
        "algorithm": "freematch", "num_labels": 250, "ema_p": 0.99, "ent_loss_ratio": 0.01,
        "p_cutoff": "left out", "seed": 3, "uratio": 2, "clip": 1.0, "odd": 5, "amp": True,
    }  # fmt: skip
    found = translate(given(tmp_path, **CLASSIC | changes))
    run = run_of(found.command)
    assert (run.method, run.data, run.seed) == ("freematch", "cifar10", 3)
    assert (run.labels_per_class, run.batch, run.unlabelled) == (25, 64, 128)
    assert run.options["momentum"] == 0.99 and run.options["lambda_f"] == 0.01
    told = "\n".join(found.remarks)
    assert "odd: 5 is not taken over." in told and "amp: mixed precision is bfloat16" in told
    assert "clip: 1.0 has no counterpart here (0.0 is built in)." in told


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({"dataset": "svhn"}, "--data svhn-extra --root ./data --flips horizontal"),
        (
            {"dataset": "stl10", "net": "wrn_var_37_2", "img_size": 96, "num_labels": 1000},
            "--data stl10-classic --root ./data --labels-per-class 100",
        ),
        (
            {"dataset": "cifar100", "num_classes": 100, "num_labels": 400, "net": "wrn_28_8",
             "weight_decay": 0.001},
            "--data cifar100-classic --root ./data",
        ),
        (
            {"dataset": "stl10", "img_size": 32, "num_labels": 150, "lb_imb_ratio": 10,
             "ulb_num_labels": "None", "include_lb_to_ulb": False},
            "--data stl10-classic --root ./data --net wrn_28_2 --size 32 --labelled-in-pool no "
            "--head-labelled 150 --gamma 10.0",
        ),
    ],
)  # fmt: skip
def test_the_net_tells_the_protocol(tmp_path: Path, changes: dict[str, Any], command: str) -> None:
    found = translate(given(tmp_path, **CLASSIC | changes)).command
    assert found == f"tamatch train --method fixmatch {command}"
    run_of(found)


def test_medical_images_and_imagenet(tmp_path: Path) -> None:
    tissue = {
        "dataset": "tissuemnist", "num_classes": 8, "num_labels": 80, "lr": 5e-5,
        "layer_decay": 0.95, "crop_ratio": 0.95, "net": "vit_tiny_patch2_32",
    }  # fmt: skip
    found = translate(given(tmp_path, **tissue))
    assert found.command == "tamatch train --method fixmatch --data tissuemnist --root ./data"
    assert "crop_ratio: 0.95 has no counterpart here (0.875 is built in)." in found.remarks
    assert any("Strong views may change colours" in remark for remark in found.remarks)
    large = {"dataset": "imagenet", "num_classes": 1000, "num_labels": 100_000, "net": "resnet50"}
    found = translate(given(tmp_path, **large))
    assert run_of(found.command).data == "imagenet-10percent"
    assert run_of(found.command).net == "timm/resnet50" and "package timm" in found.remarks[0]
    assert any("SimCLR's list" in remark for remark in found.remarks)


def test_algorithms_for_long_tails(tmp_path: Path) -> None:
    tail = CLASSIC | {
        "num_labels": 1500, "ulb_num_labels": 3000, "lb_imb_ratio": 100, "ulb_imb_ratio": 100,
        "include_lb_to_ulb": False, "uratio": 2, "num_train_iter": 262144, "num_eval_iter": 1024,
        "num_log_iter": 256,
    }  # fmt: skip
    for name, more in {"saw": {}, "abc": {"abc_p_cutoff": 0.95, "abc_loss_ratio": 1.0}}.items():
        found = translate(given(tmp_path, **tail, imb_algorithm=name, **more))
        assert found.command == f"tamatch train --method {name} --data cifar10-lt --root ./data"
        assert not any("imb" in remark or "abc" in remark for remark in found.remarks)
    daso = {"daso_T_proto": 0.1, "daso_queue_len": 256, "daso_num_pretrain_iter": 65536}
    found = translate(given(tmp_path, **tail, imb_algorithm="daso", **daso))
    assert "--method daso" in found.command and "--rows" not in found.command
    assert "--temperature 0.1 --blend-after 0.25" in found.command
    assert not any("daso" in remark for remark in found.remarks)
    found = translate(given(tmp_path, **tail, imb_algorithm="crest+", crest_alpha=3))
    assert "--method fixmatch" in found.command
    assert found.remarks[0].startswith("imb_algorithm: crest+ is left out, so this is fixmatch")
    assert not any("crest_alpha" in remark for remark in found.remarks)
    other = translate(given(tmp_path, **tail | {"algorithm": "remixmatch"}, imb_algorithm="saw"))
    assert "--method remixmatch" in other.command and "saw is left out" in other.remarks[0]


def test_what_a_file_leaves_out_is_as_there(tmp_path: Path) -> None:
    """Their program has other defaults than our recipes."""
    left = dict.fromkeys(("num_warmup_iter", "uratio", "ema_m", "seed", "layer_decay"), "left out")
    run = run_of(translate(given(tmp_path, **left)).command)
    assert (run.warmup, run.batch, run.unlabelled, run.ema) == (0, 8, 8, 0.999)
    assert (run.seed, run.layer_decay, run.labelled_in_pool) == (1, 1.0, "yes")
    left = dict.fromkeys(("num_train_iter", "num_eval_iter"), "left out")
    run = run_of(translate(given(tmp_path, **left | {"num_warmup_iter": 0})).command)
    assert (run.steps, run.test_every) == (20, 10)


def test_a_long_tail(tmp_path: Path) -> None:
    tail = {
        "num_labels": 1500, "ulb_num_labels": 3000, "lb_imb_ratio": 150, "ulb_imb_ratio": -150,
    }  # fmt: skip
    run = run_of(translate(given(tmp_path, **CLASSIC | tail)).command)
    assert (run.data, run.head_labelled, run.head_unlabelled) == ("cifar10-lt", 1500, 3000)
    assert (run.gamma, run.gamma_unlabelled, run.labels_per_class) == (150, -150, None)


def test_equal_classes_are_counted_in_sum(tmp_path: Path) -> None:
    """As `sample_labeled_unlabeled_data` counts: of the largest class only where ratios differ."""
    even_pool = {
        "num_labels": 1500, "lb_imb_ratio": 100, "ulb_num_labels": 30_000, "ulb_imb_ratio": 1,
    }  # fmt: skip
    run = run_of(translate(given(tmp_path, **CLASSIC | even_pool)).command)
    assert (run.head_labelled, run.gamma) == (1500, 100)
    assert (run.head_unlabelled, run.gamma_unlabelled) == (3000, 1)
    even_labels = {"num_labels": 40, "ulb_num_labels": 4000, "ulb_imb_ratio": 100}
    run = run_of(translate(given(tmp_path, **CLASSIC | even_labels)).command)
    assert (run.data, run.head_labelled, run.gamma) == ("cifar10-lt", 4, 1)
    assert (run.head_unlabelled, run.gamma_unlabelled) == (4000, 100)


def test_own_weights_are_not_downloaded(tmp_path: Path) -> None:
    own = translate(given(tmp_path, use_pretrain=True, pretrain_path="nets/my vit.pth"))
    assert own.remarks[0] == "Pre-trained weights: give --weights nets/my vit.pth."


def test_temperatures_of_hard_labels_are_ignored(tmp_path: Path) -> None:
    assert "temperature" not in translate(given(tmp_path, algorithm="uda", T=0.3)).command
    soft = translate(given(tmp_path, algorithm="uda", T=0.3, hard_label=False)).command
    assert "--temperature 0.3" in soft
    for name in ("mixmatch", "sequencematch"):  # which sharpen in any case
        assert "--temperature 0.3" in translate(given(tmp_path, algorithm=name, T=0.3)).command


def test_names_are_ours() -> None:
    options = {name for method in METHODS for name in method_options(method)}
    assert {*OPTION_NAMES.values()} <= options
    for method, names in OPTION_NAMES_OF.items():
        assert {*names.values()} <= method_options(method).keys()
    assert {*METHOD_NAMES.values()} <= METHODS.keys()
    assert all(nets.find(name) for name in NET_NAMES.values())
    assert {*DATA_NAMES.values()} <= PROTOCOLS.keys()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "fixmach"}, "algorithm: fixmach is no method of this package. Perhaps"),
        ({"dataset": "yelp_review"}, "dataset: yelp_review is not provided"),
        ({"lr": "fast"}, "lr takes a number, got 'fast'."),
        ({"p_cutoff": 3}, "p_cutoff must lie in (0, 1), got 3."),
        ({"optim": None}, "optim takes sgd, adamw; got 'none'."),
        ({"num_labels": "many"}, "num_labels takes a whole number, got 'many'."),
        ({"num_labels": None}, "num_labels needs a value."),
        ({"num_labels": 250}, "num_labels: 250 cannot be shared equally by 100 classes"),
        ({"num_classes": 10}, "num_classes: 10 does not fit cifar100, which has 100 classes."),
        ({"num_classes": "left out"}, "num_classes: 10 does not fit cifar100"),  # USB's default
        (
            {"dataset": "bloodmnist", "num_classes": 10, "num_labels": 80},
            "num_classes: 10 does not fit bloodmnist, which has 8 classes.",
        ),
        ({"num_classes": 0}, "num_classes must be at least 1, got 0."),
        ({"num_train_iter": None}, "num_train_iter needs a value."),
        ({"uratio": 0.5}, "uratio takes a whole number, got 0.5."),
        ({"img_size": "large"}, "img_size takes a whole number, got 'large'."),
        ({"lb_imb_ratio": 0}, "--gamma must be 1 or more, or -1 or less, got 0."),
        ({"lb_imb_ratio": "high"}, "lb_imb_ratio takes a number, got 'high'."),
        ({"net": ["a"], "dataset": ["b"]}, "dataset: ['b'] is not provided"),
        ({"ulb_imb_ratio": 100}, "ulb_imb_ratio: 100 needs ulb_num_labels, in USB as well."),
        (
            {"imb_algorithm": "daso", "daso_num_pretrain_iter": "x"},
            "daso_num_pretrain_iter takes a whole number, got 'x'.",
        ),
    ],
)
def test_what_cannot_be_translated_is_one_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """It names the file, and the value as the file does."""
    file = given(tmp_path, **changes)
    with pytest.raises(UsageError) as caught:
        translate(file)
    assert str(caught.value).startswith(f"from-usb {file}: {message}")
    assert "\n" not in str(caught.value)


def test_the_page_shows_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "coming-from-usb.md").read_text()
    typed, shown = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[:2]
    assert typed == "tamatch from-usb config/usb_cv/fixmatch/fixmatch_cifar100_200_0.yaml\n"
    release = "https://github.com/microsoft/Semi-supervised-learning/releases/download/v.0.0.0"
    weights = f"{release}/vit_small_patch2_32_mlp_im_1k_32.pth"
    assert main(["from-usb", str(given(tmp_path, use_pretrain=True, pretrain_path=weights))]) == 0
    assert capsys.readouterr().out == shown


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["from-usb", str(given(tmp_path, use_pretrain=True, pretrain_path="a/b.pth"))]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("tamatch train ") and all(line.startswith("# ") for line in rest)
    assert any("--weights a/b.pth" in line for line in rest)
    assert main(["from-usb", str(tmp_path / "no.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
