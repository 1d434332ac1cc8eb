"""MixMatch and ReMixMatch: guessed labels, mixed images, and what each term is."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, kstest
from torch import Tensor

from tamatch.methods import infomatch, mixing, mixmatch, remixmatch
from tamatch.methods.base import Method
from tamatch.methods.efficientmatch import EfficientMatch
from tamatch.methods.infomatch import InfoMatch
from tamatch.methods.mixmatch import MixMatch
from tamatch.methods.remixmatch import ReMixMatch, turned_by
from tamatch.pseudo import Pseudo
from tests.methods.miniature import (
    LABELLED,
    UNLABELLED,
    Miniature,
    batch_of,
    build,
    check_contract,
    check_finite,
    statistics,
)

ALL: list[type[Method]] = [MixMatch, ReMixMatch]


def fix_mixup(monkeypatch: pytest.MonkeyPatch, lam: float, partner: Tensor) -> None:
    monkeypatch.setattr(mixing, "mixup_draw", lambda *_: (torch.tensor(lam), partner))


def soft_ce(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target)  # probabilities as targets, mean over rows


def sharpened(p: Tensor) -> Tensor:
    return p.square() / p.square().sum(-1, keepdim=True)  # T = 1/2


@pytest.mark.parametrize("cls", [*ALL, EfficientMatch, InfoMatch])
def test_contract(cls: type[Method]) -> None:
    check_contract(build(cls))


@pytest.mark.parametrize("cls", [*ALL, EfficientMatch, InfoMatch])
@settings(max_examples=12, deadline=None)
@given(classes=st.integers(2, 1000), reach=st.floats(0.01, 50))
def test_finite(cls: type[Method], classes: int, reach: float) -> None:
    check_finite(cls, classes, reach)


@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.75, 20.0])
def test_draws(alpha: float) -> None:
    torch.manual_seed(0)
    draws = [mixing.mixup_draw(7, alpha, torch.device("cpu")) for _ in range(2000)]
    lams = torch.stack([lam for lam, _ in draws])
    assert lams.ge(0.5).all() and lams.le(1).all()
    orders = torch.stack([partner for _, partner in draws])
    assert orders.sort(-1).values.eq(torch.arange(7)).all()
    assert len({tuple(order.tolist()) for order in orders}) > 1000
    theirs = np.random.default_rng(0).beta(alpha, alpha, 100_000)
    expected = float(np.maximum(theirs, 1 - theirs).mean())
    assert abs(lams.mean().item() - expected) < 0.012


@pytest.mark.parametrize("alpha", [0.5, 0.75, 2.0])
def test_mixing_ratios_follow_the_beta_distribution(alpha: float) -> None:
    """The mean alone hardly tells one gamma from the next."""
    torch.manual_seed(0)
    draws = [mixing.mixup_draw(1, alpha, torch.device("cpu"))[0].item() for _ in range(4000)]
    one = beta(alpha, alpha)
    assert kstest(draws, lambda x: one.cdf(x) - one.cdf(1 - x)).statistic < 0.0258  # p = 0.01


def test_mixup_mixes_images_and_targets_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_mixup(monkeypatch, 0.75, torch.tensor([2, 0, 1]))
    images, targets = torch.randn(3, 3, 4, 4), torch.eye(3)
    mix = mixing.MixUp([images[:1], images[1:]], 0.5)
    mixed, mixed_targets = mix([images[:1], images[1:]]), mix([targets[:1], targets[1:]])
    torch.testing.assert_close(mixed[0], 0.75 * images[0] + 0.25 * images[2])
    torch.testing.assert_close(mixed_targets[1], torch.tensor([0.25, 0.75, 0.0]))


@pytest.mark.parametrize("alpha", [0.5, 0.75])
def test_each_image_has_a_ratio_of_its_own(alpha: float) -> None:
    torch.manual_seed(0)
    lams, partner = mixing.mixup_draw(4000, alpha, torch.device("cpu"), each=True)
    one = beta(alpha, alpha)
    assert kstest(lams, lambda x: one.cdf(x) - one.cdf(1 - x)).statistic < 0.0258  # p = 0.01
    assert partner.sort().values.equal(torch.arange(4000))
    images = torch.randn(4000, 3, 2, 2)
    mixed = mixing.MixUp([images[:1], images[1:]], alpha, each=True)
    lam, other = mixed.lam[:, None, None, None], images[mixed.partner]
    torch.testing.assert_close(mixed([images[:1], images[1:]]), lam * images + (1 - lam) * other)
    torch.testing.assert_close(mixed.partners([images[:1], images[1:]]), other)


def test_what_efficientmatch_mixes_counts_by_its_partner(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that was rejected itself counts if its partner was accepted, and the reverse not."""
    count = LABELLED + UNLABELLED
    partner = torch.arange(count).flip(0)
    lam = torch.linspace(0.5, 1, count)
    monkeypatch.setattr(mixing, "mixup_draw", lambda *_: (lam, partner))
    method = build(EfficientMatch)
    batch = batch_of(method)
    mask = torch.arange(UNLABELLED).remainder(2).float()
    label = torch.arange(UNLABELLED) % 5
    pseudo = Pseudo(torch.full((UNLABELLED, 5), 0.2), label, mask, torch.ones_like(mask))
    mixed = method.mix(batch, pseudo)
    accepted = torch.cat([torch.ones(LABELLED), mask])
    assert mixed.mask.equal(accepted.flip(0)) and not mixed.mask.equal(accepted)
    labels = torch.cat([batch.y, label])
    for i in (0, LABELLED + 1, count - 2):
        expected = lam[i] * F.one_hot(labels[i], 5) + (1 - lam[i]) * F.one_hot(labels[-1 - i], 5)
        torch.testing.assert_close(mixed.target[i], expected)


