"""Methods in a training loop of the user's own: any net, any inputs, any optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from numbers import Integral
from typing import Any, NoReturn, cast

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from . import methods
from .errors import UsageError
from .methods import AnyMethod
from .own.net import Head, described, last_linear, linear_calls
from .own.usercode import blaming
from .settings.config import RUN_OPTIONS, in_order, method_options, normalised_shares
from .settings.configure import resolve_method
from .types import Batch, Out, Task, Views

FEATURES = ("features", "feat")  # what a net may call them in what it returns
FORGOTTEN = 1000  # calls without `after_step`; fewer may be gradients that are accumulated


class SSLLoss(nn.Module):
    """The loss of a method, for a training loop of your own.

    Parameters
    ----------
    method : a name of `tamatch methods`, FILE.py:CLASS, or a subclass of `tamatch.Method`
    net : a module that returns logits, (logits, features), or a record or dictionary with `logits`
        and perhaps `features`; without features, the input of its last linear layer is used
    example : some inputs of the net: a tensor, or a dictionary or tuple of its arguments
    labels : the labels of all labelled inputs, 0 … classes - 1
    unlabelled : number of inputs in the unlabelled pool
    steps : length of the training
    batch : labelled and unlabelled inputs in a step
    prior : class shares of the pool, if they are known
    options : those of the method, such as tau=0.9, and `ema`

    The net is trained itself, not a copy. Optimise `parameters()` of this module, as a method may
    have heads of its own; its `state_dict()` is all that is needed to go on later.
    """

    step: Tensor

    def __init__(
        self,
        method: AnyMethod,
        net: nn.Module,
        example: Any,
        *,
        labels: Sequence[int] | Tensor,
        unlabelled: int,
        steps: int,
        batch: tuple[int, int] = (64, 128),
        prior: Sequence[float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.name = methods.CUSTOM.register(method)
        cls, adapted = methods.get(self.name), AnyNet(net, example)
        numbers = isinstance(example, Tensor) and example.is_floating_point()
        self.embeds = cls.alters_inputs and not numbers
        if self.embeds and not adapted.ends_linear:
            raise UsageError(
                f"{self.name} calculates with its inputs, and these are not numbers. Features can "
                "take their place, but the net's last layer is not linear."
            )
        if "lambda_rotation" in method_options(self.name) and not is_square(example):
            options = {"lambda_rotation": 0.0, **options}
        values, shares = checked_options(self.name, options, prior, adapted.classes)
        known = class_shares(labels, adapted.classes)
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise UsageError(
                "batch takes the numbers of labelled and of unlabelled inputs in a step, such as "
                f"(64, 128); got {batch!r}."
            )
        task = Task(
            adapted.classes, len(labels), counted("unlabelled", unlabelled, 0), known, shares,
            counted("steps", steps), counted("batch[0]", batch[0]), counted("batch[1]", batch[1]),
        )  # fmt: skip
        with blaming(self.name, "building it"):
            self.method = cls(adapted, task, **values)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self.to(tensors_of(example)[0].device)
        self.parts: dict[str, Tensor] = {}  # of the last loss, for your log
        self.calls = 0  # since the last `after_step`

    @property
    def views(self) -> Views:
        """Which views of labelled (x) and unlabelled (u) inputs the method wants."""
        return self.method.views

    @property
    def final(self) -> nn.Module:
        """Your net, or the average of its weights where there is one: the one to test and keep."""
        net = self.method.final
        return net.model if isinstance(net, AnyNet) else net

    def forward(
        self,
        x: Any,
        y: Tensor,
        u: Any = None,
        *,
        id_x: Tensor | None = None,
        id_u: Tensor | None = None,
    ) -> Tensor:
        """The loss of labelled inputs x with labels y, and of unlabelled inputs u.

        A list has an entry for each of the `views`; anything else is the only view. `id_x` and
        `id_u` are positions among the labelled inputs and in the pool, which few methods need.
        """
        seen, given = [self._views("x", x), self._views("u", u)], {"id_x": id_x, "id_u": id_u}
        self._check(y, given)
        net = cast(AnyNet, self.method.net)
        with nullcontext() if self.parts else blaming(self.name, "a first step"):
            if self.embeds:
                seen = [tuple(map(net.embed, views)) for views in seen]
            ids = [cast(Tensor, NotGiven(k) if v is None else v) for k, v in given.items()]
            progress = (self.step.float() / self.method.task.steps).clamp(max=1)
            loss = self.method(Batch(seen[0], y, seen[1], ids[0], ids[1], self.step, progress))
        self.calls += 1
        self.parts = loss.parts
        total: Tensor = loss.total
        return total

    def after_step(self) -> None:
        """To be called after each step of the optimizer: moves averages, counts the step."""
        self.method.after_step()
        self.step.add_(1)
        self.calls = 0

    @torch.no_grad()
    def logits(self, inputs: Any) -> Tensor:
        """What the `final` net says of some inputs, in eval mode."""
        net = self.method.final
        before = net.training
        net.eval()
        try:
            found: Tensor = net(inputs).logits
        finally:
            net.train(before)
        return found

    def _views(self, name: str, given: Any) -> tuple[Any, ...]:
        """The views of x or u, as many as the method wants."""
        wanted: tuple[str, ...] = getattr(self.views, name)
        found = tuple(given) if isinstance(given, list) else () if given is None else (given,)
        if len(found) != len(wanted):
            asked = f"{name}=[{', '.join(wanted)}]" if wanted else f"no {name}"
            raise UsageError(
                f"{self.name} takes {asked}, got {len(found)} view{'s' * (len(found) != 1)}. "
                f"`views.{name}` names what it wants."
            )
        return found

    def _check(self, y: Any, ids: dict[str, Tensor | None]) -> None:
        """Refuse what would fail far from its cause; numbers are read in the first step alone."""
        numbers = {name: table for name, table in {"y": y, **ids}.items() if table is not None}
        for name, table in numbers.items():
            if not isinstance(table, Tensor) or table.ndim != 1 or table.dtype is not torch.int64:
                raise UsageError(
                    f"{name} must be a tensor of whole numbers (N,), not {described(table)}."
                )
        if self.calls > FORGOTTEN:
            raise UsageError(
                f"{self.calls} losses without after_step(): call it after each optimizer.step()."
            )
        if self.parts:
            return
        task = self.method.task
        counts = {"y": task.classes, "id_x": task.labelled, "id_u": task.unlabelled}
        for name, table in numbers.items():
            low, high = (int(table.min()), int(table.max())) if len(table) else (0, 0)
            if not 0 <= low <= high < counts[name]:
                raise UsageError(f"{name} must lie in 0 … {counts[name] - 1}, got {low} … {high}.")


class NotGiven:
    """Stands for ids that the user left out; to read it is an error that says they are needed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def refuse(self) -> NoReturn:
        where = "in the pool" if self.name == "id_u" else "among the labelled inputs"
        raise UsageError(
            f"this method remembers single inputs: pass {self.name}, their positions {where}."
        )

    def __len__(self) -> int:
        self.refuse()

    def __torch_function__(self, *ignored: Any) -> Any:
        self.refuse()


