"""The classifier of feature vectors: scikit-learn's own checks, names, pipelines, shares."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamatch import FeatureClassifier

EXPECTED_TO_FAIL = {
    "check_classifiers_classes": "it uses -1 as a class, and here -1 means unlabelled",
}


@parametrize_with_checks([FeatureClassifier()], expected_failed_checks=lambda _: EXPECTED_TO_FAIL)
def test_scikit_learn_s_own_checks(estimator: FeatureClassifier, check: Any) -> None:
    check(estimator)


def some_labels(y: Any, count: int, seed: int = 0) -> Any:
    """y with `count` labels a class, and -1 elsewhere."""
    random = np.random.RandomState(seed)
    partly = np.full_like(y, -1)
    for c in np.unique(y):
        own = random.permutation(np.flatnonzero(y == c))[:count]
        partly[own] = y[own]
    return partly


def test_raw_columns_of_any_unit() -> None:
    X, y = load_wine(return_X_y=True)
    partly = some_labels(y, 3)
    model = FeatureClassifier().fit(X, partly)
    known = partly >= 0
    alone = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[known], y[known])
    assert model.score(X, y) >= alone.score(X, y) and model.score(X, y) > 0.9
    assert (model.transduction_[known] == y[known]).all() and (model.transduction_ >= 0).all()
    assert np.mean(model.transduction_ == y) > 0.9
    assert model.coef_.shape == (3, 13) and model.intercept_.shape == (3,)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_coefficients_are_the_classifier(classes: int) -> None:
    X, y = make_blobs(90, centers=classes, random_state=0)
    model = FeatureClassifier().fit(X, some_labels(y, 2))
    z = X @ model.coef_.T + model.intercept_
    best = (z[:, 0] > 0).astype(int) if classes == 2 else z.argmax(1)
    assert (model.predict(X) == best).all()
    assert np.allclose(model.predict_proba(X).sum(1), 1)


def test_names_and_the_text_minus_one() -> None:
    X, y = make_blobs(60, centers=3, random_state=0)
    names = np.array(["ant", "bee", "cat"])[y]
    partly = np.where(np.arange(60) < 20, names, "-1")
    model = FeatureClassifier(prior={"bee": 1, "cat": 1, "ant": 2}).fit(X, partly)
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    assert model.shares_.tolist() == [0.5, 0.25, 0.25]
    assert model.score(X, names) > 0.8 and set(model.transduction_) == set(names)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([1, 2], "one share for each of the 3 classes"),
        ([1, -1, 2], "non-negative"),
        ({"a": 1, 1: 1, 2: 1}, "prior has the classes"),
    ],
)
def test_a_prior_that_does_not_fit(prior: Any, message: str) -> None:
    X, y = make_blobs(30, centers=3, random_state=0)
    with pytest.raises(ValueError, match=message):
        FeatureClassifier(prior=prior).fit(X, y)


def test_pipeline_grid_search_and_pickle() -> None:
    X, y = make_blobs(90, centers=3, random_state=0)
    partly = some_labels(y, 10)
    pipeline = make_pipeline(StandardScaler(), FeatureClassifier())
    grid = {"featureclassifier__prior": [None, [1, 1, 1]]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, partly)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert (again.predict(X) == search.predict(X)).all() and again.score(X, y) > 0.9
