"""Which images come first, on cases where one can say so by hand."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tamatch.review import picking
from tamatch.review.picking import pick_order, typicality, usefulness, weakness

NONE = np.empty((0, 2), np.float32)


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


def test_weak_classes_are_those_the_model_is_unsure_of() -> None:
    p = rows([0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.4, 0.6, 0.0])
    assert weakness(p) == pytest.approx([0, (0.9 - 0.6) / 0.9, 1])  # the third is never predicted
    assert weakness(rows([0.7, 0.3], [0.3, 0.7])) == pytest.approx([0, 0])


def test_usefulness_is_uncertainty_times_weakness() -> None:
    p = rows([1.0, 0.0], [0.5, 0.5], [0.2, 0.8])
    w = weakness(p)
    assert w == pytest.approx([1, 0])  # classes 0 and 1 have the mean confidences 0.75 and 0.8
    assert usefulness(p) == pytest.approx([0, 1 * 1.5, 0.4 * 1.2])


def test_unsure_before_sure() -> None:
    p = rows([0.99, 0.01], [0.5, 0.5], [0.2, 0.8])
    same = np.eye(3, dtype=np.float32)  # all equally far from each other
    assert pick_order(p, same, np.empty((0, 3), np.float32)).tolist() == [1, 2, 0]


def test_unlike_before_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three equal images and two others, somewhat surer: one of them comes second."""
    monkeypatch.setattr(picking, "NEIGHBOURS", 1)
    p = rows([0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.3, 0.7], [0.3, 0.7])
    features = rows([1, 0], [1, 0], [1, 0], [0, 1], [0, 1])
    assert pick_order(p, features, NONE).tolist()[:2] == [0, 3]


def test_typical_images_have_others_like_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd, a pair and a loner, by their two nearest neighbours."""
    monkeypatch.setattr(picking, "NEIGHBOURS", 2)
    features = rows([1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1])
    assert typicality(features) == pytest.approx([1, 1, 1, 0.5, 0.5, 0])
    p = np.full((6, 2), 0.5, np.float32)
    assert pick_order(p, features, np.empty((0, 3), np.float32)).tolist()[:2] == [0, 3]
    assert typicality(features[:1]) == pytest.approx([1])
    monkeypatch.setattr(picking, "CROWD", 2)  # a sample of the crowd will do
    assert typicality(np.repeat(features, 2, axis=0)).shape == (12,)


def test_what_is_like_a_labelled_image_waits() -> None:
    p = rows([0.5, 0.5], [0.45, 0.55])
    features = rows([1, 0], [0, 1])
    assert pick_order(p, features, NONE).tolist() == [0, 1]
    assert pick_order(p, features, rows([5, 0.1])).tolist() == [1, 0]


def test_weak_classes_come_first() -> None:
    """Of two images that are unsure alike, the one of the weaker class is more useful."""
    p = rows([0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.9, 0.05, 0.05], [0.02, 0.49, 0.49])
    features = np.eye(4, dtype=np.float32)
    order = pick_order(p, features, np.empty((0, 4), np.float32)).tolist()
    assert weakness(p)[1] > weakness(p)[0]
    assert order.index(1) < order.index(0)


@given(st.integers(0, 40), st.integers(0, 5), st.integers(2, 6), st.data())
def test_every_image_comes_once(n: int, known: int, classes: int, data: st.DataObject) -> None:
    values = st.floats(0, 1, width=32)
    p = data.draw(arrays(np.float32, (n, classes), elements=values)) + np.float32(1e-3)
    p /= p.sum(1, keepdims=True)
    features = data.draw(arrays(np.float32, (n + known, 3), elements=values))
    order = pick_order(p, features[:n], features[n:])
    assert sorted(order.tolist()) == list(range(n))
    assert order.tolist() == pick_order(p, features[:n], features[n:]).tolist()


def test_the_rest_is_ordered_by_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picking, "GREEDY", 3)
    monkeypatch.setattr(picking, "CANDIDATES", 10)
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(4), 50).astype(np.float32)
    order = pick_order(
        p, random.normal(size=(50, 5)).astype(np.float32), np.empty((0, 5), np.float32)
    )
    u = usefulness(p)
    assert set(order[:3]) <= set(np.argsort(-u)[:10])
    assert (np.diff(u[order[3:]]) <= 0).all() and sorted(order.tolist()) == list(range(50))


def test_ten_thousand_images_take_seconds() -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(10), 10_000).astype(np.float32)
    features = random.normal(size=(10_000, 64)).astype(np.float32)
    began = time.perf_counter()
    pick_order(p, features, features[:50])
    assert time.perf_counter() - began < 20  # about 2 s where nothing else runs
