"""The printed numbers agree with each other where the paper prints one twice."""

from __future__ import annotations

from tamatch.bench.plans import PLANS
from tamatch.bench.published import TABLE_1, TABLE_3, TABLE_4, TABLE_5, cell


def test_every_printed_table_has_the_plan_s_columns() -> None:
    for name, plan in PLANS.items():
        for method, row in (plan.printed or {}).items():
            assert method in (PLANS["ablation-lt"] if name == "causes" else plan).methods, name
            assert {setting.name for setting in plan.settings} <= row.keys(), (name, method)
    assert list(TABLE_1) != list(PLANS["usb"].methods) and set(TABLE_1) == set(PLANS["usb"].methods)


def test_kinds_of_nothing_are_kept_apart() -> None:
    assert TABLE_1["crmatch"]["stl10-40"].text == "N/A"
    assert TABLE_1["fully_supervised"]["stl10-40"].text == "-"
    assert TABLE_1["crmatch"]["stl10-40"].mean is None


def test_absent_runs_are_those_without_a_number() -> None:
    plan = PLANS["usb"]
    for method, row in TABLE_1.items():
        for setting in plan.settings:
            absent = (setting.data, method) in plan.absent
            assert absent == (row[setting.name].mean is None), (method, setting.name)


def test_rows_printed_twice() -> None:
    for method in ("fixmatch", "tamatch"):
        assert TABLE_4[method] == {k: TABLE_1[method][k] for k in TABLE_4[method]}
        assert TABLE_5[method] == TABLE_3[method]


def test_cells() -> None:
    assert cell("24.19±10.15").std == 10.15
