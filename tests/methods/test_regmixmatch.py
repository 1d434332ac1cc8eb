"""RegMixMatch: who is mixed with whom, where, and what is pasted."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, kstest

from tamatch.methods.mixing import Box
from tamatch.methods.regmixmatch import RegMixMatch, mix_draw, partners, shrunk
from tests.methods.miniature import build, check_contract, check_finite


def test_contract() -> None:
    check_contract(build(RegMixMatch))


@settings(max_examples=12, deadline=None)
@given(classes=st.integers(2, 1000), reach=st.floats(0.01, 50))
def test_finite(classes: int, reach: float) -> None:
    check_finite(RegMixMatch, classes, reach)


def test_what_is_pasted_is_the_nearest_pixel_as_torch_finds_it() -> None:
    images = torch.randn(2, 3, 32, 32)
    for side, y, x in ((0.3, 0.5, 0.5), (0.8, 0.1, 0.9), (0.11, 0.4, 0.99), (0.62, 0.0, 0.31)):
        box = Box(images, torch.tensor(side), (torch.tensor(y), torch.tensor(x)))
        rows, columns = ([span.first.item(), span.end.item()] for span in box.spans)
        size = (rows[1] - rows[0], columns[1] - columns[0])
        theirs = F.interpolate(images[:, :, 2:30, 2:30], size, mode="nearest")
        ours = shrunk(images, box)[:, :, slice(*rows), slice(*columns)]
        assert torch.equal(ours, theirs)


def test_of_a_row_of_numbers_the_middle_of_the_row_is_pasted() -> None:
    rows, half = torch.arange(10.0).repeat(2, 1), torch.tensor(0.5)
    box = Box(rows, torch.tensor(0.4), (half, half))
    assert shrunk(rows, box)[0, 3:7].tolist() == [0, 2, 4, 6]


def test_who_is_mixed_with_whom() -> None:
    torch.manual_seed(0)
    labels = torch.tensor([0, 1, 2, 0, 1, 0, 2, 3, 1])
    sure = torch.tensor([1.0, 1, 1, 0, 1, 1, 0, 0, 0])
    seen: dict[int, set[int]] = {row: set() for row in range(9)}
    for _ in range(200):
        draw = mix_draw(3, 6, (1.0, 16.0), torch.device("cpu"))
        partner, there = partners(labels, sure, 3, draw)
        assert sorted(partner[sure > 0].tolist()) == [0, 1, 2, 4, 5]  # a permutation
        assert sure[partner[there]].all()
        if not draw.any_class:
            assert there.tolist() == [True] * 7 + [False, True]  # nobody is of class 3
            assert torch.equal(labels[partner][there & (sure == 0)], torch.tensor([0, 2, 1]))
        for row, other in enumerate(partner.tolist()):
            seen[row].add(other)
    assert all(len(others) == 5 for row, others in seen.items() if row != 7)


def test_boxes_are_drawn_from_a_tenth_to_eight_tenths() -> None:
    torch.manual_seed(0)
    draws = [mix_draw(2, 2, (1.0, 16.0), torch.device("cpu")) for _ in range(2000)]
    sides = torch.stack([draw.side for draw in draws])
    share = ((sides - 0.1) / 0.7).square()
    for alpha, column in zip((1.0, 16.0), share.T, strict=True):
        assert kstest(column, beta(alpha, alpha).cdf).statistic < 0.0365  # p = 0.01
    assert 900 < sum(bool(draw.any_class) for draw in draws) < 1100