def test_a_box_is_cut_off_at_the_edges() -> None:
    half, corner = torch.tensor(0.5), (torch.tensor(0.0), torch.tensor(0.99))
    box = mixing.Box(torch.zeros(2, 3, 8, 8), half, corner)
    assert box.inside.nonzero().tolist() == [[i, j] for i in (0, 1) for j in (5, 6, 7)]
    pasted, left = box.paste(torch.zeros(2, 3, 8, 8), torch.ones(2, 3, 8, 8))
    assert torch.equal(pasted[1, 2], box.inside.float()) and left == 1 - 6 / 64


def test_every_image_can_have_a_box_of_its_own() -> None:
    sides, centres = torch.tensor([0.0, 0.5, 1.0]), torch.full((2, 3), 0.5)
    box = mixing.Box(torch.zeros(3, 1, 4, 4), sides, centres)
    assert box.inside.sum((1, 2)).tolist() == [0, 4, 16]
    pasted, left = box.paste(torch.zeros(3, 1, 4, 4), torch.ones(3, 1, 4, 4))
    assert left.tolist() == [1, 0.75, 0] and pasted.sum((1, 2, 3)).tolist() == [0, 4, 16]


def test_a_box_in_rows_of_numbers_is_a_part_of_the_row() -> None:
    box = mixing.Box(torch.zeros(2, 10), torch.tensor(0.4), (torch.tensor(0.5), torch.tensor(0.5)))
    pasted, left = box.paste(torch.zeros(2, 10), torch.ones(2, 10))
    assert pasted.tolist() == [[0, 0, 0, 1, 1, 1, 1, 0, 0, 0]] * 2
    assert left.item() == pytest.approx(0.6)


def test_chunks_are_normalised_apart_and_only_the_first_is_remembered() -> None:
    torch.manual_seed(0)
    net = Miniature()
    by_hand = copy.deepcopy(net)
    images = torch.randn(10, 3, 4, 4) * torch.arange(1.0, 11)[:, None, None, None]
    logits = mixmatch.chunked_logits(net, images, 4)
    expected = [by_hand(images[:4]).logits]
    remembered = statistics(by_hand)
    expected += [by_hand(images[4:8]).logits, by_hand(images[8:]).logits]
    assert torch.equal(logits, torch.cat(expected))
    torch.testing.assert_close(statistics(net), remembered, rtol=0, atol=0)


