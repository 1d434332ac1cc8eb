"""Generation, selection and utilization are free choices, by name or as objects."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tamatch import kinds, pseudo
from tamatch.errors import UsageError
from tamatch.methods.abc import ABC
from tamatch.methods.acr import ACR
from tamatch.methods.adamatch import AdaMatch
from tamatch.methods.base import Method
from tamatch.methods.cdmad import CDMAD
from tamatch.methods.dash import Dash
from tamatch.methods.defixmatch import DeFixMatch
from tamatch.methods.fixmatch import FixMatch
from tamatch.methods.flexmatch import FlexMatch
from tamatch.methods.freematch import FreeMatch
from tamatch.methods.pseudo_label import PseudoLabel
from tamatch.methods.saw import SAW
from tamatch.methods.simpro import SimPro
from tamatch.methods.softmatch import SoftMatch
from tamatch.methods.tamatch import TaMatch
from tamatch.methods.uda import UDA
from tamatch.pseudo import ByClass, Curriculum, Gaussian, Product, SelfAdaptive, rescale
from tamatch.settings.config import method_options
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits, seen
from tests.methods.miniature import (
    Miniature,
    build,
    check_contract,
    check_finite,
    check_order_does_not_matter,
    task,
)

Options = dict[str, Any]
COMPOSED: list[tuple[type[FixMatch], Options]] = [
    (TaMatch, {"select": "freematch"}),
    (TaMatch, {"select": "flexmatch"}),
    (TaMatch, {"weigh": "class*gaussian"}),
    (FixMatch, {"generate": "rescale"}),
    (FixMatch, {"weigh": "effective"}),
    (AdaMatch, {"weigh": "class"}),
]
ALL: list[tuple[type[Method], Options]] = [
    (PseudoLabel, {}),
    (AdaMatch, {}),
    (UDA, {}),
    (FixMatch, {"tau": 0.5}),
    (FlexMatch, {"tau": 0.5}),
    (Dash, {}),
    (FreeMatch, {}),
    (FreeMatch, {"parity": "usb"}),
    (SoftMatch, {}),
    (DeFixMatch, {"tau": 0.5}),
    (SAW, {}),
    (ABC, {"tau": 0.5}),
    (ACR, {}),
    (CDMAD, {}),
    (SimPro, {}),
    *COMPOSED,
]


@pytest.mark.parametrize(("cls", "options"), ALL)
def test_contract(cls: type[Method], options: Options) -> None:
    check_contract(build(cls, **options))


@pytest.mark.parametrize(("cls", "options"), ALL)
def test_order_does_not_matter(cls: type[Method], options: Options) -> None:
    # the published FreeMatch singles out the first two images, and ABC draws a lot for each
    if "parity" not in options and cls is not ABC:
        check_order_does_not_matter(build(cls, **options))


@pytest.mark.parametrize(("cls", "options"), ALL)
@settings(max_examples=8, deadline=None)
@given(classes=st.integers(2, 1000), reach=st.floats(0.01, 50))
def test_finite(cls: type[Method], options: Options, classes: int, reach: float) -> None:
    check_finite(cls, classes, reach, **options)


@pytest.mark.parametrize(
    ("option", "kind"), [("GENERATE", "Generate"), ("SELECT", "Select"), ("WEIGH", "Weigh")]
)
def test_every_name_of_the_command_line_is_a_part(option: str, kind: str) -> None:
    names = get_args(get_args(getattr(kinds, kind))[0])
    single = {part for name in names for part in name.split("*")}
    assert single == set(getattr(pseudo, option))


@pytest.mark.parametrize(
    "name", ["fixmatch", "adamatch", "uda", "flexmatch", "freematch", "softmatch", "defixmatch",
             "pseudo_label", "tamatch", "saw", "abc", "tamatch_lt"]
)  # fmt: skip
def test_every_method_of_the_family_takes_all_three_by_name(name: str) -> None:
    options = method_options(name)
    for option, kind in (("generate", "Generate"), ("select", "Select"), ("weigh", "Weigh")):
        choices = get_args(get_args(getattr(kinds, kind))[0])
        assert options[option].choices == choices
        assert options[option].default in choices
    assert not {"status", "tuned"} & options.keys()


def run(method: FixMatch, steps: int = 4) -> tuple[list[float], Any]:
    """Losses and last pseudo-labels of a method that has learnt: biased, and sure of little."""
    method.labeler.status.model.value.copy_(torch.tensor([0.6, 0.2, 0.15, 0.05]))
    method.labeler.status.model.fresh.zero_()
    for part in method.modules():
        if isinstance(part, Gaussian):
            part.mean.value.fill_(0.8)
            part.variance.value.fill_(0.01)
    pseudos, losses = seen(method), []
    bias = torch.tensor([1.5, 0.5, 0.0, -1.0])
    for seed in range(steps):
        batch = echo_batch(seed, u=(random_logits(seed) + bias, random_logits(seed + 40)))
        losses.append(method(batch).total.item())
    return losses, pseudos[-1]


OBJECTS: list[tuple[type[FixMatch], Options, Any]] = [
    (TaMatch, {"select": "freematch"}, lambda t: {"select": SelfAdaptive(t)}),
    (TaMatch, {"select": "flexmatch"}, lambda t: {"select": Curriculum(t, 0.7)}),
    (
        TaMatch,
        {"weigh": "class*gaussian"},
        lambda t: {"weigh": Product(ByClass(), Gaussian(t))},
    ),
    (FixMatch, {"generate": "rescale"}, lambda t: {"generate": rescale}),
    (AdaMatch, {"weigh": "class"}, lambda t: {"weigh": ByClass()}),
]


@pytest.mark.parametrize(("cls", "names", "objects"), OBJECTS)
def test_objects_do_what_names_do(cls: type[FixMatch], names: Options, objects: Any) -> None:
    by_name = run(cls(Echo(), echo_task(), tau=0.7, **names))
    by_object = run(cls(Echo(), echo_task(), tau=0.7, **objects(echo_task())))
    plain = run(cls(Echo(), echo_task(), tau=0.7))
    assert by_name[0] == by_object[0] != plain[0]


def test_selectors_judge_the_rescaled_prediction() -> None:
    """TaMatch + FreeMatch: the thresholds follow RE(p^w), not p^w."""
    method = TaMatch(Echo(), echo_task(), select="freematch", lambda_model=0.5)
    _, last = run(method, 1)
    want = 0.999 * 0.25 + 0.001 * last.p.amax(-1).double().mean().item()
    assert method.labeler.select.threshold.value.item() == pytest.approx(want, rel=1e-9)
    shares = 0.999 * 0.25 + 0.001 * last.p.double().mean(0)
    assert method.labeler.select.shares.value.tolist() == pytest.approx(shares.tolist(), rel=1e-9)


def test_product_multiplies_and_both_factors_judge_the_same_prediction() -> None:
    options: Options = {"select": "all"}
    both, by_class, gaussian = (
        run(TaMatch(Echo(), echo_task(), weigh=weigh, **options))[1].weight
        for weigh in ("class*gaussian", "class", "gaussian")
    )
    assert torch.equal(both, by_class * gaussian)
    assert by_class.max() > 1 and gaussian.min() < 1


def test_fixmatch_with_rescaling_is_tamatch_without_weights() -> None:
    ours = run(FixMatch(Echo(), echo_task(), generate="rescale", tau=0.6))
    theirs = run(TaMatch(Echo(), echo_task(), weigh="even", tau=0.6))
    assert ours[0] == theirs[0]


def test_adamatch_with_class_weights_weighs_by_its_own_status() -> None:
    method = AdaMatch(Echo(), echo_task(), weigh="class", momentum=0.5)
    _, last = run(method)
    status = method.labeler.status
    want = status.ratio.minimum(status.bound).clamp(min=1)[last.label]
    assert torch.equal(last.weight, want) and want.max() > 1


def test_a_product_keeps_the_state_of_its_factors() -> None:
    method = TaMatch(Miniature(), task(), weigh="class*gaussian")
    assert any("variance" in name for name in method.state_dict())


def test_a_function_can_be_a_part() -> None:
    method = FixMatch(Echo(), echo_task(), select=lambda guess: (guess.label == 1).float())
    _, last = run(method)
    assert torch.equal(last.mask, (last.label == 1).float())


@pytest.mark.parametrize(
    ("options", "near"),
    [({"select": "flexmach"}, "flexmatch"), ({"weigh": "class*gausian"}, "gaussian"),
     ({"generate": "rescaled"}, "rescale"), ({"generate": "xyz"}, "raw, rescale")],
)  # fmt: skip
def test_a_wrong_name_is_told_with_its_near_miss(options: Options, near: str) -> None:
    with pytest.raises(UsageError, match=near):
        FixMatch(Echo(), echo_task(), **options)
