"""How long augmentation takes: batches on the CPU and the GPU, beside a loop through Pillow.

python benchmarks/augment.py [--help]
"""

from __future__ import annotations

import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageOps
from torch import Tensor
from torch.utils.benchmark import Timer

from tamatch.augment.policy import CUTOUT_FILL, RANGES, Policy
from tamatch.augment.views import PILLOW_OPERATIONS, Augment
from tamatch.cli import guarded
from tamatch.cli.parser import Parser
from tamatch.errors import UsageError
from tamatch.settings.hardware import pick_device
from tamatch.storage.files import write_json

Work = Callable[[], object]

STEP = (64, 128)  # labelled and unlabelled images whose views are made together
STEP_SIZES = (32, 96)
UNRECORDED = 3  # calls before one is captured: lazy initialisation must not be


@dataclass(frozen=True)
class Speed:
    """One measurement, the median of its repetitions."""

    how: str  # "Pillow", "cpu", "cuda" or "cuda graph"
    work: str  # a view of a batch, or all views of a training step
    size: int
    images: int
    us_per_image: float

    @property
    def milliseconds(self) -> float:
        return self.us_per_image * self.images / 1000


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--sizes", default="32,96,224", help="in pixels (default: 32,96,224)")
    parser.add_argument("--batches", default="64,448", help="images per batch (default: 64,448)")
    parser.add_argument("--device", default="auto", help="auto (GPU and CPU) or cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement (default: 1)")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")


def run(arguments: Namespace) -> int:
    sizes, batches = (numbers(getattr(arguments, name), name) for name in ("sizes", "batches"))
    device = pick_device(arguments.device)
    columns = ["Pillow", "cpu", *(["cuda", "cuda graph"] if device.type == "cuda" else [])]
    print(f"{'µs per image':26}" + "".join(f"{column:>12}" for column in columns))
    found: list[Speed] = []
    for size in sizes:
        for batch in batches:
            for view in ("weak", "strong"):
                speeds = one_view(view, size, batch, device, arguments.seconds)
                found += speeds
                shown = "".join(f"{speed.us_per_image:12.2f}" for speed in speeds)
                print(f"{view:7} {size:4} px, batch {batch:4} {shown}", flush=True)
    for size in (s for s in STEP_SIZES if s in sizes):
        speed = all_views(size, device, arguments.seconds)
        found.append(speed)
        what = f"all {speed.images} views of {STEP[0]} + {STEP[1]} images, {size} px"
        print(f"{what}, {speed.how}: {speed.milliseconds:.3f} ms", flush=True)
    if arguments.out:
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
        facts = {
            "processor": platform.processor(), "threads": torch.get_num_threads(), "gpu": gpu,
            "torch": torch.__version__, "speeds": [asdict(speed) for speed in found],
        }  # fmt: skip
        write_json(arguments.out, facts)
    return 0


def numbers(text: str, name: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) >= 8 for word in words):
        raise UsageError(
            f"--{name} takes comma-separated whole numbers of at least 8; got {text!r}."
        )
    return [int(word) for word in words]


def one_view(view: str, size: int, batch: int, device: torch.device, seconds: float) -> list[Speed]:
    """A view of a batch: through Pillow, in one pass on the CPU, and in one pass on the GPU."""
    here, images = torch.device("cpu"), noise(batch, size)
    loop = partial(pillow_loop, view, images, policy(size))
    works: dict[str, Work] = {"Pillow": loop}
    for place in dict.fromkeys((here, device)):
        works[place.type] = maker([(view, images)], size, place)
    if device.type == "cuda":
        works["cuda graph"] = captured(works["cuda"])
    return [
        Speed(how, view, size, batch, 1e6 * timed(work, seconds) / batch)
        for how, work in works.items()
    ]


