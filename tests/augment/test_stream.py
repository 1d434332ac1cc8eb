"""The hash stream: exact values, statistical quality, and independence of the batch's layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from tamatch.augment import uniform

WORD = 2**32


def at(seed: int, step: int, slot: int, stream: int, draw: int) -> float:
    """One number of the stream in plain Python, modulo 2^32 throughout."""

    def mix(x: int) -> int:
        x = (x ^ x >> 16) * 0x7FEB352D % WORD
        x = (x ^ x >> 15) * 0x846CA68B % WORD
        return x ^ x >> 16

    key = mix((mix(mix(seed % WORD) ^ (seed // WORD) % WORD) + stream) % WORD)
    batch = mix(step ^ key) ^ mix((key + 0x9E3779B9) % WORD)
    word = mix(mix(slot ^ batch) ^ draw * 0x9E3779B9 % WORD)
    return (word >> 8) / 2**24


def block(seeds: int, steps: int, streams: int, slots: int, draws: int) -> Tensor:
    """Numbers of all addresses below these bounds, one dimension each."""
    slot = torch.arange(slots)
    rows = [
        uniform(seed, torch.tensor(step), slot, stream, draws)
        for seed in range(seeds)
        for step in range(steps)
        for stream in range(streams)
    ]
    return torch.stack(rows).view(seeds, steps, streams, slots, draws)


def test_golden_values() -> None:
    numbers = uniform(7, torch.tensor(1000), torch.tensor([0, 1, 447]), 2, 3)
    assert (numbers * 2**24).int().tolist() == [
        [11936130, 14295823, 13164072],
        [8660890, 8928974, 5685314],
        [14634221, 15287122, 11927063],
    ]


words = st.integers(0, WORD - 1)


@given(st.integers(-(2**63), 2**64), words, words, st.integers(-1, 1000), st.integers(0, 40))
def test_equals_plain_python(seed: int, step: int, slot: int, stream: int, draw: int) -> None:
    numbers = uniform(seed, torch.tensor(step), torch.tensor([slot]), stream, draw + 1)
    assert numbers.dtype == torch.float32
    assert numbers[0, draw].item() == at(seed, step, slot, stream, draw) < 1


@given(st.lists(words, min_size=1, max_size=30), st.integers(1, 20), st.integers(1, 20))
def test_a_number_depends_on_its_address_alone(slots: list[int], few: int, many: int) -> None:
    step = torch.tensor(5)
    together = uniform(0, step, torch.tensor(slots), 1, max(few, many))
    for row, slot in zip(together, slots, strict=True):
        assert torch.equal(uniform(0, step, torch.tensor([slot]), 1, few)[0], row[:few])


def test_numbers_are_uniform() -> None:
    numbers = block(2, 32, 4, 128, 16).flatten().double().numpy()
    for scale in (1, 2**8, 2**16):  # the upper, middle and lower bits
        part = numbers * scale % 1
        counts = np.bincount((part * 256).astype(int), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-3
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("axis", range(5), ids=["seed", "step", "stream", "slot", "draw"])
@pytest.mark.parametrize("lag", [1, 2, 4])
def test_neighbours_are_independent(axis: int, lag: int) -> None:
    numbers = block(6, 16, 6, 32, 13)
    along = numbers.movedim(axis, 0)
    first, second = along[:-lag].flatten().double(), along[lag:].flatten().double()
    correlation = torch.corrcoef(torch.stack((first, second)))[0, 1].item()
    assert abs(correlation) < 4 / len(first) ** 0.5
    cells = ((first * 16).long() * 16 + (second * 16).long()).numpy()
    assert stats.chisquare(np.bincount(cells, minlength=256)).pvalue > 1e-4


def test_every_bit_of_an_address_matters() -> None:
    """Flipping one bit of the step or the slot flips each bit of the number half the time."""
    slot, step = torch.arange(4000), torch.tensor(77)
    before = (uniform(0, step, slot, 0, 1) * 2**24).long()
    for bit in range(32):
        for after in (
            uniform(0, step, slot ^ 1 << bit, 0, 1),
            uniform(0, step ^ 1 << bit, slot, 0, 1),
        ):
            flipped = before ^ (after * 2**24).long()
            for place in range(24):
                share = (flipped >> place & 1).double().mean().item()
                assert abs(share - 0.5) < 0.05


def test_streams_do_not_repeat_each_other() -> None:
    numbers = block(4, 64, 4, 64, 3)
    triples = (numbers.view(-1, 3) * 2**24).long()
    assert len(triples.unique(dim=0)) == len(triples)


def test_torchs_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    uniform(0, torch.tensor(0), torch.arange(8), 0, 8)
    assert torch.equal(torch.get_rng_state(), before)
