"""Recomputed activations: the same step, to the bit, with less kept for the backward pass."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from tamatch import nets
from tamatch.nets.base import recompute

NETS = ["wrn_16_1", "wrn_16_1_clean", "vit_tiny_p4_16"]


def step(net: nn.Module) -> int:
    """Two passes and their gradients, as many methods do it; returns the bytes kept."""
    torch.manual_seed(1)
    images = torch.randn(6, 3, 16, 16)
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        first, second = net(images), net(images.flip(0) + 1)
    (first.logits.square().mean() + second.features.mean() + second.map.mean()).backward()
    return sum(t.untyped_storage().nbytes() for t in kept.values())


@pytest.mark.parametrize("name", NETS)
def test_the_same_gradients_and_statistics_from_less_memory(name: str) -> None:
    plain = nets.build(name, 5, 16)
    saving = copy.deepcopy(plain)
    assert recompute(saving) and not recompute(saving)  # once is enough
    weights = sum(p.numel() * p.element_size() for p in plain.parameters())
    assert step(saving) - weights < 0.6 * (step(plain) - weights)
    for (key, one), two in zip(plain.named_parameters(), saving.parameters(), strict=True):
        if one.grad is not None or two.grad is not None:
            torch.testing.assert_close(two.grad, one.grad, rtol=0, atol=0, msg=key)
    for (key, one), two in zip(plain.named_buffers(), saving.buffers(), strict=True):
        torch.testing.assert_close(two, one, rtol=0, atol=0, msg=key)  # BatchNorm moved once


@pytest.mark.slow
def test_compiled_nets_recompute_too() -> None:
    plain = nets.build("wrn_10_1_clean", 5, 16)
    saving = copy.deepcopy(plain)
    saving.compile(backend="aot_eager")
    for net in (plain, saving):
        step(net)
    assert recompute(saving)  # in the middle of training, as after an error
    for net in (plain, saving):
        net.zero_grad()
        step(net)
    for (key, one), two in zip(plain.named_parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(two.grad, one.grad, rtol=1e-5, atol=1e-5, msg=key)
    for (key, one), two in zip(plain.named_buffers(), saving.buffers(), strict=True):
        torch.testing.assert_close(two, one, rtol=1e-5, atol=1e-5, msg=key)


def test_without_gradients_there_is_nothing_to_recompute() -> None:
    net = nets.build("wrn_10_1_clean", 5, 16)
    recompute(net)
    with torch.no_grad():
        assert not net(torch.randn(2, 3, 16, 16)).logits.requires_grad
