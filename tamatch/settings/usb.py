"""A configuration of USB (`semilearn`) as a command of ours, and what differs between the two."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data import known_sets, medmnist
from ..errors import UsageError, perhaps
from ..kinds import AT_LEAST_ONE
from ..methods import METHODS
from .config import RUN_OPTIONS, as_words, method_options, read_mapping
from .configure import resolve
from .options import Option
from .recipes import PROTOCOLS

METHOD_NAMES = {
    "fullysupervised": "fully_supervised", "meanteacher": "mean_teacher", "pimodel": "pi_model",
    "pseudolabel": "pseudo_label",
}  # fmt: skip
TAIL_METHODS = ("saw", "abc", "daso")  # their `imb_algorithm` on FixMatch is a method here
NET_NAMES = {
    "vit_small_patch2_32": "vit_small_p2_32", "vit_tiny_patch2_32": "vit_tiny_p2_32",
    "vit_base_patch16_96": "vit_base_p16_96", "vit_small_patch16_224": "vit_small_p16_224",
    "vit_base_patch16_224": "vit_base_p16_224", "wrn_28_2": "wrn_28_2", "wrn_28_8": "wrn_28_8",
    "wrn_var_37_2": "wrn_37_2", "resnet50": "timm/resnet50",
}  # fmt: skip
CLASSES = {  # of data sets that have not ten
    "cifar100": 100, "food101": 101, "imagenet": 1000,
    **{name: len(names) for name, names in medmnist.CLASSES.items()},
}  # fmt: skip
DATA_NAMES = {"svhn": "svhn-extra"}  # there, the extra images are always in the pool
RUN_NAMES = {  # their name of an option of a run
    "num_train_iter": "steps", "num_warmup_iter": "warmup", "batch_size": "batch",
    "num_log_iter": "log_every", "num_eval_iter": "test_every", "ema_m": "ema", "lr": "lr",
    "weight_decay": "weight_decay", "layer_decay": "layer_decay", "seed": "seed",
    "data_dir": "root", "img_size": "size",
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
    "vat_eps": "epsilon", "daso_T_proto": "temperature", "daso_T_dist": "flatten",
    "daso_queue_len": "rows", "daso_assign_loss_ratio": "lambda_assign",
}  # fmt: skip
OPTION_NAMES_OF = {  # the same, where it depends on the method
    "freematch": {"ent_loss_ratio": "lambda_f"}, "vat": {"ent_loss_ratio": "lambda_entropy"},
}  # fmt: skip
SHARPENING = ("mixmatch", "remixmatch", "sequencematch")  # methods that use T in any case
HARD = ("fixmatch", "flexmatch", "freematch", "sequencematch")  # whose labels can be soft there
THEIRS: dict[str, Any] = {  # what is trained with where a file does not say it
    "algorithm": "fixmatch", "dataset": "cifar10", "num_classes": 10, "num_labels": 400,
    "net": "wrn_28_2", "batch_size": 8, "uratio": 1, "num_warmup_iter": 0, "optim": "SGD",
    "lr": 0.03, "weight_decay": 5e-4, "layer_decay": 1.0, "ema_m": 0.999, "lb_imb_ratio": 1,
    "ulb_imb_ratio": 1, "include_lb_to_ulb": True, "img_size": 32, "seed": 1,
    "num_train_iter": 20, "num_eval_iter": 10,
}  # fmt: skip
SAME = {  # what is as it is here, and need not be told; another value is
    "crop_ratio": 0.875, "momentum": 0.9, "clip": 0.0, "clip_grad": 0.0, "train_sampler":
    "RandomSampler", "use_cat": True, "use_quantile": False, "clip_thresh": False,
    "dist_align": True, "dist_uniform": True, "per_class": False, "mixup_manifold": False,
    "net_from_name": False, "abc_loss_ratio": 1.0, "tsa_schedule": "none", "use_flex": False,
    "vat_embed": False, "daso_with_dist_aware": True, "daso_num_pl_dist_iter": 100,
}  # fmt: skip
NO_MATTER = {  # files, processes and displays, and what other names say
    "save_dir", "save_name", "resume", "load_path", "overwrite", "use_tensorboard", "use_wandb",
    "use_aim", "epoch", "eval_batch_size", "num_classes", "num_workers", "world_size",
    "rank", "multiprocessing_distributed", "dist_url", "dist_backend", "gpu", "algorithm", "net",
    "dataset", "uratio", "num_labels", "ulb_num_labels", "optim", "use_pretrain", "pretrain_path",
    "amp", "use_amp", "hard_label", "imb_algorithm", "lb_imb_ratio", "ulb_imb_ratio",
    "include_lb_to_ulb", "K", "abc_p_cutoff", "daso_interp_alpha", "daso_num_pretrain_iter",
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
    given = {str(k): v for k, v in read_mapping(path, "from-usb").items()}
    given = {k: None if v == "None" else v for k, v in given.items()}  # as their generator writes
    try:
        return translated(given)
    except UsageError as error:
        raise UsageError(f"from-usb {path}: {error}") from None


def translated(given: Mapping[str, Any]) -> Translated:
    """The same for the values of a file."""
    theirs = {**THEIRS, **given}
    method = method_of(theirs)
    wanted, remarks = dict(run_options(theirs)), [*remarks_on(theirs, method)]
    own = method_options(method)
    for name, value in given.items():
        ours = OPTION_NAMES_OF.get(method, {}).get(name) or OPTION_NAMES.get(name)
        if ours in own and not ignored(name, theirs, method):
            wanted[ours] = parsed(own[ours], name, value)
        elif name not in NO_MATTER and name not in RUN_NAMES and value != SAME.get(name, value):
            remarks.append(f"{name}: {value} has no counterpart here ({SAME[name]} is built in).")
        elif name not in {*NO_MATTER, *RUN_NAMES, *SAME} and not ignored(name, theirs, method):
            remarks.append(f"{name}: {value} is not taken over.")
    if method == "daso" and "steps" in wanted:
        before = {"daso_num_pretrain_iter": 5120, **theirs}
        wanted["blend_after"] = whole(before, "daso_num_pretrain_iter") / wanted["steps"]
    usual = resolve({"data": wanted["data"], "method": method}).flat()
    kept = {k: v for k, v in wanted.items() if k in ("data", "root") or usual.get(k) != v}
    resolve({**kept, "method": method})  # an error, if the values do not fit together
    words = ["--method", method, *(w for k, v in kept.items() for w in as_words(k, v))]
    return Translated(f"tamatch train {shlex.join(words)}", [*remarks, *ALWAYS])


def parsed(option: Option, name: str, value: Any) -> Any:
    """A value of the file for an option of ours; an error names it as the file does."""
    try:
        return option.parse(value)
    except UsageError as error:
        raise UsageError(str(error).replace(option.flag, name, 1)) from None


def whole(theirs: Mapping[str, Any], name: str) -> int:
    """A whole number of the file, at least 1."""
    return int(parsed(Option(name, int, None, bounds=AT_LEAST_ONE), name, theirs[name]))


def method_of(theirs: Mapping[str, Any]) -> str:
    name, tail = str(theirs["algorithm"]), theirs.get("imb_algorithm")
    if tail in TAIL_METHODS and name == "fixmatch":
        return str(tail)
    found = METHOD_NAMES.get(name, name)
    if found not in METHODS:
        hint = perhaps(found, METHODS) or " `tamatch methods` lists those there are."
        raise UsageError(f"algorithm: {name} is no method of this package.{hint}")
    return found


def data_of(theirs: Mapping[str, Any]) -> str:
    """Our name of the data, which also says the protocol: with a wide residual net or a ViT."""
    data, classic = str(theirs["dataset"]), str(theirs["net"]).startswith("wrn")
    if data == "cifar10" and is_tail(theirs):
        return "cifar10-lt"
    if data in ("cifar100", "stl10") and classic:
        return f"{data}-classic"
    if data == "imagenet":
        return f"imagenet-{1 if whole(theirs, 'num_labels') < 64_000 else 10}percent"
    name = DATA_NAMES.get(data, data)
    if name not in PROTOCOLS or name == "digits":
        raise UsageError(
            f"dataset: {data} is not provided; there are {known_sets()}. For other images, make a "
            "folder: `tamatch train --data DIR` with the options that docs/coming-from-usb.md "
            "names; for texts and sound, docs/own-loop.md."
        )
    return name


def refuse_other_classes(theirs: Mapping[str, Any], data: str) -> None:
    """By their number, labels would be shared out: with a wrong one, to too few or too many."""
    own = next((count for name, count in CLASSES.items() if data.startswith(name)), 10)
    if (given := whole(theirs, "num_classes")) != own:
        name = theirs["dataset"]
        raise UsageError(f"num_classes: {given:,} does not fit {name}, which has {own:,} classes.")


def is_tail(theirs: Mapping[str, Any]) -> bool:
    ratios = (ratio(theirs, name) for name in ("lb_imb_ratio", "ulb_imb_ratio"))
    return theirs.get("ulb_num_labels") is not None or any(each != 1 for each in ratios)


def run_options(theirs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The options of the run, by our names."""
    data = data_of(theirs)
    refuse_other_classes(theirs, data)
    yield "data", data
    for key, ours in RUN_NAMES.items():
        if key in theirs and key != "img_size":
            yield ours, parsed(RUN_OPTIONS[ours], key, theirs[key])
    if str(theirs["net"]) in NET_NAMES:
        yield "net", NET_NAMES[str(theirs["net"])]
        yield from size_of(theirs, data)
    yield "unlabelled", whole(theirs, "batch_size") * whole(theirs, "uratio")
    yield "optimizer", parsed(RUN_OPTIONS["optimizer"], "optim", str(theirs["optim"]).lower())
    yield "labelled_in_pool", "yes" if theirs["include_lb_to_ulb"] else "no"
    if data == "svhn-extra":
        yield "flips", "horizontal"
    if data.startswith("imagenet"):
        return  # lists name the labelled images
    if not is_tail(theirs):
        yield "labels_per_class", of_each_class(theirs, "num_labels")
        return
    gamma, own = ratio(theirs, "lb_imb_ratio"), ratio(theirs, "ulb_imb_ratio")
    yield "head_labelled", of_largest_class(theirs, "num_labels", gamma)
    yield "gamma", gamma
    if theirs.get("ulb_num_labels") is not None:
        yield "head_unlabelled", of_largest_class(theirs, "ulb_num_labels", own)
        if own != gamma:
            yield "gamma_unlabelled", own
    elif own != 1 and not data.startswith("stl10"):  # whose pool has no labels
        raise UsageError(f"ulb_imb_ratio: {own:g} needs ulb_num_labels, in USB as well.")


