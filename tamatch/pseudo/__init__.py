"""Pseudo-labels as three free choices: how they are made, which are used, how much they count."""

from collections.abc import Callable, Mapping
from functools import reduce

from ..errors import UsageError, perhaps
from ..stats import Status, Tally
from ..types import Task
from .guess import Guess, Part, Pseudo, PseudoLabeler
from .parts import (
    ByClass,
    Curriculum,
    Effective,
    Gaussian,
    Product,
    Relative,
    SelfAdaptive,
    Threshold,
    evenly,
    everything,
    pool,
    raw,
    rescale,
)  # fmt: skip

__all__ = [
    "ByClass", "Curriculum", "Effective", "Gaussian", "Guess", "Part", "Product", "Pseudo",
    "PseudoLabeler", "Relative", "SelfAdaptive", "Threshold", "compose", "evenly", "everything",
    "pool", "raw", "rescale",
]  # fmt: skip

Catalogue = Mapping[str, Callable[[Task, float], Part]]  # each part by name, from the task and τ

GENERATE: Catalogue = {
    "raw": lambda task, tau: raw,
    "rescale": lambda task, tau: rescale,
    "pool": lambda task, tau: pool,
}
SELECT: Catalogue = {
    "fixed": lambda task, tau: Threshold(tau),
    "all": lambda task, tau: everything,
    "relative": lambda task, tau: Relative(tau),
    "flexmatch": lambda task, tau: Curriculum(task, tau),
    "freematch": lambda task, tau: SelfAdaptive(task),
}
WEIGH: Catalogue = {
    "even": lambda task, tau: evenly,
    "class": lambda task, tau: ByClass(),
    "effective": lambda task, tau: Effective(task),
    "gaussian": lambda task, tau: Gaussian(task),
}


def compose(
    task: Task,
    status: Status,
    *,
    generate: str | Part = "raw",
    select: str | Part = "fixed",
    weigh: str | Part = "even",
    tau: float = 0.95,
    tuned: Mapping[str, Part] | None = None,
) -> PseudoLabeler:
    """A labeler from part names, as the command line gives them, or from the parts themselves.

    `weigh` also takes a product of names, such as "class*gaussian". `tuned` holds parts that a
    method has set up itself: they are taken instead of the usual ones of the same name.
    """

    def find(option: str, catalogue: Catalogue, name: str) -> Part:
        if tuned and name in tuned:
            return tuned[name]
        if name in catalogue:
            return catalogue[name](task, tau)
        hint = perhaps(name, catalogue, most=1) or f" Available: {', '.join(catalogue)}."
        raise UsageError(f"{option}={name} is unknown.{hint}")

    if isinstance(generate, str):
        generate = find("generate", GENERATE, generate)
    if isinstance(select, str):
        select = find("select", SELECT, select)
    if isinstance(weigh, str):
        weigh = reduce(Product, [find("weigh", WEIGH, name) for name in weigh.split("*")])
    return PseudoLabeler(status, generate, select, weigh, Tally(task))
