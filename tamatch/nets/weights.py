"""Reading weight files without running code, and fitting them to a net of another size.

`weight_names.txt` has the tensor names of vision transformers from other libraries: Google's JAX
nets, the `transformers` package, torchvision and CLIP. The computation is the same.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from ..errors import UsageError
from ..storage.untrusted import read_npz
from .base import Net

Shape = tuple[int, ...]
Tensors = dict[str, Tensor]
Names = list[tuple[str, str]]  # patterns, and what replaces them
GOOGLE, CLIP = "embedding/kernel", "visual.class_embedding"  # tensors by which they are known
PARTS = ("query", "key", "value")
PREFIXES = ("module.", "backbone.")  # what wrappers put before every name
LISTED = 6  # names in a line of the report
HEADS = {"head", "fc", "classifier", "mlp"}  # first part of the names of another task's head
WRN_NAMES = (  # the names that other wide residual nets use, and ours
    (re.compile(r"^conv1\."), "stem."),
    (re.compile(r"^bn1\."), "norm."),
    (re.compile(r"^block(\d+)\.layer\."), lambda match: f"stages.{int(match[1]) - 1}."),
    (re.compile(r"\.convShortcut\."), ".shortcut."),
)
NESTED = ("model", "state_dict")  # keys under which training scripts keep the weights


@dataclass(frozen=True)
class WeightReport:
    """What became of each tensor of the file and of the net; `str` makes a table of it."""

    path: Path
    loaded: tuple[str, ...]  # taken over, among them the resized ones
    resized: dict[str, tuple[Shape, Shape]]  # shape in the file, shape in the net
    missing: tuple[str, ...]  # in the net but not in the file: they keep their fresh values
    extra: tuple[str, ...]  # in the file but not in the net
    dropped: tuple[str, ...]  # another task's head
    misfits: dict[str, tuple[Shape, Shape]]  # of a shape that cannot be resized: not loaded

    def __str__(self) -> str:
        rows = {
            "resized": _shapes(self.resized),
            "misfit": _shapes(self.misfits),
            "missing": self.missing,
            "extra": self.extra,
            "dropped": self.dropped,
        }
        tensors = len(self.loaded) + len(self.missing) + len(self.misfits)
        lines = [f"loaded  {len(self.loaded):5}  of {tensors} tensors from {self.path.name}"]
        lines += [f"{key:8}{len(row):5}  {_first(row)}" for key, row in rows.items() if row]
        return "\n".join(lines)


def load_weights(net: nn.Module, path: str | Path) -> WeightReport:
    """Load a `.safetensors`, `.npz` or `.pth` file into a net, in place, without running code.

    The head stays fresh. A position embedding of another grid and a patch embedding of another
    patch size are resized. A file that fits less than half of the net is refused.
    """
    path = Path(path)
    fitted, report = fit(net, read_tensors(path), path)
    own = _loadable(net)
    if 2 * len(fitted) < len(own):
        raise UsageError(
            f"{path} does not match this net: only {len(fitted)} of its {len(own)} tensors are in "
            "the file with the right shape. Choose the net that the weights were made "
            f"for.\n{report}"
        )
    for name, tensor in fitted.items():
        own[name].copy_(tensor)
    return report


def zero_head(net: nn.Module) -> None:
    """Set the last layer to zero, so that all classes begin with equal probabilities."""
    name = f"model.{net.head_name}" if hasattr(net, "head_name") else "head"  # of a user's net
    layer = dict(net.named_modules()).get(name)
    if layer is None:
        raise UsageError(
            "--head zero needs a net that ends in a linear layer. Leave out the option."
        )
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)


def fit(
    net: nn.Module, tensors: Mapping[str, Tensor], path: Path
) -> tuple[dict[str, Tensor], WeightReport]:
    """The tensors of a file by the net's names and in its shapes; the net is left as it is."""
    own = _loadable(net)
    given = _named(to_timm_names(tensors), own)
    theirs = net.converted(given) if isinstance(net, Net) else given
    fitted: dict[str, Tensor] = {}
    resized, misfits = {}, {}
    dropped = [name for name in theirs if _is_head(name, net, own)]
    for name in (name for name in own if name in theirs and name not in dropped):
        shapes = (tuple(given.get(name, theirs[name]).shape), tuple(own[name].shape))
        tensor = _fit(name, theirs[name], shapes[1])
        if tensor is None:
            misfits[name] = shapes
            continue
        fitted[name] = tensor
        if shapes[0] != shapes[1]:
            resized[name] = shapes
    return fitted, WeightReport(
        path=path,
        loaded=tuple(name for name in own if name in fitted),
        resized=resized,
        missing=tuple(name for name in own if name not in fitted and name not in misfits),
        extra=tuple(name for name in theirs if name not in own and name not in dropped),
        dropped=tuple(dropped),
        misfits=misfits,
    )


