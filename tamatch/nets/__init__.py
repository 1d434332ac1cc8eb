"""The nets by name. Importing this table does not import torch; `build` does."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from ..errors import UsageError, perhaps
from ..own import usercode

if TYPE_CHECKING:
    from torch import nn

    from .base import Net

AnyNet: TypeAlias = "str | nn.Module | Callable[..., nn.Module]"  # a name, or what the user gives


@dataclass(frozen=True)
class NetEntry:
    """What there is to know of a net before building it."""

    summary: str
    size: int  # side of the images it is made for, in pixels
    build: str  # "module:function" in this package, called with (name, classes, size)
    parameters: str  # how many, and of what kind where that matters


WRN = "wrn:build"
VIT = "vit:build"
TIMM = "foreign:build_timm"
OWN = "foreign:build_own"
FROZEN_NET = "features:build"
FROZEN = "frozen/"  # before the name of a net that is not trained
TUNED = "tuned/"  # before that of a net that is trained on from such an answer
AT = "_at_"  # between the name of that answer's net and the size at which it is tuned
CUSTOM = usercode.UserObjects(
    "net", "FILE.py:NAME",
    "a name, FILE.py:NAME, an nn.Module, or a class or function that makes one",
    "class or function {}",
)  # fmt: skip
is_user_code = usercode.is_own
SHAPE = r"(tiny|small|base|\d+x\d+)_p\d+_\d+"  # of a transformer, with its patch and size

# fmt: off
NETS: dict[str, NetEntry] = {
    "wrn_10_1": NetEntry("small wide residual net, for a CPU", 32, WRN, "78 thousand"),
    "wrn_10_2": NetEntry("small wide residual net, for a CPU", 32, WRN, "304 thousand"),
    "wrn_16_1": NetEntry("thin wide residual net, for a CPU", 32, WRN, "175 thousand"),
    "wrn_28_2": NetEntry("wide residual net of the CIFAR-10 experiments", 32, WRN, "1.47 million"),
    "wrn_28_2_clean": NetEntry(
        "the same without its quirks; BatchNorm momentum 0.1", 32, WRN,
        "1.47 million, all trained"),
    "wrn_28_8": NetEntry(
        "wide residual net of the classic CIFAR-100 experiments", 32, WRN, "23.4 million"),
    "wrn_37_2": NetEntry(
        "wide residual net of the classic STL-10 experiments, four stages", 96, WRN,
        "5.93 million"),
    "vit_tiny_p2_32": NetEntry("small transformer, 256 patches", 32, VIT, "5.4 million"),
    "vit_tiny_p16_224": NetEntry("small transformer at ImageNet's size", 224, VIT, "5.5 million"),
    "vit_small_p2_32": NetEntry(
        "transformer of the CIFAR-100 and EuroSAT experiments", 32, VIT, "21.4 million"),
    "vit_base_p16_96": NetEntry(
        "transformer of the STL-10 experiments", 96, VIT, "85.7 million; start from weights"),
}

FAMILIES: dict[str, tuple[str, NetEntry]] = {  # how a name is written, and a pattern of all names
    "wrn_DEPTH_WIDTH[_clean]": (r"wrn_\d+_\d+(_clean)?", NetEntry(
        "any wide residual net of depth 10, 16, 22, … or 13, 21, 29, …", 32, WRN,
        "depends on depth and width")),
    "vit_SHAPE_pPATCH_SIZE": (rf"vit_{SHAPE}", NetEntry(
        "any transformer; SHAPE is tiny, small, base or WIDTHxDEPTH", 32, VIT,
        "depends on shape and patch")),
    "dinov2|dinov2reg|clip_SHAPE_pPATCH_SIZE": (rf"(dinov2|dinov2reg|clip)_{SHAPE}", NetEntry(
        "the transformers of DINOv2, without and with registers, and of CLIP", 224, VIT,
        "depends on shape; start from weights")),
    "timm/NAME": (r"timm/.+", NetEntry(
        "any net of the timm package, if installed", 224, TIMM, "see timm")),
    f"{FROZEN}NAME": (rf"{FROZEN}(timm/.+|\w+)", NetEntry(
        "one of these that is not trained; its last layer is solved", 224, FROZEN_NET,
        "as that net; needs weights")),
    f"{TUNED}NAME[{AT}SIZE]": (rf"{TUNED}(timm/.+|\w+)", NetEntry(
        "the same, trained on from there; a transformer also at another size", 224, FROZEN_NET,
        "as that net; needs weights")),
    "FILE.py:NAME": (usercode.OWN_NAME, NetEntry(
        "a class or function of your own that makes a net", 32, OWN, "your own")),
}
# fmt: on


def find(name: str) -> NetEntry:
    """Look a net up by name, also one that is only covered by its family's pattern."""
    if name in NETS:
        return NETS[name]
    for pattern, entry in FAMILIES.values():
        if re.fullmatch(pattern, name):
            if entry.build == FROZEN_NET:
                check_at(name)
            return entry
    hint = perhaps(name, NETS) or f" If it is a net of timm, write timm/{name}."
    if name.endswith(".py"):
        hint = f" Perhaps you meant {name}:NAME, a class or function in that file."
    raise UsageError(f"--net {name} is not a net.{hint} `tamatch nets` lists them.")


