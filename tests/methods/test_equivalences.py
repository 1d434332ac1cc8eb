"""Methods that coincide under the right conditions do so, in training and not in one loss alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from tamatch.losses import each_mse, sharpen
from tamatch.methods import METHODS, get, mixing
from tamatch.stats import Status
from tamatch.types import Batch, Loss
from tests.methods.echo import seen
from tests.reference.link import task_of, torch_batch
from tests.reference.making import batch_for, ready
from tests.tiny import teach
from tests.toynet import ToyNet

TAU = 0.95


def stream(name: str, steps: range = range(20), seed: int = 0) -> list[Batch]:
    """Batches with the views of this method, of which about half of the images pass 0.95."""
    reference, rng = ready(name, seed)
    made = [batch_for(reference, rng, step) for step in steps]
    return [torch_batch(batch, torch.float32) for batch in made]


def build(name: str, seed: int = 0, **options: Any) -> Any:
    """A method on the net that the streams are made for."""
    reference, _ = ready("fixmatch", seed)
    torch.manual_seed(seed)
    net = ToyNet.of(reference.params).float()
    method = get(name)(net, task_of(reference), **METHODS[name].options | options)
    teach(method)
    return method


def trained(method: Any, batches: list[Batch], rate: float = 0.02) -> list[Loss]:
    """The losses on the way of plain gradient descent."""
    optimizer = torch.optim.SGD(method.parameters(), lr=rate, momentum=0.9)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss: Loss = method(batch)
        loss.total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        method.after_step()
        losses.append(Loss(loss.total.detach(), loss.parts))
    return losses


def assert_same_training(
    ours: Any, theirs: Any, batches: list[Batch], tolerance: float = 0
) -> None:
    """Losses and weights stay together, bit for bit unless a tolerance is given."""
    start = ours.net.W.detach().clone()
    for mine, other in zip(trained(ours, batches), trained(theirs, batches), strict=True):
        torch.testing.assert_close(mine.total, other.total, rtol=tolerance, atol=tolerance)
    assert not torch.equal(ours.net.W, start)
    for key, value in theirs.net.state_dict().items():
        mine = ours.net.state_dict()[key]
        torch.testing.assert_close(mine, value, rtol=tolerance, atol=tolerance, msg=key)


def far_from_tau(pseudos: list[Any]) -> bool:
    """Nearer, rounding may decide who is used."""
    return all((pseudo.p.amax(-1) - TAU).abs().min() > 1e-6 for pseudo in pseudos)


def test_tamatch_is_fixmatch_where_the_ratio_is_one() -> None:
    ours, theirs = build("tamatch", lambda_model=1.0, lambda_target=1.0), build("fixmatch")
    pseudos = seen(ours)
    assert_same_training(ours, theirs, stream("tamatch"))
    assert far_from_tau(pseudos)
    assert 0.1 < torch.stack([pseudo.mask for pseudo in pseudos]).mean() < 0.9
    moving = trained(build("tamatch", lambda_model=0.9), stream("tamatch"))
    still = trained(build("fixmatch"), stream("tamatch"))
    assert moving[-1].total != still[-1].total


def test_flexmatch_uses_everything_at_first() -> None:
    (batch,) = stream("flexmatch", range(1))
    ours, theirs = build("flexmatch"), build("fixmatch", select="all")
    loss = ours(batch)
    assert loss.parts["used"] == 1
    assert torch.equal(loss.total, theirs(batch).total)


def test_flexmatch_is_fixmatch_where_all_classes_are_learnt_alike() -> None:
    (batch,) = stream("flexmatch", range(1))
    ours, theirs = build("flexmatch"), build("fixmatch")
    curriculum = ours.labeler.select
    curriculum.labels.copy_(torch.arange(60) % 5)
    curriculum.counts.copy_(torch.tensor([12] * 5 + [0]))
    loss = ours(batch)
    assert 0 < loss.parts["used"] < 1
    assert torch.equal(loss.total, theirs(batch).total)


def test_freematch_is_fixmatch_with_the_threshold_held_and_no_fairness() -> None:
    ours = build("freematch", momentum=1.0, init_threshold=TAU, lambda_f=0.0)
    assert_same_training(ours, build("fixmatch"), stream("freematch"))
    fair = build("freematch", momentum=1.0, init_threshold=TAU, lambda_f=0.5)
    fixed = trained(build("fixmatch"), stream("freematch"))
    assert trained(fair, stream("freematch"))[-1].total != fixed[-1].total


def test_softmatch_weighs_one_from_the_mean_upwards() -> None:
    method = build("softmatch", momentum=1.0)
    weigh, pseudos = method.labeler.weigh, seen(method)
    weigh.mean.value.fill_(0.8)
    weigh.variance.value.fill_(0.05)
    trained(method, stream("softmatch"))
    for pseudo in pseudos:
        aligned = pseudo.p * method.labeler.status.ratio
        confidence = (aligned / aligned.sum(-1, keepdim=True)).amax(-1)
        above = confidence >= 0.8
        assert 0 < above.float().mean() < 1
        assert (pseudo.weight[above] == 1).all() and (pseudo.weight[~above] < 1).all()


def test_softmatch_with_its_mean_at_zero_is_fixmatch_without_a_threshold() -> None:
    ours, theirs = build("softmatch", momentum=1.0), build("fixmatch", select="all")
    ours.labeler.weigh.mean.value.zero_()
    assert_same_training(ours, theirs, stream("softmatch"))


def test_adamatch_without_alignment_is_fixmatch_with_a_relative_threshold() -> None:
    ours, theirs = build("adamatch", generate="raw"), build("fixmatch", select="relative")
    assert_same_training(ours, theirs, stream("adamatch"))


def test_adamatch_does_not_align_where_labelled_and_unlabelled_images_are_the_same() -> None:
    """p_target and p_model of the same images are equal if they remember nothing."""
    ours, theirs = build("adamatch", momentum=0.0), build("fixmatch", select="relative")
    batches = [
        batch._replace(x=batch.u[:1], y=torch.arange(16) % 5) for batch in stream("adamatch")
    ]
    assert_same_training(ours, theirs, batches, 1e-5)


def test_uda_is_fixmatch_at_temperature_zero() -> None:
    ours, theirs = build("uda", tau=TAU, temperature=1e-4), build("fixmatch")
    assert_same_training(ours, theirs, stream("uda"), 1e-6)
    warm = trained(build("uda", tau=TAU), stream("uda"))
    assert warm[-1].total != trained(build("fixmatch"), stream("uda"))[-1].total


def test_defixmatch_subtracts_fixmatchs_term_on_the_labelled_images() -> None:
    ours, theirs = build("defixmatch", tau=0.7), build("fixmatch", tau=0.7)
    for batch in stream("defixmatch"):
        loss = ours(batch)
        plain = batch._replace(x=batch.x[:1])
        unsup = theirs(plain).parts["unsup"]
        anti = theirs(plain._replace(u=batch.x, id_u=batch.id_x)).parts["unsup"]
        assert anti > 0
        torch.testing.assert_close(loss.parts["anti"], anti)
        torch.testing.assert_close(loss.total, loss.parts["sup"] + 0.5 * (unsup - anti))


def test_defixmatch_is_supervised_where_both_batches_are_the_same() -> None:
    ours, theirs = build("defixmatch", tau=0.7), build("supervised")
    both = [batch._replace(u=batch.x, id_u=batch.id_x) for batch in stream("defixmatch")]
    joined = [batch._replace(x=(torch.cat(batch.x),), y=batch.y.repeat(2)) for batch in both]
    start = copy.deepcopy(theirs.net.state_dict())
    trained(ours, both)
    trained(theirs, joined)
    for key, value in theirs.net.state_dict().items():
        torch.testing.assert_close(ours.net.state_dict()[key], value, rtol=1e-5, atol=1e-6)
    assert not torch.equal(start["W"], theirs.net.W)


@pytest.fixture
def unmixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """λ = 1: each image keeps all of itself."""

    def draw(
        count: int, alpha: float, device: torch.device, each: bool = False
    ) -> tuple[Tensor, Tensor]:
        lam = torch.ones(count if each else (), device=device)
        return lam, torch.arange(count, device=device).flip(0)

    monkeypatch.setattr(mixing, "mixup_draw", draw)


@pytest.mark.usefixtures("unmixed")
def test_mixmatch_at_lambda_one_mixes_nothing() -> None:
    method, labelled = build("mixmatch"), build("supervised")
    for batch in stream("mixmatch", range(50, 55)):
        loss = method(batch)
        p = [method.net(view).logits.softmax(-1) for view in batch.u]
        q = sharpen((p[0] + p[1]) / 2, 0.5)
        unsup = (each_mse(p[0], q).mean() + each_mse(p[1], q).mean()) / 2
        torch.testing.assert_close(loss.parts["sup"], labelled(batch).parts["sup"])
        torch.testing.assert_close(loss.parts["unsup"], unsup.detach())


@pytest.mark.usefixtures("unmixed")
def test_mixmatch_at_lambda_one_is_supervised_where_views_and_temperature_say_nothing() -> None:
    ours, theirs = build("mixmatch", temperature=1.0), build("supervised")
    same = [b._replace(u=(b.u[0], b.u[0])) for b in stream("mixmatch", range(50, 70))]
    assert_same_training(ours, theirs, same, 1e-6)


def aligned_soft_fixmatch() -> Any:
    """Soft labels, aligned by the mean of the last 32 batches, with FixMatch's threshold."""
    status = Status(task_of(ready("fixmatch")[0]), window=32)
    return build("uda", tau=TAU, parity="usb", generate="rescale", status=status)


