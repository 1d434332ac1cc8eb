"""Classifiers in the manner of scikit-learn; a label of -1 means unlabelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_random_state  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    validate_data,
)
from torch import nn

from ..data import UNKNOWN
from ..errors import DataError, UsageError
from ..kinds import AT_LEAST_ONE
from ..machine.precision import restoring_threads
from ..rules import choose, finetune, pace
from ..runs.decide import start_of
from ..settings.config import RUN_OPTIONS, Run, target_follows
from ..settings.configure import configure
from ..settings.hardware import pick_device
from ..settings.options import Option
from .base import Classifier
from .learners import LEARNERS, ImageLearner, VectorLearner

HIDDEN = Option("hidden", int, default=None, bounds=AT_LEAST_ONE)  # no option of a run
FIT_LOCK = threading.RLock()  # threads share torch's generator, which the draws of a fit come from
PARAMETERS = (  # of a classifier that are settings of a run
    "net", "weights", "size", "flips", "steps", "batch", "unlabelled", "optimizer", "lr",
    "weight_decay", "ema", "device",
)  # fmt: skip
FOR_IMAGES = ("net", "weights", "size", "head", "normalise", "flips", "images")
IN_OPTIONS = (  # of a run; the others are parameters, hide labels, or are for its folder
    "prior", "labelled_in_pool", "warmup", "replacement", "layer_decay", "norm_momentum", "head",
    "normalise", "images", "threads", "precision", "deterministic", "compile", "kernels",
    "graph",
)  # fmt: skip
FROM_SCRATCH = {
    "net": "wrn_16_1_clean", "batch": 32, "unlabelled": 96, "optimizer": "sgd", "lr": 0.03,
}  # fmt: skip
# a compiled net pays off after minutes only
FIXED = {"data": "arrays", "compile": False, "baseline": "none"}


@dataclass(kw_only=True, eq=False, repr=False)
class SSLClassifier(Classifier):
    """Semi-supervised classification of images or of rows of numbers by any method.

    X of shape (N, H, W) or (N, H, W, 1 or 3) are images, bytes or floats in 0 … 1, for one of the
    nets. X of shape (N, F) are vectors, for a net of two hidden layers. In y, -1 means unlabelled,
    and so does the text "-1". The remaining classes may be numbers or names.

    Parameters
    ----------
    method : a name; `tamatch methods` lists them
    options : the method's own, such as {"tau": 0.9}, and some of a run, such as
        {"prior": {"cat": 3, "dog": 1}}; None for the defaults
    net : for images: a name (`tamatch nets` lists them), FILE.py:NAME, an nn.Module, or a class or
        function that makes one; a module is copied, and training starts from its weights. None for
        "wrn_16_1_clean", or for the net of the weights
    weights : for images, a file of pre-trained weights to start from
    size : for images, the side in pixels that they are scaled to; None for their own, or for what
        suits the weights
    flips : for images, how they are mirrored at random in training: "none", "horizontal" or "both";
        None for "horizontal"
    hidden : for vectors, units in each of the two hidden layers
    steps : training steps
    batch, unlabelled : labelled and unlabelled samples in a step; None for 32 and 96, or for fewer
        from pre-trained weights
    optimizer : "sgd" or "adamw"; None for what suits the start, as for lr
    lr, weight_decay : of the optimizer; the rate falls along a cosine. None for 0.03, or for less
        from pre-trained weights
    ema : momentum of the averaged weights that predict; 0 for none
    device : "auto", "cpu", "cuda" or "cuda:N"
    random_state : seed of everything random; the same seed gives the same classifier. Threads fit
        one after the other

    Attributes
    ----------
    classes_ : the classes, sorted
    history_ : what was logged in training, one dictionary each time
    n_features_in_, feature_names_in_ : as in scikit-learn
    """

    method: str = field(default="tamatch", kw_only=False)
    options: dict[str, Any] | None = None
    net: str | nn.Module | Callable[..., nn.Module] | None = None
    weights: str | None = None
    size: int | None = None
    flips: str | None = None
    hidden: int = 64
    steps: int = 1000
    batch: int | None = None
    unlabelled: int | None = None
    optimizer: str | None = None
    lr: float | None = None
    weight_decay: float = 5e-4
    ema: float = 0.99
    device: str = "auto"
    random_state: int | np.random.RandomState | None = 0

    history_: list[dict[str, Any]] = field(init=False)
    learner_: ImageLearner | VectorLearner = field(init=False)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from all rows of X and from those labels in y that are not -1."""
        images = are_images(X)
        X, y, classes, labels = self._check(X, y, **validation_rules(images))
        names = tuple(str(c) for c in classes)
        with (
            FIT_LOCK,
            _as_value_errors(),
            torch.random.fork_rng(devices=[]),
            restoring_threads(),
        ):
            run = self._run(min(X.shape[1:3]) if images else None, int((labels != UNKNOWN).sum()))
            self.learner_, self.history_ = (
                ImageLearner.learn(run, X, labels, names, self.net)
                if images
                else VectorLearner.learn(run, X, labels, names, HIDDEN.parse(self.hidden))
            )
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """The probability of each of `classes_`, (N, C); rows sum to 1."""
        check_is_fitted(self)
        images = are_images(X)
        if images != isinstance(self.learner_, ImageLearner):
            kinds = ("images", "vectors") if images else ("vectors", "images")
            raise ValueError("X contains {}, but this classifier was fitted on {}.".format(*kinds))
        X = validate_data(self, X, reset=False, **validation_rules(images))
        with _as_value_errors():
            return self.learner_.probabilities(X)

    def _method(self) -> tuple[str, dict[str, Any]]:
        return self.method, self.options or {}

    def _run(self, side: int | None, labelled: int) -> Run:
        """What to train, on this many labels and on images of this side; None if X are vectors."""
        method, options = self._method()
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        given = {name: getattr(self, name) for name in PARAMETERS}
        given = {name: value for name, value in given.items() if value is not None}
        return run_of({"method": method, "seed": int(seed), **given}, options, side, labelled)

    def __getstate__(self) -> dict[str, Any]:
        """Plain values and, for the weights, the bytes of a safetensors file."""
        state: dict[str, Any] = super().__getstate__()
        if "learner_" in state:
            kind = next(k for k, cls in LEARNERS.items() if isinstance(self.learner_, cls))
            state = {**state, "learner_": {"kind": kind, **self.learner_.state()}}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "learner_" in state:
            plain = dict(state["learner_"])
            state = {**state, "learner_": LEARNERS[plain.pop("kind")].from_state(plain)}
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class TaMatchClassifier(SSLClassifier):
    """`SSLClassifier` with TaMatch, its threshold and its target as parameters.

    Parameters
    ----------
    tau : confidence from which a pseudo-label is used
    target : class shares to steer towards: "uniform", "labelled", "adaptive", or "prior" for those
        in options={"prior": …}
    options : TaMatch's others, such as {"clip": "symmetric"}

    The other parameters are those of `SSLClassifier`.
    """

    method: str = field(default="tamatch", init=False)
    tau: float = 0.95
    target: str = "uniform"

    def _method(self) -> tuple[str, dict[str, Any]]:
        return self.method, {"tau": self.tau, "target": self.target, **(self.options or {})}


