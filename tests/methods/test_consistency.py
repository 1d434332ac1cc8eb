"""Mean Teacher, Π-Model and VAT: two predictions of one image must agree."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tamatch.errors import UsageError
from tamatch.methods import vat
from tamatch.methods.base import Method, frozen_weights, gradient_of
from tamatch.methods.mean_teacher import MeanTeacher
from tamatch.methods.pi_model import PiModel
from tamatch.methods.supervised import Supervised
from tamatch.methods.vat import VAT
from tamatch.nets.base import recompute
from tests.methods.miniature import (
    batch_of,
    build,
    check_contract,
    check_finite,
    check_order_does_not_matter,
    statistics,
    train,
)
from tests.tiny import tiny_method

ALL: list[tuple[type[Method], dict[str, Any]]] = [
    (PiModel, {}),
    (MeanTeacher, {}),
    (VAT, {"xi": 0.1}),
]


@pytest.mark.parametrize(("cls", "options"), ALL)
def test_contract(cls: type[Method], options: dict[str, Any]) -> None:
    check_contract(build(cls, **options))


@pytest.mark.parametrize(("cls", "options"), ALL)
@settings(max_examples=12, deadline=None)
@given(classes=st.integers(2, 1000), reach=st.floats(0.01, 50))
def test_finite(cls: type[Method], options: dict[str, Any], classes: int, reach: float) -> None:
    check_finite(cls, classes, reach, **options)


@pytest.mark.parametrize("cls", [PiModel, MeanTeacher])
def test_order_does_not_matter(cls: type[Method]) -> None:
    check_order_does_not_matter(build(cls))


@pytest.mark.parametrize(("cls", "options"), ALL)
def test_only_labelled_images_move_the_running_statistics(
    cls: type[Method], options: dict[str, Any]
) -> None:
    method, alone = build(cls, **options), build(Supervised)
    batch = batch_of(method)
    before = statistics(method.net)
    alone(batch)
    method(batch)
    after = statistics(method.net)
    assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    torch.testing.assert_close(after, statistics(alone.net), rtol=0, atol=0)


@pytest.mark.parametrize(("cls", "options"), ALL)
def test_the_ramp_starts_at_nothing_and_ends_at_one(
    cls: type[Method], options: dict[str, Any]
) -> None:
    method = build(cls, lambda_u=7.0, rampup=0.4, **options)
    for progress, share in ((0.0, 0.0), (0.1, 0.25), (0.4, 1.0), (0.9, 1.0)):
        torch.manual_seed(0)
        loss = method(batch_of(method, progress=progress))
        rest = 0.06 * loss.parts.get("entropy", torch.zeros(()))
        expected = loss.parts["sup"] + 7.0 * share * loss.parts["unsup"] + rest
        torch.testing.assert_close(loss.total.detach(), expected)


def mean_square(p: Tensor, q: Tensor) -> Tensor:
    return sum((p[i] - q[i]).square().sum() / p.shape[1] for i in range(len(p))) / len(p)  # type: ignore[return-value]


def test_pi_model_pulls_the_second_view_to_the_first() -> None:
    method = build(PiModel, rampup=0.1, norm=False)
    batch = batch_of(method)
    loss = method(batch)
    first, second = (method.net(view).logits.softmax(-1) for view in batch.u)
    unsup = mean_square(second, first.detach())
    torch.testing.assert_close(loss.parts["unsup"], unsup.detach())
    expected = loss.parts["sup"] + 10 * unsup
    torch.testing.assert_close(loss.total, expected)

    (gradient,) = torch.autograd.grad(loss.total, method.net.head.bias)
    sup = torch.nn.functional.cross_entropy(method.net(batch.x[0]).logits, batch.y)
    (by_hand,) = torch.autograd.grad(sup + 10 * unsup, method.net.head.bias)
    torch.testing.assert_close(gradient, by_hand)


def test_mean_teacher_needs_an_average() -> None:
    with pytest.raises(UsageError, match="--ema 0 leaves Mean Teacher without its teacher"):
        build(MeanTeacher, ema=0.0)


def test_mean_teacher_compares_the_net_with_its_average() -> None:
    method = build(MeanTeacher, ema=0.9, norm=False)
    train(method, range(3))
    batch = batch_of(method)
    q = method.average(batch.u[0]).logits.softmax(-1)
    p = method.net(batch.u[1]).logits.softmax(-1)
    unsup = method(batch).parts["unsup"]
    torch.testing.assert_close(unsup, mean_square(p, q).detach())
    assert not torch.allclose(unsup, mean_square(method.net(batch.u[0]).logits.softmax(-1), p))


def test_mean_teacher_leaves_the_teacher_alone() -> None:
    method = build(MeanTeacher)
    before = copy.deepcopy(method.average.state_dict())
    method(batch_of(method)).total.backward()
    assert all(p.grad is None for p in method.average.parameters())
    for name, value in method.average.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_mean_teacher_as_published_learns_from_labels_alone() -> None:
    method, alone = build(MeanTeacher, parity="usb"), build(Supervised)
    batch = batch_of(method)
    loss = method(batch)
    assert loss.parts["unsup"] == 0
    loss.total.backward()
    alone(batch).total.backward()
    for mine, plain in zip(method.net.parameters(), alone.net.parameters(), strict=True):
        assert torch.equal(mine.grad, plain.grad)


def divergence(q: Tensor, logits: Tensor) -> Tensor:
    """KL[q ‖ p] of each row."""
    return (q * (q.log() - logits.log_softmax(-1))).sum(-1)


def exact_vat(**options: Any) -> tuple[Any, Tensor, Tensor]:
    """VAT in double precision, where ξ = 1e-6 shows a true direction; images and predictions."""
    method = build(VAT, norm=False, reach=3.0, double=True, **options)
    (images,) = batch_of(method).u
    return method, images, method.net(images).logits.softmax(-1).detach()


def test_vat_perturbs_by_epsilon_in_the_direction_of_the_gradient() -> None:
    method, images, q = exact_vat(epsilon=0.5)
    torch.manual_seed(3)
    r = method.perturbation(images, q)
    lengths = r.flatten(1).norm(dim=1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, 0.5), rtol=1e-4, atol=0)

    torch.manual_seed(3)
    start = torch.randn_like(images)
    for image, its_q, d, its_r in zip(images, q, start, r, strict=True):
        probe = (1e-6 * d / d.norm()).requires_grad_()
        distance = divergence(its_q, method.net((image + probe)[None]).logits).sum()
        (gradient,) = torch.autograd.grad(distance, probe)
        torch.testing.assert_close(its_r, 0.5 * gradient / gradient.norm(), rtol=1e-3, atol=1e-6)


def test_a_gradient_that_reaches_other_tensors_alone_is_none_of_the_images() -> None:
    images, other = (torch.ones(2, 3, 4, 4, requires_grad=True) for _ in range(2))
    with pytest.raises(UsageError, match="gradient with respect to the images, but none"):
        gradient_of((images.detach() * other).sum(), images)


def test_vat_finds_worse_directions_than_chance() -> None:
    method, images, q = exact_vat(epsilon=0.05)
    chance = 0.05 * vat.unit(torch.randn_like(images))
    worst = divergence(q, method.net(images + method.perturbation(images, q)).logits)
    assert (worst > divergence(q, method.net(images + chance).logits)).float().mean() > 0.9


def test_vat_finds_the_direction_in_half_precision_too() -> None:
    """ξ is below what bfloat16 resolves: rounded, the search would find nothing at all."""
    method = build(VAT, norm=False, reach=3.0, epsilon=0.05, xi=1e-2)
    (images,) = batch_of(method).u
    q = method.net(images).logits.softmax(-1).detach()
    torch.manual_seed(3)
    exact = method.perturbation(images, q)
    assert method.unrounded(images) is None
    searched: list[tuple[Tensor, Tensor]] = []
    search = method.perturbation

    def recorded(images: Tensor, q: Tensor) -> Tensor:
        torch.manual_seed(3)
        searched.append((q, r := search(images, q)))
        return r

    method.perturbation = recorded
    with torch.autocast("cpu", torch.bfloat16):
        method(batch_of(method))
    [(found, rough)] = searched
    assert torch.equal(found, q)
    alike = torch.cosine_similarity(rough.flatten(1), exact.flatten(1))
    assert (alike > 0.99).all()


def test_vat_searches_without_touching_the_weights_gradients() -> None:
    method, images, q = exact_vat()
    method.perturbation(images, q)
    assert all(p.grad is None for p in method.net.parameters())


def test_vat_searches_with_the_weights_as_constants() -> None:
    """Else kernels of one's own would compute their gradients, too. One frozen before stays so."""
    method, images, q = exact_vat()
    first, *others = method.net.parameters()
    first.requires_grad_(False)
    seen: list[bool] = []
    method.net.register_forward_pre_hook(
        lambda net, _: seen.extend(weight.requires_grad for weight in net.parameters())
    )
    method.perturbation(images, q)
    assert seen and not any(seen)
    assert not first.requires_grad and all(weight.requires_grad for weight in others)
    with pytest.raises(ZeroDivisionError), frozen_weights(method.net):
        raise ZeroDivisionError
    assert not first.requires_grad and all(weight.requires_grad for weight in others)


