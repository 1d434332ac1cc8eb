"""On a GPU: the step is captured with all that several processes say to each other in it.

One GPU has room for a group of one process only. All calls are made, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed

from tamatch import dist
from tamatch.methods import METHODS
from tests.contract.test_contract import assert_equal
from tests.gpu.test_capture import run
from tests.tiny import tiny_engine

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("same_kernels")]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    meeting: Path = tmp_path_factory.mktemp("group") / "meeting"
    distributed.init_process_group(init_method=f"file://{meeting}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize("name", METHODS)
def test_captured_in_a_group(name: str, group: None) -> None:
    """Bit for bit the group's eager steps; the first of these is the step of a process alone."""
    options = {"xi": 0.1} if name == "vat" else {}
    with dist.acting_alone():
        alone = run(tiny_engine(name, device="cuda", **options), 1)
    assert not dist.alone()
    eager = run(tiny_engine(name, device="cuda", **options), 1)
    for key, value in alone.method.net.state_dict().items():
        found = eager.method.net.state_dict()[key]
        torch.testing.assert_close(found, value, rtol=1e-3, atol=1e-4, msg=key)
    captured = run(tiny_engine(name, device="cuda", graph=True, **options), 8)
    assert captured.graph is not None
    assert_equal(captured.state_dict(), run(eager, 7).state_dict())
