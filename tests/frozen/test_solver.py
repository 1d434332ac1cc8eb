"""TaMatch on frozen features: a slow NumPy reference of it, and what must hold for any data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tamatch.frozen import regression, solver
from tamatch.frozen.features import (
    LEAST_WITHIN,
    LENGTH,
    SHRINKAGE,
    SHRINKAGE_WITHIN,
    Graph,
    Scaling,
)
from tamatch.frozen.solver import mixed, nearest, rescaled, solve, weights

Array = np.ndarray[Any, Any]
Data = tuple[Tensor, Tensor, Tensor, Tensor]


def blobs(
    classes: int = 4, pool: int = 60, labels: int = 3, width: int = 8, spread: float = 0.5,
    seed: int = 0,
) -> Data:  # fmt: skip
    """Labelled rows, labels, pool and the pool's classes; clusters that overlap a little."""
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=g, dtype=torch.float64)
    y = torch.arange(classes).repeat_interleave(labels)
    z = torch.arange(classes).repeat_interleave(pool)
    x, u = (centres[c] + spread * torch.randn(len(c), width, generator=g) for c in (y, z))
    return x, y, u, z


def error(data: Data, classes: int = 4, prior: Tensor | None = None) -> float:
    x, y, u, z = data
    found = solve(x, y, u, classes, prior)
    assert found.head.isfinite().all() and found.q.isfinite().all()
    return float((found.logits(u).argmax(1) != z).double().mean())


# a slow reference, image by image