def test_comatch_before_its_memory_counts_is_soft_fixmatch_with_alignment() -> None:
    ours = build("comatch", memory_after=1024, queue=3, lambda_contrast=0.0)
    batches = stream("comatch")
    plain = aligned_soft_fixmatch()
    start = plain.net.W.detach().clone()
    for mine, other in zip(
        trained(ours, batches),
        trained(plain, [batch._replace(u=batch.u[:2]) for batch in batches]),
        strict=True,
    ):
        assert 0 < other.parts["used"] < 1
        torch.testing.assert_close(mine.total, other.total, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.net.W, plain.net.W, rtol=1e-5, atol=1e-6)
    assert not torch.equal(plain.net.W, start)


@pytest.mark.parametrize(("step", "counts"), [(1023, False), (1024, True)])
def test_comatch_reads_its_memory_after_the_first_epoch(step: int, counts: bool) -> None:
    empty, full = build("comatch", queue=3), build("comatch", queue=3)
    full.memory.p.fill_(0.2)
    (batch,) = stream("comatch", range(1))
    batch = batch._replace(step=torch.tensor(step))
    assert torch.equal(empty(batch).total, full(batch).total) != counts


def test_simmatch_in_its_first_epoch_is_soft_fixmatch_with_alignment() -> None:
    ours = build("simmatch", memory_after=1024)
    projector = copy.deepcopy(ours.project.state_dict())
    assert_same_training(ours, aligned_soft_fixmatch(), stream("simmatch"), 1e-5)
    for key, value in ours.project.state_dict().items():
        assert torch.equal(value, projector[key]), key  # nothing taught it


