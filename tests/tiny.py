"""Small real parts for tests: the digits, a small net, an engine of a few images a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from tamatch import methods, nets
from tamatch.augment import Augment, Policy
from tamatch.data import DataSet, Split, SplitPlan, load, make_split, shares
from tamatch.methods.base import Method
from tamatch.methods.taught import Taught
from tamatch.settings.config import method_options
from tamatch.step import optim
from tamatch.step.engine import Engine, Pace
from tamatch.step.source import Draw, Resident, Source
from tamatch.types import Task

NET = "wrn_10_1_clean"
BATCH, UNLABELLED, STEPS = 8, 12, 40
BRIEF = ["--steps", "2", "--batch", "2", "--unlabelled", "2", "--net", NET, "--device", "cpu"]
OWN_METHOD = """
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tamatch
import tamatch.methods.fixmatch
from tamatch.kinds import FRACTION


class Own({parent}):
    def __init__(self, net, task, *, {declared}, **options):
        super().__init__(net, task, **options)
"""


def own_method(folder: Path, declared: str, parent: str = "tamatch.Method") -> str:
    """The name of a user's method with these keywords, in a file of its own."""
    file = folder / "own.py"
    file.write_text(OWN_METHOD.format(parent=parent, declared=declared))
    return f"{file}:Own"


@cache
def digits() -> tuple[DataSet, Split]:
    data = load("digits")
    return data, make_split(data, SplitPlan(labels_per_class=2))


def needs_average(name: str) -> bool:
    return name in ("mean_teacher", "comatch", "daso", "simmatch")


def tiny_options(name: str) -> dict[str, Any]:
    """Options under which a fresh net's pseudo-labels are accepted now and then."""
    options = {k: o.default for k, o in method_options(name).items()}
    return options | ({"tau": 0.2} if "tau" in options else {})


def tiny_method(name: str, seed: int = 0, net: str = NET, **changes: Any) -> Method:
    data, split = digits()
    torch.manual_seed(seed)
    built = nets.build(net, len(data.classes), data.size)
    task = Task(
        classes=10,
        labelled=len(split.labelled),
        unlabelled=len(split.unlabelled),
        labelled_shares=shares(data.labels[split.labelled], 10),
        steps=STEPS,
        batch_labelled=BATCH,
        batch_unlabelled=UNLABELLED,
    )
    ema = 0.9 if needs_average(name) else 0.0
    made = methods.get(name)(built, task, **{"ema": ema, **tiny_options(name), **changes})
    teach(made)
    return made


def teach(method: Method, first: int = 0) -> None:
    """To a method that has a teacher, what that may say of the pool; without, it counts nothing."""
    if isinstance(method, Taught):
        images = first + torch.arange(method.task.unlabelled)
        method.teach(images % method.task.classes, images % 3 / 2)


def tiny_engine(
    name: str,
    seed: int = 0,
    *,
    device: str = "cpu",
    graph: bool = False,
    source: Callable[[DataSet, Split, Draw, torch.device], Source] = Resident,
    autocast: torch.dtype | None = None,
    **changes: Any,
) -> Engine:
    data, split = digits()
    place = torch.device(device)
    method = tiny_method(name, seed, **changes).to(place)
    groups = optim.parameter_groups(method, lr=0.03, weight_decay=5e-4)
    policy = Policy(data.size, data.mean, data.std, horizontal_flip=False)
    draw = Draw(BATCH, UNLABELLED, seed, reads_pool=bool(method.views.u))
    return Engine(
        method,
        optim.build_optimizer("sgd", groups),
        source(data, split, draw, place),
        Augment(policy, seed).to(place),
        Pace(STEPS, 0, seed),
        autocast=autocast,
        graph=graph,
    )