class Embedded(Tensor):
    """Features in the place of inputs, as it is the features that a method mixes or perturbs.

    Torch keeps the type through any calculation, so a net knows them when they come back.
    """


class AnyNet(nn.Module):
    """The user's net as methods know nets: inputs in, `Out` out."""

    def __init__(self, model: nn.Module, example: Any) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise UsageError(f"net must be a torch module, not {described(model)}.")
        if not tensors_of(example):
            raise UsageError(
                "example must be a tensor, or a dictionary or tuple of tensors, as the net takes "
                f"them; got {described(example)}."
            )
        self.model, self.head_name, self.ends_linear = model, None, False
        before = model.training
        with torch.no_grad(), blaming("net", "a pass of the example"):
            out = self.eval()(example)  # lazy layers get their weights
            with linear_calls(model, out.logits.shape[1]) as calls:
                logits, _ = parts_of(called(model, example))
            self.head_name = last_linear(calls, logits)
            if self.head_name is not None:
                self.head.__class__ = Head
            out = self(example)
            if self.head_name is not None and out.features.shape[1] == self.head.in_features:
                self.ends_linear = torch.allclose(self.embedded(out.features).logits, out.logits)
        self.train(before)
        self.classes, self.width = out.logits.shape[1], out.features.shape[1]
        self.map_width = self.width

    @property
    def head(self) -> Head:
        """The last linear layer of the net."""
        return cast(Head, self.model.get_submodule(cast(str, self.head_name)))

    def forward(self, inputs: Any) -> Out:
        """Classify inputs, or features that were embedded."""
        if isinstance(inputs, Embedded):
            return self.embedded(inputs.as_subclass(Tensor))
        return self._out(*parts_of(called(self.model, inputs)))

    def embedded(self, features: Tensor) -> Out:
        """What the head makes of features."""
        return self._out(self.head(features), features)

    def _out(self, logits: Tensor, features: Tensor | None) -> Out:
        if self.head_name is not None:
            features = self.head.seen if features is None else features
            self.head.seen = None  # kept longer, it would hold the memory of a step
        logits = logits.float() if logits.dtype.itemsize < 4 else logits
        features = logits if features is None else features.to(logits.dtype)
        return Out(logits, features, features)

    def embed(self, inputs: Any) -> Tensor:
        """Features that come back instead of the inputs, altered or not."""
        return cast(Out, self(inputs)).features.as_subclass(Embedded)


