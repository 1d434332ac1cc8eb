"""The scikit-learn classifiers: scikit-learn's own checks, images, and what -1 means."""

from __future__ import annotations

import io
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import tamatch
from tamatch import SSLClassifier, TaMatchClassifier
from tamatch.augment import Augment, Policy
from tamatch.augment.views import VIEWS
from tamatch.data import make_split
from tamatch.estimators.estimator import IN_OPTIONS, run_of
from tamatch.estimators.learners import DROP, STRONG, WEAK, Jitter, data_of, vector_engine
from tamatch.settings.config import Run
from tamatch.settings.inputs import split_plan

QUICK: dict[str, Any] = {"steps": 60, "batch": 16, "unlabelled": 16, "lr": 0.1, "ema": 0.0}
EXPECTED_TO_FAIL = {
    "check_classifiers_classes": "it uses -1 as a class, and here -1 means unlabelled",
}


def expected(estimator: SSLClassifier) -> dict[str, str]:
    return EXPECTED_TO_FAIL


@parametrize_with_checks([SSLClassifier(**{**QUICK, "steps": 20})], expected_failed_checks=expected)
def test_scikit_learn_s_own_checks(estimator: SSLClassifier, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([TaMatchClassifier(**QUICK)], expected_failed_checks=expected)
def test_scikit_learn_s_own_checks_of_tamatch(estimator: SSLClassifier, check: Any) -> None:
    check(estimator)


def test_few_checks_are_left_out() -> None:
    assert len(EXPECTED_TO_FAIL) <= 10 and all(EXPECTED_TO_FAIL.values())


def test_the_check_left_out_passes_with_other_names() -> None:
    """What `check_classifiers_classes` is about, without a class called -1."""
    X, y = make_blobs(30, centers=3, random_state=0, cluster_std=0.1)
    for names in (np.array([0, 1, 2]), np.array(["c", "a", "b"]), np.array([5.0, 0.0, 3.0])):
        model = SSLClassifier(**QUICK).fit(X, names[y])
        assert (model.classes_ == np.unique(names)).all()
        assert (model.predict(X) == names[y]).all()


def blobs(known: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, all labels, and the labels of `known` rows of each class."""
    X, y = make_blobs(240, centers=3, n_features=4, cluster_std=1.5, random_state=1)
    few = np.full(len(y), -1)
    for c in range(3):
        few[np.flatnonzero(y == c)[:known]] = c
    return X, y, few


def digits(known: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images as bytes, all labels, and a few."""
    found = load_digits()
    few = np.full(len(found.target), -1)
    for c in range(10):
        few[np.flatnonzero(found.target == c)[:known]] = c
    return np.rint(found.images * (255 / 16)).astype(np.uint8), found.target, few


def test_unlabelled_rows_are_learnt_from() -> None:
    X, y, few = blobs()
    model = TaMatchClassifier(**{**QUICK, "steps": 100}).fit(X, few)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X, y) > 0.95
    assert model.history_[-1]["step"] == 100 and len(model.history_) == 20
    assert 0 < model.history_[-1]["used"] <= 1
    alone = TaMatchClassifier(**{**QUICK, "steps": 100}).fit(X[few >= 0], few[few >= 0])
    assert not np.array_equal(alone.predict_proba(X), model.predict_proba(X))


def test_names_and_minus_one_go_together() -> None:
    X, _, few = blobs()
    names = np.array(["red", "green", "blue"])
    mixed = np.array([-1 if c < 0 else names[c] for c in few], dtype=object)
    model = TaMatchClassifier(**QUICK).fit(X, mixed)
    assert model.classes_.tolist() == ["blue", "green", "red"]
    assert {*model.predict(X)} <= {*names}
    numbers = TaMatchClassifier(**QUICK).fit(X, few)
    assert numbers.score(X, few) == numbers.score(X[few >= 0], few[few >= 0])


def test_the_units_of_the_features_do_not_matter() -> None:
    X, _, few = blobs()
    other = X * np.array([1e3, 1e-3, 7.0, 0.2]) + np.array([5.0, -1.0, 0.0, 300.0])
    found = [SSLClassifier(**QUICK).fit(rows, few).predict_proba(rows) for rows in (X, other)]
    assert np.allclose(*found, atol=1e-3)


def test_what_is_not_given_is_as_the_parameters_say() -> None:
    scratch = {"batch": 32, "unlabelled": 96, "optimizer": "sgd", "lr": 0.03}
    for side in (8, None):
        run = run_of({"method": "fixmatch", "steps": 10, "batch": 16}, {}, side, labelled=40)
        assert {name: getattr(run, name) for name in scratch} == {**scratch, "batch": 16}
    assert run_of({"method": "fixmatch"}, {}, 8, labelled=40).net == "wrn_16_1_clean"


def test_the_rules_know_the_side_and_the_number_of_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def noted(given: dict[str, Any], options: dict[str, Any], side: int | None, labels: int) -> Run:
        asked.append((side, labels))
        return run_of(given, options, side, labels)

    monkeypatch.setattr("tamatch.estimators.estimator.run_of", noted)
    images, _, few_images = digits(known=4)
    rows, _, few_rows = blobs(known=3)
    brief = {**QUICK, "steps": 1}
    SSLClassifier(**brief).fit(np.repeat(images[:90], 2, axis=1), few_images[:90])
    SSLClassifier(**brief).fit(rows, few_rows)
    assert asked == [(8, 40), (None, 9)]


def named(few: np.ndarray, unlabelled: Any) -> list[Any]:
    names = ["red", "green", "blue"]
    return [unlabelled if c < 0 else names[c] for c in few]


def test_minus_one_may_be_a_text() -> None:
    """In a list, NumPy turns the number into one where the other labels are names."""
    X, _, few = blobs()
    as_sorted = np.where(few < 0, -1, 2 - few)  # blue is the first class
    brief = {**QUICK, "steps": 10}
    numbers = TaMatchClassifier(**brief).fit(X, as_sorted)
    given = (
        named(few, -1),
        np.array(named(few, "-1")),
        np.array(named(few, "-1"), object),
        np.array(named(few, -1), object),
    )
    for y in given:
        model = TaMatchClassifier(**brief).fit(X, y)
        assert model.classes_.tolist() == ["blue", "green", "red"]
        assert np.array_equal(model.predict_proba(X), numbers.predict_proba(X))
        assert model.score(X, y) == numbers.score(X, as_sorted)


@pytest.mark.parametrize("kind", [str, object])
def test_names_are_validated(kind: type) -> None:
    X, _, few = blobs(known=20)
    y = np.array(named(few, "-1"), kind)
    model = TaMatchClassifier(**{**QUICK, "steps": 30})
    assert cross_val_score(model, X, y, cv=2).min() > 0.8


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, object)])
def test_other_signs_of_a_missing_label_are_refused(missing: Any, kind: Any) -> None:
    X, _, few = blobs()
    with pytest.raises(ValueError, match=f"y contains {missing}. Unlabelled rows have -1, or the"):
        TaMatchClassifier(**QUICK).fit(X, kind(named(few, missing)))


