"""The plans: exactly the paper's runs, each of them possible, each with a name of its own."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from fractions import Fraction
from importlib.util import module_from_spec, spec_from_file_location

import pytest
from torch import nn

from paper.params import LAMBDA_MODEL
from tamatch.bench import cells as scale
from tamatch.bench import plans
from tamatch.bench.cells import Cell, explain
from tamatch.bench.plans import DIGITS, LONG_TAIL, PLANS, scale_of, selected_plan, share
from tamatch.errors import UsageError
from tamatch.methods import BY_THEMSELVES, METHODS
from tamatch.methods.dash import Dash
from tamatch.methods.tamatch import LAMBDA_TARGET
from tamatch.settings.config import method_options
from tamatch.settings.configure import configure
from tamatch.types import Task

EIGHTH = Fraction(1, 8)


@pytest.mark.parametrize(
    ("bench", "count"),
    [
        ("usb", 20 * 6 * 3 - 2 * 2 * 3),  # STL-10 has no Fully Supervised and no CRMatch
        ("lt", 4 * 4 * 3),
        ("ablation-usb", 5 * 2 * 3),
        ("ablation-lt", 6 * 4 * 3),
        ("causes", 12 * 3),
        ("stand-in", 20 * 4 * 3),
        ("ablation-stand-in", 5 * 4 * 3),
        ("race", (len(BY_THEMSELVES) * 12 - 3) * 3),
        ("tails", (11 + 8) * 7 * 3),
        ("classic", (20 * 12 - 3) * 3),  # STL-10 has no Fully Supervised
        ("digits", len(BY_THEMSELVES) * 3),
    ],
)
def test_the_number_of_runs(bench: str, count: int) -> None:
    cells = PLANS[bench].cells(bench)
    assert len(cells) == count == len({cell.name for cell in cells})


def test_a_new_method_is_no_row_of_the_paper_s_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tamatch_newer", METHODS["tamatch"])
    monkeypatch.setattr("tamatch.methods.BY_THEMSELVES", (*BY_THEMSELVES, "tamatch_newer"))
    spec = spec_from_file_location("tamatch.bench.later", plans.__file__)
    assert spec is not None and spec.loader is not None
    later = module_from_spec(spec)
    spec.loader.exec_module(later)
    changed = {name for name, plan in later.PLANS.items() if plan != PLANS[name]}
    assert changed == {"digits", "race"}  # which have all methods


def test_what_stl10_lacks() -> None:
    cells = PLANS["usb"].cells("usb")
    on_stl10 = {c.method for c in cells if c.setting.data == "stl10"}
    elsewhere = {c.method for c in cells if c.setting.data == "eurosat"}
    assert elsewhere - on_stl10 == {"fully_supervised", "crmatch"}


@pytest.mark.parametrize("bench", PLANS)
@pytest.mark.parametrize("size", [scale.FULL, EIGHTH])
def test_every_run_is_a_valid_configuration(bench: str, size: Fraction) -> None:
    for cell in PLANS[bench].cells(bench, (0,), size):
        run = configure(cell.options)
        assert run.steps == scale.full_steps(cell.setting.data) * size
        assert run.baseline == "none"


def test_labels_of_each_setting() -> None:
    wanted = {"cifar100-200": 2, "cifar100-400": 4, "stl10-40": 4, "stl10-100": 10}
    wanted |= {"eurosat-20": 2, "eurosat-40": 4}
    found = {s.name: s.options["labels_per_class"] for s in PLANS["usb"].settings}
    assert found == wanted
    run = configure(Cell("lt", LONG_TAIL[3], "tamatch", 1).options)
    assert (run.head_labelled, run.head_unlabelled, run.gamma) == (500, 4000, 150)


def test_benches_share_the_runs_they_have_in_common() -> None:
    table_3 = {c.name for c in PLANS["lt"].cells("lt") if c.method != "supervised"}
    table_5 = {c.name for c in PLANS["ablation-lt"].cells("ablation-lt")}
    assert len(table_3 & table_5) == 2 * 4 * 3  # FixMatch and TaMatch


def test_a_cause_differs_from_tamatch_by_one_option() -> None:
    cells = PLANS["causes"].cells("causes", (0,), EIGHTH)
    plain = dataclasses.asdict(configure(cells[0].options))
    assert cells[0].name in {c.name for c in PLANS["lt"].cells("lt", (0,), EIGHTH)}
    for cell in cells:
        if cell.variant is None:
            continue
        run = dataclasses.asdict(configure(cell.options))
        other = {k for k in run if k != "options" and run[k] != plain[k]}
        other |= {k for k, v in run["options"].items() if v != plain["options"][k]}
        assert other == set(cell.variant.options) and len(other) == 1


def test_scale_shrinks_what_is_counted_in_steps() -> None:
    options = scale.shortened("cifar100", "tamatch", EIGHTH)
    assert options == {
        "steps": 25_600, "warmup": 640, "test_every": 256, "log_every": 64,
    }  # fmt: skip
    assert scale.shortened("cifar100", "comatch", EIGHTH)["memory_after"] == 128
    assert scale.shortened("digits", "simmatch", EIGHTH)["memory_after"] == 12  # of its own 100
    assert scale.shortened("cifar100", "tamatch", scale.FULL) == {}
    dash = scale.shortened("cifar10-lt", "dash", EIGHTH)
    assert (dash["rho_period"], dash["supervised_steps"]) == (1280, 256)


def test_scale_keeps_the_way_of_the_target() -> None:
    """λ^(1/scale) over scale·K steps forgets the start as λ over K steps does."""
    full, short = (
        configure(Cell("lt", LONG_TAIL[0], "tamatch", 0, s).options) for s in (scale.FULL, EIGHTH)
    )
    assert full.options["lambda_target"] is None  # the method's own, which follows
    moved = short.options["lambda_target"]
    assert moved == pytest.approx(LAMBDA_TARGET**8, rel=1e-15)
    assert moved**short.steps == pytest.approx(LAMBDA_TARGET**full.steps, rel=1e-9)
    assert short.options["lambda_model"] == full.options["lambda_model"]
    assert short.ema == full.ema
    fixed = configure(Cell("lt", LONG_TAIL[0], "tamatch_no_ema_target", 0, EIGHTH).options)
    assert fixed.options["lambda_target"] == 1


def test_constants_are_those_of_the_methods() -> None:
    assert scale.LAMBDA_TARGET == LAMBDA_TARGET
    assert method_options("tamatch")["lambda_model"].default == LAMBDA_MODEL
    for data in ("cifar10-lt", "digits"):
        task = Task(2, 4, 4, (0.5, 0.5), steps=scale.full_steps(data))
        dash = Dash(nn.Linear(2, 2), task)
        own = {"rho_period": dash.period, "supervised_steps": dash.warmup}
        assert scale.counted(data, "dash") == own
    for method in ("comatch", "simmatch"):
        steps = METHODS[method].counts["memory_after"].most
        assert method_options(method)["memory_after"].default == steps


def test_the_average_follows_a_short_tuned_run() -> None:
    """As on a person's own images; over a thousand steps it would hold much of the start."""
    quarter = Fraction(1, 4)
    for name, seen in (("eurosat-tuned", 0.996), ("cifar100", None)):
        assert scale.shortened(name, "fixmatch", quarter).get("ema") == seen
    cells = PLANS["stand-in"].cells("stand-in", (0,), quarter)
    assert {configure(cell.options).ema for cell in cells} == {0.996}
    assert "EMA" not in "\n".join(explain(cells)) and "ema 0.999 → 0.996" in "\n".join(
        explain(cells)
    )


