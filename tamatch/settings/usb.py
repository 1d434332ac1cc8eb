"""A configuration of USB (`semilearn`) as a command of ours, and what differs between the two."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError, perhaps
from ..methods import METHODS
from .config import RUN_OPTIONS, method_options, read_mapping
from .configure import resolve
from .options import as_text, flag_of
from .recipes import PROTOCOLS

METHOD_NAMES = {
    "fullysupervised": "fully_supervised", "meanteacher": "mean_teacher", "pimodel": "pi_model",
    "pseudolabel": "pseudo_label",
}  # fmt: skip
NET_NAMES = {
    "vit_small_patch2_32": "vit_small_p2_32", "vit_tiny_patch2_32": "vit_tiny_p2_32",
    "vit_base_patch16_96": "vit_base_p16_96", "wrn_28_2": "wrn_28_2", "wrn_28_8": "wrn_28_8",
}  # fmt: skip
RUN_NAMES = {  # their name of an option of a run
    "num_train_iter": "steps", "num_warmup_iter": "warmup", "batch_size": "batch",
    "num_log_iter": "log_every", "num_eval_iter": "test_every", "ema_m": "ema", "lr": "lr",
    "weight_decay": "weight_decay", "layer_decay": "layer_decay", "seed": "seed",
    "data_dir": "root",
}  # fmt: skip
OPTION_NAMES = {  # their name of an option of a method, where a method of ours has it
    "p_cutoff": "tau", "ulb_loss_ratio": "lambda_u", "T": "temperature", "ema_p": "momentum",
    "ema_bank": "momentum", "unsup_warm_up": "rampup", "thresh_warmup": "threshold_warmup",
    "n_sigma": "n_sigma", "mixup_alpha": "alpha", "smoothing_alpha": "alpha",
    "rot_loss_ratio": "lambda_rotation", "kl_loss_ratio": "lambda_strong",
    "proj_size": "projection",
    "queue_batch": "queue", "da_len": "window", "contrast_p_cutoff": "link",
    "contrast_loss_ratio": "lambda_contrast", "in_loss_ratio": "lambda_instance",
    "gamma": "rho_decay", "C": "rho_scale", "rho_min": "rho_min", "num_wu_iter": "supervised_steps",
    "vat_eps": "epsilon",
}  # fmt: skip
OPTION_NAMES_OF = {  # the same, where it depends on the method
    "freematch": {"ent_loss_ratio": "lambda_f"}, "vat": {"ent_loss_ratio": "lambda_entropy"},
}  # fmt: skip
SHARPENING = ("mixmatch", "remixmatch", "sequencematch")  # methods that use T in any case
HARD = ("fixmatch", "flexmatch", "freematch", "sequencematch")  # whose labels can be soft there
SAME = {  # what is as it is here, and need not be told; another value is
    "crop_ratio": 0.875, "momentum": 0.9, "clip": 0.0, "clip_grad": 0.0, "train_sampler":
    "RandomSampler", "use_cat": True, "use_quantile": False, "clip_thresh": False,
    "dist_align": True, "dist_uniform": True, "per_class": False, "mixup_manifold": False,
    "net_from_name": False, "lb_imb_ratio": 1, "ulb_imb_ratio": 1, "include_lb_to_ulb": True,
}  # fmt: skip
NO_MATTER = {  # files, processes and displays
    "save_dir", "save_name", "resume", "load_path", "overwrite", "use_tensorboard", "use_wandb",
    "use_aim", "epoch", "eval_batch_size", "img_size", "num_classes", "num_workers", "world_size",
    "rank", "multiprocessing_distributed", "dist_url", "dist_backend", "gpu", "algorithm", "net",
    "dataset", "uratio", "num_labels", "ulb_num_labels", "optim", "use_pretrain", "pretrain_path",
    "amp", "hard_label", "imb_algorithm",
}  # fmt: skip
ALWAYS = (
    "The last step is reported, not the best test: `error_best` of result.json is USB's figure.",
    "The losses follow the papers; --parity usb computes them as the code of USB does.",
)


@dataclass(frozen=True)
class Translated:
    """Our command, and remarks on what it does not say."""

    command: str
    remarks: list[str]


def translate(path: Path) -> Translated:
    """A USB configuration file as a command."""
    theirs = {str(k): v for k, v in read_mapping(path, "from-usb").items()}
    method = method_of(theirs)
    wanted, remarks = dict(run_options(theirs)), [*remarks_on(theirs, method)]
    own = method_options(method)
    for name, value in theirs.items():
        ours = OPTION_NAMES_OF.get(method, {}).get(name) or OPTION_NAMES.get(name)
        if ours in own and not ignored(name, theirs, method):
            wanted[ours] = own[ours].parse(value)
        elif name not in NO_MATTER and name not in RUN_NAMES and value != SAME.get(name, value):
            remarks.append(f"{name}: {value} has no counterpart here ({SAME[name]} is built in).")
        elif name not in {*NO_MATTER, *RUN_NAMES, *SAME} and not ignored(name, theirs, method):
            remarks.append(f"{name}: {value} is not taken over.")
    usual = resolve({"data": wanted["data"], "method": method}).flat()
    kept = {k: v for k, v in wanted.items() if k in ("data", "root") or usual.get(k) != v}
    resolve({**kept, "method": method})  # an error, if the values do not fit together
    words = ["--method", method, *(w for k, v in kept.items() for w in (flag_of(k), as_text(v)))]
    return Translated(f"tamatch train {shlex.join(words)}", [*remarks, *ALWAYS])


def method_of(theirs: Mapping[str, Any]) -> str:
    name = str(theirs.get("algorithm"))
    found = METHOD_NAMES.get(name, name)
    if found not in METHODS:
        hint = perhaps(found, METHODS) or " `tamatch methods` lists those there are."
        raise UsageError(f"algorithm: {name} is no method of this package.{hint}")
    return found


def run_options(theirs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The options of the run, by our names."""
    data, net, classes = (theirs.get(k) for k in ("dataset", "net", "num_classes"))
    tail = float(theirs.get("lb_imb_ratio", 1)) != 1
    name = "cifar10-lt" if tail and data == "cifar10" else str(data)
    if name not in PROTOCOLS or name == "digits":
        raise UsageError(
            f"dataset: {data} is not provided; there are {', '.join(p for p in PROTOCOLS)}. For "
            "other images, make a folder: `tamatch train --data DIR` with the options that "
            "docs/coming-from-usb.md names."
        )
    yield "data", name
    for key, ours in RUN_NAMES.items():
        if theirs.get(key) is not None:
            yield ours, RUN_OPTIONS[ours].parse(theirs[key])
    if net in NET_NAMES:
        yield "net", NET_NAMES[str(net)]
    if "batch_size" in theirs and "uratio" in theirs:
        yield "unlabelled", int(theirs["batch_size"]) * int(theirs["uratio"])
    if "optim" in theirs:
        yield "optimizer", RUN_OPTIONS["optimizer"].parse(str(theirs["optim"]).lower())
    if theirs.get("num_labels") and not tail and classes:
        yield "labels_per_class", int(theirs["num_labels"]) // int(classes)
    if tail:
        yield "head_labelled", int(theirs["num_labels"])
        yield "head_unlabelled", int(theirs["ulb_num_labels"])
        yield "gamma", float(theirs["lb_imb_ratio"])
        if theirs.get("ulb_imb_ratio") not in (None, theirs["lb_imb_ratio"]):
            yield "gamma_unlabelled", float(theirs["ulb_imb_ratio"])