def reference(x: Array, y: Array, u: Array, classes: int) -> dict[str, Array]:
    both = np.concatenate([x, u])
    count = len(y)
    mean, deviation = both.mean(0), both.std(0)
    standard = (both - mean) / deviation
    correlation = np.cov(standard.T, bias=True)
    root = np.linalg.cholesky(correlation + SHRINKAGE * np.eye(len(mean)))
    z = np.linalg.solve(root, standard.T).T
    z *= LENGTH / np.sqrt((z**2).sum(1).mean())

    def nearest() -> Array:
        means = [z[:count][y == c].mean(0) for c in range(classes)]
        cosine = np.array([z[count:] @ m / np.linalg.norm(m) for m in means])
        return cosine.argmax(0)

    for _ in range(solver.CENTRINGS):
        label = np.concatenate([y, nearest()])
        z = z - np.mean([z[label == c].mean(0) for c in range(classes)], 0)
    guessed = nearest()
    h = np.array([(guessed == c).sum() + 1 for c in range(classes)]) / (len(u) + classes)
    noise = solver.NOISE * np.mean([1 / (y == c).sum() for c in range(classes)])
    trust = max(0, 1 - noise / max((h * np.log(h * classes)).sum(), 1e-6))
    t = 1 / classes + trust * (h - 1 / classes)
    n = len(both)

    def links(d: Array) -> Array:
        link = np.zeros((n, n))
        for i in range(n):
            angle = [-np.inf if j == i else d[i] @ d[j] for j in range(n)]
            for j in np.argsort(angle)[::-1][: min(10, round(np.log2(n)))]:
                link[i, j] += 1
                link[j, i] += 1
        return np.asarray(link / link.sum(1, keepdims=True))

    def smooth(link: Array, p: Array, own: float, steps: int) -> Array:
        value = p
        for _ in range(steps):
            value = own * p + (1 - own) * link @ value
        return value

    def weights(guess: Array) -> Array:
        skew = (t * np.log(t * classes)).sum()
        own = (solver.LABEL_WEIGHT + solver.SKEW_WEIGHT * skew) * len(guess) / classes
        total = [own + (guess == c).sum() for c in range(classes)]
        w = [own / (y == c).sum() / total[c] for c in y] + [1 / total[c] for c in guess]
        return np.array(w) / np.sum(w)

    def fit(rows: Array, labels: Array, w: Array, start: Array | None = None) -> Array:
        given = (torch.from_numpy(a) for a in (rows, labels, w))
        begin = None if start is None else torch.from_numpy(start)
        return regression.fit(*given, classes, start=begin).numpy()

    def logits(rows: Array, head: Array) -> Array:
        return np.asarray(rows @ head[:, :-1].T + head[:, -1])

    def softmax(values: Array) -> Array:
        e = np.exp(values)
        return np.asarray(e / e.sum(1, keepdims=True))

    one_hot = np.eye(classes)
    seeds = np.zeros((n, classes))
    for i in range(count):
        seeds[i, y[i]] = 1 / (y == y[i]).sum()

    def rescale(p: Array) -> Array:
        for _ in range(solver.SWEEPS):
            p = p * (t + 1e-6) / (p.mean(0) + 1e-6)
            p = p / p.sum(1, keepdims=True)
        return p

    def rounds(z: Array, p: Array, spread: Any, shares: Any) -> tuple[Array, Array]:
        d = np.array([LENGTH * row / np.linalg.norm(row) for row in z])
        link = links(d)
        p = smooth(link, p, *spread)
        p = p / p.sum(1, keepdims=True)
        head = None
        for accepted in shares:
            q = rescale(p[count:])
            surest = np.argsort(-q.max(1))[: round(accepted * len(u))]
            guess = q.argmax(1)[surest]
            w = weights(guess)
            chosen = np.concatenate([np.arange(count), count + surest])
            answers = np.concatenate([y, guess])
            head = fit(d[chosen], answers, w, start=head)
            p = np.concatenate([one_hot[y], softmax(logits(d[count:], head))])
            p = smooth(link, p, *solver.SMOOTHING)
        return p, fit(z[chosen], answers, w, start=head)

    p, _ = rounds(z, seeds, solver.SPREAD, solver.ACCEPTED)
    q = rescale(p[count:])
    members = np.concatenate([one_hot[y], one_hot[q.argmax(1)] * q.max(1, keepdims=True)])
    means = np.array([np.average(both, 0, members[:, c]) for c in range(classes)])
    scatter = np.zeros((both.shape[1],) * 2)
    for row, member in zip(both, members, strict=True):
        for c in range(classes):
            scatter += member[c] * np.outer(row - means[c], row - means[c])
    scatter /= members.sum()
    deviation = np.sqrt(np.diag(scatter))
    correlation = scatter / np.outer(deviation, deviation)
    root = np.linalg.cholesky(correlation + SHRINKAGE_WITHIN * np.eye(len(mean)))
    z = np.linalg.solve(root, ((both - means.mean(0)) / deviation).T).T
    z *= LENGTH / np.sqrt((z**2).sum(1).mean())
    again = np.concatenate([one_hot[y], q])
    p, head = rounds(z, again, solver.SMOOTHING, solver.ACCEPTED_AGAIN)
    q = rescale(p[count:])
    shares = (one_hot[q.argmax(1)].sum(0) + 1) / (len(u) + classes)

    answer = np.concatenate([y, q.argmax(1)])
    means = np.array([both[answer == c].mean(0) for c in range(classes)])
    within = np.mean([both[answer == c].var(0) for c in range(classes)], 0)
    between = means.var(0)
    column = np.sqrt(between) / np.maximum(within, LEAST_WITHIN * (within + between))
    v = (both - means.mean(0)) * column
    v *= LENGTH / np.sqrt((v**2).sum(1).mean())
    direction = np.array([LENGTH * row / np.linalg.norm(row) for row in v[:count]])
    alone = fit(direction, y, np.array([1 / classes / (y == c).sum() for c in y]))
    doubt = (1 - np.exp(-solver.DOUBT * (shares * np.log(shares * classes)).sum())) / 2
    both_logits = (1 - doubt) * logits(z, head) + doubt * logits(v, alone)
    return {"p": softmax(both_logits), "q": q, "shares": shares, "doubt": doubt}


@pytest.mark.parametrize("uneven", [False, True])
def test_the_solver_equals_its_reference(uneven: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "STEPS", 300)  # so that both are at the minimum
    x, y, u, _ = blobs(spread=0.9)
    if uneven:
        x, y, u = x[2:], y[2:], u[: 60 + 60 + 15]
    found = solve(x, y, u, 4)
    wanted = reference(x.numpy(), y.numpy(), u.numpy(), 4)
    assert found.shares.numpy() == pytest.approx(wanted["shares"], abs=1e-9)
    assert found.q.numpy() == pytest.approx(wanted["q"], abs=2e-3)
    p = found.logits(torch.cat([x, u])).softmax(1)
    assert p.numpy() == pytest.approx(wanted["p"], abs=2e-3)
    assert (wanted["doubt"] > 0.2) == uneven


