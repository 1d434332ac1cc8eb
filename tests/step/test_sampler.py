from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamatch.step.source import Sampler, permutation, stream_key


@given(st.integers(1, 300), st.integers(0, 2**63))
def test_a_permutation_holds_everything_once(count: int, key: int) -> None:
    assert sorted(permutation(count, key)) == list(range(count))


@given(st.integers(1, 50), st.integers(1, 70), st.integers(0, 40), st.integers(1, 30))
def test_any_block_of_steps_gives_the_same_batches(
    count: int, batch: int, step: int, steps: int
) -> None:
    whole = Sampler(count, batch, seed=3, stream=1).ids(0, step + steps)
    part = Sampler(count, batch, seed=3, stream=1).ids(step, steps)
    assert np.array_equal(whole[step:], part)


def test_a_pass_visits_every_image_once_before_the_next_begins() -> None:
    ids = Sampler(10, 4, seed=0, stream=0).ids(0, 25).ravel().reshape(10, 10)
    assert all(sorted(one_pass) == list(range(10)) for one_pass in ids)
    assert len({tuple(one_pass) for one_pass in ids}) == 10


@given(st.integers(1, 50), st.integers(1, 70), st.integers(0, 40), st.integers(1, 30))
def test_draws_with_replacement_are_a_function_of_seed_and_step(
    count: int, batch: int, step: int, steps: int
) -> None:
    whole = Sampler(count, batch, seed=3, stream=1, replacement=True).ids(0, step + steps)
    part = Sampler(count, batch, seed=3, stream=1, replacement=True).ids(step, steps)
    assert np.array_equal(whole[step:], part)
    assert whole.min() >= 0 and whole.max() < count


def test_draws_with_replacement_are_uniform_and_repeat_within_a_pass() -> None:
    ids = Sampler(50, 100, seed=0, stream=0, replacement=True).ids(0, 1000)
    counts = np.bincount(ids.ravel(), minlength=50)
    assert abs(counts - 2000).max() < 5 * 2000**0.5
    pairs = np.bincount(50 * ids.ravel()[:-1] + ids.ravel()[1:], minlength=2500)
    assert abs(pairs - 40).max() < 6 * 40**0.5  # one draw says nothing of the next
    assert len(set(ids[0, :50])) < 50
    mine = Sampler(50, 100, 0, 0, range(25, 50), replacement=True).ids(7, 2)
    assert np.array_equal(mine, ids[7:9, 25:50])


@pytest.mark.parametrize("replacement", [False, True])
def test_seeds_streams_and_passes_are_independent(replacement: bool) -> None:
    orders = {
        tuple(Sampler(20, 20, seed, stream, replacement=replacement).ids(step, 1)[0])
        for seed in range(3)
        for stream in range(2)
        for step in range(3)
    }
    assert len(orders) == 18


def test_first_places_are_uniform() -> None:
    firsts = [permutation(10, stream_key(5, i))[0] for i in range(5000)]
    counts = np.bincount(firsts, minlength=10)
    assert ((counts - 500) ** 2 / 500).sum() < 27.9  # chi², 9 degrees of freedom, p = 0.001


def test_the_stream_never_changes() -> None:
    """Golden: a stored run must draw the same images with every version of every library."""
    assert stream_key(1, 2, 3) == 7702586659592502839
    assert permutation(8, 42).tolist() == [5, 2, 7, 3, 4, 0, 1, 6]
    assert Sampler(7, 3, 5, 1).ids(2, 3).tolist() == [[5, 6, 3], [0, 2, 4], [1, 5, 2]]
    drawn = Sampler(7, 3, 5, 1, replacement=True).ids(2, 3)
    assert drawn.tolist() == [[0, 5, 6], [1, 1, 0], [1, 0, 3]]