def test_class_shares_go_by_the_names_of_the_classes() -> None:
    rows, _, few = blobs()
    quick = {**QUICK, "steps": 3, "tau": 0.4, "target": "prior"}

    def fitted(X: np.ndarray, y: Any, prior: Any) -> np.ndarray:
        net = "wrn_10_1_clean" if X.ndim > 2 else None
        model = TaMatchClassifier(net=net, options={"prior": prior}, **quick)
        found: np.ndarray = model.fit(X, y).predict_proba(X)
        return found

    images = np.random.default_rng(0).integers(0, 256, (len(rows), 8, 8), dtype=np.uint8)
    for X in (rows, images):
        in_order = fitted(X, named(few, -1), (0.1, 0.3, 0.6))
        shares = {"red": 6, "blue": 1, "green": 3}
        assert np.array_equal(fitted(X, named(few, -1), shares), in_order)
        numbers = np.where(few < 0, -1, 7 - few)  # 7, 6 and 5 for red, green and blue
        assert np.array_equal(fitted(X, numbers, {7: 6, 5: 1, 6: 3}), in_order)
        assert not np.array_equal(fitted(X, numbers, {7: 1, 5: 6, 6: 3}), in_order)
        with pytest.raises(ValueError, match="share for 'pink', which is not a class"):
            fitted(X, named(few, -1), {"red": 6, "blue": 1, "pink": 3})