def run_of(given: dict[str, Any], options: dict[str, Any], side: int | None, labelled: int) -> Run:
    """The run for images of this side, or for vectors if it is None, with this many labels.

    What is neither `given` nor among the `options` is chosen by the rules for a person's own
    images, as far as they apply to arrays.
    """
    check_options(options)
    values = {**FIXED, **given, **options}
    for name in FOR_IMAGES if side is None else ():
        if name in values:
            raise UsageError(
                f"{name}=… is for images, but X contains rows of numbers. Leave it out."
            )
    if side is None or "weights" not in given:
        chosen = FROM_SCRATCH
    else:
        chosen = pretrained(configure(values), values, side, labelled)
    run = configure(values, chosen=chosen)
    target = pace.target_momentum(run.steps).settings if target_follows(run) else {}
    return configure(values, chosen={**pace.averages(run.steps), **target, **chosen})


def pretrained(run: Run, given: dict[str, Any], side: int, labelled: int) -> dict[str, Any]:
    """What suits a start from weights, as for a run on a folder."""
    gpu = pick_device(run.device).type == "cuda"
    start = start_of(run, given, side, arrays=True, gpu=gpu)
    batch = choose.batch(labelled, gpu=gpu)
    pool = choose.pool_batch(given.get("batch", batch.settings["batch"]), gpu=gpu)
    warm = {"warmup": finetune.warmup(run.steps)} if "lr" in start.settings else {}
    return {**(start | batch | pool).settings, **warm}


def check_options(options: dict[str, Any]) -> None:
    """Those of a run must not contradict the parameters, or hide labels that were given."""
    for name in options:
        if name == "from" or (name in RUN_OPTIONS and name not in IN_OPTIONS):
            hint = f" Pass {name} as a parameter of the classifier." if name in PARAMETERS else ""
            raise UsageError(
                f"options does not take {name}: it takes the options of the method and "
                f"{', '.join(IN_OPTIONS)}.{hint}"
            )


def are_images(X: Any) -> bool:
    """Whether X has more than the two axes of a table."""
    axes: int = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    return axes > 2


def validation_rules(images: bool) -> dict[str, Any]:
    """How scikit-learn shall check X."""
    if images:
        return {"dtype": None, "ensure_2d": False, "allow_nd": True}
    return {"dtype": np.float64}


@contextmanager
def _as_value_errors() -> Iterator[None]:
    """What a user of scikit-learn expects where a parameter or an array cannot be used."""
    try:
        yield
    except (UsageError, DataError) as error:
        raise ValueError(str(error)) from None
