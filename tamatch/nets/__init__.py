"""The nets by name. Importing this table does not import torch; `build` does."""

from __future__ import annotations

import difflib
import importlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tamatch.errors import UsageError

if TYPE_CHECKING:
    from tamatch.nets.base import Net


@dataclass(frozen=True)
class NetEntry:
    """What there is to know of a net before building it."""

    summary: str
    size: int  # side of the images it is made for, in pixels
    build: str  # "module:function", called with (name, classes, size)
    parameters: str  # how many, and of what kind where that matters


WRN = "tamatch.nets.wrn:build"
VIT = "tamatch.nets.vit:build"

NETS: dict[str, NetEntry] = {
    "wrn_10_1": NetEntry("small wide residual net, for a CPU", 32, WRN, "78 thousand"),
    "wrn_10_2": NetEntry("small wide residual net, for a CPU", 32, WRN, "304 thousand"),
    "wrn_16_1": NetEntry("thin wide residual net, for a CPU", 32, WRN, "175 thousand"),
    "wrn_28_2": NetEntry("wide residual net of the CIFAR-10 experiments", 32, WRN, "1.47 million"),
    "wrn_28_2_clean": NetEntry(
        "the same without its quirks; BatchNorm momentum 0.1", 32, WRN, "1.47 million, all trained"
    ),
    "wrn_28_8": NetEntry("wide residual net often used on CIFAR-100", 32, WRN, "23.4 million"),
    "vit_tiny_p2_32": NetEntry("small transformer, 256 patches", 32, VIT, "5.4 million"),
    "vit_tiny_p16_224": NetEntry("small transformer at ImageNet's size", 224, VIT, "5.5 million"),
    "vit_small_p2_32": NetEntry(
        "transformer of the CIFAR-100 and EuroSAT experiments", 32, VIT, "21.4 million"
    ),
    "vit_base_p16_96": NetEntry(
        "transformer of the STL-10 experiments", 96, VIT, "85.7 million; start from weights"
    ),
}

FAMILIES: dict[str, tuple[str, NetEntry]] = {
    "wrn_DEPTH_WIDTH[_clean]": (
        r"wrn_\d+_\d+(_clean)?",
        NetEntry("any wide residual net of depth 10, 16, 22, …", 32, WRN, "by depth and width"),
    ),
    "vit_tiny|small|base_pPATCH_SIZE": (
        r"vit_(tiny|small|base)_p\d+_\d+",
        NetEntry("any transformer of these widths", 32, VIT, "by width and patch"),
    ),
    "timm/NAME": (
        r"timm/.+",
        NetEntry(
            "any net of the timm package, if installed",
            224,
            "tamatch.nets.timm_net:build",
            "as timm says",
        ),
    ),
}


def find(name: str) -> NetEntry:
    """Look a net up by name, also one that is only covered by its family's pattern."""
    if name in NETS:
        return NETS[name]
    for pattern, entry in FAMILIES.values():
        if re.fullmatch(pattern, name):
            return entry
    near = difflib.get_close_matches(name, NETS, n=3, cutoff=0.5)
    hint = f" Perhaps you meant {' or '.join(near)}." if near else ""
    raise UsageError(f"--net {name} is not a net.{hint} `tamatch nets` lists them.")


def build(name: str, classes: int, size: int) -> Net:
    """Build a net with fresh weights for images of `size` × `size` pixels."""
    module, function = find(name).build.split(":")
    return cast("Net", getattr(importlib.import_module(module), function)(name, classes, size))
