"""Processes that torchrun restarts find each other, and not those that died."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from torch.distributed import HashStore

from tamatch.dist import agree_on_prefix

COUNT = 3


def round_of(store: HashStore) -> set[str]:
    """The names that the processes of one start end up with; here they are threads."""
    with ThreadPoolExecutor(COUNT) as processes:
        return {
            *processes.map(lambda me: agree_on_prefix(store, me, COUNT), reversed(range(COUNT)))
        }


def test_each_start_agrees_on_a_name_of_its_own() -> None:
    store = HashStore()
    store.set_timeout(timedelta(seconds=30))
    rounds = [round_of(store) for _ in range(4)]
    assert all(len(names) == 1 for names in rounds)
    assert len(set.union(*rounds)) == 4


def test_the_dead_are_not_waited_for() -> None:
    """Process 0 and 1 died before they met; what they wrote is still there."""
    store = HashStore()
    store.set_timeout(timedelta(seconds=30))
    for me in (0, 1):
        store.set(f"here/{me}", "of a dead process")
    (agreed,) = round_of(store)
    assert agreed != "of a dead process"
