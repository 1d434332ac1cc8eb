"""A configuration of USB becomes a command that does the same, and says what it does not."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tamatch.cli import main
from tamatch.errors import UsageError
from tamatch.methods import METHODS
from tamatch.settings.config import Run, method_options
from tamatch.settings.configure import configure
from tamatch.settings.usb import METHOD_NAMES, NET_NAMES, OPTION_NAMES, OPTION_NAMES_OF, translate

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
    words = shlex.split(command)[2:]
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


def test_a_long_tail(tmp_path: Path) -> None:
    tail = {
        "num_labels": 1500, "ulb_num_labels": 3000, "lb_imb_ratio": 150, "ulb_imb_ratio": -150,
    }  # fmt: skip
    run = run_of(translate(given(tmp_path, **CLASSIC | tail)).command)
    assert (run.data, run.head_labelled, run.head_unlabelled) == ("cifar10-lt", 1500, 3000)
    assert (run.gamma, run.gamma_unlabelled, run.labels_per_class) == (150, -150, None)


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
    assert {*METHOD_NAMES.values()} <= METHODS.keys() and len(NET_NAMES) == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "fixmach"}, "algorithm: fixmach is no method of this package. Perhaps"),
        ({"dataset": "yelp_review"}, "dataset: yelp_review is not provided"),
        ({"lr": "fast"}, "--lr takes a number, got 'fast'."),
        ({"p_cutoff": 3}, "--tau must lie in (0, 1), got 3."),
    ],
)
def test_what_cannot_be_translated_is_one_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        translate(given(tmp_path, **changes))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["from-usb", str(given(tmp_path, use_pretrain=True, pretrain_path="a/b.pth"))]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("tamatch train ") and all(line.startswith("# ") for line in rest)
    assert any("--weights b.pth" in line for line in rest)
    assert main(["from-usb", str(tmp_path / "no.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
