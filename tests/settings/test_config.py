from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tamatch.data import DATASETS
from tamatch.errors import TamatchError, UsageError
from tamatch.kinds import Between
from tamatch.methods import BY_THEMSELVES, METHODS
from tamatch.runs.build import task_of
from tamatch.settings import recipes
from tamatch.settings.config import RUN_OPTIONS, dump, in_order, method_options
from tamatch.settings.configure import configure
from tests.tiny import digits, own_method


def test_defaults_are_the_demo() -> None:
    run = configure({})
    assert (run.data, run.method, run.baseline) == ("digits", "tamatch", "supervised")
    assert run.options["tau"] == 0.95


def test_a_named_method_trains_alone() -> None:
    assert configure({"method": "tamatch"}).baseline == "none"
    assert configure({"method": "tamatch", "baseline": "supervised"}).baseline == "supervised"


@pytest.mark.parametrize("data", [*DATASETS, "some/folder"])
def test_every_method_has_a_recipe_on_every_data_set(data: str) -> None:
    for method in BY_THEMSELVES:
        run = configure({"data": data, "method": method})
        assert run.options.keys() == method_options(method).keys(), method


def test_recipes_name_only_options_that_exist() -> None:
    for protocol in recipes.PROTOCOLS.values():
        assert protocol.keys() <= RUN_OPTIONS.keys()
    for method, row in METHODS.items():
        options = {name for preset in row.presets.values() for name in preset} | row.counts.keys()
        assert options <= {"unlabelled"} | method_options(method).keys()
        assert row.presets.keys() <= recipes.PROTOCOLS.keys()


def test_a_long_tail_takes_the_place_of_equal_classes_and_the_reverse() -> None:
    tail = configure({"data": "digits", "head_labelled": 20, "gamma": 5})
    assert (tail.labels_per_class, tail.head_labelled, tail.gamma) == (None, 20, 5)
    even = configure({"data": "cifar10-lt", "labels_per_class": 4})
    assert (even.labels_per_class, even.head_labelled, even.head_unlabelled) == (4, None, None)
    assert even.gamma == 1


def test_options_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("steps: 77\ntau: 0.8\nlabels-per-class: 2\n")
    run = configure({"tau": "0.7"}, file)
    assert (run.steps, run.options["tau"], run.labels_per_class) == (77, 0.7, 2)
    assert configure({"labels-per-class": 3}).labels_per_class == 3  # of a file read by a program


@pytest.mark.parametrize("method", BY_THEMSELVES)
def test_a_printed_configuration_reads_back(method: str, tmp_path: Path) -> None:
    run = configure({"method": method, "prior": [0.25, 0.75]})
    (tmp_path / "c.yaml").write_text(dump(run))
    assert configure({}, tmp_path / "c.yaml") == run


def test_none_is_a_value_of_an_option_that_has_another_default(tmp_path: Path) -> None:
    method = own_method(tmp_path, 'k: Annotated[int | None, "k"] = 3')
    run = configure({"method": method, "k": None})
    assert run.options["k"] is None
    (tmp_path / "c.yaml").write_text(dump(run))
    assert configure({}, tmp_path / "c.yaml") == run


@pytest.mark.parametrize(
    ("declared", "given", "value"),
    [
        ('k: Annotated[int, "k"]', "3", 3),
        ('k: Annotated[str | None, "k"] = None', "none", None),
        ('k: Annotated[str | None, "k"] = None', "a b", "a b"),
        ('k: Annotated[float, "k"] | None = 1.0', "none", None),
        ('k: Annotated[bool, "k"] = True', "no", False),
        ('k: Annotated[tuple[float, ...], "k"] = (1, 2)', "3,-4", (3.0, -4.0)),
        ('k: Annotated[tuple[float, ...], "k"] = [1, 2]', None, (1.0, 2.0)),
        ('k: Annotated[Literal["a", "b"], "k"] = "a"', "b", "b"),
        ('ema: Annotated[float, "average"] = 0.5, k: Annotated[int, "k"] = 2', None, 2),
        ("k=0.5", "2", 2.0),  # no Annotated type is needed
        ("k: float = 1", "2.5", 2.5),
        ("k: int | None = 3", "none", None),
        ("k=True", "no", False),
        ('k: Literal["a", "b"] = "a"', "b", "b"),
    ],
)
def test_options_of_a_method_of_one_s_own(
    declared: str, given: str | None, value: Any, tmp_path: Path
) -> None:
    said = {} if given is None else {"k": given}
    assert configure({"method": own_method(tmp_path, declared), **said}).options["k"] == value


TYPES = (
    "Supported are int, float, bool, str, a Literal of strings and tuple[float, ...], each "
    "optionally with `| None`."
)