@pytest.mark.parametrize("method", ["fixmatch", "mixmatch", "vat", "remixmatch", "comatch"])
def test_methods_made_for_images_take_vectors(method: str) -> None:
    X, y, few = blobs()
    model = SSLClassifier(method, **{**QUICK, "ema": 0.9, "steps": 20}).fit(X, few)
    assert np.isfinite(model.predict_proba(X)).all() and model.score(X, y) > 0.5


IMAGES_ONLY = {"head": "zero", "normalise": "half", "images": "stream"}


def test_options_of_a_run_are_for_vectors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is dropped in silence."""
    X, _, few = blobs()
    told: list[Any] = []
    own = torch.get_num_threads()
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(
        "tamatch.runs.build.set_up_torch", lambda kind, *, deterministic: told.append(deterministic)
    )
    SSLClassifier(options={"threads": 3, "deterministic": True}, **QUICK).fit(X, few)
    assert told == [3, True, own]  # the threads are put back
    for name, value in IMAGES_ONLY.items():
        with pytest.raises(ValueError, match=f"{name}=… is for images"):
            SSLClassifier(options={name: value}, **QUICK).fit(X, few)


@pytest.mark.parametrize(
    ("name", "value"), [("net", torch.nn.Linear(4, 3)), ("size", 16), ("flips", "none")]
)
def test_parameters_for_images_are_refused_with_rows(name: str, value: Any) -> None:
    X, _, few = blobs()
    with pytest.raises(ValueError, match=f"{name}=… is for images, but X contains rows of numbers"):
        SSLClassifier(**{**QUICK, name: value}).fit(X, few)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("method", "fixmatch", ""),
        ("labels_per_class", 3, ""),
        ("fold", "1/2", ""),
        ("validation_per_class", 1, ""),
        ("from", "runs/demo", ""),
        ("from_", "runs/demo", ""),
        ("seed", 3, ""),
        ("steps", 5, " Pass steps as a parameter of the classifier."),
    ],
)
def test_options_neither_contradict_the_parameters_nor_hide_labels(
    name: str, value: Any, hint: str
) -> None:
    X, _, few = blobs()
    message = (
        rf"options does not take {name}: it takes the options of the method and prior, .*, "
        rf"graph\.{hint}$"
    )
    with pytest.raises(ValueError, match=message):
        SSLClassifier(options={name: value}, **QUICK).fit(X, few)


def test_the_page_names_the_options_of_a_run() -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    listed = page.partition("`options` takes ")[2].partition(". The")[0]
    assert re.findall(r"`(\w+)`", listed) == [*IN_OPTIONS]


def test_layers_of_the_net_for_vectors_may_learn_at_rates_of_their_own() -> None:
    X, _, few = blobs()
    run = SSLClassifier(options={"layer_decay": 0.5}, **QUICK)._run(None, 9)
    data = data_of(X.astype(np.float32), few, ("a", "b", "c"))
    engine = vector_engine(run, data, make_split(data, split_plan(run)), 8)
    names = {id(p): name for name, p in engine.method.net.named_parameters()}
    rates = {
        names[id(p)]: group["base_lr"]
        for group in engine.optimizer.param_groups
        for p in group["params"]
    }
    layers = {"body.0": 0.25, "body.2": 0.5, "head": 1.0}
    assert rates == {
        f"{layer}.{kind}": share * run.lr
        for layer, share in layers.items()
        for kind in ("weight", "bias")
    }


def test_images_are_classified() -> None:
    X, y, few = digits()
    options = {**QUICK, "net": "wrn_10_1_clean", "steps": 100}
    model = TaMatchClassifier(tau=0.8, **options).fit(X, few)
    assert model.score(X, y) > 0.55  # ten classes from 40 labels in 100 steps
    rows = model.predict_proba(X[:50])
    assert rows.shape == (50, 10) and np.allclose(rows.sum(-1), 1, atol=1e-12)
    colour = np.repeat(X[:50, ..., None], 3, -1)
    assert np.array_equal(model.predict_proba(colour), rows)
    assert np.array_equal(model.predict_proba(colour[..., :1] / 255.0), rows)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X[:50]), rows)


@pytest.mark.parametrize(("flips", "able"), [("none", True), ("horizontal", False), (None, False)])
def test_left_and_right_are_told_apart_where_nothing_is_mirrored(
    flips: str | None, able: bool
) -> None:
    """The classes are mirror images of each other."""
    X = np.random.default_rng(0).integers(0, 60, (40, 8, 8), dtype=np.uint8)
    y = np.arange(40) % 2
    X[y == 0, :, :3] += 180
    X[y == 1, :, -3:] += 180
    options = {**QUICK, "net": "wrn_10_1_clean", "steps": 60, "ema": 0.9, "flips": flips}
    assert (SSLClassifier("supervised", **options).fit(X, y).score(X, y) == 1) is able


def test_a_moving_target_moves_by_the_length_of_the_training() -> None:
    run = TaMatchClassifier(target="adaptive", steps=1500)._run(8, 9)
    assert run.options["lambda_target"] == 0.9982539
    given = TaMatchClassifier(target="adaptive", options={"lambda_target": 0.9})._run(8, 9)
    assert given.options["lambda_target"] == 0.9
    assert TaMatchClassifier()._run(8, 9).options["lambda_target"] is None


def test_a_feature_that_never_changes_says_nothing() -> None:
    X, y, few = blobs()
    constant = np.column_stack([X, np.full(len(X), 7.0)])
    model = SSLClassifier(**QUICK).fit(constant, few)
    assert np.isfinite(model.predict_proba(constant)).all()
    assert model.score(constant, y) > 0.8


def test_images_and_vectors_are_not_mixed_up() -> None:
    X, _, few = blobs()
    model = SSLClassifier(**{**QUICK, "steps": 1}).fit(X, few)
    with pytest.raises(
        ValueError, match="X contains images, but this classifier was fitted on vec"
    ):
        model.predict(np.zeros((2, 8, 8), np.uint8))


@given(st.integers(1, 6), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(0, 9))
@settings(max_examples=8)
def test_rows_are_finite_and_sum_to_one(
    features: int, middle: float, spread: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    X = middle + spread * random.standard_normal((12, features))
    model = SSLClassifier(**{**QUICK, "steps": 5}).fit(X, np.arange(12) % 3)
    rows = model.predict_proba(np.concatenate([X, X + 1e9, X - 1e9]))
    assert np.isfinite(rows).all() and (rows >= 0).all()
    assert np.allclose(rows.sum(-1), 1, atol=1e-12)


def test_a_pickle_holds_plain_values_and_safetensors() -> None:
    X, _, few = blobs()
    model = TaMatchClassifier(**QUICK).fit(X, few)
    content, modules = pickle.dumps(model), set()

    class Watching(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            modules.add(module.partition(".")[0])
            return super().find_class(module, name)

    again = Watching(io.BytesIO(content)).load()
    assert modules == {"tamatch", "numpy"}
    stored = model.__getstate__()["learner_"]
    assert isinstance(stored["weights"], bytes) and b'"head.weight"' in stored["weights"][:2000]
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.history_ == model.history_


def test_grid_search_and_pipelines() -> None:
    X, y, few = blobs(known=20)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), TaMatchClassifier(**{**QUICK, "steps": 30})),
        {"tamatchclassifier__tau": [0.6, 0.95]}, cv=2,
    )  # fmt: skip
    search.fit(X, few)
    assert search.best_params_["tamatchclassifier__tau"] in (0.6, 0.95)
    assert search.best_score_ > 0.8  # -1 does not count as an error
    assert search.score(X, y) > 0.8
    assert clone(search.best_estimator_).get_params()["tamatchclassifier"].tau > 0


def test_the_same_seed_gives_the_same_classifier() -> None:
    X, _, few = blobs()

    def rows(seed: Any) -> np.ndarray:
        model = SSLClassifier(**{**QUICK, "steps": 5}, random_state=seed).fit(X, few)
        found: np.ndarray = model.predict_proba(X)
        return found

    assert np.array_equal(rows(3), rows(3)) and not np.array_equal(rows(3), rows(4))
    own = np.random.RandomState(0)
    assert not np.array_equal(rows(own), rows(own))
    before = torch.get_rng_state()
    rows(None)
    assert torch.equal(torch.get_rng_state(), before)


def test_threads_do_not_share_their_draws() -> None:
    """As joblib's threading backend starts them. MixMatch draws from torch's own generator."""
    X, _, few = blobs()

    def rows(seed: int) -> np.ndarray:
        model = SSLClassifier("mixmatch", **{**QUICK, "steps": 20}, random_state=seed)
        found: np.ndarray = model.fit(X, few).predict_proba(X)
        return found

    alone, before = [rows(seed) for seed in range(4)], torch.get_rng_state()
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(rows, range(4)))
    assert np.array_equal(together, alone)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "fixmach"}, "Perhaps you meant fixmatch"),
        ({"options": {"tua": 0.5}}, "Perhaps you meant --tau"),
        ({"steps": 0}, "--steps must be at least 1"),
        ({"device": "gpu9"}, "--device takes"),
        ({"hidden": 0}, "--hidden must be at least 1"),
        ({"hidden": "many"}, "--hidden takes a whole number"),
    ],
)
def test_wrong_parameters_are_value_errors(parameters: dict[str, Any], message: str) -> None:
    X, _, few = blobs()
    with pytest.raises(ValueError, match=message):
        SSLClassifier(**{**QUICK, **parameters}).fit(X, few)


def test_two_classes_must_be_labelled() -> None:
    X, _, few = blobs()
    for y in (np.full(len(X), -1), np.where(few == 0, 0, -1)):
        with pytest.raises(ValueError, match="labels of at least 2 classes"):
            SSLClassifier(**QUICK).fit(X, y)


def test_the_views_of_vectors_are_what_is_documented() -> None:
    rows = torch.zeros(4000, 5, 1, 1) + 1
    step, slot = torch.tensor(3), torch.arange(4000)
    views = Jitter(seed=1)
    plain, weak, medium, strong = (views(name, rows, step, slot, 0) for name in VIEWS)
    assert torch.equal(plain, rows)
    assert abs(float((medium - rows).std()) - STRONG) < 0.01
    assert abs(float((weak - rows).std()) - WEAK) < 0.003 and abs(float(weak.mean()) - 1) < 0.005
    hidden = strong == 0
    assert abs(float(hidden.float().mean()) - DROP) < 0.01
    assert abs(float(strong[~hidden].std()) - STRONG) < 0.01
    assert torch.equal(views("strong", rows[7:8], step, slot[7:8], 0), strong[7:8])
    assert not torch.equal(views("weak", rows, step + 1, slot, 0), weak)
    assert not torch.equal(views("weak", rows, step, slot, 1), weak)


def test_views_are_called_like_those_of_images() -> None:
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    augment = Augment(Policy(8, (0.5,) * 3, (0.2,) * 3), 0)
    for views, samples in ((augment, images), (Jitter(0), torch.zeros(2, 3, 1, 1))):
        seen = views("strong", samples, torch.tensor(0), torch.arange(2), stream=16)
        assert seen.dtype == torch.float32 and seen.shape == samples.shape


def test_both_are_found_where_they_are_looked_for() -> None:
    assert tamatch.TaMatchClassifier().get_params()["tau"] == 0.95
    assert issubclass(tamatch.TaMatchClassifier, tamatch.SSLClassifier)
