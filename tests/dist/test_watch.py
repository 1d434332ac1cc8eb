"""Who gives no sign of life is named by the first process that lives; here threads are processes.

With real ones that are stopped: `tests/faults/test_ranks.py`.
"""

from __future__ import annotations

from threading import Event, Thread

import pytest
from torch.distributed import HashStore

from tamatch import dist
from tests.processes import wait_for


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("BEAT", 0.05), ("SILENCE", 1.5), ("REMINDER", 1.0)):
        monkeypatch.setattr(dist, name, seconds)


def alive(store: HashStore, me: int, count: int) -> tuple[Thread, Event]:
    ended = Event()
    watcher = Thread(target=dist.watch, args=(store, me, count, ended), daemon=True)
    watcher.start()
    return watcher, ended


def test_the_silent_are_named_until_they_are_back(capfd: pytest.CaptureFixture[str]) -> None:
    store, said = HashStore(), ""

    def heard(words: str, times: int = 1) -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return said.count(words) >= times

    threads = {me: alive(store, me, 3) for me in (1, 2)}
    waiting = "waiting for process 0 of 3, without a sign of life for "
    wait_for(lambda: heard(waiting, 2))  # and again after a while
    threads[0] = alive(store, 0, 3)
    wait_for(lambda: heard("all processes are there again"))
    threads[2][1].set()
    wait_for(lambda: heard("waiting for process 2 of 3"))
    for watcher, ended in threads.values():
        ended.set()
        watcher.join()
    assert said.count("all processes are there again") == 1, "one speaks for all"