def ratio(theirs: Mapping[str, Any], name: str) -> float:
    return float(parsed(RUN_OPTIONS["gamma"], name, theirs[name]))


def of_largest_class(theirs: Mapping[str, Any], name: str, gamma: float) -> int:
    """What their count says: the images of the largest class, or of all if they are equal."""
    return of_each_class(theirs, name) if gamma == 1 else whole(theirs, name)


def of_each_class(theirs: Mapping[str, Any], name: str) -> int:
    images, classes = whole(theirs, name), whole(theirs, "num_classes")
    if images % classes:
        raise UsageError(
            f"{name}: {images} cannot be shared equally by {classes} classes (num_classes), which "
            "USB refuses as well."
        )
    return images // classes


def size_of(theirs: Mapping[str, Any], data: str) -> Iterator[tuple[str, Any]]:
    """The side of the images where it is not that of the data set or of the net."""
    usual = {"stl10": 96, "food101": 224, "imagenet": 224}.get(str(theirs["dataset"]), 32)
    size = parsed(RUN_OPTIONS["size"], "img_size", theirs["img_size"])
    if size != usual and str(theirs["net"]).startswith("wrn"):
        yield "size", size


def ignored(name: str, theirs: Mapping[str, Any], method: str) -> bool:
    """What is not used: T by hard labels, and the options of an `imb_algorithm` not provided."""
    tail = theirs.get("imb_algorithm")
    if tail and tail != method and name.startswith(f"{tail}_".replace("+", "")):
        return True
    hard = theirs.get("hard_label", True) and method not in ("comatch", "simmatch", "dash")
    return name == "T" and bool(hard) and method not in SHARPENING


