"""Which blocks' features are used, against a slow reference, and for whom."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tamatch.frozen.blocks import guessed, telling, widened
from tamatch.frozen.features import Graph, Scaling
from tamatch.frozen.likeness import Likeness
from tamatch.frozen.live import UNKNOWN, Live
from tamatch.frozen.regression import logits
from tamatch.frozen.solver import SPREAD, directed

CLASSES, EACH, UPPER = 4, 60, 8


def images(lower: str, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Upper features that tell classes fairly well; lower ones do, too, or tell other groups."""
    g = torch.Generator().manual_seed(seed)
    truth = torch.arange(CLASSES).repeat_interleave(EACH)
    groups = truth if lower == "classes" else torch.randint(CLASSES, truth.shape, generator=g)
    means = 2.0 * torch.randn(CLASSES, UPPER, generator=g)
    parts = [means[truth] + 1.5 * torch.randn(len(truth), UPPER, generator=g)]
    parts.append(means[groups] + 0.3 * torch.randn(len(truth), UPPER, generator=g))
    return torch.cat(parts, 1), truth


def labelled(truth: Tensor, each: int) -> Tensor:
    labels = torch.full_like(truth, UNKNOWN)
    for c in range(CLASSES):
        labels[c * EACH : c * EACH + each] = c
    return labels


@pytest.mark.parametrize("each", [2, 5, 20])
@pytest.mark.parametrize(("lower", "used"), [("classes", 2 * UPPER), ("groups", UPPER)])
def test_lower_blocks_are_used_where_they_tell_the_classes(
    lower: str, used: int, each: int
) -> None:
    for seed in range(5):
        features, truth = images(lower, seed)
        found = telling(features, labelled(truth, each), UPPER)
        assert torch.equal(found, features[:, :used])


def test_what_no_label_can_tell() -> None:
    features, truth = images("classes")
    assert telling(features, labelled(truth, 0), UPPER).shape[1] == 2 * UPPER
    assert telling(features, labelled(truth, 1), UPPER).shape[1] == UPPER
    assert telling(features, labelled(truth, 5), 2 * UPPER).shape[1] == 2 * UPPER
    assert telling(features[:4], torch.tensor([0, 0, 1, 1]), UPPER).shape[1] in (UPPER, 2 * UPPER)


def test_the_numbers_of_classes_do_not_matter() -> None:
    features, truth = images("classes", 3)
    labels = labelled(truth, 4)
    others = torch.where(labels >= 0, 7 * (CLASSES - labels), -2)
    assert torch.equal(telling(features, labels, UPPER), telling(features, others, UPPER))


@given(st.lists(st.integers(0, 2), min_size=3, max_size=9), st.integers(0, 100))
def test_guesses_equal_slow_ones(numbers: list[int], seed: int) -> None:
    labels = torch.unique(torch.tensor(numbers), return_inverse=True)[1]
    g = torch.Generator().manual_seed(seed)
    rows = torch.randn(len(labels) + 12, 5, generator=g, dtype=torch.float64)
    mean = Graph(directed(Scaling.of(rows)(rows))).mean.to_dense().numpy()
    count, classes = len(labels), int(labels.max()) + 1
    brought = np.zeros((len(rows), count))
    for j in range(count):
        start = np.eye(len(rows))[j]
        value = start
        for _ in range(SPREAD[1]):
            value = SPREAD[0] * start + (1 - SPREAD[0]) * mean @ value
        brought[:, j] = value
    total = 0.0
    for i, own in enumerate(labels.tolist()):
        p = np.zeros(classes)
        for c in range(classes):
            others = [j for j in range(count) if labels[j] == c and j != i]
            p[c] = sum(brought[i, j] for j in others) / max(1, len(others)) + 0.01 / len(rows)
            if c == own and not others:
                p[:] = math.nan
                break
        if not np.isnan(p).any():
            total += math.log(p[own] / p.sum())
    assert guessed(rows, labels) == pytest.approx(total, rel=1e-6, abs=1e-9)


def test_wider_ones_pass_over_the_other_columns() -> None:
    features, truth = images("groups")
    upper, labels = features[:, :UPPER], truth[::EACH]
    head = torch.randn(CLASSES, UPPER + 1, generator=torch.Generator().manual_seed(0))
    wide = widened(head, 2 * UPPER)
    torch.testing.assert_close(logits(features, wide), logits(upper, head))
    weight = torch.linspace(0.2, 1, len(truth))
    found = Likeness.of(upper[::EACH], labels, upper, weight, CLASSES, upper[:0])
    torch.testing.assert_close(found.widened(2 * UPPER)(features), found(upper))
    saved = found.widened(2 * UPPER).tensors()
    assert Likeness.taken_from(saved, CLASSES) is not None


def test_a_live_answer_follows_the_labels() -> None:
    features, truth = images("groups")
    live = Live(features, upper=UPPER)
    assert live.telling.shape[1] == 2 * UPPER  # for the first images to label
    live.labels = labelled(truth, 5)
    answer = live.answer()
    assert answer is not None and live.telling.shape[1] == UPPER
    assert float((answer.guess == truth).float().mean()) > 0.8