@pytest.mark.parametrize(
    ("declared", "given", "told"),
    [
        ('k: Annotated[list[int], "k"] = (1,)', None,
         f"Own's option k has the unsupported type list[int]. {TYPES}"),
        ('k: Annotated[tuple[int, ...], "k"] = (1,)', None, "unsupported type tuple[int, ...]."),
        ('k: Annotated[Path, "k"] = Path("x")', None, "has the unsupported type pathlib.Path."),
        ('k: Annotated[int | str, "k"] = 1', None, "has the unsupported type int | str."),
        ('k: Annotated[Literal[1, 2], "k"] = 1', None, "has the unsupported type Literal[1, 2]."),
        ('k: Annotated[float, FRACTION, "k"] = 3.0', None,
         "Own's option k has an invalid default: --k must lie in (0, 1), got 3.0."),
        ('k: Annotated[float, "k"] = None', None, "has an invalid default: --k needs a value."),
        ('k: Annotated[int, "k"]', None, "--k needs a value."),
        ('k: Annotated[tuple[float, ...], "k"] = (1,)', "a=1", "--k takes comma-separated numbers"),
        ('gamma: Annotated[float, "focal exponent"] = 2.0', None,
         "Own's keyword gamma has the name of an option of the run and would never get a value: "
         "rename it."),
        ("warmup=100", None, "Own's keyword warmup has the name of an option of the run"),
        ('k: Annotated[Nowhere, "k"] = 1', None,
         "NameError: name 'Nowhere' is not defined)."),
    ],
)  # fmt: skip
def test_an_option_that_would_be_misread_is_refused(
    declared: str, given: str | None, told: str, tmp_path: Path
) -> None:
    method = own_method(tmp_path, declared)
    with pytest.raises(UsageError) as error:
        configure({"method": method, **({} if given is None else {"k": given})})
    assert told in str(error.value)


def test_a_class_may_fix_what_its_parent_leaves_open(tmp_path: Path) -> None:
    declared = "select='all', tau: float = 0.5, other=object()"
    method = own_method(tmp_path, declared, parent="tamatch.methods.fixmatch.FixMatch")
    assert not {"tau", "other"} & method_options(method).keys()
    assert "select" not in method_options(method) and "weigh" in method_options(method)
    with pytest.raises(UsageError, match=r"--select is not an option: .* fixes select"):
        configure({"method": method, "select": "freematch"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "fixmach"}, "Perhaps you meant fixmatch"),
        ({"tau": "1.5"}, "--tau must lie in (0, 1), got 1.5."),
        ({"tua": "0.5"}, "--tua is not an option. Perhaps you meant --tau (confidence threshold"),
        ({"stpes": 5}, "Perhaps you meant --steps"),
        ({"steps": "ten"}, "--steps takes a whole number, got 'ten'."),
        ({"steps": 0}, "--steps must be at least 1, got 0."),
        ({"lr": -1}, "--lr must be greater than 0, got -1."),
        ({"lr": "nan"}, "--lr takes a number"),
        ({"optimizer": "adamv"}, "Perhaps you meant adamw"),
        ({"clip": "symetric"}, "Perhaps you meant symmetric"),
        ({"graph": "maybe"}, "--graph takes yes or no"),
        ({"seed": -1}, "--seed must lie in [0, 4294967295], got -1."),
        ({"method": "supervised", "tau": 0.9}, "but not of supervised"),
        ({"target": "missing.json"}, "missing.json cannot be read"),
    ],
)
def test_mistakes_are_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as error:
        configure(given)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "given", [[3, 4, 5], "30,40,50", [0.1, 0.2, 0.7], [1 / 3] * 3, np.array([1, 2, 1])]
)
def test_a_known_prior_becomes_shares_and_stays_as_it_is(given: Any) -> None:
    once = configure({"prior": given}).prior
    numbers = [float(v) for v in (given.split(",") if isinstance(given, str) else given)]
    assert once == pytest.approx([v / sum(numbers) for v in numbers], rel=1e-12)
    assert sum(once) == pytest.approx(1, abs=1e-12)
    assert configure({"prior": once}).prior == once  # as a resumed run reads it


@pytest.mark.parametrize("data", ["digits", "cifar10-lt"])
def test_a_known_prior_is_the_target(data: str) -> None:
    assert configure({"data": data, "prior": [3, 1]}).options["target"] == "prior"
    assert (
        configure({"data": data, "prior": [3, 1], "target": "prior"}).options["target"] == "prior"
    )
    assert configure({"data": data, "method": "fixmatch", "prior": [3, 1]}).prior == (0.75, 0.25)


def test_an_option_is_heard_by_the_part_it_is_for() -> None:
    run = configure({"method": "freematch", "select": "fixed", "tau": 0.8})
    assert run.options["tau"] == 0.8
    assert configure({"method": "freematch", "tau": 0.95}).options["select"] == "freematch"


@pytest.mark.parametrize("given", [[0, 0], [2, -1], [math.nan, 1], [math.inf, 1], []])
def test_a_prior_that_cannot_be(given: list[float]) -> None:
    with pytest.raises(UsageError, match=r"--prior: class shares must be non-negative"):
        configure({"prior": given})


