"""What the views of one batch have in common: nothing but the images."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from tests.tiny import BATCH, tiny_engine


def views_of_one_image(step: int) -> list[Tensor]:
    """All views of a batch, labelled and unlabelled, in which every image is the same one."""
    engine = tiny_engine("comatch")
    noise = torch.Generator().manual_seed(0)
    image = torch.randint(256, (1, 3, 8, 8), dtype=torch.uint8, generator=noise)
    engine.source.images = lambda pool, ids: image.expand(len(ids), -1, -1, -1)  # type: ignore
    batch = engine.batch(torch.tensor(step))
    return [view[:BATCH] for view in (*batch.x, *batch.u)]


def test_each_view_each_step_and_each_place_draws_for_itself() -> None:
    views = [*views_of_one_image(0), *views_of_one_image(1)]
    assert len(views) == 8
    for one, other in combinations(views, 2):
        assert not torch.equal(one, other)
    for view in views:
        assert len({tuple(image.flatten().tolist()) for image in view}) > 1


def test_a_step_is_drawn_the_same_again() -> None:
    assert all(map(torch.equal, views_of_one_image(3), views_of_one_image(3)))
