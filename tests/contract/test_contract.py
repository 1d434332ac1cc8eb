"""What every method promises, checked for every row of the table."""

from __future__ import annotations

import copy
import io

import pytest
import torch

from tamatch.methods import METHODS
from tamatch.modules import unshifted
from tamatch.types import Batch
from tests.contract.nosync import Waits, no_sync
from tests.tiny import tiny_engine, tiny_method

ALL = sorted(METHODS)


def late(batch: Batch) -> Batch:
    """The same images past every ramp, warm-up and first epoch."""
    return batch._replace(step=torch.tensor(20_000), progress=torch.tensor(0.9))


@pytest.mark.parametrize("name", ALL)
def test_a_step_never_waits_for_the_device(name: str) -> None:
    engine = tiny_engine(name)
    engine.advance()  # the first step names the meters
    engine.source.prepare(engine.steps_done)
    with no_sync():
        engine.step()


@pytest.mark.parametrize(
    "waits",
    [
        lambda x: x.sum().item(),
        lambda x: x[x > 0],
        lambda x: bool((x > 0).any()),
        lambda x: torch.bincount(x.long()),
        lambda x: torch.nonzero(x),
        lambda x: x.tolist(),
        lambda x: torch.nn.functional.one_hot(x.long()),
    ],
)
def test_the_guard_sees_what_waits(waits: object) -> None:
    with pytest.raises(Waits), no_sync():
        waits(torch.ones(3))  # type: ignore[operator]
    with pytest.raises(Waits), no_sync("rand"):
        torch.rand(3)


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_learns(name: str) -> None:
    engine = tiny_engine(name)
    method = engine.method
    engine.source.prepare(0)
    method(late(engine.batch(engine.device_step))).total.backward()
    still = [
        n
        for n, p in method.named_parameters()
        if p.requires_grad and (p.grad is None or not p.grad.any())
    ]
    assert not still


@pytest.mark.parametrize("name", sorted(set(ALL) - {"supervised", "fully_supervised"}))
def test_the_unlabelled_images_have_a_gradient(name: str) -> None:
    engine = tiny_engine(name)
    for _ in range(2):
        engine.advance()
    engine.source.prepare(engine.steps_done)
    batch = late(engine.batch(engine.device_step))
    u = tuple(v.clone().requires_grad_() for v in batch.u)
    engine.method(batch._replace(u=u)).total.backward()
    assert any(v.grad is not None and v.grad.any() for v in u)


@pytest.mark.parametrize("name", ALL)
def test_resume_is_bit_exact(name: str) -> None:
    whole = tiny_engine(name)
    for _ in range(6):
        whole.advance()
    first = tiny_engine(name)
    for _ in range(3):
        first.advance()
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = tiny_engine(name, seed=0)
    with torch.no_grad():
        for tensor in second.method.state_dict().values():  # nothing may survive from the start
            tensor.fill_(1)
    second.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(3):
        second.advance()
    assert_equal(whole.state_dict(), second.state_dict())


def assert_equal(a: object, b: object, where: str = "state") -> None:
    if isinstance(a, dict) and isinstance(b, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_equal(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list) and isinstance(b, list):
        assert len(a) == len(b), where
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            assert_equal(one, other, f"{where}[{i}]")
    elif isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        assert torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)), where
    else:
        assert a == b, where


@pytest.mark.parametrize("name", ALL)
def test_the_exported_net_has_no_extra_heads(name: str) -> None:
    method = tiny_method(name)
    plain = tiny_method("supervised")
    assert unshifted(method.final).state_dict().keys() == plain.final.state_dict().keys()


@pytest.mark.parametrize("name", ALL)
def test_parts_are_detached_and_finite(name: str) -> None:
    engine = tiny_engine(name)
    engine.source.prepare(0)
    loss = engine.method(engine.batch(engine.device_step))
    assert loss.total.requires_grad and torch.isfinite(loss.total)
    for part, value in loss.parts.items():
        assert not value.requires_grad, part
        assert torch.isfinite(value).all(), part


@pytest.mark.parametrize("name", ALL)
def test_the_average_follows_slowly_and_is_what_is_evaluated(name: str) -> None:
    engine = tiny_engine(name, ema=0.9)
    before = copy.deepcopy(unshifted(engine.method.final).state_dict())
    engine.advance()
    live = engine.method.net.state_dict()
    for key, value in unshifted(engine.method.final).state_dict().items():
        if "running" in key or "num_batches" in key:
            assert torch.equal(value, live[key]), key
        elif value.is_floating_point():
            want = before[key] + (live[key] - before[key]) * (1 - 0.9)
            torch.testing.assert_close(value, want, msg=key)
