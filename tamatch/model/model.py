"""A trained net as a user meets it: a folder of safetensors and JSON that predicts images."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load, save
from torch import Tensor, nn

from .. import nets
from ..augment import Augment, Policy
from ..data.dataset import DataSet, Pixels
from ..data.decode import Unreadable, decode, square_of
from ..errors import DataError, UsageError, one_line
from ..frozen.likeness import Likeness
from ..machine.memory import Rows
from ..modules import KEY, tensors_of, with_tensors
from ..nets import AnyNet
from ..storage.files import read_bytes, write_bytes
from ..storage.record import MODEL, read_sealed, write_sealed

BATCH_PIXELS = 2**18  # of images decoded and predicted together: 256 of 32 × 32
BATCH_LIMITS = 16, 256  # least and most of them
BELONGS = "belongs"  # in tables: how likely an image is of any class, where a model knows
REASON_LENGTH = 200  # characters of what a library says about a damaged file

CHANNELS = (1, 3, 4)  # of an array: grey, colour, colour and opacity
OneImage = str | os.PathLike[str] | Image.Image | np.ndarray | Tensor
Images = OneImage | Iterable[OneImage]


@dataclass(frozen=True)
class Facts:
    """All that is needed to use the weights."""

    net: str
    classes: tuple[str, ...]
    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    temperature: float = 1.0

    @classmethod
    def of(cls, net: str, data: DataSet) -> Facts:
        """Those of a net that is trained on these data."""
        return cls(nets.title(net), data.classes, data.size, data.mean, data.std)


@dataclass(frozen=True)
class Predictions:
    """What the model says about some images; rows of `probabilities` sum to one."""

    classes: tuple[str, ...]
    probabilities: np.ndarray  # (N, C) float32
    belongs: np.ndarray | None = None  # (N,) 0 … 1, to any class at all; where the model knows

    @property
    def label(self) -> list[str]:
        """The most probable class of each image."""
        return [self.classes[i] for i in self.probabilities.argmax(-1)]

    @property
    def confidence(self) -> list[float]:
        """The probability of that class."""
        return [float(p) for p in self.probabilities.max(-1)]

    def top(self, count: int) -> list[list[tuple[str, float]]]:
        """Of each image, the most probable classes with their probabilities, best first."""
        order = np.argsort(-self.probabilities, axis=-1, kind="stable")[:, :count]
        rows = zip(order, self.probabilities, strict=True)
        return [[(self.classes[c], float(p[c])) for c in best] for best, p in rows]

    def __len__(self) -> int:
        return len(self.probabilities)


def check_shapes(facts: Facts, tensors: dict[str, Tensor]) -> None:
    """Refuse facts that do not match the weights, before the net is allocated."""
    if nets.is_user_code(facts.net):
        return  # code of the user's own need not work without memory
    with torch.device("meta"):
        planned = nets.build(facts.net, len(facts.classes), facts.size).state_dict()
    kinds = kinds_of(planned)
    if KEY in tensors:
        kinds[KEY] = torch.Size([len(facts.classes)]), torch.float32
    if kinds != kinds_of(tensors):
        raise ValueError(
            f"the weights are not those of {facts.net} for {len(facts.classes)} classes"
        )


def kinds_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def load_into(net: nn.Module, tensors: dict[str, Tensor], complaint: str) -> nn.Module:
    """The net with saved weights, or an error that says that they are those of another one."""
    try:
        loaded = with_tensors(net, tensors)
        if kinds_of(tensors_of(loaded)) != kinds_of(tensors):
            raise RuntimeError("numbers of another type")
        return loaded
    except RuntimeError as error:
        raise UsageError(
            f"the weights in {complaint} as it is now ({one_line(error, REASON_LENGTH)}). "
            "Give the code they were trained with."
        ) from None


class Model:
    """A net and the facts about it; where it was solved on features, also what is like a class."""

    def __init__(self, facts: Facts, net: nn.Module, likeness: Likeness | None = None) -> None:
        self.facts, self.net, self.likeness = facts, net, likeness
        self.normalise = Augment(Policy(facts.size, facts.mean, facts.std), seed=0)

    def save(self, folder: Path) -> None:
        """Write weights and facts; auxiliary heads are not among them."""
        state = tensors_of(self.net) | (self.likeness.tensors() if self.likeness else {})
        # copies: where a net uses a tensor under two names, each is written
        tensors = {k: v.detach().cpu().contiguous().clone() for k, v in state.items()}
        content = save(tensors)
        write_bytes(folder / "model.safetensors", content)
        digest = hashlib.sha256(content).hexdigest()
        write_sealed(folder / "model.json", {**asdict(self.facts), "weights": digest})

    @classmethod
    def load(cls, folder: Path, net: AnyNet | None = None) -> Model:
        """Read a model folder; nothing in it can run code.

        A net of one's own is code, so it must be given: FILE.py:NAME, a module, or what makes one.
        """
        if not (folder / "model.json").exists():
            raise UsageError(
                f"{folder} contains no model yet. If the run is unfinished, `tamatch resume` "
                "continues it."
            )
        advice = "Copy the model again, or train again"
        raw: dict[str, Any] = read_sealed(folder / "model.json", MODEL, advice)
        digest = raw.pop("weights", None)  # version 1 has none
        lists = {k: tuple(v) for k, v in raw.items() if isinstance(v, list)}
        facts = Facts(**(raw | lists))
        try:
            name = nets.net_of_model(facts.net, net, folder)
            content = read_bytes(folder / "model.safetensors")
            if digest not in (None, hashlib.sha256(content).hexdigest()):
                raise ValueError("model.safetensors is not as it was written")
            tensors = load(content)
            if not all(tensor.isfinite().all() for tensor in tensors.values()):
                raise ValueError("weights that are not finite")
            likeness = Likeness.taken_from(tensors, len(facts.classes))
            check_shapes(facts, tensors)
            built = nets.build(name, len(facts.classes), facts.size)
            loaded = load_into(built, tensors, f"{folder} are not those of {nets.title(name)}")
        except UsageError:
            raise
        except Exception as error:
            reason = one_line(error, REASON_LENGTH)
            raise DataError(
                f"the model in {folder} is damaged ({reason}). Copy it again, or train again."
            ) from None
        return cls(facts, loaded.eval(), likeness)

    @property
    def _batch_size(self) -> int:
        """How many images are decoded and predicted at once."""
        least, most = BATCH_LIMITS
        return min(max(BATCH_PIXELS // self.facts.size**2, least), most)

    @torch.no_grad()
    def answers(self, images: Rows) -> Iterator[tuple[Tensor, Tensor]]:
        """(N, 3, size, size) uint8 to (n, C) probabilities and (n, D) features, batch by batch."""
        zero = torch.zeros((), dtype=torch.int64)
        for first in range(0, len(images), self._batch_size):
            part = images[first : first + self._batch_size]
            out = self.net(self.normalise("plain", part, zero, zero, 0))
            yield (out.logits / self.facts.temperature).softmax(-1), out.features

    def probabilities(self, images: Rows) -> Tensor:
        """(N, 3, size, size) uint8 to (N, C) probabilities."""
        return torch.from_numpy(self.predictions(images).probabilities)

    def predictions(self, images: Rows) -> Predictions:
        """(N, 3, size, size) uint8 to all that there is to say about them."""
        found = [torch.empty(0, len(self.facts.classes))]
        belongs = [torch.empty(0)]
        for p, features in self.answers(images):
            found.append(p)
            belongs += [self.likeness(features)] if self.likeness else []
        known = torch.cat(belongs).numpy() if self.likeness else None
        return Predictions(self.facts.classes, torch.cat(found).numpy(), known)

    def predict(self, images: Images) -> Predictions:
        """Predict image files, Pillow images, arrays or tensors; one of them, or any number.

        An array is one image (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), a tensor one (1, H, W),
        (3, H, W) or (4, H, W), or either several in a row, as bytes or as floats in 0 … 1. An image
        that cannot be read is an error.
        """
        empty = np.empty((0, 3, self.facts.size, self.facts.size), np.uint8)
        parts = [self.predictions(torch.from_numpy(empty))]
        parts += [part for _, part in self.stream(images)]
        known = [part.belongs for part in parts if part.belongs is not None]
        return Predictions(
            self.facts.classes, np.concatenate([part.probabilities for part in parts]),
            np.concatenate(known) if known else None,
        )  # fmt: skip

    def features(self, images: Images) -> np.ndarray:
        """(N, D): what the net's last layer sees of images, which are given as for `predict`."""
        found = [f for _, pixels in self._batches(images) for _, f in self.answers(pixels)]
        width: int = self.net.width  # type: ignore[assignment]
        return torch.cat([torch.empty(0, width), *found]).numpy()

    def stream(
        self, images: Images, *, skip: Callable[[Any, str], None] | None = None
    ) -> Iterator[tuple[list[Any], Predictions]]:
        """Images and their predictions in order, batch by batch, so that any number fits in memory.

        An image that cannot be read is an error, or is handed to `skip` with the reason.
        """
        for kept, pixels in self._batches(images, skip):
            yield kept, self.predictions(pixels)

    def _batches(
        self, images: Images, skip: Callable[[Any, str], None] | None = None
    ) -> Iterator[tuple[list[Any], Tensor]]:
        """Images and their pixels (n, 3, size, size), as many as are predicted at once."""
        kept: list[Any] = []
        pixels: list[Pixels] = []
        for image in one_by_one(images):
            try:
                pixels.append(pixels_of(image, self.facts.size))
                kept.append(image)
            except Unreadable as reason:
                if skip is None:
                    is_path = isinstance(image, str | os.PathLike)
                    name = str(image) if is_path else f"an image ({type(image).__name__})"
                    raise DataError(f"{name} cannot be read: {reason}.") from None
                skip(image, str(reason))
            if len(kept) == self._batch_size:
                yield kept, stacked(pixels)
                kept, pixels = [], []
        if kept:
            yield kept, stacked(pixels)


