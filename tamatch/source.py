"""The training images on the device, and the batches made of them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .data import DataSet, Split
from .sampler import Sampler

BLOCK = 64  # steps whose ids are sent to the device at once


class Source:
    """Serves the uint8 images of a step, gathered on the device from the resident sets.

    The ids of `BLOCK` steps lie in a device table, so that a captured step needs no host.
    """

    def __init__(
        self,
        data: DataSet,
        split: Split,
        batch: int,
        unlabelled: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.device = device
        self.labels = torch.from_numpy(data.labels[split.labelled]).to(device)
        self.pools = (
            to_device(data.images[split.labelled], device),
            to_device(data.images[split.unlabelled], device),
        )
        self.samplers = (
            Sampler(len(split.labelled), batch, seed, stream=0),
            Sampler(len(split.unlabelled), unlabelled, seed, stream=1),
        )
        self.tables = tuple(
            torch.zeros(BLOCK, s.batch, dtype=torch.int64, device=device) for s in self.samplers
        )
        self.block = -1

    def prepare(self, step: int) -> None:
        """Make sure the table holds the ids of this step (host side, before the step)."""
        if step // BLOCK == self.block:
            return
        self.block = step // BLOCK
        for table, sampler in zip(self.tables, self.samplers, strict=True):
            table.copy_(torch.from_numpy(sampler.ids(self.block * BLOCK, BLOCK)))

    def ids(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of the labelled and the unlabelled images of a step."""
        row = (step % BLOCK).view(1)
        id_x, id_u = (table.index_select(0, row)[0] for table in self.tables)
        return id_x, id_u

    def images(self, pool: int, ids: Tensor) -> Tensor:
        """(N, 3, H, W) uint8; pool 0 is labelled, 1 unlabelled."""
        return self.pools[pool].index_select(0, ids)


def to_device(images: np.ndarray, device: torch.device) -> Tensor:
    """(N, H, W, 3) in memory becomes (N, 3, H, W) on the device."""
    return (
        torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).contiguous().to(device)
    )