def test_a_race_is_tested_as_often_however_short() -> None:
    for size in (scale.FULL, EIGHTH):
        run = configure(PLANS["race"].cells("race", (0,), size)[0].options)
        assert run.test_every == run.log_every == 1024


def test_scale_is_explained() -> None:
    tamatch, comatch, dash = (
        Cell("lt", LONG_TAIL[0], method, 0, EIGHTH) for method in ("tamatch", "comatch", "dash")
    )
    told = "\n".join(explain([tamatch, comatch]))
    for part in ("262,144 → 32,768", "test every 1,024 → 128", "0.99999^8", "1,024 → 128 steps"):
        assert part in told
    assert "Unchanged: weight average (EMA), λ_model" in told
    assert "λ_target" not in "\n".join(explain([Cell("digits", DIGITS, "tamatch", 0, EIGHTH)]))
    counts = "Dash on cifar10-lt: rho period 10,240 → 1,280, supervised steps 2,048 → 256."
    assert counts in explain([dash])


def test_steps_are_a_scale() -> None:
    assert scale_of(PLANS["digits"], None, 6) == Fraction(1, 200)
    assert configure(Cell("digits", DIGITS, "fixmatch", 0, Fraction(1, 200)).options).steps == 6


@pytest.mark.parametrize(
    ("text", "steps"),
    [("0", None), ("2", None), ("x", None), ("1/0", None), (None, 5000), ("1/8", 5)],
)
def test_impossible_scales(text: str | None, steps: int | None) -> None:
    with pytest.raises(UsageError, match=r"--scale|--steps"):
        scale_of(PLANS["digits"], text, steps)


def test_jobs_of_an_array_share_out_all_cells() -> None:
    cells = PLANS["lt"].cells("lt")
    jobs = [share(f"{k}/5", cells) for k in range(1, 6)]
    assert sorted(c.name for job in jobs for c in job) == sorted(c.name for c in cells)
    assert max(map(len, jobs)) - min(map(len, jobs)) <= 1
    for wrong in ("0/5", "6/5", "5", "a/b"):
        with pytest.raises(UsageError, match="--cell"):
            share(wrong, cells)


def test_restrictions() -> None:
    given = Namespace(bench="lt", methods="tamatch,fixmatch", settings="lt-500-4000-100")
    plan = selected_plan(given)
    assert plan.methods == ("fixmatch", "tamatch")
    assert [s.name for s in plan.settings] == ["lt-500-4000-100"]
    with pytest.raises(UsageError, match="Perhaps you meant fixmatch"):
        selected_plan(Namespace(bench="lt", methods="fixmach", settings=None))
