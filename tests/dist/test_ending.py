"""Processes that part leave nothing behind that could abort them while they end."""

from __future__ import annotations

import sys

import pytest

from tests.dist.torchrun import torchrun


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the names of threads from /proc")
def test_no_thread_of_the_group_outlives_it() -> None:
    """One that does may free a tensor while the interpreter ends, and abort a run that is done."""
    code, said = torchrun(module="tests.dist.ending")
    assert code == 0, said
    assert said.count("rank left with:") == 2 and "gloo" not in said, said