def called(model: nn.Module, inputs: Any) -> Any:
    """What the net returns: a dictionary are its named arguments, a tuple those without names."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def parts_of(found: Any) -> tuple[Tensor, Tensor | None]:
    """Logits, and features if the net returns some."""
    logits, features = found, None
    if isinstance(found, Mapping):
        logits = found.get("logits")
        features = next((found[name] for name in FEATURES if name in found), None)
    elif hasattr(found, "logits"):
        logits = found.logits
        features = next((getattr(found, name) for name in FEATURES if hasattr(found, name)), None)
    elif isinstance(found, tuple | list):
        logits, features = found[0], found[1] if len(found) > 1 else None
    for name, table in (("logits", logits), ("features", features)):
        if table is None and name == "features":
            continue
        if not isinstance(table, Tensor) or table.ndim != 2 or not table.is_floating_point():
            raise UsageError(
                f"net: expected {name} (N, {'classes' if name == 'logits' else 'width'}), found "
                f"{described(table if isinstance(table, Tensor) else found)}. It may return "
                "logits, (logits, features), or a record or dictionary that has them by name."
            )
    return logits, features


def tensors_of(inputs: Any) -> list[Tensor]:
    """The tensors of a tensor, a dictionary or a tuple."""
    if isinstance(inputs, Mapping):
        inputs = tuple(inputs.values())  # a tokeniser's own kind of dictionary among them
    return [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, Tensor)]


def is_square(inputs: Any) -> bool:
    """Whether these are images with a way up: a task of turning others would mean nothing."""
    return isinstance(inputs, Tensor) and inputs.ndim == 4 and inputs.shape[-1] == inputs.shape[-2]


def counted(name: str, given: Any, least: int = 1) -> int:
    """A number of inputs or steps."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < least:
        got = described(given) if isinstance(given, Tensor) else repr(given)
        raise UsageError(f"{name} must be a whole number of at least {least}, got {got}.")
    return int(given)


def class_shares(labels: Sequence[int] | Tensor, classes: int) -> tuple[float, ...]:
    """The share of each class among the labels."""
    try:
        numbers = torch.as_tensor(labels).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"labels must be whole numbers (N,), not {described(labels)}.") from None
    if numbers.ndim != 1 or not len(numbers) or numbers.is_floating_point():
        raise UsageError(f"labels must be whole numbers (N,), not {described(numbers)}.")
    if not 0 <= int(numbers.min()) <= int(numbers.max()) < classes:
        raise UsageError(
            f"labels must lie in 0 … {classes - 1}, as the net has {classes} classes; got "
            f"{int(numbers.min())} … {int(numbers.max())}."
        )
    counts = torch.bincount(numbers.long(), minlength=classes).double()
    return tuple((counts / counts.sum()).tolist())


def checked_options(
    method: str, given: Mapping[str, Any], prior: Sequence[float] | None, classes: int
) -> tuple[dict[str, Any], tuple[float, ...] | None]:
    """The keywords of the method, and the known class shares."""
    try:
        known = None if prior is None else tuple(map(float, prior))
    except (TypeError, ValueError):
        raise UsageError(f"prior must be a share for each class, got {prior!r}.") from None
    own = {name: value for name, value in given.items() if name != "ema"}
    options, shares = resolve_method(method, own, known, {})
    if "ema" in given:
        options["ema"] = RUN_OPTIONS["ema"].parse(given["ema"])
    if shares is not None:
        shares = normalised_shares(shares, "prior")
        return options, in_order(shares, [str(c) for c in range(classes)], "the net")
    return options, None
