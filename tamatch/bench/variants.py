"""Runs that differ from a method's recipe by one option: candidates for what moves its error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Variant:
    """One row of a table of causes. Its name is part of the names of its runs."""

    name: str
    title: str
    options: dict[str, Any] = field(hash=False)
    method: str = "tamatch"


CAUSES = (
    Variant("pool", "labelled images also in the pool", {"labelled_in_pool": "yes"}),
    Variant("replacement", "sampling with replacement", {"replacement": True}),
    Variant("fp32", "precision: float32", {"precision": "fp32"}),
    Variant("tf32", "precision: TF32", {"precision": "tf32"}),
    Variant("raw", "no weight average, as printed in the paper's Table 7", {"ema": 0.0}),
    Variant("norm", "usual BatchNorm: momentum 0.1, in every block", {"net": "wrn_28_2_clean"}),
    Variant("symmetric", "weights clipped to [1/r_max, r_max]", {"clip": "symmetric"}),
    Variant("eps-9", "ε = 1e-9 in the ratio", {"eps": 1e-9}),
    Variant("eps-4", "ε = 1e-4 in the ratio", {"eps": 1e-4}),
    Variant("after", "p_model and p_target updated after their use", {"update": "after"}),
)