def test_mean_teacher_is_the_pi_model_while_teacher_and_student_are_the_same() -> None:
    ours, theirs = build("mean_teacher", ema=1e-9, lambda_u=10.0), build("pi_model")
    assert_same_training(ours, theirs, stream("mean_teacher", range(30, 50)), 1e-5)


@pytest.mark.parametrize("name", ["pseudo_label", "pi_model", "mean_teacher"])
def test_ramped_methods_begin_supervised(name: str) -> None:
    (batch,) = stream(name, range(1))
    ours, theirs = build(name), build("supervised")
    loss = ours(batch)
    assert loss.parts["unsup"] > 0
    torch.testing.assert_close(loss.total, theirs(batch).total, rtol=0, atol=0)


UNWEIGHED = ("abc", "simpro")  # λ_u weighs the term of another head, or there is none
UNLABELLED = sorted(METHODS.keys() - {"supervised", "fully_supervised", *UNWEIGHED})


def slope(name: str, **options: Any) -> float:
    """How much the unlabelled term adds to the gradient of the net, past every warm-up."""
    (batch,) = stream(METHODS[name].path.partition(":")[0], range(50, 51))
    batch = batch._replace(step=torch.tensor(20_000))
    found = []
    for factor in (1.0, 0.0):
        method = build(name, **options)
        if name == "dash":
            method.rho_init.fill_(5.0)
        method.lambda_u *= factor
        torch.manual_seed(3)
        found.append(torch.autograd.grad(method(batch).total, method.net.W)[0])
    return float((found[0] - found[1]).abs().max())


@pytest.mark.parametrize("name", UNLABELLED)
def test_the_unlabelled_term_has_a_gradient(name: str) -> None:
    # The memory of CoMatch is empty: nine tenths of a prediction reach no higher threshold.
    assert slope(name, **({"tau": 0.8} if name == "comatch" else {})) > 1e-4


@pytest.mark.parametrize("name", UNWEIGHED)
def test_so_has_an_unweighed_one(name: str) -> None:
    (batch,) = stream(name, range(50, 51))
    others = batch._replace(u=(batch.u[0], *(strong + 1 for strong in batch.u[1:])))
    found = []
    for given in (batch, others):
        method = build(name)
        torch.manual_seed(3)
        found.append(torch.autograd.grad(method(given).total, method.net.W)[0])
    assert (found[0] - found[1]).abs().max() > 1e-4


def test_the_unlabelled_term_of_the_published_mean_teacher_has_none() -> None:
    assert slope("mean_teacher", parity="usb") == 0
