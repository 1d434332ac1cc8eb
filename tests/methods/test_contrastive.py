"""CRMatch, CoMatch and SimMatch: classes, and embeddings beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tamatch.methods.base import Method
from tamatch.methods.comatch import CoMatch
from tamatch.methods.crmatch import CRMatch
from tamatch.methods.fixmatch import FixMatch
from tamatch.methods.simmatch import SimMatch
from tamatch.pseudo.account import class_shares
from tamatch.types import Batch
from tests.methods.miniature import (
    LABELLED,
    UNLABELLED,
    Miniature,
    batch_of,
    build,
    check_contract,
    check_finite,
    check_order_does_not_matter,
    task,
)

ALL: list[tuple[type[Method], dict[str, Any]]] = [
    (CRMatch, {"tau": 0.6}),
    (CoMatch, {"tau": 0.6, "memory_after": 2, "queue": 2, "window": 3, "projection": 4}),
    (SimMatch, {"tau": 0.6, "memory_after": 2, "window": 3, "projection": 4}),
]
CO, SIM = ALL[1][1], ALL[2][1]


def soft_ce(logits: Tensor, target: Tensor) -> Tensor:
    """−Σ q log p of each row."""
    return F.cross_entropy(logits, target, reduction="none")


def aligned(p: Tensor, history: list[Tensor], window: int) -> Tensor:
    """p against the mean of the last `window` batch means; what is not there counts as zero."""
    history.append(p.mean(0))
    model = torch.stack(history[-window:]).sum(0) / window
    p = p * (1 / p.shape[1] + 1e-6) / (model + 1e-6)
    return p / p.sum(-1, keepdim=True)


def embeddings(method: Any, *views: Tensor) -> list[Tensor]:
    return [F.normalize(method.project(method.net(view).features), dim=-1) for view in views]


@pytest.mark.parametrize(("cls", "options"), ALL)
def test_contract(cls: type[Method], options: dict[str, Any]) -> None:
    check_contract(build(cls, **options))


@pytest.mark.parametrize(("cls", "options"), ALL)
@settings(max_examples=12, deadline=None)
@given(classes=st.integers(2, 1000), reach=st.floats(0.01, 50))
def test_finite(cls: type[Method], options: dict[str, Any], classes: int, reach: float) -> None:
    check_finite(cls, classes, reach, **options)


@pytest.mark.parametrize(("cls", "options"), ALL)
def test_order_does_not_matter(cls: type[Method], options: dict[str, Any]) -> None:
    method = build(cls, norm=False, **options)
    method.lambda_rotation = 0.0  # CRMatch turns the first images of the batch
    check_order_does_not_matter(method)


@pytest.mark.parametrize(("cls", "options"), ALL[1:])
def test_the_class_shares_told_sum_to_one_before_the_window_is_full(
    cls: type[Method], options: dict[str, Any]
) -> None:
    method: Any = build(cls, **options)
    p = method.net(batch_of(method).u[0]).logits.softmax(-1).detach()
    method.status.observe_(p, p)
    assert method.status.model.value.sum().item() == pytest.approx(1 / 3)  # one row of three
    _, report = method.agreement(p, p, torch.arange(len(p)))
    told = class_shares(method)
    assert report["p_model"].tolist() == told["p_model"] == pytest.approx(p.mean(0).tolist())
    factors = [(1 / len(p[0]) + 1e-6) / (share + 1e-6) for share in p.mean(0).tolist()]
    assert told["factors"] == pytest.approx(factors, rel=1e-4)


@pytest.mark.parametrize(("cls", "options"), ALL)
def test_bfloat16_nets_keep_exact_memories(cls: type[Method], options: dict[str, Any]) -> None:
    method = build(cls, **options)
    with torch.autocast("cpu", torch.bfloat16):
        loss = method(batch_of(method))
    loss.total.backward()
    assert loss.total.dtype == torch.float32
    if isinstance(method, SimMatch):
        torch.testing.assert_close(method.bank.norm(dim=-1), torch.ones(10))


def test_crmatch_without_its_heads_is_fixmatch() -> None:
    method = build(CRMatch, norm=False, tau=0.9, lambda_distance=0.0, lambda_rotation=0.0)
    plain = build(FixMatch, norm=False, tau=0.9)
    batch = batch_of(method)
    mine, theirs = method(batch), plain(batch)
    assert 0 < theirs.parts["used"] < 1
    torch.testing.assert_close(mine.total, theirs.total)
    torch.testing.assert_close(mine.parts["used_by_class"], theirs.parts["used_by_class"])


def test_crmatch_terms() -> None:
    method = build(CRMatch, tau=0.9, norm=False, reach=6.0)
    batch = batch_of(method, loud=0.0)  # unrelated views: cosines of both signs
    weak, strong = batch.u
    z_w, z_s = method.net(weak), method.net(strong)
    confidence, label = z_w.logits.softmax(-1).max(-1)
    mask = (confidence >= 0.9).float().detach()
    assert 0 < mask.mean() < 1
    sup = F.cross_entropy(method.net(batch.x[0]).logits, batch.y)
    unsup = (mask * F.cross_entropy(z_s.logits, label, reduction="none")).mean()
    d_s, d_w = method.distance(z_s.map), method.distance(z_w.map)
    cosine = (d_s * d_w).sum(-1) / (d_s.norm(dim=-1) * d_w.norm(dim=-1))
    assert cosine.min() < 0 < cosine.max()
    distance = (mask * cosine.clamp(min=0)).mean()
    logits = [
        method.rotation(method.net(image.rot90(k, (1, 2))[None]).features)[0]
        for image in weak[:LABELLED]
        for k in range(4)
    ]
    rotation = F.cross_entropy(torch.stack(logits), torch.arange(4).repeat(LABELLED))
    loss = method(batch)
    for name, term in {"unsup": unsup, "distance": distance, "rotation": rotation}.items():
        torch.testing.assert_close(loss.parts[name], term.detach(), msg=name)
    total = sup + unsup + distance + rotation
    torch.testing.assert_close(loss.total, total)
    for mine, by_hand in zip(
        torch.autograd.grad(loss.total, list(method.parameters())),
        torch.autograd.grad(total, list(method.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(mine, by_hand, rtol=1e-4, atol=1e-6)


def test_comatch_bank_has_the_benchmarks_size() -> None:
    facts = replace(task(), batch_labelled=8, batch_unlabelled=8)
    assert CoMatch(Miniature(), facts).memory.length == 512


def test_comatch_step_by_step() -> None:
    """Five steps from the formulas: memory silent, then counting; the oldest batch overwritten."""
    method = build(CoMatch, norm=False, **CO)
    history: list[Tensor] = []
    bank_f = [torch.zeros(UNLABELLED + LABELLED, 4)] * 2
    bank_p = [torch.zeros(UNLABELLED + LABELLED, 5)] * 2
    for step in range(5):
        batch = batch_of(method, step, step=step)
        weak, strong, other = batch.u
        f_x, f_w, f_1, f_2 = embeddings(method, batch.x[0], weak, strong, other)
        own = aligned(method.net(weak).logits.softmax(-1).detach(), history, 3)
        p = own
        if step > 2:  # `memory_after` two steps, and more than `queue` batches seen
            near = (f_w @ torch.cat(bank_f).T / 0.2).softmax(-1).detach()
            p = 0.9 * own + 0.1 * near @ torch.cat(bank_p)
        mask = (p.amax(-1) >= 0.6).float()
        assert 0 < mask.mean() < 1
        q = torch.where(torch.eye(UNLABELLED).bool(), 1.0, p @ p.T)
        q = torch.where(q < 0.8, 0.0, q)
        q = q / q.sum(-1, keepdim=True)
        s = (f_1 @ f_2.T / 0.2).softmax(-1)
        sup = F.cross_entropy(method.net(batch.x[0]).logits, batch.y)
        unsup = (mask * soft_ce(method.net(strong).logits, p)).mean()
        contrast = -(q * (s + 1e-7).log()).sum(-1).mean()
        total = sup + unsup + contrast

        loss = method(batch)
        torch.testing.assert_close(loss.parts["unsup"], unsup.detach())
        torch.testing.assert_close(loss.parts["contrast"], contrast.detach())
        torch.testing.assert_close(loss.total, total)
        torch.testing.assert_close(
            torch.autograd.grad(loss.total, method.project[0].weight),
            torch.autograd.grad(total, method.project[0].weight),
            rtol=1e-4,
            atol=1e-6,
        )
        bank_f[step % 2] = torch.cat([f_w, f_x]).detach()
        bank_p[step % 2] = torch.cat([own, torch.eye(5)[batch.y]])
        torch.testing.assert_close(method.memory.f, torch.cat(bank_f))
        torch.testing.assert_close(method.memory.p, torch.cat(bank_p))


def test_comatch_contrast_is_bounded_where_similarities_vanish() -> None:
    method = build(CoMatch, **{**CO, "temperature": 0.002})
    contrast = method(batch_of(method)).parts["contrast"]
    assert 0 <= contrast <= -torch.tensor(1e-7).log()


@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_comatch_graph_rows_are_distributions(seed: int) -> None:
    method = build(CoMatch, **CO)
    p = torch.randn(9, 5, generator=torch.Generator().manual_seed(seed)).mul(5).softmax(-1)
    graph = method.graph(p)
    torch.testing.assert_close(graph.sum(-1), torch.ones(9))
    assert (graph.diagonal() > 0).all()
    assert torch.equal(graph > 0, graph.T > 0)


def sim_terms(method: Any, batch: Batch, history: list[Tensor], warm: bool) -> dict[str, Tensor]:
    """SimMatch's terms from the formulas; the bank is read, not written."""
    weak, strong = batch.u
    f_w, f_s = embeddings(method, weak, strong)
    bank, labels = method.bank.clone(), method.labels.clone()
    p = aligned(method.net(weak).logits.softmax(-1).detach(), history, 3)
    t = (f_w @ bank.T / 0.1).softmax(-1).detach()
    teacher = torch.stack([t[:, j] * p[:, labels[j]] for j in range(len(bank))], 1)
    teacher = teacher / teacher.sum(-1, keepdim=True)
    by_label = torch.stack([t[:, labels == c].sum(-1) for c in range(5)], 1)
    if warm:
        p = 0.9 * p + 0.1 * by_label
    mask = (p.amax(-1) >= 0.6).float()
    assert 0 < mask.mean() < 1
    return {
        "sup": F.cross_entropy(method.net(batch.x[0]).logits, batch.y),
        "unsup": (mask * soft_ce(method.net(strong).logits, p)).mean(),
        "instance": -(teacher * (f_s @ bank.T / 0.1).log_softmax(-1)).sum(-1).mean(),
    }


