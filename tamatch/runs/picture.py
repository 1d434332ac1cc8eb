"""A picture of the views as they are trained: what the net really sees."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..step.engine import Engine
from ..step.source import LABELLED, UNLABELLED
from ..storage.files import write_bytes

COLUMNS = 8
TILE = 64  # pixels of an image in the picture, at least


def save_views(engine: Engine, path: Path) -> None:
    """The first batch of the run: one row per view, one column per image."""
    engine.source.prepare(0)
    start = torch.zeros_like(engine.device_step)
    batch = engine.batch(start)
    rows = []
    for kind, ids, views in (
        (LABELLED, batch.id_x, batch.x),
        (UNLABELLED, batch.id_u, batch.u),
    ):
        if views:
            images = engine.source.images(kind, ids)
            plain = engine.augment("plain", images, start, engine.batch.slots[kind], stream=0)
            rows += [plain, *views]
    write_bytes(path, _png(torch.stack([_fill(row[:COLUMNS]) for row in rows]), engine))


def _fill(row: Tensor) -> Tensor:
    """Fewer images than columns leave black tiles."""
    missing = COLUMNS - len(row)
    return torch.cat([row, row.new_zeros(missing, *row.shape[1:])]) if missing else row


def _png(rows: Tensor, engine: Engine) -> bytes:
    policy = engine.augment.policy
    mean, std = (rows.new_tensor(v)[:, None, None] for v in (policy.mean, policy.std))
    pixels = ((rows * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)
    scale = max(1, TILE // policy.size)
    tiles = pixels.permute(0, 1, 3, 4, 2).cpu().numpy()  # (rows, columns, H, W, 3)
    tiles = tiles.repeat(scale, axis=2).repeat(scale, axis=3)
    tiles = np.pad(tiles, ((0, 0), (0, 0), (2, 2), (2, 2), (0, 0)), constant_values=255)
    r, c, h, w, _ = tiles.shape
    sheet = tiles.transpose(0, 2, 1, 3, 4).reshape(r * h, c * w, 3)
    buffer = io.BytesIO()
    Image.fromarray(sheet).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
