"""The cases in which methods and references are compared leave nothing out, and are not easy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tamatch.methods import METHODS

from .cases import CASES, Case
from .crmatch import cosines
from .making import batch_for
from .net import linear
from .records import Result
from .starts import far_apart
from .table import REFERENCES

# Masks that take everything: in the first step, and while few images were ever sure.
EASY = {
    "flexmatch: default",
    "flexmatch: hardly learnt",
    "freematch: default",
    "infomatch: default",
}


def each_result(case: Case) -> Iterator[Result]:
    """The reference's steps for all seeds, without learning."""
    for seed in range(5):
        reference, rng = case.made(seed)
        for step in case.steps_of(seed):
            yield reference.step(batch_for(reference, rng, step))


def results(case: Case) -> list[Result]:
    return [*each_result(case)]


def test_every_method_and_every_reference_has_a_case() -> None:
    assert {case.name for case in CASES} == METHODS.keys()
    assert {case.reference for case in CASES} == REFERENCES.keys()
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.id not in EASY and "mask" in next(each_result(c)).values],
    ids=lambda case: case.id,
)
def test_masks_are_neither_empty_nor_full(case: Case) -> None:
    means = [result.values["mask"].mean() for result in results(case)]
    mixed = sum(0 < mean < 1 for mean in means)
    assert mixed >= 4 and 0.05 < np.mean(means) < 0.95, means


@pytest.mark.parametrize("name", ["tamatch", "adamatch", "remixmatch", "softmatch"])
def test_rescaling_changes_labels(name: str) -> None:
    for case in CASES:
        if case.reference == name and case.start is not None:
            values = [result.values for result in results(case)]
            assert any(np.any(v["p"].argmax(1) != v["aligned"].argmax(1)) for v in values), case.id


@pytest.mark.parametrize("name", ["tamatch", "softmatch"])
def test_weights_differ(name: str) -> None:
    for case in CASES:
        if case.reference == name and case.start is not None and case.hyper.get("weigh", True):
            spread = [np.ptp(result.values["weight"]) for result in results(case)]
            assert np.median(spread) > 0.02, case.id


def test_dash_uses_soft_and_hard_targets() -> None:
    (case,) = [c for c in CASES if c.title == "down to the floor"]
    used = [r for r in results(case) if r.state["k"] > 0]
    at_floor = [bool(r.state["rho"] == 0.15) for r in used]
    assert any(at_floor) and not all(at_floor)


def test_comatch_and_simmatch_use_their_memories() -> None:
    for case in CASES:
        if case.reference in ("comatch", "simmatch") and case.start is not None:
            last = results(case)[1]
            assert np.abs(last.values["target"] - last.values["aligned"]).max() > 1e-2, case.id


def test_never_sure_images_hold_flexmatch_down_unless_told_not_to() -> None:
    hardly = [case for case in CASES if case.title.startswith("hardly learnt")]
    tops = {case.title: max(r.state["beta"].max() for r in results(case)) for case in hardly}
    assert tops["hardly learnt"] < 1 == tops["hardly learnt, no warm-up"]


def test_crmatch_sees_angles_of_both_kinds() -> None:
    (case,) = [c for c in CASES if c.start is far_apart]
    cosine: list[float] = []
    for seed in range(5):
        reference, rng = case.made(seed)
        batch = batch_for(reference, rng, 0)
        mask = reference.step(batch).values["mask"]
        weak, strong = (linear(reference.params, "distance", reference.net(v).map) for v in batch.u)
        cosine += cosines(strong, weak)[mask == 1].tolist()
    assert 0.05 < np.mean(np.array(cosine) < 0) < 0.6