@pytest.mark.parametrize("parity", ["ours", "usb"])
def test_simmatch_step_by_step(parity: str) -> None:
    method = build(SimMatch, norm=False, parity=parity, **SIM)
    torch.testing.assert_close(method.bank.norm(dim=-1), torch.ones(10))
    history: list[Tensor] = []
    for step in range(4):
        batch = batch_of(method, step, step=step)
        terms = sim_terms(method, batch, history, warm=step >= 2)
        total = terms["sup"] + terms["unsup"] + (step >= 2) * terms["instance"]
        bank, labels = method.bank.clone(), method.labels.clone()
        (f_x,) = embeddings(method, batch.x[0])
        moved = 0.7 * bank[batch.id_x] + 0.3 * f_x.detach()
        axis = 0 if parity == "usb" else 1
        moved = moved / moved.norm(dim=axis, keepdim=True)
        for position, which in enumerate(batch.id_x):  # of repeated ids the last one stays
            bank[which], labels[which] = moved[position], batch.y[position]

        loss = method(batch)
        for name, term in terms.items():
            torch.testing.assert_close(loss.parts[name], term.detach(), msg=name)
        torch.testing.assert_close(loss.total, total)
        torch.testing.assert_close(
            torch.autograd.grad(loss.total, method.net.conv.weight),
            torch.autograd.grad(total, method.net.conv.weight),
            rtol=1e-4,
            atol=1e-6,
        )
        torch.testing.assert_close(method.bank, bank)
        assert torch.equal(method.labels, labels)


def test_simmatch_ignores_its_bank_in_the_first_epoch() -> None:
    method, other = (build(SimMatch, **{**SIM, "memory_after": 1024}) for _ in range(2))
    other.bank.neg_()
    batch = batch_of(method, step=1023)
    assert torch.equal(method(batch).total, other(batch).total)
    batch = batch_of(method, step=1024)
    assert not torch.equal(method(batch).total, other(batch).total)
