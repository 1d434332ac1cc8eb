"""Which methods are compiled on a GPU, and that compiled ones do the same."""

from __future__ import annotations

from functools import partial
from inspect import getsource
from typing import Any

import pytest
import torch

from tamatch import methods
from tamatch.methods.base import Method
from tamatch.methods.dash import Dash
from tamatch.methods.fixmatch import FixMatch
from tamatch.settings.config import method_options
from tamatch.types import Batch, Loss
from tests.tiny import NET, tiny_engine, tiny_method


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the compiler's front alone: no code is generated."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))


# As in conftest.py: the compiler reads it and hides this warning, unless warnings are errors.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", ["tamatch", "flexmatch", "uda"])
def test_a_compiled_method_is_the_method(name: str) -> None:
    """On a CPU torch's compiler loses changes of scalars; tests/gpu has the methods with some."""
    plain, fast = tiny_engine(name), tiny_engine(name)
    fast.method.accelerate()
    for engine in (plain, fast):
        with engine.running():
            for _ in range(3):
                engine.advance()
    found = fast.method.state_dict()
    for key, value in plain.method.state_dict().items():
        torch.testing.assert_close(found[key], value, rtol=1e-4, atol=1e-6, msg=key)


class WithOwnForward(FixMatch):
    def forward(self, batch: Batch) -> Loss:
        return super().forward(batch)


class WithOwnParts(FixMatch):
    pass


@pytest.mark.parametrize(("author", "expected"), [(WithOwnForward, False), (WithOwnParts, True)])
def test_a_forward_that_says_nothing_is_left_alone(
    author: type[FixMatch], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda work, **_: asked.append(work) or work)
    like = tiny_method("fixmatch")
    author(like.net, like.task).accelerate()
    assert bool(asked) == expected


def forwards_with_a_constant_view() -> list[str]:
    """One method for each `forward` that says which view is only looked at."""
    forwards = {methods.get(name).forward: name for name in reversed(methods.METHODS)}
    return [name for own, name in forwards.items() if "constant=" in getsource(own)]


def separable(name: str, net: str, *, joint: bool) -> Method:
    """A method that uses all its pseudo-labels; `joint`: its net is said to mix the images."""
    takes_tau = "tau" in method_options(name)
    method = tiny_method(name, net=net, **({"tau": 0.0} if takes_tau else {}))
    for block in getattr(method.net, "blocks", ()):
        block.drops = False  # the draws would differ
    if joint:
        method.net.independent = False  # type: ignore[assignment]
    if isinstance(method, Dash):
        method.rho_init.fill_(100)
    return method


def batch_of(method: Method) -> Batch:
    torch.manual_seed(1)
    x = tuple(torch.randn(4, 3, 8, 8) for _ in method.views.x)
    u = tuple(torch.randn(6, 3, 8, 8) for _ in method.views.u)
    step, ids = torch.tensor(2), torch.arange(6)
    return Batch(x, torch.arange(4), u, ids[:4], ids, step, step / 40)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", forwards_with_a_constant_view())
def test_a_view_without_gradient_may_go_by_itself(name: str) -> None:
    """Where no image depends on others: the loss and the gradients are those of one pass."""
    found = []
    for joint in (False, True):
        method = separable(name, "vit_tiny_p2_8", joint=joint)
        loss = method(batch_of(method))
        loss.total.backward()
        assert loss.parts.get("used", 1) == 1
        grads = [p.grad for p in method.net.parameters() if p.grad is not None]
        found.append([loss.total.detach(), *loss.parts.values(), *grads])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("net", "passes"), [("vit_tiny_p2_8", [6, 10]), (NET, [16])])
def test_only_images_that_do_not_see_each_other_are_parted(net: str, passes: list[int]) -> None:
    method = separable("fixmatch", net, joint=False)
    seen: list[int] = []
    method.net.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    method(batch_of(method))
    assert seen == passes


@pytest.mark.parametrize("net", ["vit_tiny_p2_8", NET])
def test_no_gradient_goes_through_a_constant_view(net: str) -> None:
    """With any net: a method that forgets to detach would be another one with BatchNorm."""
    method = tiny_method("fixmatch", net=net)
    views = [torch.randn(n, 3, 8, 8) for n in (4, 6, 6)]
    outs = method.predict(*views, constant=1)
    assert [out.logits.requires_grad for out in outs] == [True, False, True]
    assert not any(t.requires_grad for t in outs[1])


def test_what_a_view_by_itself_rounds_is_not_kept() -> None:
    """Autocast would hand weights rounded on one stream to another, which did not wait for it."""
    method = tiny_method("fixmatch", net="vit_tiny_p2_8")
    views = [torch.randn(n, 3, 8, 8) for n in (4, 6, 6)]
    seen: list[tuple[int, bool, bool]] = []

    def look(_: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        kept, enabled = torch.is_autocast_cache_enabled(), torch.is_autocast_enabled("cpu")
        seen.append((len(args[0]), kept, enabled))

    method.net.register_forward_pre_hook(look)
    with torch.autocast("cpu", torch.bfloat16):
        method.predict(*views, constant=1)
        method.predict(*views)
    assert seen == [(6, False, True), (10, True, True), (16, True, True)]
