"""A trained run as files for other programs: ONNX, torch.export's .pt2, or safetensors."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import NumericError, UsageError, one_line, perhaps
from ..nets import AnyNet
from ..report import model_card
from ..storage.files import path_of, refuse_existing, write_bytes
from ..storage.folder import RunFolder, refuse_links
from .load import load
from .model import Model

FORMATS = {"onnx": "model.onnx", "pt2": "model.pt2", "safetensors": "safetensors"}
TOLERANCE = 1e-4  # of a probability, between this package and the exported file
Predict = Callable[[np.ndarray], np.ndarray]  # bytes (N, 3, size, size) to probabilities (N, C)


@dataclass(frozen=True)
class Exported:
    """What was written, and how it compared with the run's own model on identical pixels."""

    path: Path
    checked_with: str
    images: int
    difference: float  # the largest of any probability


class Deployed(nn.Module):
    """The whole way from bytes (N, 3, size, size) to probabilities (N, C), as one module."""

    scale: Tensor
    shift: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.net, self.temperature = model.net, model.facts.temperature
        self.register_buffer("scale", model.normalise.scale)
        self.register_buffer("shift", model.normalise.shift)

    def forward(self, pixels: Tensor) -> Tensor:
        images = torch.addcmul(self.shift, pixels.to(torch.float32), self.scale)
        logits: Tensor = self.net(images).logits
        return (logits / self.temperature).softmax(-1)


def export(
    path: str | Path,
    format: str,
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
    net: AnyNet | None = None,
) -> Exported:
    """Write a finished run's model to a file, or to a folder for safetensors.

    The written model is run on the same pixels as the run's own; if any probability differs by
    more than `TOLERANCE`, that is an error and no ONNX or .pt2 file is left behind.
    """
    if format not in FORMATS:
        hint = perhaps(str(format), FORMATS, most=1)
        raise UsageError(f"--format takes {', '.join(FORMATS)}; got {format!r}.{hint}")
    folder = RunFolder(path_of(path, "export takes a run folder"))
    folder.read()  # says what is wrong where this is no run
    refuse_links(folder.path)
    model = load(folder.path, net)
    usual = folder.path / "export" / FORMATS[format]
    place = usual if out is None else path_of(out, "out takes the place to write to")
    if format != "safetensors" and place.suffix != f".{format}":
        raise UsageError(f"--out {place} must end in .{format}.")
    refuse_existing(place, is_folder=format == "safetensors", overwrite=overwrite)
    if format == "safetensors":
        model.save(place)
        write_bytes(place / "README.md", model_card(folder.path).encode())
        again = load(place, net)
        found = compared(model, lambda p: again.probabilities(torch.from_numpy(p)).numpy())
        return Exported(place, "tamatch.load", *found)
    content, predict, checked_with = to_onnx(model) if format == "onnx" else to_pt2(model)
    found = compared(model, predict)
    write_bytes(place, content)
    return Exported(place, checked_with, *found)


def to_onnx(model: Model) -> tuple[bytes, Predict, str]:
    """One ONNX file, with the class names in its metadata, and ONNX Runtime to predict with it."""
    runtime = needed("onnxruntime")
    needed("onnx")
    needed("onnxscript")
    with exporting(model):
        made = torch.onnx.export(
            program(model), (example(model),), dynamo=True, dynamic_shapes=any_batch(),
            input_names=["pixels"], output_names=["probabilities"], verbose=False,
        )  # fmt: skip
    assert made is not None
    made.model.metadata_props["classes"] = json.dumps(model.facts.classes)
    content: bytes = made.model_proto.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def predict(pixels: np.ndarray) -> np.ndarray:
        found: np.ndarray = session.run(None, {"pixels": pixels})[0]
        return found

    return content, predict, f"ONNX Runtime {runtime.__version__}"


def to_pt2(model: Model) -> tuple[bytes, Predict, str]:
    """One file for torch.export.load, which needs torch but not this package."""
    file = io.BytesIO()
    with exporting(model):
        torch.export.save(program(model), file)
        file.seek(0)
        again = torch.export.load(file).module()

    @torch.no_grad()
    def predict(pixels: np.ndarray) -> np.ndarray:
        found: np.ndarray = again(torch.from_numpy(pixels)).numpy()
        return found

    return file.getvalue(), predict, f"torch {torch.__version__}"


def program(model: Model) -> torch.export.ExportedProgram:
    """The model as a graph for any number of images."""
    with torch.no_grad():
        made = torch.export.export(
            Deployed(model).eval(), (example(model),), dynamic_shapes=any_batch()
        )
    for node in made.graph.nodes:
        node.meta.pop("stack_trace", None)  # it holds paths of this computer
    return made


def example(model: Model) -> Tensor:
    return torch.zeros(2, 3, model.facts.size, model.facts.size, dtype=torch.uint8)


def any_batch() -> tuple[dict[int, Any], ...]:
    return ({0: torch.export.Dim("batch")},)


def compared(model: Model, predict: Predict) -> tuple[int, float]:
    """How many images were tried, and the largest difference; an error if that is too large."""
    batches = trial_images(model.facts.size)
    found = np.concatenate([predict(pixels) for pixels in batches])
    ours = np.concatenate([model.probabilities(torch.from_numpy(p)).numpy() for p in batches])
    difference = float(np.abs(found - ours).max())
    if not difference <= TOLERANCE:  # NaN is no agreement either
        raise NumericError(
            "the probabilities of the exported model differ from those of the run by up to "
            f"{difference:.2g}; the tolerance is {TOLERANCE:g}. Do not use it."
        )
    return len(ours), difference


def trial_images(size: int) -> list[np.ndarray]:
    """Batches of one and of many: noise, patches of colour, black and white."""
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (8, 3, size, size), np.uint8)
    patch = max(1, size // 4)
    coarse = random.integers(0, 256, (8, 3, -(-size // patch), -(-size // patch)), np.uint8)
    patches = coarse.repeat(patch, 2).repeat(patch, 3)[..., :size, :size]
    plain = np.stack([np.zeros_like(noise[0]), np.full_like(noise[0], 255)])
    return [noise[:1], np.concatenate([noise[1:], patches, plain])]


def needed(package: str) -> Any:
    """A package of the extra `onnx`, or an error that says how to get it."""
    try:
        return import_module(package)
    except ImportError:
        raise UsageError(
            f"--format onnx needs the package {package}: `pip install onnx onnxscript onnxruntime`."
        ) from None


@contextmanager
def exporting(model: Model) -> Iterator[None]:
    """Without the exporters' warnings of their own internals, and with one line if they fail."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # what a net of any kind makes them raise
        raise UsageError(
            f"torch cannot export the net {model.facts.net}: {one_line(error, 200)}"
        ) from error
    finally:
        log.setLevel(before)