def all_views(size: int, device: torch.device, seconds: float) -> Speed:
    """What a step of TaMatch asks for: weak views of all images, strong ones of the unlabelled."""
    labelled, unlabelled = (noise(count, size) for count in STEP)
    wanted = [("weak", labelled), ("weak", unlabelled), ("strong", unlabelled)]
    work, how = maker(wanted, size, device), device.type
    if device.type == "cuda":
        work, how = captured(work), "cuda graph"
    views = sum(len(images) for _, images in wanted)
    return Speed(how, "step", size, views, 1e6 * timed(work, seconds) / views)


def policy(size: int) -> Policy:
    return Policy(size, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def noise(count: int, size: int) -> Tensor:
    draw = np.random.default_rng(0)
    return torch.from_numpy(draw.integers(0, 256, (count, 3, size, size), dtype=np.uint8))


def maker(wanted: list[tuple[str, Tensor]], size: int, device: torch.device) -> Work:
    """Makes these views of these images, each time those of the next step."""
    augment = Augment(policy(size), seed=0).to(device)
    step = torch.zeros((), dtype=torch.int64, device=device)
    there = [
        (view, images.to(device), torch.arange(len(images), device=device))
        for view, images in wanted
    ]

    def make() -> object:
        step.add_(1)
        return [augment(view, images, step, slot, 0) for view, images, slot in there]

    return make


def captured(work: Work) -> Work:
    """The same as one CUDA graph."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(UNRECORDED):
            work()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = work()

    def replay() -> object:
        graph.replay()
        return held

    return replay


def timed(work: Work, seconds: float) -> float:
    """Seconds of one call, the median over blocks of calls."""
    timer = Timer("work()", globals={"work": work}, num_threads=torch.get_num_threads())
    return timer.blocked_autorange(min_run_time=seconds).median


def pillow_loop(view: str, images: Tensor, policy: Policy) -> list[Tensor]:
    """The weak or the strong view of each uint8 image, as data loaders make it: one by one."""
    draw = np.random.default_rng(0)
    mean, std = (torch.tensor(values)[:, None, None] for values in (policy.mean, policy.std))
    made = []
    for pixels in images.permute(0, 2, 3, 1).numpy():
        picture = cropped(pixels, policy.border, draw)
        if view == "strong":
            picture = changed(picture, policy, draw)
        levels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float()
        made.append((levels / 255 - mean) / std)
    return made


def cropped(pixels: npt.NDArray[Any], border: int, draw: np.random.Generator) -> Image.Image:
    """A random crop after reflected padding, perhaps mirrored."""
    edges = ((border, border), (border, border), (0, 0))
    wide = Image.fromarray(np.pad(pixels, edges, mode="reflect"))
    left, top = draw.integers(0, 2 * border + 1, 2).tolist()
    height, width, _ = pixels.shape
    picture = wide.crop((left, top, left + width, top + height))
    return ImageOps.mirror(picture) if draw.random() < 0.5 else picture


def changed(picture: Image.Image, policy: Policy, draw: np.random.Generator) -> Image.Image:
    """Random operations of random magnitudes, then a square cut out."""
    for name in draw.choice(policy.operations, policy.count):
        picture = PILLOW_OPERATIONS[name](picture, draw.uniform(*RANGES[name]))
    picture = picture.copy()  # the identity hands back what it was given
    side = draw.uniform(0, policy.cutout) * picture.width
    left, top = (max(0.0, at - side / 2) for at in draw.uniform(0, picture.size).tolist())
    square = (left, top, min(picture.width, left + side), min(picture.height, top + side))
    ImageDraw.Draw(picture).rectangle(square, CUTOUT_FILL)
    return picture


def main(argv: list[str] | None = None) -> int:
    parser = Parser(prog="augment", description=__doc__.partition("\n")[0], allow_abbrev=False)
    add_arguments(parser)
    return guarded(lambda stdout: run(parser.parse_args(argv)), "augment")


if __name__ == "__main__":
    sys.exit(main())
