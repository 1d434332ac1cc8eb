"""What the scikit-learn classifiers are made of: training on arrays, in memory, without a folder.

A learner learns from arrays, predicts arrays, and turns into plain values and back. A row of F
numbers is an image of one pixel with F channels, (F, 1, 1), so every method works on it as it is.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load as read_weights
from safetensors.torch import save as write_weights
from torch import Tensor, nn

from .. import nets
from ..augment import Augment, uniform
from ..augment.views import ADDRESSES
from ..data import UNKNOWN, DataSet, Split, make_split
from ..data.arrays import from_arrays
from ..data.dataset import Indices, Pixels
from ..errors import NumericError
from ..model.model import Facts, Model
from ..modules import tensors_of, unshifted, with_tensors
from ..nets import AnyNet
from ..nets.base import Net
from ..runs import build
from ..settings.config import Run
from ..settings.inputs import normalised, split_plan
from ..step.engine import Engine
from ..step.guard import ALLOWED_BAD_STEPS
from ..step.source import OnHost, Resident, stream_key
from ..types import Out

Samples = npt.NDArray[Any]
Rows = npt.NDArray[np.float32]
Names = tuple[str, ...]
History = list[dict[str, Any]]
State = dict[str, Any]  # numbers, names and bytes

HISTORY_LINES = 20
WEAK = 0.1  # standard deviation of the noise, where that of each feature is 1
STRONG = 0.3
DROP = 0.2  # chance that the strong view hides a feature, which then has its mean, 0


class ImageLearner:
    """Arrays (N, H, W) or (N, H, W, 1 or 3), bytes or floats in 0 … 1, by one of the nets."""

    def __init__(self, model: Model, net: AnyNet) -> None:
        self.model = model
        self.net = net  # as it was given: what is needed to build it again

    @classmethod
    def learn(
        cls, run: Run, samples: Samples, labels: Indices, classes: Names, net: AnyNet | None
    ) -> tuple[Self, History]:
        numbered = from_arrays(samples, labels, size=run.size)
        data = normalised(replace(numbered, classes=classes), run.normalise)
        engine = build.engine_of(run, data, make_split(data, split_plan(run)))
        history = train(engine)
        model = Model(Facts.of(run.net, data), final_net(engine))
        return cls(model, run.net if net is None else net), history

    def probabilities(self, samples: Samples) -> npt.NDArray[np.float64]:
        unknown = np.full(len(samples), UNKNOWN)
        pixels = from_arrays(samples, unknown, size=self.model.facts.size).images
        images = OnHost(pixels, np.arange(len(pixels)), channels_last=True)
        rows = self.model.probabilities(images).double()
        return (rows / rows.sum(-1, keepdim=True)).numpy()

    def state(self) -> State:
        weights = to_bytes(self.model.net)
        return {"facts": asdict(self.model.facts), "weights": weights, "net": self.net}

    @classmethod
    def from_state(cls, state: State) -> Self:
        facts = Facts(**state["facts"])
        net = nets.build(nets.CUSTOM.register(state["net"]), len(facts.classes), facts.size)
        return cls(Model(facts, from_bytes(net, state["weights"])), state["net"])


class MLP(Net):
    """Two hidden layers of equal width."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__(classes=classes, width=hidden, map_width=hidden)
        self.body = nn.Sequential(
            nn.Linear(features, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()
        )
        self.head = nn.Linear(hidden, classes)

    def forward(self, images: Tensor) -> Out:
        """Classify rows (N, F, 1, 1)."""
        features = self.body(images.flatten(1))
        return self.finish(features, features)

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """The hidden layers are 0 and 1; each has an activation behind it in `body`."""
        part, *rest = parameter.split(".")
        return (2 if part == "head" else int(rest[0]) // 2), 2


class Jitter(nn.Module):
    """Views of standardised rows, called like `Augment` and as independent of everything else.

    `plain` is the row, `weak` has a little Gaussian noise, `medium` and `strong` more of it, and in
    a strong one each feature is hidden with the chance `DROP`.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def forward(self, view: str, rows: Tensor, step: Tensor, slot: Tensor, stream: int) -> Tensor:
        if view == "plain":
            return rows
        count = rows.shape[1]
        address = len(ADDRESSES) * stream + ADDRESSES[view]
        draws = uniform(self.seed, step, slot, address, 2 * count)[..., None, None]
        positive = draws[:, :count].clamp(min=2**-25)  # Φ⁻¹(0) is infinite
        noise: Tensor = torch.special.ndtri(positive)
        if view == "weak":
            return rows + WEAK * noise
        loud = rows + STRONG * noise
        return loud if view == "medium" else loud * (draws[:, count:] >= DROP)


def data_of(rows: Rows, labels: Indices, classes: Names) -> DataSet:
    """Rows as images of one pixel."""
    known = labels != UNKNOWN
    none = np.empty(0, np.int64)
    return DataSet(
        name="the data", classes=classes, images=cast(Pixels, rows[:, None, None]), labels=labels,
        parts=(np.flatnonzero(known), np.flatnonzero(~known), none, none),
        files=[str(i) for i in range(len(labels))],
        mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), given_labels=True,
    )  # fmt: skip


def vector_engine(run: Run, data: DataSet, split: Split, hidden: int) -> Engine:
    """An engine at step 0 that trains an `MLP` on standardised rows."""
    device, autocast = build.set_up_machine(run)
    with build.seeded(run):
        net = MLP(data.images.shape[-1], hidden, len(data.classes))
        method = build.method_of(run, net, build.task_of(run, data, split), device)
    source = Resident(data, split, build.draw_of(run, method), device)
    views = cast(Augment, Jitter(stream_key(run.seed, build.SEEDS["views"])))
    return build.try_and_accelerate(run, build.assemble(run, method, source, views, autocast))


class VectorLearner:
    """Rows (N, F) of numbers, by an `MLP`; each feature is standardised first.

    It predicts in double precision, so that a row's answer does not depend on the others beside it.
    """

    def __init__(self, net: nn.Module, mean: npt.NDArray[Any], std: npt.NDArray[Any]) -> None:
        self.net, self.mean, self.std = net.double(), mean, std

    @classmethod
    def learn(
        cls, run: Run, samples: Samples, labels: Indices, classes: Names, hidden: int
    ) -> tuple[Self, History]:
        mean, std = samples.mean(0), samples.std(0)
        std = np.where(std > 0, std, 1.0)
        rows = ((samples - mean) / std).astype(np.float32)
        data = data_of(rows, labels, classes)
        engine = vector_engine(run, data, make_split(data, split_plan(run)), hidden)
        history = train(engine)
        return cls(final_net(engine), mean, std), history

    @torch.no_grad()
    def probabilities(self, samples: Samples) -> npt.NDArray[np.float64]:
        rows = torch.from_numpy((samples - self.mean) / self.std)[..., None, None]
        found: npt.NDArray[np.float64] = self.net(rows).logits.softmax(-1).numpy()
        return found

    def state(self) -> State:
        net = unshifted(self.net)
        assert isinstance(net, MLP)
        shape = (len(self.mean), net.width, net.classes)
        scale = {"mean": self.mean.tolist(), "std": self.std.tolist()}
        return {"shape": shape, **scale, "weights": to_bytes(self.net)}

    @classmethod
    def from_state(cls, state: State) -> Self:
        net = MLP(*state["shape"]).double()
        return cls(
            from_bytes(net, state["weights"]), np.array(state["mean"]), np.array(state["std"])
        )


def train(engine: Engine) -> History:
    """All steps of an engine, and what was logged on the way."""
    history: History = []
    every = max(1, engine.pace.steps // HISTORY_LINES)
    with engine.running():
        while engine.steps_done < engine.pace.steps:
            engine.advance()
            if engine.steps_done % every == 0 or engine.steps_done == engine.pace.steps:
                if (bad := int(engine.guard.count)) > ALLOWED_BAD_STEPS:
                    raise NumericError(
                        f"{bad} steps gave non-finite values near step {engine.steps_done}. The "
                        "learning rate is probably too high: try a smaller lr."
                    )
                history.append({"step": engine.steps_done, **engine.meter.read()})
    return history


def final_net(engine: Engine) -> nn.Module:
    """The net to predict with, by itself on the CPU."""
    return engine.method.final.cpu().requires_grad_(False).eval()


def to_bytes(net: nn.Module) -> bytes:
    return write_weights({k: v.contiguous().clone() for k, v in tensors_of(net).items()})


def from_bytes(net: nn.Module, weights: bytes) -> nn.Module:
    return with_tensors(net, read_weights(weights)).requires_grad_(False).eval()


LEARNERS: dict[str, type[ImageLearner] | type[VectorLearner]] = {
    "images": ImageLearner,
    "vectors": VectorLearner,
}
