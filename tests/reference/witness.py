"""What a method takes as constant in a step, caught on its way into the loss."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from torch import Tensor

from tamatch.methods.mixing import MixUp
from tamatch.pseudo import Pseudo

from .base import SlowMethod
from .records import Calls

FUNCTIONS = ("each_ce", "each_mse", "sharpen")  # where a method's module has them
PARTS = ("graph", "perturbation", "mix")  # where a method has them


class Witness:
    """Records the calls, `(arguments, result)`, of what the loss is made with."""

    def __init__(self, patch: pytest.MonkeyPatch, method: Any) -> None:
        self.calls: Calls = {}
        module = sys.modules[type(method).__module__]
        watched: list[tuple[Any, str]] = [(Pseudo, "loss"), (Pseudo, "report")]
        watched.append((MixUp, "__call__"))
        watched += [(module, name) for name in FUNCTIONS if hasattr(module, name)]
        watched += [(method, name) for name in PARTS if hasattr(method, name)]
        for owner, name in watched:
            patch.setattr(owner, name, self.recorded(name, getattr(owner, name)))

    def recorded(self, name: str, function: Any) -> Any:
        calls = self.calls.setdefault(name, [])

        def record(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            calls.append(((*arguments, *named.values()), result))
            return result

        return record

    def constants(self, reference: SlowMethod, source: str) -> dict[str, Tensor]:
        """This step's constants under the reference's names; `source` is its name for p."""
        found = dict(reference.observed(self.calls))
        if self.calls["report"]:
            (pseudo,), _ = self.calls["report"][-1]
            found |= {source: pseudo.p, "label": pseudo.label}
            found |= {"mask": pseudo.mask, "weight": pseudo.weight}
        return found