def test_the_regression_is_at_its_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "STEPS", 500)
    monkeypatch.setattr(regression, "CELLS", 40)  # in blocks of ten rows
    x, y, _, _ = blobs(labels=9)
    w = torch.rand(len(x), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    head = regression.fit(x, y, w, 4).requires_grad_()
    losses = torch.nn.functional.cross_entropy(regression.logits(x, head), y, reduction="none")
    decay = regression.DECAY / 2 * head[:, :-1].square().sum()
    ((w * losses).sum() / w.sum() + decay).backward()
    assert head.grad is not None and head.grad.abs().max() < 1e-4


# the parts


def test_rescaled_predictions_have_the_target_shares() -> None:
    p = torch.rand(500, 5, generator=torch.Generator().manual_seed(0)).softmax(1)
    target = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05])
    q = rescaled(p, target)
    assert torch.allclose(q.sum(1), torch.ones(500))
    assert (q.mean(0) - target).abs().max() < 0.01 < (p.mean(0) - target).abs().max()


def test_each_class_weighs_the_same_and_labels_of_a_rare_class_the_most() -> None:
    labels, guess = torch.tensor([0, 0, 1]), torch.tensor([0] * 35 + [1] * 5)
    w = weights(labels, guess, torch.ones(40), 2, 1.0)
    ours = torch.cat([labels, guess])
    assert [float(w[ours == c].sum()) for c in (0, 1)] == pytest.approx([0.5, 0.5])
    assert w[0] == w[1] == pytest.approx(0.5 * 20 / 55 / 2)  # labels count as 20 pseudo-labels
    assert w[2] == pytest.approx(0.5 * 20 / 25)


@pytest.mark.parametrize("few", [True, False])
def test_a_class_with_few_labels_is_guessed_as_often_as_others(few: bool) -> None:
    """The mean of one label is far away, but not at a large angle."""
    x, y, u, _ = blobs(4, pool=300, labels=12, width=64, spread=1.5)
    kept = (y != 0) | (torch.arange(len(y)) < (1 if few else 12))
    rows = torch.cat([x[kept], u])
    found = torch.bincount(nearest(rows - rows.mean(0), y[kept], 4), minlength=4)
    assert 200 < found[0] < 400
    means = torch.stack([x[kept][y[kept] == c].mean(0) for c in range(4)])
    by_distance = torch.cdist(u, means).argmin(1)
    assert not few or (by_distance == 0).sum() < 100


