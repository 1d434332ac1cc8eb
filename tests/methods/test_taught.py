"""TaMatch, solved: its step, and what a teacher says of the pool."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tamatch.errors import UsageError
from tamatch.losses import each_ce
from tamatch.methods.supervised import Supervised
from tamatch.methods.taught import Taught
from tamatch.types import Batch
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits
from tests.methods.miniature import (
    build,
    check_contract,
    check_finite,
    check_order_does_not_matter,
)
from tests.tiny import teach

CLASSES, POOL, IDS = 4, 30, [7, 3, 7, 29, 0, 11]


def batch(seed: int = 0) -> Batch:
    """One strong view; an image of the pool occurs twice."""
    return echo_batch(seed, u=(random_logits(seed + 50, len(IDS)),), ids=IDS)


def said(seed: int) -> tuple[Tensor, Tensor]:
    """A class for each image of the pool, and an amount, for some of them 0."""
    random = torch.Generator().manual_seed(seed)
    amounts = (1.5 * torch.rand(POOL, generator=random) - 0.5).clamp(min=0)
    return torch.randint(CLASSES, (POOL,), generator=random), amounts


def taught(seed: int = 0, **options: float) -> Taught:
    method = Taught(Echo(), echo_task(CLASSES, unlabelled=POOL), **options)
    method.teach(*said(seed))
    return method


def test_contract() -> None:
    method = build(Taught)
    teach(method)
    check_contract(method)
    check_order_does_not_matter(method)
    check_finite(Taught, 300, 40.0)


def ce(logits: list[float], label: int) -> float:
    return math.log(sum(map(math.exp, logits))) - logits[label]


@pytest.mark.parametrize("lambda_u", [1.0, 0.3])
def test_the_loss_is_that_of_a_slow_loop(lambda_u: float) -> None:
    given, (labels, amounts) = batch(1), said(0)
    loss = taught(0, lambda_u=lambda_u)(given)
    x, strong = given.x[0].tolist(), given.u[0].tolist()
    sup = sum(ce(row, int(y)) for row, y in zip(x, given.y, strict=True)) / len(x)
    unsup = 0.0
    for row, i in zip(strong, IDS, strict=True):
        unsup += float(amounts[i]) * ce(row, int(labels[i])) / len(IDS)
    assert unsup > 0
    assert loss.total.item() == pytest.approx(sup + lambda_u * unsup, rel=1e-5)
    assert loss.parts["sup"].item() == pytest.approx(sup, rel=1e-5)
    assert loss.parts["unsup"].item() == pytest.approx(unsup, rel=1e-5)
    used = sum(float(amounts[i]) for i in IDS) / len(IDS)
    assert loss.parts["used"].item() == pytest.approx(used, rel=1e-6)


@pytest.mark.parametrize("told", [False, True])
def test_without_a_teacher_the_labels_are_all_there_is(told: bool) -> None:
    method = Taught(Echo(), echo_task(CLASSES, unlabelled=POOL))
    if told:  # that nothing counts
        method.teach(said(3)[0], torch.zeros(POOL))
    ours, theirs = batch(2), batch(2)
    total = method(ours).total
    supervised = Supervised(Echo(), method.task)(theirs._replace(u=())).total
    assert total.equal(supervised)
    total.backward()
    supervised.backward()
    assert ours.x[0].grad is not None and theirs.x[0].grad is not None
    assert ours.x[0].grad.equal(theirs.x[0].grad)
    assert ours.u[0].grad is not None and not ours.u[0].grad.any()


def test_a_teacher_is_heard_in_place_and_by_a_resumed_run() -> None:
    """A captured step reads the tensors that it was captured with."""
    method = taught(0)
    places = [buffer.data_ptr() for buffer in method.buffers()]
    labels, amounts = said(1)
    method.teach(labels, amounts.double())
    assert [buffer.data_ptr() for buffer in method.buffers()] == places
    assert method.labels.equal(labels) and method.amounts.equal(amounts)
    labels.zero_()  # what the teacher does with it later is its own affair
    assert method.labels.any()
    state = copy.deepcopy(method.state_dict())
    assert state.keys() == {"labels", "amounts"}
    resumed = taught(5)
    resumed.load_state_dict(state)
    assert resumed(batch()).total.equal(method(batch()).total)


def test_a_new_teacher_changes_what_is_learnt() -> None:
    method, found = taught(0), []
    for seed in (0, 1):
        method.teach(*said(seed))
        found.append(method(batch()).total)
    assert not found[0].equal(found[1])


@given(st.integers(0, 100), st.lists(st.integers(0, CLASSES - 1), min_size=POOL, max_size=POOL))
def test_the_class_of_an_image_that_does_not_count_is_of_no_matter(
    seed: int, others: list[int]
) -> None:
    labels, amounts = said(seed)
    method = taught(seed)
    before = method(batch(seed)).total
    method.teach(torch.where(amounts > 0, labels, torch.tensor(others)), amounts)
    assert method(batch(seed)).total.equal(before)


@given(st.lists(st.floats(0, 3), min_size=POOL, max_size=POOL))
def test_the_slope_of_an_image_is_in_proportion_to_its_amount(amounts: list[float]) -> None:
    method, given = taught(0), batch()
    method.teach(method.labels, torch.tensor(amounts))
    method(given).total.backward()
    whole = batch()
    each_ce(whole.u[0], method.labels[whole.id_u]).mean().backward()
    assert given.u[0].grad is not None and whole.u[0].grad is not None
    expected = method.amounts[whole.id_u, None] * whole.u[0].grad
    torch.testing.assert_close(given.u[0].grad, expected)


@pytest.mark.parametrize(
    ("labels", "amounts"),
    [
        (torch.zeros(1, dtype=torch.int64), torch.zeros(1)),
        (torch.zeros(POOL), torch.zeros(POOL)),
        (torch.full((POOL,), CLASSES), torch.zeros(POOL)),
        (torch.full((POOL,), -1), torch.zeros(POOL)),
        (torch.zeros(POOL, dtype=torch.int64), torch.full((POOL,), -1.0)),
        (torch.zeros(POOL, dtype=torch.int64), torch.full((POOL,), torch.nan)),
    ],
)
def test_what_is_no_label_and_amount_of_each_image_is_refused(
    labels: torch.Tensor, amounts: torch.Tensor
) -> None:
    with pytest.raises(UsageError, match=rf"a label from 0 to {CLASSES - 1} and an amount of at"):
        taught(0).teach(labels, amounts)