def plain_name(name: str) -> str:
    """The name without the prefixes of wrappers, and as our wide residual nets have it."""
    while prefix := next((p for p in (*PREFIXES, "model.") if name.startswith(p)), ""):
        name = name.removeprefix(prefix)
    return _wrn_name(name)


def resize_positions(embedding: Tensor, tokens: int) -> Tensor:
    """Bicubic resampling of the grid of positions; that of a class token, if it has one, is kept.

    Where it has none, as beside registers, the grid is smoothed first: DINOv2's authors do so there
    and only there, and ViT-Tiny's features are no better for it (see the log).
    """
    old, new = (math.isqrt(n) for n in (embedding.shape[1], tokens))
    rest = embedding.shape[1] - old**2
    grid = embedding[:, rest:].transpose(1, 2).reshape(1, -1, old, old)
    grid = F.interpolate(grid, size=(new, new), mode="bicubic", antialias=not rest)
    return torch.cat([embedding[:, :rest], grid.flatten(2).transpose(1, 2)], dim=1)


def resize_patches(kernel: Tensor, patch: int) -> Tensor:
    """Area resampling of a (width, 3, p, p) kernel that keeps its response.

    The values are sums, not means, of the area they replace: a small patch gives the token that
    the old kernel gives for the same patch enlarged by repeating pixels.
    """
    scale = (kernel.shape[-1] / patch) ** 2
    return F.interpolate(kernel, size=(patch, patch), mode="area") * scale


def _loadable(net: nn.Module) -> dict[str, Tensor]:
    """The tensors of the net that a file may have."""
    part: Callable[[], nn.Module] | None = getattr(net, "loadable", None)
    return (part() if part else net).state_dict()


def _is_head(name: str, net: nn.Module, own: Mapping[str, Tensor]) -> bool:
    """Whether it belongs to another task's head: the net's own, if it says which that is."""
    head = getattr(net, "head_name", None)
    if head is not None:
        return name.startswith(f"{head}.")
    kept = getattr(net, "headless", False) and name in own  # such as ConvNeXt's `head.norm`
    return name.split(".")[0] in HEADS and not kept