def test_a_balanced_pool_is_taken_as_balanced_and_a_skewed_one_is_seen() -> None:
    x, y, u, z = blobs(labels=5, pool=200, spread=1.0)
    assert (solve(x, y, u, 4).shares - 0.25).abs().max() < 0.05
    some = torch.cat([(z == c).nonzero()[: 200 // 3**c, 0] for c in range(4)])
    found = solve(x, y, u[some], 4).shares
    truth = torch.bincount(z[some]) / len(some)
    assert found.sum() == pytest.approx(1)
    assert (found - truth).abs().max() < 0.15 < (truth - 0.25).abs().max()


@pytest.mark.parametrize("labels", [(8, 4, 2, 1), (1, 2, 4, 8), (3, 3, 3, 3)])
def test_labels_may_be_imbalanced_in_any_way(labels: tuple[int, ...]) -> None:
    x, y, u, z = blobs(labels=8, pool=120, width=16, spread=0.9)
    own = torch.cat([(y == c).nonzero()[:n, 0] for c, n in enumerate(labels)])
    some = torch.cat([(z == c).nonzero()[: 120 // 2**c, 0] for c in range(4)])
    found = solve(x[own], y[own], u[some], 4)
    rest = torch.ones(len(z), dtype=torch.bool).index_fill(0, some, False)
    guess = found.logits(u).argmax(1)
    assert all((guess[rest & (z == c)] == c).double().mean() > 0.7 for c in (1, 2, 3))


def test_scaling_does_not_depend_on_units_and_forgets_constant_columns() -> None:
    x, _, u, _ = blobs()
    both = torch.cat([x, u])
    units = torch.logspace(-3, 3, 8, dtype=torch.float64)
    moved = torch.cat([both * units + 5, torch.full((len(both), 1), 7.0)], dim=1)
    z, z2 = Scaling.of(both)(both), Scaling.of(moved)(moved)
    assert torch.allclose(z, z2[:, :8], atol=1e-6) and not z2[:, 8].any()
    assert z.square().sum(1).mean().sqrt() == pytest.approx(LENGTH)


def test_columns_count_by_what_classes_tell_in_any_unit_and_a_constant_one_not_at_all() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.arange(4).repeat_interleave(200)
    x = torch.randn(800, 3, generator=g, dtype=torch.float64)
    x[:, 0] += 3 * y
    units = torch.tensor([1.0, 1e-3, 1e3], dtype=torch.float64)
    moved = torch.cat([x * units + 5, torch.full((800, 1), 7.0)], dim=1)
    ones = torch.ones(800, dtype=torch.float64)
    z, z2 = (Scaling.of_classes(v, y, ones, 4)(v) for v in (x, moved))
    assert torch.allclose(z, z2[:, :3], atol=1e-6) and not z2[:, 3].any()
    assert z[:, 0].std() > 20 * z[:, 1:].std(0).max()
    assert z.square().sum(1).mean().sqrt() == pytest.approx(LENGTH)


def test_a_column_that_tells_all_is_not_the_only_one() -> None:
    y = torch.arange(4).repeat_interleave(50)
    x = torch.cat([y[:, None].double(), 0.1 * y[:, None] + torch.randn(200, 1).double()], dim=1)
    scaling = Scaling.of_classes(x, y, torch.ones(200).double(), 4)
    assert scaling.matrix.isfinite().all() and scaling.matrix[1, 1] > 0


def test_the_classifier_moves_towards_the_labels_alone_by_the_skew_and_at_most_half_way() -> None:
    of_all, of_labels = torch.zeros(3, 5), torch.ones(3, 5)
    shares = [torch.tensor(s) for s in ([1 / 3] * 3, [0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [1.0, 0, 0])]
    moved = [float(mixed(of_all, of_labels, s)[0, 0]) for s in shares]
    assert moved[0] == pytest.approx(0, abs=1e-6) and moved == sorted(moved)
    assert 0.1 < moved[1] < moved[2] < moved[3] <= 0.5


@pytest.mark.parametrize("seed", range(3))
def test_a_very_skewed_pool_costs_little(seed: int) -> None:
    """Beside learning from the labels alone, where all classes are judged the same."""
    x, y, u, z = blobs(8, pool=200, labels=5, width=24, spread=1.3, seed=seed)
    some = torch.cat([(z == c).nonzero()[: round(200 * 50 ** (-c / 7)), 0] for c in range(8)])
    wrong = [
        float((solve(x, y, pool, 8).logits(u).argmax(1) != z).double().mean())
        for pool in (u[some], u[:0])
    ]
    assert wrong[0] < wrong[1] + 0.01


def test_blocks_do_not_change_the_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    u = blobs()[2]
    whole = Graph(u).mean.to_dense()
    monkeypatch.setattr("tamatch.frozen.features.CELLS", 1000)
    assert torch.equal(Graph(u).mean.to_dense(), whole)
    assert torch.allclose(whole.sum(1), torch.ones(len(u), dtype=torch.float64))


# properties


def test_permuted_classes_give_permuted_answers() -> None:
    x, y, u, _ = blobs()
    order = torch.tensor([2, 0, 3, 1])
    one, two = solve(x, y, u, 4), solve(x, order[y], u, 4)
    assert torch.equal(order[one.q.argmax(1)], two.q.argmax(1))
    assert torch.allclose(one.shares, two.shares[order])


def test_the_same_input_gives_the_same_bits() -> None:
    x, y, u, _ = blobs()
    assert torch.equal(solve(x, y, u, 4).head, solve(x, y, u, 4).head)


def test_units_and_offsets_do_not_matter() -> None:
    x, y, u, z = blobs(spread=0.9)
    assert error((x * 1000 + 3, y, u * 1000 + 3, z)) == pytest.approx(error((x, y, u, z)), abs=0.01)


def test_duplicated_images_do_no_harm() -> None:
    x, y, u, z = blobs()
    assert error((x, y, u.repeat(3, 1), z.repeat(3))) <= error((x, y, u, z)) + 0.02


def test_a_class_without_images_in_the_pool() -> None:
    x, y, u, z = blobs()
    there = z != 3
    found = solve(x, y, u[there], 4)
    assert found.shares[3] < 0.25
    assert (found.q.argmax(1) != z[there]).double().mean() < 0.25  # some go to the empty class


def test_one_label_a_class() -> None:
    assert error(blobs(labels=1)) < 0.1


def test_two_classes() -> None:
    assert error(blobs(classes=2), 2) < 0.05


def test_no_pool_at_all() -> None:
    x, y, u, z = blobs()
    found = solve(x, y, u[:0], 4)
    assert found.q.shape == (0, 4) and found.shares.tolist() == [0.25] * 4
    assert (found.logits(u).argmax(1) == z).double().mean() > 0.85


def test_a_known_prior_is_used() -> None:
    x, y, u, z = blobs(spread=1.2, pool=150)
    rows = torch.cat([torch.arange(150 * c, 150 * c + n) for c, n in enumerate((150, 60, 20, 5))])
    shares = torch.tensor([150, 60, 20, 5], dtype=torch.float64) / 235
    known = solve(x, y, u[rows], 4, shares)
    assert torch.equal(known.shares, shares)
    wrong = (known.q.argmax(1) != z[rows]).double().mean()
    uniform = solve(x, y, u[rows], 4, torch.full((4,), 0.25, dtype=torch.float64))
    assert wrong < (uniform.q.argmax(1) != z[rows]).double().mean()


def test_a_known_share_may_be_zero() -> None:
    x, y, u, z = blobs()
    there = z != 3
    found = solve(x, y, u[there], 4, torch.tensor([1 / 3, 1 / 3, 1 / 3, 0]))
    assert found.head.isfinite().all()
    assert (found.q.argmax(1) != z[there]).double().mean() < 0.05


def test_images_that_belong_to_no_class_do_no_harm_where_that_is_known() -> None:
    x, y, u, z = blobs(spread=0.9)
    junk = 4 * x.std() + torch.randn(
        400, x.shape[1], generator=torch.Generator().manual_seed(7), dtype=x.dtype
    )
    both, belongs = torch.cat([u, junk]), torch.ones(len(u) + len(junk), dtype=x.dtype)
    trusting = solve(x, y, both, 4)
    belongs[len(u) :] = 0.01
    careful = solve(x, y, both, 4, belongs=belongs)
    wrong = [(f.q[: len(z)].argmax(1) != z).double().mean() for f in (careful, trusting)]
    assert wrong[0] < error((x, y, u, z)) + 0.02 and wrong[0] <= wrong[1]
    assert (careful.q[: len(z)].mean(0) - careful.shares).abs().max() < 0.03  # p_model is theirs
    assert (trusting.q[: len(z)].mean(0) - trusting.shares).abs().max() > 0.03


def test_certainly_of_a_class_is_the_same_as_unsaid() -> None:
    x, y, u, _ = blobs(spread=0.9)
    one, two = solve(x, y, u, 4), solve(x, y, u, 4, belongs=torch.ones(len(u), dtype=u.dtype))
    assert torch.allclose(one.q, two.q, atol=1e-6)


def test_the_pool_helps() -> None:
    x, y, u, z = blobs(classes=10, labels=2, spread=0.6, pool=100, seed=3)
    alone = solve(x, y, u[:0], 10)
    assert error((x, y, u, z), 10) < (alone.logits(u).argmax(1) != z).double().mean() - 0.03


@pytest.mark.slow
def test_a_thousand_classes() -> None:
    x, y, u, z = (t.float() if t.is_floating_point() else t for t in blobs(1000, 2, 1, 32, 0.2))
    assert error((x, y, u, z), 1000) < 0.1


@pytest.mark.slow
def test_a_hundred_thousand_images() -> None:
    x, y, u, z = (t.float() if t.is_floating_point() else t for t in blobs(10, 10_000, 5, 32))
    assert error((x, y, u, z), 10) < 0.1


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-4, 1e-2])
def test_classes_that_a_tuned_net_has_drawn_together(noise: float) -> None:
    """What rounding leaves of the differences within them is no covariance."""
    g = torch.Generator().manual_seed(0)
    centres = 5 * torch.randn(4, 128, generator=g)
    y = torch.arange(4).repeat(60)
    x = centres[y] + noise * torch.randn(240, 128, generator=g)
    found = solve(x[:20], y[:20], x[20:], 4)
    assert torch.equal(found.logits(x).argmax(1), y) and bool(found.head.isfinite().all())
