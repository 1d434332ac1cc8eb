"""Passes that move no statistics do not even write them: they may run beside another pass."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tamatch import dist, nets
from tamatch.methods.base import constant_branch, frozen_norm
from tamatch.modules import norms_of, restoring, tracking
from tamatch.nets.base import recompute


def written(net: nn.Module) -> list[int]:
    """How often each buffer has been written."""
    return [buffer._version for buffer in net.buffers()]


@pytest.mark.parametrize("shared", [False, True])
def test_a_frozen_pass_writes_nothing(monkeypatch: pytest.MonkeyPatch, shared: bool) -> None:
    """Also where processes share the batch."""
    monkeypatch.setattr(dist, "alone", lambda: not shared)
    monkeypatch.setattr(dist, "mean", lambda moments: moments)
    monkeypatch.setattr(dist, "world", lambda: 1)
    net, images = nets.build("wrn_10_1", 4, 8).train(), torch.randn(6, 3, 8, 8)
    moved = net(images).logits
    before = written(net)
    with frozen_norm(net):
        still = net(images).logits
    assert torch.equal(still, moved) and written(net) == before
    net(images)
    assert written(net) != before


def test_what_is_only_looked_at_has_no_gradient_and_writes_nothing() -> None:
    net, images = nets.build("wrn_10_1", 4, 8).train(), torch.randn(6, 3, 8, 8)
    before = written(net)
    with constant_branch(images, net) as aside:
        seen = aside(lambda: net(images).logits)
        assert not seen.requires_grad and written(net) == before
        assert net(images).logits.requires_grad
    assert written(net) != before


def test_a_frozen_pass_is_recomputed_as_it_was() -> None:
    net, images = nets.build("wrn_10_1", 4, 8).train(), torch.randn(6, 3, 8, 8)
    assert recompute(net)
    with frozen_norm(net):
        logits = net(images).logits
    before = [buffer.clone() for buffer in net.buffers()]
    logits.sum().backward()  # here, where statistics would move
    assert all(map(torch.equal, net.buffers(), before))


def test_it_ends_as_it_began() -> None:
    """Also after an error, and for norms that never had statistics."""
    net = nn.Sequential(nn.BatchNorm2d(3), nn.BatchNorm2d(3, track_running_stats=False))
    with pytest.raises(ZeroDivisionError), frozen_norm(net):
        assert not any(norm.track_running_stats for norm in norms_of(net))
        raise ZeroDivisionError
    assert [norm.track_running_stats for norm in norms_of(net)] == [True, False]
    with tracking(norms_of(net), [False, True]):
        assert [norm.track_running_stats for norm in norms_of(net)] == [False, True]


def test_statistics_stay_also_after_an_error() -> None:
    norm = nn.BatchNorm2d(3)
    before = copy.deepcopy(norm.state_dict())
    with pytest.raises(ZeroDivisionError), restoring(norm):
        norm(torch.randn(4, 3, 2, 2))
        raise ZeroDivisionError
    assert all(torch.equal(v, before[k]) for k, v in norm.state_dict().items())