def _named(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the names this net uses."""
    named = {}
    for name, tensor in tensors.items():
        while name not in own and (p := next((p for p in PREFIXES if name.startswith(p)), "")):
            name = name.removeprefix(p)
        # as other libraries name it, or as a run of a wrapped net saves it
        others = (_wrn_name(name), name.removeprefix("model."))
        fitting = (n for n in others if name not in own and n in own)
        named[next(fitting, name)] = tensor
    return named


def _wrn_name(name: str) -> str:
    """Our name of a tensor of a wide residual net."""
    for pattern, ours in WRN_NAMES:
        name = pattern.sub(ours, name)
    return name


def _fit(name: str, tensor: Tensor, shape: Shape) -> Tensor | None:
    """The tensor in the wanted shape, or None if there is no way."""
    given = tuple(tensor.shape)
    if given == shape:
        return tensor
    if name == "pos_embed" and len(given) == len(shape) == 3 and given[2] == shape[2]:
        # both are (1, g², width), or both (1, 1 + g², width): with a class token
        beside = [tokens - math.isqrt(tokens) ** 2 for tokens in (given[1], shape[1])]
        return resize_positions(tensor.float(), shape[1]) if beside in ([0, 0], [1, 1]) else None
    if name == "patch_embed.proj.weight" and len(given) == 4 and given[:2] == shape[:2]:
        return resize_patches(tensor.float(), shape[-1])
    return None


def _shapes(tensors: Mapping[str, tuple[Shape, Shape]]) -> list[str]:
    return [
        f"{name} {'×'.join(map(str, old))} → {'×'.join(map(str, new))}"
        for name, (old, new) in sorted(tensors.items())
    ]


def _first(names: Sequence[str]) -> str:
    more = f", … and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read every named tensor of a weight file, as it is; pickled code is refused, not run."""
    reader = READERS.get(path.suffix)
    if reader is None:
        raise UsageError(f"{path}: unsupported weight file. Supported: {', '.join(READERS)}.")
    if not path.is_file():
        raise UsageError(f"weight file {path} not found.")
    try:
        return reader(path)
    except Exception as error:  # a foreign or damaged file may fail in any way
        reason = str(error).strip().split("\n")[0]
        raise UsageError(
            f"{path} cannot be read as weights ({reason}). The file must be complete and contain "
            "only tensors: download it again, or save it again as safetensors."
        ) from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:  # torch explains at length, in colours, how to load it all the same
        raise ValueError("it contains more than tensors, or is damaged") from None
    while isinstance(content, Mapping):
        inner = next((content[k] for k in NESTED if isinstance(content.get(k), Mapping)), None)
        if inner is None:
            return {str(k): v for k, v in content.items() if isinstance(v, Tensor)}
        content = inner
    raise ValueError(f"it contains a {type(content).__name__}, not named tensors")


READERS: dict[str, Callable[[Path], dict[str, Tensor]]] = {
    ".safetensors": load_file,
    ".npz": lambda path: {name: torch.from_numpy(a) for name, a in read_npz(path).items()},
    ".pth": _read_torch,
    ".pt": _read_torch,
}


@cache
def formats() -> dict[str, Names]:
    """The names of each format, by a tensor that only its files have."""
    table = Path(__file__).with_name("weight_names.txt").read_text("utf-8")
    found: dict[str, Names] = {}
    for part in table.split("\n# ")[1:]:
        signs, _, *lines = part.rstrip().splitlines()
        words = (line.split() for line in lines)
        names = [(pattern, "".join(ours)) for pattern, *ours in words]
        found |= dict.fromkeys(signs.split(), names)
    return found


def to_timm_names(tensors: Mapping[str, Tensor]) -> Tensors:
    """The tensors under timm's names and in torch's order of axes; others are left as they are."""
    sign = next((sign for sign in formats() if sign in tensors), None)
    if sign is None:
        return dict(tensors)
    names = formats()[sign]
    if sign == CLIP:
        tower = {k: v for k, v in tensors.items() if k.startswith("visual.")}
        return {renamed(k, names): with_batch(k, v) for k, v in tower.items()}
    layout = to_torch_layout if sign == GOOGLE else lambda _, tensor: tensor
    return fused_qkv({renamed(k, names): layout(k, v) for k, v in tensors.items()})


def renamed(name: str, names: Names) -> str:
    for pattern, ours in names:
        name = re.sub(pattern, ours, name)
    return name


def with_batch(name: str, tensor: Tensor) -> Tensor:
    """Of CLIP's tensors, tokens and positions lack the axes that timm's have in front."""
    if name.endswith("_embedding"):
        return tensor.reshape(1, -1, tensor.shape[-1])
    return tensor


def to_torch_layout(name: str, tensor: Tensor) -> Tensor:
    """JAX has outputs last, and the heads of attention on an axis of their own."""
    kind = name.rpartition("/")[2]
    if kind == "bias":
        return tensor.flatten()
    if kind != "kernel":
        return tensor
    if name == GOOGLE:
        return tensor.permute(3, 2, 0, 1)
    return tensor.flatten(0, -2).T if name.endswith("/out/kernel") else tensor.flatten(1).T


def fused_qkv(tensors: Tensors) -> Tensors:
    """Queries, keys and values as one tensor, where they are three."""
    found = {}
    for name, tensor in tensors.items():
        if f".{PARTS[0]}." in name:
            three = [tensors.get(name.replace(PARTS[0], part), tensor) for part in PARTS]
            found[name.replace(PARTS[0], "qkv")] = torch.cat(three)
        elif not any(f".{part}." in name for part in PARTS):
            found[name] = tensor
    return found
