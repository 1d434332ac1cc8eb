"""Supervised and Fully Supervised: L = CE(z_lb, y); only their data differ."""

from __future__ import annotations

from .base import SlowMethod
from .records import NumpyBatch, Params, Values


class Reference(SlowMethod):
    """The labelled loss alone."""

    u_views = ()

    def targets(self, batch: NumpyBatch) -> Values:
        return {}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        return {"labelled": self.labelled_ce(params, batch)}

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return {"labelled": 1.0}