def test_a_known_prior_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "shares.json"
    file.write_text(json.dumps({"a": 3, "b": 1}))
    run = configure({"target": str(file)})
    assert run.prior == {"a": 0.75, "b": 0.25} and run.options["target"] == "prior"
    for text in ("[]", "[-1, 2]", "hello", "[a, b]"):
        file.write_text(text)
        with pytest.raises(UsageError):
            configure({"target": str(file)})


@pytest.mark.parametrize("given", ["b=3, a=1", {"b": 3, "a": 1}, {"b": 0.75, "a": 0.25}])
def test_a_prior_by_names_is_put_in_the_order_of_the_classes(given: Any) -> None:
    prior = configure({"prior": given}).prior
    assert prior == {"b": 0.75, "a": 0.25} and configure({"prior": prior}).prior == prior
    assert in_order(prior, ["a", "b"], "photos") == (0.25, 0.75)
    with pytest.raises(UsageError, match=r"a share for 'b', which is not a class of photos; 'c'"):
        in_order(prior, ["a", "c"], "photos")


def test_a_file_with_names_goes_by_them(tmp_path: Path) -> None:
    (tmp_path / "shares.yaml").write_text("9: 19\n" + "".join(f"{i}: 9\n" for i in range(9)))
    run = configure({"target": tmp_path / "shares.yaml"})
    data, split = digits()
    assert task_of(run, data, split).prior == (0.09,) * 9 + (0.19,)


def test_the_method_is_told_of_the_run() -> None:
    data, split = digits()
    task = task_of(configure({"steps": 30, "batch": 5, "unlabelled": 7}), data, split)
    assert (task.steps, task.batch_labelled, task.batch_unlabelled) == (30, 5, 7)
    assert (task.classes, task.labelled, task.unlabelled) == (10, 20, len(split.unlabelled))
    assert task.labelled_shares == (0.1,) * 10 and task.prior is None


@pytest.mark.parametrize(
    ("content", "given", "from_file"),
    [
        ("steps: sixty", {}, True),
        ("tau: 1.5", {"steps": 5}, True),
        ("target: labelled", {"prior": "3,1"}, True),  # the two do not go together
        ("from: nowhere\nweights: x.pt", {}, True),
        ("steps: 5", {"tau": 1.5}, False),
        ("steps: 5", {"stpes": 6}, False),  # --steps is only the advice
        ("steps: sixty", {"steps": "fifty"}, False),
    ],
)
def test_an_error_names_the_file_that_it_comes_from(
    tmp_path: Path, content: str, given: dict[str, Any], *, from_file: bool
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        configure(given, path)
    assert str(caught.value).startswith(f"--config {path}: ") == from_file


def test_a_broken_config_file_is_a_usage_error(tmp_path: Path) -> None:
    for text in ("- a\n- b\n", "steps: [1", "\x00"):
        (tmp_path / "c.yaml").write_text(text)
        with pytest.raises(UsageError):
            configure({}, tmp_path / "c.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        configure({}, tmp_path / "none.yaml")


names = st.sampled_from([*RUN_OPTIONS, *method_options("tamatch"), "nonsense", ""])
values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values |= st.lists(st.integers() | st.text(max_size=3), max_size=3)


@given(st.dictionaries(names, values, max_size=4))
@example({"from_": 0})
def test_no_input_escapes_validation(given: dict[str, object]) -> None:
    try:
        run = configure(given)
    except TamatchError:
        return
    assert configure(yaml.safe_load(dump(run))) == run


def test_references_in_a_file_are_refused(tmp_path: Path) -> None:
    """A few lines of them could stand for more values than memory holds."""
    file = tmp_path / "run.yaml"
    file.write_text("steps: &n 5\nbatch: *n\n")
    with pytest.raises(UsageError, match="is not valid YAML"):
        configure({}, file)


def test_a_key_that_a_file_sets_twice_is_refused(tmp_path: Path) -> None:
    """The first of them would be ignored."""
    file = tmp_path / "run.yaml"
    file.write_text("steps: 5\nbatch: 8\nsteps: 6\n")
    with pytest.raises(UsageError, match=r"is not valid YAML \(line 3\): steps is set twice\."):
        configure({}, file)


@pytest.mark.parametrize("number", ["1" + 3000 * ":59", "0x" + 4000 * "f", 5000 * "9"])
def test_a_number_without_end_is_refused(number: str, tmp_path: Path) -> None:
    """Python cannot show it: in base 60, even YAML reads it."""
    file = tmp_path / "run.yaml"
    file.write_text(f"batch: 8\nsteps: {number}\n")
    with pytest.raises(UsageError, match=r"is not valid YAML \(line 2\): a number of [\d,]+ char"):
        configure({}, file)


def test_an_interval_without_bounds_takes_any_number() -> None:
    assert str(Between()) == "be a number" and str(Between(0)) == "be at least 0"
    assert -1e9 in Between() and -1 not in Between(0)
