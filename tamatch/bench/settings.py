"""The settings of the paper's experiments: a data set and how many labels of it are known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One column of a table. All else comes from the data set's recipe."""

    name: str
    title: str
    data: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)


def few_labels(data: str, title: str, classes: int, per_class: int) -> Setting:
    labels = classes * per_class
    options = {"labels_per_class": per_class}
    return Setting(f"{data}-{labels}", f"{title}, {labels} labels", data, options)


def long_tail(labelled: int, unlabelled: int, gamma: int) -> Setting:
    """Class i of C has N⁽¹⁾·γ^(−(i−1)/(C−1)) images; N_l⁽¹⁾, N_u⁽¹⁾ and γ are given."""
    options = {"head_labelled": labelled, "head_unlabelled": unlabelled, "gamma": float(gamma)}
    title = f"CIFAR-10-LT, {labelled} / {unlabelled}, γ = {gamma}"
    return Setting(f"lt-{labelled}-{unlabelled}-{gamma}", title, "cifar10-lt", options)


CIFAR100 = tuple(few_labels("cifar100", "CIFAR-100", 100, n) for n in (2, 4))
STL10 = tuple(few_labels("stl10", "STL-10", 10, n) for n in (4, 10))
EUROSAT = tuple(few_labels("eurosat", "EuroSAT", 10, n) for n in (2, 4))
LONG_TAIL = tuple(
    long_tail(*heads, gamma) for heads in ((1500, 3000), (500, 4000)) for gamma in (100, 150)
)
DIGITS = few_labels("digits", "embedded digits", 10, 4)
STAND_IN = tuple(
    replace(s, name=f"{s.name}-tiny", options={**s.options, "net": "vit_tiny_p2_32"})
    for s in EUROSAT
)
TITLES = {s.name: s.title for s in (*CIFAR100, *STL10, *EUROSAT, *LONG_TAIL, *STAND_IN, DIGITS)}