def remarks_on(theirs: Mapping[str, Any], method: str) -> Iterator[str]:
    """What is done in another way."""
    net, data, tail = str(theirs["net"]), str(theirs["dataset"]), theirs.get("imb_algorithm")
    if tail and tail != method:
        yield (
            f"imb_algorithm: {tail} is left out, so this is {theirs['algorithm']} alone. For long "
            "tails there are saw, abc, daso, acr, cdmad, simpro, ccl and tamatch_lt."
        )
    if NET_NAMES.get(net, "").startswith("timm/"):
        yield f"net: {net} is timm's here, so the package timm must be installed."
    if net not in NET_NAMES:
        yield f"net: {net} is not provided: --net takes FILE.py:NAME, or timm/NAME."
    if theirs.get("use_pretrain"):
        address = str(theirs.get("pretrain_path") or "")
        file = address.rpartition("/")[2] if "://" in address else address
        first = f"download {address} and " if "://" in address else ""
        yield f"Pre-trained weights: {first}give --weights {file or 'FILE'}."
    if theirs.get("amp") or theirs.get("use_amp"):
        yield "amp: mixed precision is bfloat16 here, and the default on a GPU (--precision)."
    if theirs.get("hard_label") is False and method in HARD:
        yield "hard_label: False is not available; pseudo-labels are hard, as in the papers."
    if method == "abc" and theirs.get("abc_p_cutoff", 0.95) != theirs.get("p_cutoff", 0.95):
        yield "abc_p_cutoff: one --tau serves both heads."
    if data == "imagenet":
        yield "The labelled images are those of SimCLR's list, where USB draws some by chance."
    elif data == "stl10" and not theirs["include_lb_to_ulb"]:
        yield "The labelled images are not in the pool, where USB has each of them once."
    elif data.endswith("mnist"):
        yield "Strong views may change colours, which USB leaves out for these images."
    if data in ("imagenet", "food101"):
        yield "Views are shifted by an eighth at most, where USB cuts out parts of any size."
    if theirs.get("world_size") not in (None, 1):
        yield "Several GPUs: torchrun starts tamatch; batch_size is that of all together."