def test_vat_searches_where_activations_are_recomputed() -> None:
    """A transformer keeps other things of a pass where its weights are constants."""
    found = []
    for recomputed in (False, True):
        method = cast(VAT, tiny_method("vat", net="vit_tiny_p2_8"))
        assert recompute(method, wanted=recomputed) == recomputed
        torch.manual_seed(3)
        images = torch.randn(6, 3, 8, 8)
        found.append(method.perturbation(images, torch.full((6, 10), 0.1)))
    assert torch.equal(*found)


def test_vat_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    method, images, q = exact_vat(lambda_u=2.0, lambda_entropy=0.3, rampup=0.1)
    start = torch.randn_like(images)
    monkeypatch.setattr(vat, "direction_draw", lambda images: start)
    loss = method(batch_of(method))
    attacked = method.net(images + method.perturbation(images, q)).logits
    clean = method.net(images).logits.softmax(-1)
    unsup, doubt = divergence(q, attacked).mean(), -(clean * clean.log()).sum(-1).mean()
    torch.testing.assert_close(loss.parts["unsup"], unsup.detach())
    torch.testing.assert_close(loss.parts["entropy"], doubt.detach())
    expected = loss.parts["sup"] + 2.0 * unsup + 0.3 * doubt
    torch.testing.assert_close(loss.total, expected)

    gradient = torch.autograd.grad(2.0 * unsup + 0.3 * doubt, method.net.conv.weight)[0]
    sup = torch.nn.functional.cross_entropy(
        method.net(batch_of(method).x[0]).logits, batch_of(method).y
    )
    gradient = gradient + torch.autograd.grad(sup, method.net.conv.weight)[0]
    torch.testing.assert_close(torch.autograd.grad(loss.total, method.net.conv.weight)[0], gradient)
