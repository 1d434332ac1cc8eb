"""Numbers that the specification states, recomputed by the references."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.toynet import ToyNet

from .comatch import embed
from .data import realistic_facts
from .making import batch_for, ready
from .net import linear, two_layers
from .primitives import divergence, entropy, softmax
from .records import Array
from .tamatch import clipped, ratio, upper_bound

SKEWED = np.array([0.09, 0.88, 0.01, 0.01, 0.01])


def long_tail(largest: int, imbalance: float, classes: int = 10) -> Array:
    """n_c = floor(N1 · (1/γ)^(c/(C−1))), and floor(N1/γ) for the last class."""
    shrink = (1 / imbalance) ** (1 / (classes - 1))
    counts = [math.floor(largest * shrink**c) for c in range(classes - 1)]
    return np.array([*counts, math.floor(largest / imbalance)], dtype=np.float64)


@pytest.mark.parametrize(
    ("largest", "imbalance", "total"),
    [(1500, 100, 3720), (3000, 100, 7443), (1500, 150, 3496), (4000, 150, 9329)],
)
def test_long_tail_totals(largest: int, imbalance: int, total: int) -> None:
    assert long_tail(largest, imbalance).sum() == total


@pytest.mark.parametrize(("imbalance", "r_max", "tail"), [(100, 5.01, 24.8), (150, 5.65, 35.0)])
def test_tamatch_bound_at_the_long_tailed_prior(imbalance: int, r_max: float, tail: float) -> None:
    counts = long_tail(3000, imbalance)
    model, target = counts / counts.sum(), np.full(10, 0.1)
    assert upper_bound(model, target) == pytest.approx(r_max, abs=5e-3)
    assert ratio(model, target)[-1] == pytest.approx(tail, abs=0.05)


def test_tamatch_numbers_at_imbalance_100() -> None:
    counts = long_tail(3000, 100)
    model, target = counts / counts.sum(), np.full(10, 0.1)
    r = ratio(model, target)
    assert entropy(model) == pytest.approx(1.644, abs=5e-4)
    assert divergence(model, target) == pytest.approx(0.659, abs=5e-4)
    assert r[0] == pytest.approx(0.25, abs=5e-3)
    weights = clipped(r, upper_bound(model, target), "upward")
    assert (model * weights).sum() == pytest.approx(1.29, abs=5e-3)
    assert (clipped(r, 5.0, "symmetric") >= 0.2).all()


def test_the_expected_ratio_is_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        model, target = rng.dirichlet(np.full(10, 5.0), size=2)
        assert (model * ratio(model, target, 0.0)).sum() == pytest.approx(1, abs=1e-12)
        if model.min() > 1e-2:
            assert (model * ratio(model, target)).sum() == pytest.approx(1, abs=1e-3)


def test_tamatch_bound_is_guarded() -> None:
    one_class = np.eye(10)[0]
    bound = upper_bound(one_class, np.full(10, 0.1))
    assert np.isfinite(bound) and bound > 1e12
    assert upper_bound(np.full(10, 0.1), np.full(10, 0.1)) == pytest.approx(1, abs=1e-12)


def test_tamatch_by_hand() -> None:
    method, rng = ready("tamatch", model_momentum=0.5, target_momentum=0.75)
    batch = batch_for(method, rng, 0)
    p = softmax(method.net(batch.u[0]).logits)
    result = method.step(batch)
    model = [0.5 * 0.2 + 0.5 * sum(row[c] for row in p) / len(p) for c in range(5)]
    target = [0.75 * 0.2 + 0.25 * m for m in model]
    r = [(t + 1e-6) / (m + 1e-6) for t, m in zip(target, model, strict=True)]
    h = -sum(m * math.log(m) for m in model)
    kl = sum(m * math.log(m / t) for m, t in zip(model, target, strict=True))
    for i, row in enumerate(p):
        scaled = [a * b for a, b in zip(row, r, strict=True)]
        label = scaled.index(max(scaled))
        assert result.values["label"][i] == label
        assert result.values["mask"][i] == (scaled[label] / sum(scaled) >= 0.95)
        weight = max(1.0, min(r[label], 1 + 5 * kl / h))
        assert result.values["weight"][i] == pytest.approx(weight, rel=1e-9)
    np.testing.assert_allclose(result.state["p_model"], model)
    np.testing.assert_allclose(result.state["p_target"], target)


@pytest.mark.parametrize(
    ("hyper", "source", "weights"),
    [
        ({"rescale": False}, "p", "clipped"),
        ({"weigh": False}, "aligned", "ones"),
        ({"clip": "none"}, "aligned", "ratio"),
    ],
)
def test_tamatch_ablations(hyper: dict[str, Any], source: str, weights: str) -> None:
    method, rng = ready("tamatch", model_momentum=1.0, **hyper)
    method.state["p_model"] = SKEWED
    values = method.step(batch_for(method, rng, 0)).values
    assert (values["p"].argmax(axis=1) != values["aligned"].argmax(axis=1)).any()
    r, r_max = values["ratio"], float(values["r_max"])
    per_class = {"clipped": clipped(r, r_max, "upward"), "ones": np.ones_like(r), "ratio": r}
    label = values[source].argmax(axis=1)
    np.testing.assert_array_equal(values["label"], label)
    np.testing.assert_array_equal(values["mask"], values[source].max(axis=1) >= 0.95)
    np.testing.assert_array_equal(values["weight"], per_class[weights][label])


def test_target_momentum_one_keeps_the_target_uniform() -> None:
    method, rng = ready("tamatch")
    np.testing.assert_array_equal(method.step(batch_for(method, rng, 0)).state["p_target"], 0.2)


def test_target_momentum_leaves_seven_percent_of_the_start() -> None:
    left = 0.99999**262_144
    assert left == pytest.approx(0.073, abs=5e-4)


def test_comatch_bank_has_512_rows() -> None:
    facts = realistic_facts(batch_labelled=8, batch_unlabelled=8)
    method, rng = ready("comatch", facts=facts, queue_batches=32, epoch=1024)
    assert method.state["bank_features"].shape == (512, 64)
    result = method.step(batch_for(method, rng, 0))
    assert result.state["bank_pointer"] == 16
    np.testing.assert_array_equal(result.state["bank_p"][:8], result.values["aligned"])
    assert (result.state["bank_p"][8:16].max(axis=1) == 1).all()


def test_comatch_bank_wraps_around() -> None:
    facts = realistic_facts(batch_labelled=8, batch_unlabelled=8)
    method, rng = ready("comatch", facts=facts, queue_batches=2)
    pointers = [
        int(method.step(batch_for(method, rng, step)).state["bank_pointer"]) for step in range(3)
    ]
    assert pointers == [16, 0, 16]


@pytest.mark.parametrize(("rho_init", "floor_at"), [(4.6, 19), (2.3, 17)])
def test_dash_reaches_its_floor(rho_init: float, floor_at: int) -> None:
    facts = realistic_facts(steps=21)
    method, rng = ready("dash", facts=facts, rho_init=rho_init, period=1)
    batch = batch_for(method, rng, 0)
    for k in range(21):
        result = method.step(dataclasses.replace(batch, step=k, progress=k / 21))
        expected = max(1.0001 * 1.27**-k * rho_init, 0.05)
        assert result.state["rho"] == pytest.approx(expected, rel=1e-12)
        assert (result.state["rho"] == 0.05) == (k >= floor_at)
        is_hard = bool((result.values["target"].max(axis=1) == 1).all())
        assert is_hard == (k >= floor_at)


def test_dash_starts_from_the_last_warm_up_losses() -> None:
    facts = realistic_facts(steps=20)
    method, rng = ready("dash", facts=facts, warm_up=4, window=2, period=3, rho_init=None)
    losses, rhos = [], []
    for step in range(9):
        result = method.step(batch_for(method, rng, step))
        losses.append(result.parts["labelled"])
        rhos.append(float(result.state["rho"]))
    start = 1.0001 * (losses[2] + losses[3]) / 2
    floored = [max(start / 1.27**k, 0.05) for k in (0, 0, 0, 1, 1)]
    assert rhos == pytest.approx([0, 0, 0, 0, *floored])


def test_flexmatch_beta_with_and_without_warm_up() -> None:
    memory = np.array([-1] * 30 + [0] * 20 + [1] * 10)
    for warm_up, expected in ((True, [2 / 3, 1 / 3]), (False, [1.0, 0.5])):
        method: Any = ready("flexmatch", warm_up=warm_up)[0]
        method.state["memory"] = memory
        method.recount()
        np.testing.assert_allclose(method.state["beta"], [*expected, 0, 0, 0])


def test_flexmatch_thresholds_by_hand() -> None:
    method, rng = ready("flexmatch")
    beta = np.array([1.0, 0.5, 0.2, 0.9, 0.0])
    method.state["beta"] = beta
    values = method.step(batch_for(method, rng, 0)).values
    taus = 0.95 * np.array([1.0, 1 / 3, 1 / 9, 9 / 11, 0.0])[values["label"]]
    np.testing.assert_allclose(values["threshold"], taus)
    np.testing.assert_array_equal(values["mask"], values["p"].max(axis=1) >= taus)


@pytest.mark.parametrize(("parity", "start"), [("", 0.2), ("usb", 1.0)])
def test_freematch_moves_before_use(parity: str, start: float) -> None:
    method, rng = ready("freematch", parity=parity)
    result = method.step(batch_for(method, rng, 0))
    top = result.values["p"].max(axis=1)
    assert result.state["threshold"] == pytest.approx(0.999 * start + 0.001 * top.mean())
    means = result.state["class_means"]
    np.testing.assert_allclose(means, 0.999 * start + 0.001 * result.values["p"].mean(axis=0))
    taus = result.state["threshold"] * means[result.values["label"]] / means.max()
    np.testing.assert_array_equal(result.values["mask"], top >= taus)


def test_freematch_in_parity_picks_the_first_two_rows() -> None:
    method, rng = ready("freematch", parity="usb", init_threshold=0.95, momentum=1.0)
    batch = batch_for(method, rng, 0)
    result = method.step(batch)
    strong = softmax(method.net(batch.u[1][:2]).logits)
    picked = np.stack([strong[int(m)] for m in result.values["mask"]])
    q = np.zeros(5)
    for c in range(5):
        count = (picked.argmax(axis=1) == c).mean()
        q[c] = picked[:, c].mean() / count if count > 0 else 0.0
    q /= q.sum()
    assert result.parts["fairness"] == pytest.approx(0.2 * np.log(q + 1e-12).sum())


def test_freematch_fairness_over_the_accepted_rows() -> None:
    method, rng = ready("freematch", init_threshold=0.95, momentum=1.0)
    batch = batch_for(method, rng, 0)
    result = method.step(batch)
    kept = batch.u[1][result.values["mask"] == 1]
    strong = softmax(method.net(kept).logits)
    q = np.zeros(5)
    for c in range(5):
        count = (strong.argmax(axis=1) == c).mean()
        q[c] = strong[:, c].mean() / count if count > 0 else 0.0
    q /= q.sum()
    assert 0 < len(kept) < len(batch.u[1])
    assert result.parts["fairness"] == pytest.approx(0.2 * np.log(q + 1e-12).sum())


def test_softmatch_second_softmax_flattens_the_weights() -> None:
    ours, rng = ready("softmatch", momentum=0.0)
    theirs, _ = ready("softmatch", momentum=0.0, parity="usb")
    batch = batch_for(ours, rng, 0)
    first, second = ours.step(batch), theirs.step(batch)
    assert second.state["mean"] < first.state["mean"]
    np.testing.assert_array_equal(first.values["label"], second.values["label"])


def test_vat_moves_each_image_by_epsilon_and_raises_the_divergence() -> None:
    method, rng = ready("vat", epsilon=0.05)
    net = ToyNet.of(method.params)
    batch = batch_for(method, rng, 50)
    result = method.step(batch)
    steps = result.values["perturbation"]
    lengths = np.linalg.norm(steps.reshape(len(steps), -1), axis=1)
    np.testing.assert_allclose(lengths, 0.05, rtol=1e-5)
    weak = torch.tensor(batch.u[0])
    noise = batch.draws["d"] / np.linalg.norm(batch.draws["d"].reshape(16, -1), axis=1).reshape(
        16, 1, 1, 1
    )
    start = (1e-6 * torch.tensor(noise)).requires_grad_()
    q = net(weak).logits.softmax(-1).detach()
    kl = (q * (q.log() - net(weak + start).logits.log_softmax(-1))).sum(-1).mean()
    (slope,) = torch.autograd.grad(kl, start)
    towards = slope / slope.flatten(1).norm(dim=1)[:, None, None, None]
    np.testing.assert_allclose(steps, 0.05 * towards.numpy(), atol=1e-5)
    random = rng.normal(size=steps.shape)
    random *= 0.05 / np.linalg.norm(random.reshape(len(steps), -1), axis=1)[:, None, None, None]
    elsewhere = method.terms(method.params, batch, result.values | {"perturbation": random})
    assert result.parts["unlabelled"] > 2 * elsewhere["unlabelled"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fixmatch", {"labelled": 1, "unlabelled": 1}),
        ("pseudo_label", {"labelled": 1, "unlabelled": 0.5}),
        ("pi_model", {"labelled": 1, "unlabelled": 5}),
        ("mean_teacher", {"labelled": 1, "unlabelled": 25}),
        ("mixmatch", {"labelled": 1, "unlabelled": 5}),
        ("vat", {"labelled": 1, "unlabelled": 0.5, "entropy": 0.06}),
        ("remixmatch", {"labelled": 1, "unlabelled": 1.5, "unmixed": 0.5, "rotation": 0.5}),
        ("freematch", {"labelled": 1, "unlabelled": 1, "fairness": 0.001}),
        ("crmatch", {"labelled": 1, "unlabelled": 1, "distance": 1, "rotation": 1}),
    ],
)
def test_factors_after_a_fifth_of_the_run(name: str, expected: dict[str, float]) -> None:
    method, rng = ready(name)
    assert method.factors(batch_for(method, rng, 20)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "threshold"),
    [(name, 0.95) for name in ("pseudo_label", "fixmatch", "defixmatch", "flexmatch", "tamatch")]
    + [("adamatch", 0.95), ("uda", 0.8)],
)
def test_thresholds(name: str, threshold: float) -> None:
    method: Any = ready(name)[0]
    assert method.threshold == threshold


def test_pseudo_label_by_hand() -> None:
    method, rng = ready("pseudo_label")
    batch = batch_for(method, rng, 50)
    top = softmax(method.net(batch.u[0]).logits).max(axis=1)
    expected = sum(-math.log(v) for v in top if v >= 0.95) / len(top)
    assert method.step(batch).parts["unlabelled"] == pytest.approx(expected)


def test_defixmatch_subtracts_with_its_own_guess() -> None:
    method, rng = ready("defixmatch", threshold=0.3)
    batch = batch_for(method, rng, 0)
    wrong = (batch.y + 1) % 5
    result = method.step(dataclasses.replace(batch, y=wrong))
    weak, strong = (softmax(method.net(view).logits) for view in batch.x)
    taken = weak.max(axis=1) >= 0.3
    expected = -np.log(strong[np.arange(8), weak.argmax(axis=1)])[taken].sum() / 8
    assert result.parts["anti"] == pytest.approx(expected)


def test_remixmatch_with_lambda_one_by_hand() -> None:
    method, rng = ready("remixmatch")
    batch = batch_for(method, rng, 1)
    draws = {**batch.draws, "lam": np.array(1.0), "rotation": np.zeros(16, dtype=np.int64)}
    batch = dataclasses.replace(batch, draws=draws)
    result = method.step(batch)
    weak, s0, s1 = (softmax(method.net(view).logits) for view in batch.u)
    raw: Array = weak * (np.array(method.facts.labelled_shares) + 1e-6)
    raw = raw / (weak.mean(axis=0) + 1e-6)
    raw = (raw / raw.sum(axis=1, keepdims=True)) ** 2
    q = raw / raw.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result.values["target"], q, rtol=1e-9)
    mixed = np.mean([-(q * np.log(p)).sum(axis=1).mean() for p in (s0, s1, weak)])
    alone = -(q * np.log(s0)).sum(axis=1).mean()
    turned = linear(method.params, "rotation", method.net(batch.u[1]).features)
    upright = -np.log(softmax(turned)[:, 0]).mean()
    ramped = 64 / 100
    expected = ramped * (1.5 * mixed + 0.5 * alone) + 0.5 * upright
    assert result.total == pytest.approx(result.parts["labelled"] + expected)


def test_adamatch_states_by_hand() -> None:
    method, rng = ready("adamatch", momentum=0.75)
    first, second = batch_for(method, rng, 0), batch_for(method, rng, 1)
    method.step(first)
    result = method.step(second)
    weak = [softmax(method.net(batch.u[0]).logits) for batch in (first, second)]
    labelled = [softmax(method.net(batch.x[0]).logits) for batch in (first, second)]
    model: Array = 0.75 * weak[0].mean(axis=0) + 0.25 * weak[1].mean(axis=0)
    target: Array = 0.75 * 0.2 + 0.25 * labelled[0].mean(axis=0)
    target = 0.75 * target + 0.25 * labelled[1].mean(axis=0)
    np.testing.assert_allclose(result.state["p_model"], model)
    np.testing.assert_allclose(result.state["p_target"], target)
    assert result.values["threshold"] == pytest.approx(0.95 * labelled[1].max(axis=1).mean())


def test_softmatch_weights_by_hand() -> None:
    method, rng = ready("softmatch", momentum=0.5)
    method.state["p_model"] = SKEWED
    result = method.step(batch_for(method, rng, 0))
    labels = result.values["p"].argmax(axis=1)
    assert (labels != result.values["aligned"].argmax(axis=1)).any()
    np.testing.assert_array_equal(result.values["label"], labels)
    top = result.values["aligned"].max(axis=1)
    mean = 0.5 * 0.2 + 0.5 * top.mean()
    variance = 0.5 + 0.5 * ((top - top.mean()) ** 2).sum() / (len(top) - 1)
    short = np.minimum(top - mean, 0)
    np.testing.assert_allclose(result.values["weight"], np.exp(-2 * short**2 / variance))


def test_softmatch_can_observe_the_raw_prediction() -> None:
    method, rng = ready("softmatch", momentum=0.0, observe="raw")
    result = method.step(batch_for(method, rng, 0))
    top = result.values["p"].max(axis=1)
    assert result.state["mean"] == pytest.approx(top.mean())
    assert result.state["variance"] == pytest.approx(top.var(ddof=1))


def test_comatch_reads_its_bank_before_it_writes() -> None:
    method, rng = ready("comatch")
    rows = len(method.state["bank_p"])
    method.state["bank_p"] = np.tile(np.eye(5)[0], (rows, 1))
    result = method.step(batch_for(method, rng, 50))
    values = result.values
    np.testing.assert_allclose(values["target"], 0.9 * values["aligned"] + 0.1 * np.eye(5)[0])
    np.testing.assert_array_equal(result.state["bank_p"][:16], values["aligned"])
    graph = values["graph"]
    np.testing.assert_allclose(graph.sum(axis=1), 1)
    products = values["target"] @ values["target"].T
    far = (products < 0.8) & ~np.eye(16, dtype=bool)
    assert 0 < far.mean() < 1
    np.testing.assert_array_equal(graph == 0, far)


@pytest.mark.parametrize(("step", "counts"), [(50, False), (51, True)])
def test_comatch_waits_until_its_bank_is_full(step: int, counts: bool) -> None:
    method, rng = ready("comatch", queue_batches=50)
    values = method.step(batch_for(method, rng, step)).values
    assert np.array_equal(values["target"], values["aligned"]) != counts


def test_comatch_contrast_by_hand() -> None:
    method, rng = ready("comatch")
    batch = batch_for(method, rng, 50)
    result = method.step(batch)
    left, right = (embed(method.params, view) for view in batch.u[1:])
    want = 0.0
    for i in range(16):
        weights = [math.exp(left[i] @ right[j] / 0.2) for j in range(16)]
        for j in range(16):
            share = weights[j] / sum(weights) + 1e-7
            want -= result.values["graph"][i, j] * math.log(share) / 16
    assert result.parts["contrast"] == pytest.approx(want, rel=1e-10)


def test_simmatch_teaches_with_the_bank_of_the_step_before() -> None:
    method, rng = ready("simmatch")
    method.state["bank_labels"] = np.arange(40) % 5
    old = method.state["bank"].copy()
    batch = batch_for(method, rng, 50)
    result = method.step(batch)
    np.testing.assert_array_equal(result.values["bank"], old)
    near = softmax(embed(method.params, batch.u[0]) @ old / 0.1)
    by_class = near.reshape(16, 8, 5).sum(axis=1)
    aligned = result.values["aligned"]
    np.testing.assert_allclose(result.values["target"], 0.9 * aligned + 0.1 * by_class)
    teacher: Array = near * np.tile(aligned, (1, 8))
    teacher = teacher / teacher.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result.values["teacher"], teacher)
    student = softmax(embed(method.params, batch.u[1]) @ old / 0.1)
    instance = -(teacher * np.log(student)).sum(axis=1).mean()
    assert result.parts["instance"] == pytest.approx(instance)


def test_crmatch_turns_the_first_weak_views() -> None:
    method, rng = ready("crmatch")
    batch = batch_for(method, rng, 0)
    expected = []
    for image in batch.u[0][:8]:
        for quarters in range(4):
            turned = np.rot90(image, quarters, axes=(-2, -1))[None]
            scores = two_layers(method.params, "rotation", method.net(turned).features)
            expected.append(-np.log(softmax(scores)[0, quarters]))
    assert method.step(batch).parts["rotation"] == pytest.approx(np.mean(expected))


def test_crmatch_distance_counts_acute_angles_only() -> None:
    method, rng = ready("crmatch")
    # Without its bias the head answers an image of the other sign with the other direction.
    method.after_step(method.params | {"distance.bias": np.zeros(6)})
    batch = batch_for(method, rng, 0)
    signs = np.where(np.arange(16) < 8, 1.0, -1.0).reshape(16, 1, 1, 1)
    batch = dataclasses.replace(batch, u=(batch.u[0], signs * batch.u[1]))
    result = method.step(batch)
    mask = result.values["mask"]
    weak, strong = (linear(method.params, "distance", method.net(v).map) for v in batch.u)
    cos = [a @ b / math.sqrt(a @ a * (b @ b)) for a, b in zip(strong, weak, strict=True)]
    assert min(c for c, m in zip(cos, mask, strict=True) if m) < 0
    expected = sum(max(0.0, c) * m for c, m in zip(cos, mask, strict=True)) / 16
    assert result.parts["distance"] == pytest.approx(expected)
