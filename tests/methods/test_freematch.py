"""FreeMatch: its thresholds and its fairness term."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tamatch.losses import each_ce
from tamatch.methods.fixmatch import FixMatch
from tamatch.methods.freematch import FreeMatch
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits, seen

M, C = 0.8, 4


def share(values: list[float]) -> list[float]:
    return [v / sum(values) for v in values]


def over(a: list[float], b: list[float]) -> list[float]:
    return [x / y if y > 0 else 0.0 for x, y in zip(a, b, strict=True)]


def fairness(p: list[float], h: list[float], strong: list[list[float]]) -> float:
    mean = [sum(row[c] for row in strong) / len(strong) for c in range(C)]
    histogram = [sum(row.index(max(row)) == c for row in strong) / len(strong) for c in range(C)]
    wanted, got = share(over(p, h)), share(over(mean, histogram))
    return sum(a * math.log(b + 1e-12) for a, b in zip(wanted, got, strict=True))


@pytest.mark.parametrize(("parity", "start"), [("ours", 0.25), ("usb", 1.0)])
def test_three_steps(parity: str, start: float) -> None:
    method = FreeMatch(Echo(), echo_task(), momentum=M, lambda_f=0.3, parity=parity)
    pseudos, used = seen(method), 0.0
    tau, p, h = start, [start] * C, [start] * C
    for seed in range(3):
        weak = random_logits(seed) + torch.tensor([1.0, 0, 0, -1])
        batch = echo_batch(seed, u=(weak, random_logits(seed + 9)))
        loss = method(batch)
        rows, strong = weak.softmax(-1).tolist(), batch.u[1].softmax(-1).tolist()
        labels = [row.index(max(row)) for row in rows]
        tau = M * tau + (1 - M) * sum(map(max, rows)) / 12
        p = [M * p[c] + (1 - M) * sum(row[c] for row in rows) / 12 for c in range(C)]
        h = [M * h[c] + (1 - M) * labels.count(c) / 12 for c in range(C)]
        mask = [float(max(row) >= tau * p[c] / max(p)) for row, c in zip(rows, labels, strict=True)]
        if parity == "usb":
            chosen = [strong[int(m)] for m in mask]
        else:
            chosen = [row for row, m in zip(strong, mask, strict=True) if m]
        fair = fairness(p, h, chosen)
        assert pseudos[-1].mask.tolist() == mask
        unsup = (torch.tensor(mask) * each_ce(batch.u[1], torch.tensor(labels))).mean()
        want = each_ce(batch.x[0], batch.y).mean() + unsup + 0.3 * fair
        torch.testing.assert_close(loss.parts["fair"], torch.tensor(fair))
        torch.testing.assert_close(loss.total, want)
        used += sum(mask) / 12
    select, fair_part = method.labeler.select, method.fairness
    assert select.threshold.value.item() == pytest.approx(tau, rel=1e-6)
    for state, value in ((select.shares, p), (fair_part.shares, p), (fair_part.histogram, h)):
        assert state.value.tolist() == pytest.approx(value, rel=1e-6)
    assert 0 < used < 3


def test_equals_fixmatch_with_the_threshold_held() -> None:
    ours = FreeMatch(Echo(), echo_task(), momentum=1.0, init_threshold=0.7, lambda_f=0.0)
    theirs = FixMatch(Echo(), echo_task(), tau=0.7)
    for seed in range(3):
        assert torch.equal(ours(echo_batch(seed)).total, theirs(echo_batch(seed)).total)


def test_fairness_is_zero_with_a_finite_gradient_where_nothing_is_selected() -> None:
    method = FreeMatch(Echo(), echo_task(), momentum=1.0, init_threshold=1.0)
    batch = echo_batch()
    loss = method(batch)
    loss.total.backward()
    assert loss.parts["fair"].item() == loss.parts["used"].item() == 0
    assert batch.u[1].grad.isfinite().all() and not batch.u[1].grad.any()


@pytest.mark.parametrize("select", ["freematch", "fixed", "flexmatch"])
def test_fairness_has_a_gradient_whatever_selects(select: Any) -> None:
    method = FreeMatch(Echo(), echo_task(), select=select, tau=0.6, lambda_u=0.0, lambda_f=1.0)
    batch = echo_batch()
    method(batch).total.backward()
    assert batch.u[1].grad.any() and not batch.u[0].grad.any()


def test_first_two_images_of_a_batch_of_one() -> None:
    method = FreeMatch(Echo(), echo_task(), momentum=1.0, init_threshold=0.0, parity="usb")
    u = (random_logits(0, rows=1), random_logits(1, rows=1))
    loss = method(echo_batch(u=u))
    assert loss.parts["used"].item() == 1
    strong = u[1].softmax(-1).tolist()
    assert loss.parts["fair"].item() == pytest.approx(fairness([1.0] * C, [1.0] * C, strong))