def is_transformer(name: str) -> bool:
    """Whether it is one of this package's vision transformers."""
    return find(name).build == VIT


def is_timm(name: str) -> bool:
    """Whether it is a net of the timm package."""
    return find(name).build == TIMM


def is_frozen(name: str) -> bool:
    """Whether it is a net that is not trained, with a last layer that is solved at once."""
    return name.startswith(FROZEN)


def is_tuned(name: str) -> bool:
    """Whether it is a net that is trained on from the last layer of a frozen one."""
    return name.startswith(TUNED)


def begins_anew(name: str) -> bool:
    """Whether a run that goes on from another takes over its settings, but not its weights."""
    return is_frozen(name) or is_tuned(name)


def body_of(name: str) -> str:
    """The name of the net that is frozen or tuned, at the size at which it is."""
    made, size = _made_and_size(name)
    return f"{made.rpartition('_')[0]}_{size}" if size else made


def first_of(name: str) -> str:
    """The name of the net whose answer a tuned one starts from: itself, but for its size."""
    return _made_and_size(name)[0]


def _made_and_size(name: str) -> tuple[str, str]:
    made = name.removeprefix(FROZEN).removeprefix(TUNED)
    if not is_tuned(name) or made.startswith("timm/"):
        return made, ""
    made, _, size = made.partition(AT)
    return made, size


def check_at(name: str) -> None:
    """Refuse a frozen or tuned net whose own name or size is none."""
    made, size = _made_and_size(name)
    number = int(size) if find(made).build == VIT and size.isdecimal() else 0
    if size and (number == 0 or number % patch_in_name(made)):
        raise UsageError(
            f"--net {name}: after {AT} comes the size, in pixels, at which a transformer is tuned, "
            f"a multiple of its patches, such as {TUNED}vit_tiny_p16_224{AT}128."
        )
    find(body_of(name))


def size_in_name(name: str) -> int | None:
    """The side of the images that a transformer's name tells; other nets take any."""
    return int(name.rpartition("_")[2]) if is_transformer(name) else None


def patch_in_name(name: str) -> int:
    """The side of a transformer's patches."""
    return int(name.rpartition("_p")[2].partition("_")[0])


def build(name: str, classes: int, size: int) -> "Net":
    """Build a net with fresh weights for images of `size` × `size` pixels."""
    module, function = find(name).build.split(":")
    builder = getattr(import_module(f"{__name__}.{module}"), function)
    return cast("Net", builder(name, classes, size))


def title(name: str) -> str:
    """The name without the folder that a file lies in, to be passed on with a model."""
    return Path(name).name if is_user_code(name) else name


def net_of_model(name: str, net: "AnyNet | None", place: Path) -> str:
    """The net to build for a saved model, which says that it is one of this name.

    Code of the user's own is never taken from what the model says: it must be given.
    """
    if not is_user_code(name):
        if net is None or net == name:
            return name
        raise UsageError(f"--net works only for models with your own net; {place} uses {name}.")
    if net is None:
        raise UsageError(
            f"the net of {place} is your own code ({name}), which is not saved with the model and "
            "is not run unless you name it: --net FILE.py:NAME, or net=… in Python."
        )
    return CUSTOM.register(net)