@pytest.mark.parametrize("cls", ALL)
def test_only_the_first_mixed_chunk_moves_the_running_statistics(
    cls: type[Method], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = LABELLED + UNLABELLED * len(cls.views.u)
    fix_mixup(monkeypatch, 1.0, torch.arange(count))
    method = build(cls)
    net = copy.deepcopy(method.net)
    batch = batch_of(method)
    method(batch)
    net(batch.x[0])
    torch.testing.assert_close(statistics(method.net), statistics(net), rtol=0, atol=0)


def test_mixmatch_without_mixing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At λ = 1: cross-entropy on the labels, squares on the sharpened guess of both views."""
    fix_mixup(monkeypatch, 1.0, torch.randperm(LABELLED + 2 * UNLABELLED))
    method = build(MixMatch, norm=False, lambda_u=3.0)
    batch = batch_of(method, progress=0.2)  # half of the ramp
    p1, p2 = (method.net(view).logits.softmax(-1) for view in batch.u)
    q = sharpened((p1 + p2) / 2).detach()
    sup = F.cross_entropy(method.net(batch.x[0]).logits, batch.y)
    unsup = ((p1 - q).square().mean() + (p2 - q).square().mean()) / 2
    loss = method(batch)
    torch.testing.assert_close(loss.parts["sup"], sup.detach())
    torch.testing.assert_close(loss.parts["unsup"], unsup.detach())
    torch.testing.assert_close(loss.total, sup + 3.0 * 0.5 * unsup)
    torch.testing.assert_close(
        torch.autograd.grad(loss.total, method.net.conv.weight),
        torch.autograd.grad(sup + 1.5 * unsup, method.net.conv.weight),
    )


def test_mixmatch_with_mixing(monkeypatch: pytest.MonkeyPatch) -> None:
    partner = torch.arange(LABELLED + 2 * UNLABELLED).flip(0)
    fix_mixup(monkeypatch, 0.6, partner)
    method = build(MixMatch, norm=False, rampup=0.1)
    batch = batch_of(method)
    p1, p2 = (method.net(view).logits.softmax(-1).detach() for view in batch.u)
    q = sharpened((p1 + p2) / 2)
    images = torch.cat([batch.x[0], *batch.u])
    targets = torch.cat([torch.eye(5)[batch.y], q, q])
    logits = method.net(0.6 * images + 0.4 * images[partner]).logits
    targets = 0.6 * targets + 0.4 * targets[partner]
    sup = soft_ce(logits[:LABELLED], targets[:LABELLED])
    unsup = F.mse_loss(logits[LABELLED:].softmax(-1), targets[LABELLED:])
    torch.testing.assert_close(method(batch).total, sup + 10 * unsup)


def test_each_image_turns_by_itself() -> None:
    images = torch.randn(4, 3, 4, 4)
    turned = turned_by(images, torch.tensor([3, 0, 2, 1]))
    assert torch.equal(turned[1], images[1])
    assert torch.equal(turned[2], images[2].flip(-1).flip(-2))
    assert turned[3, 0, 0, 0] == images[3, 0, 0, 3]  # counter-clockwise: top right to top left
    assert turned[0, 0, 0, 3] == images[0, 0, 0, 0]
    counts = [remixmatch.turn_draw(400, torch.device("cpu")).eq(k).sum().item() for k in range(4)]
    assert min(counts) > 50


def remix_terms(method: Any, batch: Any, turn: Tensor, ratio: Tensor) -> dict[str, Tensor]:
    """The four terms at λ = 1, from the formulas."""
    weak, strong, other = batch.u
    p = method.net(weak).logits.softmax(-1).detach()
    aligned = p * ratio
    q = sharpened(aligned / aligned.sum(-1, keepdim=True))
    turned = torch.stack(
        [image.rot90(int(k), (1, 2)) for image, k in zip(strong, turn, strict=True)]
    )
    views = [soft_ce(method.net(view).logits, q) for view in (strong, other, weak)]
    return {
        "sup": F.cross_entropy(method.net(batch.x[0]).logits, batch.y),
        "unsup": torch.stack(views).mean(),
        "strong": views[0],
        "rotation": F.cross_entropy(method.rotation(method.net(turned).features), turn),
    }


def test_remixmatch_terms_and_alignment(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = torch.arange(UNLABELLED) % 4
    fix_mixup(monkeypatch, 1.0, torch.randperm(LABELLED + 3 * UNLABELLED))
    monkeypatch.setattr(remixmatch, "turn_draw", lambda *_: turn)
    method = build(ReMixMatch, norm=False, momentum=0.9, rampup=1.0)
    target = torch.tensor(method.task.labelled_shares)
    model = torch.zeros(5)
    for seed in range(2):
        batch = batch_of(method, seed, progress=0.5)
        mean = method.net(batch.u[0]).logits.softmax(-1).mean(0).detach()
        model = mean if seed == 0 else 0.9 * model + 0.1 * mean  # starts at the first batch
        terms = remix_terms(method, batch, turn, (target + 1e-6) / (model + 1e-6))
        loss = method(batch)
        torch.testing.assert_close(loss.parts["p_model"].float(), model)
        for name, term in terms.items():
            torch.testing.assert_close(loss.parts[name], term.detach(), msg=name)
        total = terms["sup"] + 0.5 * (1.5 * terms["unsup"] + 0.5 * terms["strong"])
        total = total + 0.5 * terms["rotation"]
        torch.testing.assert_close(loss.total, total)
        torch.testing.assert_close(
            torch.autograd.grad(loss.total, method.net.conv.weight),
            torch.autograd.grad(total, method.net.conv.weight),
        )


def test_remixmatch_mixes_labelled_strong_strong_weak(monkeypatch: pytest.MonkeyPatch) -> None:
    method = build(ReMixMatch)
    batch = batch_of(method)
    seen: list[Tensor] = []

    def record(_: mixing.MixUp, views: list[Tensor]) -> Tensor:
        seen.append(torch.cat(views))
        return seen[-1]

    monkeypatch.setattr(mixing.MixUp, "__call__", record)
    method(batch)
    assert torch.equal(seen[0], torch.cat([batch.x[0], batch.u[1], batch.u[2], batch.u[0]]))
    first, second, third = seen[1][LABELLED:].reshape(3, UNLABELLED, -1)
    assert torch.equal(first, second) and torch.equal(first, third)
    torch.testing.assert_close(first.sum(-1), torch.ones(UNLABELLED))


def test_boxes_of_infomatch() -> None:
    torch.manual_seed(0)
    side, *centre, partner = infomatch.cut_draw(4000, 1.0, torch.device("cpu"))
    assert partner.sort().values.equal(torch.arange(4000))
    assert kstest(side.square().numpy(), lambda x: 2 * x).statistic < 0.0258  # min(b, 1−b), α = 1
    assert all(abs(c.mean() - 0.5) < 0.02 and c.min() >= 0 and c.max() < 1 for c in centre)


def test_infomatch_cuts_out_of_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each image has a box of its own, and what is in it counts by the partner's acceptance."""
    method = build(InfoMatch)
    images, count = batch_of(method).u[0], UNLABELLED
    partner = torch.arange(count).roll(1)
    side, centre = torch.linspace(0, 0.7, count), torch.full((count,), 0.5)
    monkeypatch.setattr(infomatch, "cut_draw", lambda *_: (side, centre, centre, partner))
    cut = method.mix(images)
    own, other = (cut.images == images).all(1), (cut.images == images[partner]).all(1)
    assert (own ^ other).all() and torch.equal(own.float().mean((-2, -1)), cut.left)
    assert cut.left[0] == 1 and cut.left[-1] == 0.75 and not own[-1, 1:3, 1:3].any()
    mask = torch.arange(count).remainder(2).float()
    label = torch.arange(count) % 5
    pseudo = Pseudo(torch.full((count, 5), 0.2), label, mask, torch.ones_like(mask))
    target = cut.target(pseudo)
    assert torch.equal(target[-1], 0.75 * F.one_hot(label[-1], 5))  # the partner was rejected
    assert torch.equal(target[0], torch.zeros(5)) and mask[0] == 0 == 1 - cut.left[0]


def test_equal_logits_agree() -> None:
    logits = torch.ones(3, 5, requires_grad=True)
    infomatch.standardised(logits).square().sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()
    spread = infomatch.standardised(torch.randn(3, 5))
    torch.testing.assert_close(spread.std(-1), torch.ones(3))