def stacked(pixels: list[Pixels]) -> Tensor:
    return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)


def one_by_one(images: Images) -> Iterable[Any]:
    """The images one by one, also where there is only one."""
    if isinstance(images, str | os.PathLike | Image.Image):
        return [images]
    if isinstance(images, Tensor):
        return images if images.ndim == 4 else [images]
    if isinstance(images, np.ndarray) and images.ndim in (2, 3):
        alone = images.ndim == 2 or images.shape[-1] in CHANNELS
        return [images] if alone else images
    if not isinstance(images, Iterable):
        raise UsageError(
            "a model takes file names, Pillow images, and arrays or tensors of pixels, or a list "
            f"of them; got {type(images).__name__}."
        )
    return images


def pixels_of(image: Any, size: int) -> Pixels:
    """(size, size, 3) of one image, its central square; `Unreadable` if a file is none."""
    if isinstance(image, Tensor):
        image = from_tensor(image)
    if isinstance(image, np.ndarray):
        image = from_array(image)
    if isinstance(image, Image.Image):
        return square_of(image, size)
    if isinstance(image, str | os.PathLike):
        return decode(Path(image), size)[0]
    raise UsageError(
        "a model takes file names, Pillow images, and arrays or tensors of pixels; "
        f"got {type(image).__name__}."
    )


def from_tensor(pixels: Tensor) -> np.ndarray:
    """One image whose colours come first, as torch has them, as an array."""
    if pixels.ndim != 3 or pixels.shape[0] not in CHANNELS:
        raise UsageError(
            "a tensor to predict must be (1, H, W), (3, H, W) or (4, H, W), or a batch of these; "
            f"got {tuple(pixels.shape)}."
        )
    pixels = pixels.float() if pixels.is_floating_point() else pixels
    array: np.ndarray = pixels.detach().cpu().permute(1, 2, 0).numpy()
    return array


def from_array(pixels: np.ndarray) -> Image.Image:
    """One image of bytes, or of floats in 0 … 1, grey or in colour."""
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[-1] not in CHANNELS):
        raise UsageError(
            "an array to predict must be (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), or a batch of "
            f"these; got {pixels.shape}."
        )
    if pixels.dtype.kind == "f" and 0 <= pixels.min() <= pixels.max() <= 1:
        pixels = np.rint(255 * pixels).astype(np.uint8)
    if pixels.dtype != np.uint8:
        raise UsageError(
            f"an array to predict must be bytes (uint8), or floats in 0 … 1; got {pixels.dtype}."
        )
    return Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels)
