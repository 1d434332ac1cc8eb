"""Which net a weight file was made for, by the names and shapes of its tensors."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..errors import UsageError
from . import build, find, is_transformer
from .vit import HEAD, SHAPES, STYLES
from .weights import fit, plain_name, read_tensors, to_timm_names

ADVICE = (
    "Specify the net: --net NAME (`tamatch nets` lists them; timm/NAME is any net of the timm "
    "package), or --net FILE.py:NAME for your own."
)
BODY_PART = re.compile(r"(blocks|patch_embed|norm_pre|stages)\.|(reg|dist)_token")
MAY_LACK = re.compile(r"head\.|stem\.bias$|.*\.num_batches_tracked$")
MOST_WIDTH = 1024  # wider transformers have wider heads
STYLE_SIGNS = {  # tensors that only the nets of one style have
    "reg_token": "dinov2reg",
    "blocks.0.ls1.gamma": "dinov2",
    "norm_pre.weight": "clip",
}
SHOWN = 4  # tensors of a file that is not recognised


@dataclass(frozen=True)
class Recognised:
    """The net of a weight file; `size` and `patch` are those that the file was made with."""

    net: str
    size: int
    patch: int = 1  # of a transformer, in pixels

    @property
    def is_transformer(self) -> bool:
        return is_transformer(self.net)

    @property
    def grid(self) -> int:
        """Patches in a row."""
        return self.size // self.patch

    def at(self, size: int, patch: int) -> str:
        """The same net for images and patches of another size."""
        return (
            f"{self.net.rpartition('_p')[0]}_p{patch}_{size}" if self.is_transformer else self.net
        )


def colours_of(net: str) -> str:
    """How images are normalised for published weights of this net."""
    return STYLES[net.partition("_")[0]].normalise if is_transformer(net) else "imagenet"


def recognise(path: Path) -> Recognised:
    """The net of this package that all of a file's tensors fit, or an error that says what it saw.

    Two things leave no trace in shapes. The heads of a transformer's attention are taken to be 64
    wide, as in all of the published nets of these widths, and CLIP's activation to be OpenAI's.
    """
    tensors = read_tensors(path)
    shapes = {plain_name(k): tuple(v.shape) for k, v in to_timm_names(tensors).items()}
    if "patch_embed.proj.weight" in shapes and "pos_embed" in shapes:
        found = transformer(shapes, path)
    elif "stages.0.0.conv1.weight" in shapes:
        found = residual({plain_name(k): v for k, v in tensors.items()})
    else:
        seen = tensors_in_words(tensors)
        raise UsageError(f"{path}: the weights match no built-in net: {seen}. {ADVICE}")
    check(found, tensors, path)
    return found


def transformer(shapes: Mapping[str, tuple[int, ...]], path: Path) -> Recognised:
    """From the width, the number of blocks, the patch and the number of positions."""
    depth = blocks_in(shapes, "blocks")
    width, patch = (shapes["patch_embed.proj.weight"][i] for i in (0, -1))
    style = next((v for k, v in STYLE_SIGNS.items() if k in shapes), "vit")
    shape = next((k for k, s in SHAPES.items() if s[:2] == (width, depth)), f"{width}x{depth}")
    positions = shapes["pos_embed"][1] if len(shapes["pos_embed"]) == 3 else 0
    patches = positions if STYLES[style].registers else positions - 1  # without the class token
    grid = math.isqrt(max(0, patches))
    if width % HEAD or width > MOST_WIDTH or not depth or grid < 1 or grid**2 != patches:
        raise UsageError(
            f"{path} contains a transformer of width {width}, depth {depth} and {positions} "
            f"positions. Supported are widths up to {MOST_WIDTH} that are multiples of {HEAD}, "
            f"with a class token and a square grid of patches. {ADVICE}"
        )
    return Recognised(f"{style}_{shape}_p{patch}_{grid * patch}", grid * patch, patch)


def residual(tensors: Mapping[str, Tensor]) -> Recognised:
    """From stages, blocks and width; the reference has a layer that it never uses, or biases."""
    stages = blocks_in(tensors, "stages")
    depth = 2 * stages * blocks_in(tensors, "stages.0") + stages + 1
    width = tensors["stages.0.0.conv1.weight"].shape[0] // 16
    raw = tensors.get("stages.1.0.bn1.running_mean")
    reference = "stages.0.0.conv1.bias" in tensors or (raw is not None and not raw.any())
    clean = "" if reference else "_clean"
    name = f"wrn_{depth}_{width}{clean}"
    return Recognised(name, find(name).size)


def check(found: Recognised, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Compare with the net, which is built without memory for its weights."""
    with torch.device("meta"):
        net = build(found.net, 1, found.size)
    _, report = fit(net, tensors, path)
    missing = [name for name in report.missing if MAY_LACK.match(name) is None]
    extra = [name for name in report.extra if BODY_PART.match(name)]
    wrong = {"of other shapes": list(report.misfits), "missing": missing, "left over": extra}
    if any(wrong.values()):
        said = "; ".join(f"{what}: {', '.join(v[:SHOWN])}" for what, v in wrong.items() if v)
        raise UsageError(
            f"{path} looks like {found.net}, but is a different net ({said}). {ADVICE}"
        )


def blocks_in(names: Mapping[str, object], part: str) -> int:
    found = (re.match(rf"{re.escape(part)}\.(\d+)\.", name) for name in names)
    return len({match[1] for match in found if match})


def tensors_in_words(tensors: Mapping[str, Tensor]) -> str:
    """How many tensors there are, and the first of them."""
    first = [f"{k} {'×'.join(map(str, v.shape)) or '1'}" for k, v in list(tensors.items())[:SHOWN]]
    more = ", …" if len(tensors) > SHOWN else ""
    count = f"{len(tensors)} tensor{'s' * (len(tensors) != 1)}"
    return f"{count} ({', '.join(first)}{more})" if tensors else "it is empty"
