"""What a method takes as constant in a step, caught on its way into the loss."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from torch import Tensor

from tamatch.methods.mixing import MixUp
from tamatch.pseudo import Pseudo

FUNCTIONS = ("each_ce", "each_mse", "sharpen", "mix_accepted")  # where a method's module has them
PARTS = ("graph", "perturbation", "mix")  # where a method has them


class Witness:
    """Records the calls, `(arguments, result)`, of what the loss is made with."""

    def __init__(self, patch: pytest.MonkeyPatch, method: Any) -> None:
        self.calls: dict[str, list[tuple[Any, Any]]] = {}
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

    def constants(self, name: str, source: str) -> dict[str, Tensor]:
        """This step's constants under the reference's names; `source` is its name for p."""
        found = self.targets(name)
        if self.calls["report"]:
            (pseudo,), _ = self.calls["report"][-1]
            found |= {source: pseudo.p, "label": pseudo.label}
            found |= {"mask": pseudo.mask, "weight": pseudo.weight}
        return found

    def targets(self, name: str) -> dict[str, Tensor]:
        """What is not in the pseudo-labels themselves."""
        calls = self.calls
        if name in ("pi_model", "mean_teacher"):
            return {"target": calls["each_mse"][-1][0][1]}
        if name in ("mixmatch", "remixmatch"):
            images, targets = (mixed for _, mixed in calls["__call__"][-2:])
            mixed = {"mixed_images": images, "mixed_targets": targets}
            return {"target": calls["sharpen"][-1][1], **mixed}
        if name in ("efficientmatch", "regmixmatch"):
            images, targets, mask = calls.get("mix_accepted", calls.get("mix", []))[-1][1]
            return {"mixed_images": images, "mixed_targets": targets, "mixed_mask": mask}
        if name == "vat":
            (_, q), r = calls["perturbation"][-1]
            return {"target": q, "perturbation": r}
        if name in ("uda", "dash"):
            return {"target": calls["loss"][-1][0][2]}
        if name == "comatch":
            return {"graph": calls["graph"][-1][1]}
        if name == "simmatch":
            return {"teacher": calls["each_ce"][-1][0][1]}
        if name in ("abc", "acr"):  # the labels of the head that is not reported
            other = calls["loss"][-1][0][0]
            return {"other_label": other.label, "other_mask": other.mask}
        if name in ("simpro", "cdmad"):
            return {"target": calls["loss"][-1][0][2]}
        if name == "defixmatch":
            anti = calls["loss"][-1][0][0]
            return {"anti_label": anti.label, "anti_mask": anti.mask}
        return {}
