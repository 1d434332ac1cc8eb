"""What a run on a person's own images starts with: a size, and the weights if there are some."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from .. import nets
from ..data import load
from ..data.folder import typical_side
from ..nets.pretrained import Located, locate
from ..progress import counting
from ..rules import choose, finetune
from ..rules.choose import NOTHING, Chosen, choice
from ..settings.config import Run


def start_of(
    run: Run, fixed: Container[str], side: float | None, *, arrays: bool, gpu: bool
) -> Chosen:
    """The size of the images; from pre-trained weights, also their net and how it is trained.

    What is `fixed` is the user's, and the rest is fitted to it. `side` is that of most images, in
    pixels, and `arrays` whether they are no files, but arrays of that size already.
    """
    if run.weights is not None and "net" in fixed and nets.is_timm(run.net):
        return timm_start(run, fixed, gpu=gpu)
    chosen = image_size(run, fixed, side, arrays=arrays, gpu=gpu)
    if run.weights is None:
        return chosen
    weights = locate(run.weights)
    if "net" not in fixed:
        chosen = chosen | net_for_weights(run, weights, fixed, side, gpu=gpu)
    net = chosen.settings.get("net", run.net)
    if not fine_tunes(run, net):
        return chosen
    if nets.is_user_code(net):
        return chosen | finetune.user_net_recipe()
    from ..nets.recognise import colours_of  # torch is slow to load

    return chosen | finetune.recipe(weights.normalise or colours_of(net))


def fine_tunes(run: Run, net: str) -> bool:
    """Whether it starts from weights, and is no net that is trained as from random ones."""
    kinds = nets.is_transformer, nets.is_timm, nets.is_user_code
    return run.weights is not None and any(kind(net) for kind in kinds)


def timm_start(run: Run, fixed: Container[str], *, gpu: bool) -> Chosen:
    """For weights of a timm net: what timm says about them."""
    from ..nets.timm_net import published  # torch is slow to load

    made = published(run.net)
    recipe = finetune.recipe(made.normalise)
    if "size" in fixed:
        return recipe
    pixels = finetune.published_size(made.size, made.patch, gpu=gpu)
    slow = "" if gpu else " without a GPU"
    why = f"{run.net} is made for {made.size}" + f", which is slow{slow}" * (pixels < made.size)
    return choice("size", pixels, f"{pixels} × {pixels} pixels", why) | recipe


def net_for_weights(
    run: Run, weights: Located, fixed: Container[str], side: float | None, *, gpu: bool
) -> Chosen:
    """The net that the weights were made for, and the size: a transformer has its own."""
    from ..nets.recognise import recognise  # torch is slow to load

    found = recognise(weights.path)
    if not found.is_transformer:
        return finetune.net(found.net, found.net, weights.title)
    row = finetune.grid(found.grid, gpu=gpu)
    pixels = finetune.image_size(side, found.patch, found.grid, gpu=gpu)
    if "size" in fixed and run.size is not None:
        pixels = run.size
    patch = finetune.patch_for(pixels, found.patch, row)
    cut = finetune.net(found.at(pixels, patch), found.net, weights.title, pixels // patch)
    return finetune.size(pixels, side) | cut


def image_size(
    run: Run, fixed: Container[str], side: float | None, *, arrays: bool, gpu: bool
) -> Chosen:
    """That of a transformer's name, or by the images; arrays are not made larger than they are."""
    if "size" in fixed:
        return NOTHING
    if "net" in fixed and (size := nets.size_in_name(run.net)) is not None:
        return choice("size", size, f"{size} × {size} pixels", f"what {run.net} is made for")
    found = choose.image_size(side, gpu=gpu)
    if arrays and side is not None and side < found.settings["size"]:
        shown = f"{side:.0f} × {side:.0f} pixels"
        return choice("size", int(side), shown, "as the images are; they are not made larger")
    return found


def side_of(place: Path) -> float | None:
    """The typical side of the images in pixels; None if none can be read."""
    if place.suffix == ".npz":
        return load(place).size
    with counting("listing files") as count:
        return typical_side(place, count)
