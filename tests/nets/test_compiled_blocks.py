"""Blocks of a transformer are compiled once, whatever else happens to the net."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tamatch import nets
from tamatch.nets.base import uncompiled
from tamatch.nets.vit import ViT
from tamatch.step.cost import probe
from tests.tiny import tiny_engine

# torch's compiler hides it from users
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Those that torch's compiler makes, which here run as they are."""
    made: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        made.append(graph)
        return graph

    compile_ = nn.Module.compile

    def traced(module: nn.Module, *, dynamic: bool, options: dict[str, bool]) -> None:
        compile_(module, dynamic=dynamic, backend=backend)

    monkeypatch.setattr(nn.Module, "compile", traced)
    torch._dynamo.reset()
    return made


def accelerated(name: str = "vit_64x4_p2_8") -> ViT:
    net = nets.build(name, 10, 8).train()
    assert isinstance(net, ViT)
    net.accelerate(kernels=False)
    return net


def test_all_nets_and_blocks_share_their_code(graphs: list[Any]) -> None:
    images = torch.randn(2, 3, 8, 8)
    for net in (accelerated(), accelerated()):
        net(images).logits.sum().backward()
        with torch.no_grad():
            net(images)
    # the first drops nothing, the last looks from the class token alone; with gradients or without
    assert len(graphs) == 2 * 3


def test_what_happens_outside_of_a_step_compiles_nothing(graphs: list[Any]) -> None:
    engine, images = tiny_engine("fixmatch"), torch.randn(2, 3, 8, 8)
    engine.method.net = accelerated("vit_64x4_p2_8")
    probe(engine, 2)  # in a mode in which torch's compiler gives a function up for good
    with uncompiled():
        engine.method.net(images)
    assert not graphs
    engine.method.net(images)
    assert graphs


def test_a_tuned_net_is_compiled_as_its_body(graphs: list[Any]) -> None:
    net = nets.build("tuned/vit_64x4_p2_8", 10, 8).train()
    net.accelerate(kernels=False)
    net(torch.randn(2, 3, 8, 8))
    assert len(graphs) == 2  # every token of every block is read
    assert net.repaid == ViT.repaid
