"""Supervised learning from the labelled images alone, or from all labels there are."""

from ..losses import each_ce
from ..types import Batch, Loss, Views
from .base import Method


class Supervised(Method):
    """L = H(y, p(x)): the baseline that every method must beat on the same labels."""

    views = Views(u=())

    def forward(self, batch: Batch) -> Loss:
        (x,) = self.predict(*batch.x)
        sup = each_ce(x.logits, batch.y).mean()
        return Loss(sup, {"sup": sup.detach()})


class FullySupervised(Supervised):
    """The same loss with every training label known: the bound that semi-supervision aims at.

    Only the data differ; the table of methods says so.
    """