def ignored(name: str, theirs: Mapping[str, Any], method: str) -> bool:
    """What USB reads, and this method does not use: T sharpens soft labels alone."""
    hard = theirs.get("hard_label", True) and method not in ("comatch", "simmatch", "dash")
    return name == "T" and bool(hard) and method not in SHARPENING


def remarks_on(theirs: Mapping[str, Any], method: str) -> Iterator[str]:
    """What is done in another way."""
    net = theirs.get("net")
    if net is not None and net not in NET_NAMES:
        yield f"net: {net} is not provided: --net takes FILE.py:NAME, or timm/NAME."
    if theirs.get("use_pretrain"):
        file = str(theirs.get("pretrain_path", "")).rpartition("/")[2]
        yield f"Pre-trained weights: download {file} of USB and give it as --weights {file}."
    if theirs.get("amp"):
        yield "amp: mixed precision is bfloat16 here, and the default on a GPU (--precision)."
    if theirs.get("hard_label") is False and method in HARD:
        yield "hard_label: False is not available; pseudo-labels are hard, as in the papers."
    if theirs.get("imb_algorithm"):
        yield f"imb_algorithm: {theirs['imb_algorithm']} is not taken over; see `tamatch methods`."
    if int(theirs.get("world_size", 1) or 1) > 1:
        yield "Several GPUs: torchrun starts tamatch; batch_size is that of all together."
