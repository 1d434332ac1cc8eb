"""TaMatch against the paper, written out the slow way, and the properties it must have."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tamatch.errors import UsageError
from tamatch.losses import entropy, kl
from tamatch.methods import METHODS
from tamatch.methods.fixmatch import FixMatch
from tamatch.methods.tamatch import TaMatch
from tamatch.stats import EPS, Ema, Status, ratio
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits, seen
from tests.methods.miniature import (
    Miniature,
    batch_of,
    build,
    check_contract,
    check_finite,
    check_order_does_not_matter,
    task,
)

Rows = list[list[float]]
TAU = 0.7  # splits the random predictions into used and unused ones


def softmax(row: list[float]) -> list[float]:
    exps = [math.exp(z - max(row)) for z in row]
    return [e / sum(exps) for e in exps]


def cross_entropy(row: list[float], label: int) -> float:
    return -math.log(softmax(row)[label])


class SlowTaMatch:
    """One step in loops over plain numbers, straight from the equations."""

    def __init__(self, classes: int, **options: Any) -> None:
        self.o = {"lambda_model": 0.999, "lambda_target": 1.0, "clip": "literal", **options}
        self.model = [1 / classes] * classes
        self.target = list(options.get("start", self.model))

    def step(self, z_x: Rows, y: list[int], z_w: Rows, z_s: Rows) -> dict[str, Any]:
        classes, o = range(len(self.model)), self.o
        p = [softmax(row) for row in z_w]
        before = list(zip(self.target, self.model, strict=True))
        for c in classes:
            mean = sum(row[c] for row in p) / len(p)
            self.model[c] = o["lambda_model"] * self.model[c] + (1 - o["lambda_model"]) * mean
            moved = o["lambda_target"] * self.target[c] + (1 - o["lambda_target"]) * self.model[c]
            self.target[c] = moved
        after = list(zip(self.target, self.model, strict=True))
        shares, eps = before if o.get("update") == "after" else after, o.get("eps", 1e-6)
        r = [(t + eps) / (m + eps) for t, m in shares]
        kl = sum(m * math.log(m / t) for t, m in shares)
        entropy = -sum(m * math.log(m) for _, m in shares)
        r_max = 1 + kl / (entropy / len(self.model))
        low, high = {
            "literal": (1.0, r_max), "symmetric": (1 / r_max, r_max), "none": (0.0, math.inf)
        }[o["clip"]]  # fmt: skip

        adjusted, label, mask, weight, unsup = [], [], [], [], 0.0
        for row, strong in zip(p, z_s, strict=True):
            if o.get("generate") != "raw":
                scaled = [row[c] * r[c] for c in classes]
                row = [s / sum(scaled) for s in scaled]
            guess = row.index(max(row))
            used = 1.0 if max(row) >= TAU else 0.0
            w = 1.0 if o.get("weigh") == "even" else max(low, min(r[guess], high))
            unsup += w * used * cross_entropy(strong, guess) / len(p)
            adjusted.append(row), label.append(guess), mask.append(used), weight.append(w)
        sup = sum(cross_entropy(row, k) for row, k in zip(z_x, y, strict=True)) / len(y)
        return {
            "p_model": self.model, "p_target": self.target, "r": r, "r_max": r_max,
            "p": adjusted, "label": label, "mask": mask, "weight": weight,
            "sup": sup, "unsup": unsup, "total": sup + o.get("lambda_u", 1.0) * unsup,
        }  # fmt: skip


CASES: dict[str, dict[str, Any]] = {
    "paper": {},
    "quick": {"lambda_model": 0.6},
    "moving target": {"lambda_model": 0.6, "lambda_target": 0.8},
    "without rescaling": {"lambda_model": 0.6, "generate": "raw"},
    "without weighting": {"lambda_model": 0.6, "weigh": "even"},
    "without clipping": {"lambda_model": 0.6, "clip": "none"},
    "symmetric clipping": {"lambda_model": 0.6, "clip": "symmetric"},
    "labelled target": {"lambda_model": 0.6, "target": "labelled", "start": (0.4, 0.3, 0.2, 0.1)},
    "prior target": {"lambda_model": 0.6, "target": "prior", "start": (0.1, 0.2, 0.3, 0.4)},
    "half the unlabelled loss": {"lambda_model": 0.6, "lambda_u": 0.5},
    "a large ε": {"lambda_model": 0.6, "eps": 0.05},
    "update after use": {"lambda_model": 0.6, "lambda_target": 0.8, "update": "after"},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES.keys())
def test_every_quantity_of_three_steps(options: dict[str, Any]) -> None:
    slow = SlowTaMatch(4, **options)
    facts = echo_task(labelled_shares=(0.4, 0.3, 0.2, 0.1), prior=(0.1, 0.2, 0.3, 0.4))
    given = {k: v for k, v in options.items() if k != "start"}
    method = TaMatch(Echo(), facts, tau=TAU, **given)
    pseudos = seen(method)
    bias = torch.tensor([1.5, 0.5, 0.0, -1.0])  # so that r is far from 1
    used = []
    for seed in range(3):
        batch = echo_batch(seed, u=(random_logits(seed) + bias, random_logits(seed + 50)))
        (z_x,), (z_w, z_s) = batch.x, batch.u
        want = slow.step(z_x.tolist(), batch.y.tolist(), z_w.tolist(), z_s.tolist())
        status = method.labeler.status
        held = (status.ratio, status.bound)
        loss = method(batch)
        r, r_max = held if status.late else (status.ratio, status.bound)
        got = {
            "p_model": status.model.value, "p_target": status.target.value,
            "r": r, "r_max": r_max, **pseudos[-1]._asdict(),
            "sup": loss.parts["sup"], "unsup": loss.parts["unsup"], "total": loss.total,
        }  # fmt: skip
        for name, value in want.items():
            wanted = torch.tensor(value, dtype=got[name].dtype)
            torch.testing.assert_close(got[name], wanted, rtol=3e-6, atol=1e-7, msg=name)
        used += want["mask"]
    assert 0 < sum(used) < len(used)


def test_strong_views_alone_carry_the_unlabelled_gradient() -> None:
    """None flows through r, w, the mask or the labels; what flows is w·m·(p^s − ŷ)/Bu."""
    method = TaMatch(Echo(), echo_task(), tau=TAU, lambda_model=0.6, lambda_target=0.8)
    pseudos, batch = seen(method), echo_batch()
    method(batch).total.backward()
    (pseudo,) = pseudos
    assert not any(value.requires_grad for value in pseudo)
    weak, strong = batch.u
    assert weak.grad is not None and not weak.grad.any()
    one_hot = torch.eye(4)[pseudo.label]
    each = (pseudo.weight * pseudo.mask / len(strong))[:, None]
    want = each * (strong.detach().softmax(-1) - one_hot)
    assert strong.grad is not None and want.any()
    torch.testing.assert_close(strong.grad, want)
    x, y = batch.x[0].detach(), torch.eye(4)[batch.y]
    torch.testing.assert_close(batch.x[0].grad, (x.softmax(-1) - y) / len(y))


def test_equals_fixmatch_bit_for_bit_where_r_is_one() -> None:
    torch.manual_seed(3)
    net = Miniature()
    ours = TaMatch(copy.deepcopy(net), task(), lambda_model=1.0, lambda_target=1.0, tau=TAU)
    theirs = FixMatch(copy.deepcopy(net), task(), tau=TAU)
    pseudos, used = seen(theirs), []
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (ours, theirs)]
    for step in range(20):
        batch = batch_of(ours, step)
        losses = []
        for method, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            loss = method(batch)
            loss.total.backward()
            optimizer.step()
            losses.append(loss.total)
        assert torch.equal(*losses)
        confidence = pseudos[-1].p.amax(-1)
        assert (confidence - TAU).abs().min() > 1e-6  # nearer, rounding may decide
        used.append(pseudos[-1].mask.mean().item())
    assert 0 < sum(used) < 20
    assert not torch.equal(ours.net.head.weight, net.head.weight)
    for name, value in theirs.net.state_dict().items():
        assert torch.equal(value, ours.net.state_dict()[name]), name


def long_tail(gamma: int) -> Tensor:
    """Class shares of 3,000 images in the largest of ten classes, falling to 3,000/γ."""
    counts = [int(3000 * gamma ** (-c / 9)) for c in range(9)] + [3000 // gamma]
    return torch.tensor(counts, dtype=torch.float64) / sum(counts)


@pytest.mark.parametrize(("gamma", "r_max", "tail"), [(100, 5.01, 24.8), (150, 5.65, 35.0)])
def test_bound_at_the_long_tailed_prior(gamma: int, r_max: float, tail: float) -> None:
    status = Status(echo_task(10))
    status.model.value.copy_(long_tail(gamma))
    assert status.bound.item() == pytest.approx(r_max, abs=0.005)
    assert status.ratio[-1].item() == pytest.approx(tail, rel=0.01)


def test_mean_clipped_weight_at_the_long_tailed_prior() -> None:
    method, prior = TaMatch(Echo(), echo_task(10), lambda_model=1.0), long_tail(100)
    method.labeler.status.model.value.copy_(prior)
    labels = 20 * torch.eye(10)  # one confident image a class
    pseudo = method.labeler(labels, labels, torch.arange(10))
    assert pseudo.label.tolist() == list(range(10))
    assert method.labeler.status.ratio[0].item() == pytest.approx(0.25, abs=0.005)
    assert entropy(prior).item() == pytest.approx(1.644, abs=0.0005)
    assert kl(prior, torch.full_like(prior, 0.1)).item() == pytest.approx(0.659, abs=0.0005)
    assert (prior * pseudo.weight).sum().item() == pytest.approx(1.29, abs=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_by_the_model_r_is_one(seed: int) -> None:
    model, target = (3 * random_logits(s, 1, 7, 0.3)[0].double() for s in (seed, seed + 9))
    model, target = model.softmax(-1), target.softmax(-1)
    assert (model * ratio(target, model, eps=0)).sum().item() == pytest.approx(1, abs=1e-12)
    assert model.min() > 1e-2
    assert (model * ratio(target, model)).sum().item() == pytest.approx(1, abs=1e-3)


def test_rescaling_sums_to_one_and_moves_the_argmax_to_the_weak_class() -> None:
    method = TaMatch(Echo(), echo_task(3), lambda_model=1.0)
    method.labeler.status.model.value.copy_(torch.tensor([0.6, 0.3, 0.1]))
    p = torch.tensor([[0.6, 0.1, 0.3], [0.9, 0.06, 0.04], [0.34, 0.33, 0.33]])
    pseudo = method.labeler(p.log(), p.log(), torch.arange(3))
    assert p.argmax(-1).tolist() == [0, 0, 0]
    assert pseudo.label.tolist() == [
        2,
        0,
        2,
    ]  # p/p_model: (1, ⅓, 3), (1.5, .2, .4), (.57, 1.1, 3.3)
    torch.testing.assert_close(pseudo.p.sum(-1), torch.ones(3))


@pytest.mark.parametrize("seed", range(5))
def test_weights_lie_within_the_bound(seed: int) -> None:
    spread = random_logits(seed, 1, 6).double().softmax(-1)[0]
    for clip in ("literal", "symmetric"):
        method = TaMatch(Echo(), echo_task(6), lambda_model=1.0, clip=clip)
        status = method.labeler.status
        status.model.value.copy_(spread)
        logits = random_logits(seed + 9, 200, 6)
        ids = torch.arange(200) % method.task.unlabelled
        weight = method.labeler(logits, logits, ids).weight
        low = 1.0 if clip == "literal" else 1 / status.bound
        assert (weight >= low).all() and (weight <= status.bound).all()
        assert weight.unique().numel() > 1


@pytest.mark.parametrize(
    "model",
    [(0.5, 0.5, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), (1 - 3e-12, 1e-12, 1e-12, 1e-12)],
    ids=["classes never predicted", "one class always predicted", "almost one class"],
)
@pytest.mark.parametrize("clip", ["literal", "symmetric", "none"])
@pytest.mark.parametrize("sure", [1.0, 50.0])
def test_finite_for_degenerate_models(model: tuple[float, ...], clip: Any, sure: float) -> None:
    method = TaMatch(Echo(), echo_task(), lambda_model=1.0, clip=clip, tau=0.5)
    method.labeler.status.model.value.copy_(torch.tensor(model, dtype=torch.float64))
    pseudos, batch = seen(method), echo_batch(u=(sure * torch.eye(4), random_logits(2, 4)))
    loss = method(batch)
    loss.total.backward()
    assert loss.total.isfinite() and batch.u[1].grad.isfinite().all()
    assert all(value.isfinite().all() for value in loss.parts.values())
    assert 0 < pseudos[0].weight.max() <= (1 / 4 + EPS) / EPS * (1 + 1e-6)


def test_predictions_of_one_class_for_ever_stay_finite() -> None:
    method = TaMatch(Echo(), echo_task(), lambda_model=0.9, target="adaptive")
    for seed in range(400):
        weak = torch.zeros(12, 4) + torch.tensor([60.0, 0, 0, 0])
        loss = method(echo_batch(seed, u=(weak, random_logits(seed))))
        assert loss.total.isfinite() and all(v.isfinite().all() for v in loss.parts.values())


def test_moving_target_still_moves_after_262144_tiny_updates() -> None:
    """The paper's λ_target and steps; in float32 the first of them would already be lost."""
    target = Ema(torch.tensor([0.1], dtype=torch.float64), 0.99999)
    towards = torch.tensor([0.1003], dtype=torch.float64)
    with torch.inference_mode():
        for _ in range(262_144):
            target.update_(towards)
        before = target.value.item()
        after = target.update_(towards).item()
    left = 0.99999**262_144
    assert left == pytest.approx(0.073, abs=0.0005)
    assert before == pytest.approx(0.1003 - 0.0003 * left, rel=1e-12)
    assert after > before


