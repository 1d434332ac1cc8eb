"""A trained net as a user meets it: a folder of safetensors and JSON that predicts images."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save
from torch import Tensor, nn

from . import nets
from .augment import Augment, Policy
from .data.decode import Unreadable, decode
from .errors import DataError, UsageError
from .files import write_bytes, write_json

BATCH = 256  # images decoded and predicted together


@dataclass(frozen=True)
class Facts:
    """All that is needed to use the weights."""

    net: str
    classes: tuple[str, ...]
    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    temperature: float = 1.0


@dataclass(frozen=True)
class Predictions:
    """What the model says of some images; rows of `probabilities` sum to one."""

    classes: tuple[str, ...]
    probabilities: np.ndarray  # (N, C) float32

    @property
    def label(self) -> list[str]:
        return [self.classes[i] for i in self.probabilities.argmax(-1)]

    @property
    def confidence(self) -> list[float]:
        return [float(p) for p in self.probabilities.max(-1)]


class Model:
    """A net and the facts about it."""

    def __init__(self, facts: Facts, net: nn.Module | None = None) -> None:
        self.facts, self.net = facts, net
        self.normalise = Augment(Policy(facts.size, facts.mean, facts.std), seed=0)

    def save(self, folder: Path, net: nn.Module) -> None:
        """Write weights and facts; auxiliary heads are not among them."""
        tensors = {k: v.detach().cpu().contiguous() for k, v in net.state_dict().items()}
        write_bytes(folder / "model.safetensors", save(tensors))
        write_json(folder / "model.json", asdict(self.facts))

    @classmethod
    def load(cls, folder: Path) -> Model:
        """Read a model folder; nothing in it can run code."""
        if not (folder / "model.json").exists():
            raise UsageError(f"{folder} holds no model yet: is the run finished?")
        try:
            raw: dict[str, Any] = json.loads((folder / "model.json").read_text())
            lists = {k: tuple(v) for k, v in raw.items() if isinstance(v, list)}
            facts = Facts(**(raw | lists))
            net = nets.build(facts.net, len(facts.classes), facts.size)
            net.load_state_dict(load_file(folder / "model.safetensors"))
        except UsageError:
            raise
        except Exception as error:
            raise DataError(f"the model in {folder} cannot be read: {error}") from None
        return cls(facts, net.eval())

    @torch.no_grad()
    def probabilities(self, images: Tensor) -> Tensor:
        """(N, 3, size, size) uint8 to (N, C) probabilities."""
        assert self.net is not None, "load a model before predicting"
        zero = torch.zeros((), dtype=torch.int64)
        logits = self.net(self.normalise("plain", images, zero, zero, 0)).logits
        out: Tensor = (logits / self.facts.temperature).softmax(-1)
        return out

    def predict(self, images: Sequence[Any] | np.ndarray) -> Predictions:
        """Predict image files, Pillow images or arrays (N, H, W, 3) of bytes."""
        rows = [part for _, part in self.stream(images)]
        empty = np.empty((0, len(self.facts.classes)), np.float32)
        return Predictions(self.facts.classes, np.concatenate([empty, *rows]))

    def stream(
        self, images: Iterable[Any], *, skip: Callable[[Any, str], None] | None = None
    ) -> Iterator[tuple[list[Any], Any]]:
        """Images and their probabilities batch by batch, so that any number fits in memory.

        An image that cannot be read is an error, or is handed to `skip` with the reason.
        """
        kept: list[Any] = []
        pixels: list[Any] = []
        for image in images:
            try:
                pixels.append(self._pixels(image))
                kept.append(image)
            except Unreadable as reason:
                if skip is None:
                    raise DataError(f"{image} cannot be read: {reason}") from None
                skip(image, str(reason))
            if len(kept) == BATCH:
                yield kept, self._batch(pixels)
                kept, pixels = [], []
        if kept:
            yield kept, self._batch(pixels)

    def _pixels(self, image: Any) -> Any:
        if isinstance(image, np.ndarray):
            image = Image.fromarray(image)
        if isinstance(image, Image.Image):
            file = io.BytesIO()
            image.save(file, "PNG")
            image = file
        elif isinstance(image, str):
            image = Path(image)
        return decode(image, self.facts.size)[0]

    def _batch(self, pixels: list[Any]) -> Any:
        return self.probabilities(torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)).numpy()
