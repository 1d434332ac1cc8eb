"""The batch of a step, as a function of the step: gathered and augmented on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from ..augment import Augment
from ..types import Batch, Views
from .source import LABELLED, UNLABELLED, Source

STREAMS = 16  # random streams of each kind of images, one per view


class Batches:
    """Makes the batch of any step that the source is prepared for, with the views asked for."""

    def __init__(self, source: Source, augment: Augment, views: Views, steps: int) -> None:
        self.source, self.augment, self.views, self.steps = source, augment, views, steps
        cuda = source.device.type == "cuda"
        self.layout = torch.channels_last if cuda else torch.contiguous_format
        places = (s.slots for s in source.samplers)  # of this process in the batch of all
        self.slots = [torch.arange(p.start, p.stop, device=source.device) for p in places]

    def __call__(self, step: Tensor) -> Batch:
        id_x, id_u = self.source.ids(step)
        x = self._augmented(LABELLED, id_x, self.views.x, step)
        u = self._augmented(UNLABELLED, id_u, self.views.u, step) if self.views.u else ()
        progress = step.float() / self.steps
        return Batch(x, self.source.labels[id_x], u, id_x, id_u, step, progress)

    def _augmented(
        self, kind: int, ids: Tensor, names: tuple[str, ...], step: Tensor
    ) -> tuple[Tensor, ...]:
        images = self.source.images(kind, ids)
        return tuple(
            self.augment(
                name, images, step, self.slots[kind], stream=STREAMS * kind + i
            ).contiguous(memory_format=self.layout)
            for i, name in enumerate(names)
        )
