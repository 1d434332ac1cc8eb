"""Nets as one graph: compiled without a break, and exported for any batch size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tamatch import nets
from tamatch.nets.base import Net
from tamatch.nets.vit import ViT

NETS: dict[str, Callable[[], Net]] = {
    "wrn": lambda: nets.build("wrn_10_1", 5, 8),
    "vit": lambda: ViT(5, size=8, patch=4, width=12, depth=2, heads=3),
}


@pytest.fixture(params=NETS)
def net(request: pytest.FixtureRequest) -> Net:
    return NETS[request.param]()


def test_compiles_without_a_break(net: Net) -> None:
    net.eval()
    x = torch.randn(4, 3, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        want = net(x)
        net.compile(fullgraph=True, backend="eager")
        got = net(x)
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)


def test_exports_for_any_batch_size(net: Net) -> None:
    net.eval()
    batch = {0: torch.export.Dim("batch", min=1, max=64)}
    program = torch.export.export(net, (torch.randn(2, 3, 8, 8),), dynamic_shapes=(batch,))
    operators = {str(node.target) for node in program.graph.nodes}
    assert "wrap_with_autocast" not in operators
    for size in (1, 5):
        x = torch.randn(size, 3, 8, 8)
        torch.testing.assert_close(program.module()(x).logits, net(x).logits)