def test_targets() -> None:
    shares, prior = (0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4)
    facts = echo_task(labelled_shares=shares, prior=prior)

    def target_of(**options: Any) -> Ema:
        method = TaMatch(Echo(), facts, **options)
        for seed in range(3):
            method(echo_batch(seed))
        target: Ema = method.labeler.status.target
        return target

    assert target_of().value.tolist() == [0.25] * 4
    assert target_of(target="uniform").value.tolist() == [0.25] * 4
    assert target_of(target="labelled").value.tolist() == list(shares)
    assert target_of(target="prior").value.tolist() == list(prior)
    adaptive = target_of(target="adaptive")
    assert adaptive.momentum == 0.99999
    assert adaptive.value.tolist() != [0.25] * 4
    assert target_of(target="adaptive", lambda_target=0.5).momentum == 0.5
    assert target_of(target="labelled", lambda_target=0.9).value.tolist() != list(shares)


def test_target_prior_needs_the_shares() -> None:
    with pytest.raises(UsageError, match="class shares"):
        TaMatch(Echo(), echo_task(), target="prior")


def test_ablations_are_rows_of_the_table() -> None:
    def pseudo_of(name: str) -> tuple[Any, Status]:
        entry = METHODS[name]
        assert entry.path == "tamatch:TaMatch"
        method = TaMatch(
            Echo(), echo_task(), **{"target": "adaptive", "lambda_model": 0.5, **entry.options}
        )
        pseudos = seen(method)
        logits = random_logits(7) + torch.tensor([2.0, 0, 0, -2])
        method(echo_batch(u=(logits, random_logits(8))))
        return pseudos[0], method.labeler.status

    full, status = pseudo_of("tamatch")
    raw, _ = pseudo_of("tamatch_no_rescaling")
    even, _ = pseudo_of("tamatch_no_weighting")
    unclipped, _ = pseudo_of("tamatch_no_clipping")
    _, still = pseudo_of("tamatch_no_ema_target")
    assert full.weight.min() >= 1 and full.weight.max() > 1
    assert not torch.equal(raw.label, full.label) and raw.weight.max() > 1
    assert torch.equal(even.label, full.label) and even.weight.unique().tolist() == [1]
    assert torch.equal(unclipped.weight, status.ratio[full.label]) and unclipped.weight.min() < 1
    assert status.target.value.tolist() != [0.25] * 4
    assert still.target.value.tolist() == [0.25] * 4


def test_contract() -> None:
    check_contract(build(TaMatch, tau=0.5, lambda_model=0.9, target="adaptive"))


def test_order_does_not_matter() -> None:
    check_order_does_not_matter(build(TaMatch, tau=0.5, lambda_model=0.5))


@pytest.mark.parametrize(("classes", "reach"), [(2, 50.0), (1000, 50.0), (1000, 1.0), (7, 0.01)])
def test_finite(classes: int, reach: float) -> None:
    check_finite(TaMatch, classes, reach, tau=0.001, lambda_model=0.5, lambda_target=0.5)
