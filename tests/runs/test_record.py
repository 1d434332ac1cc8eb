"""A run writes itself down: the command that repeats it, and the settings it goes on with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tamatch.cli.commands import top_parser
from tamatch.cli.train import given_options
from tamatch.methods import BY_THEMSELVES
from tamatch.runs.end import result_of
from tamatch.runs.record import begin, command
from tamatch.settings.config import Run
from tamatch.settings.configure import configure, stored_config
from tamatch.storage.folder import RunFolder
from tests.tiny import own_method

OPTIONS = """
on: Annotated[bool, "on"] = True, off: Annotated[bool, "off"] = False,
words: Annotated[str, "words"] = "two words", dashes: Annotated[str, "dashes"] = "--not an option",
numbers: Annotated[tuple[float, ...], "numbers"] = (-1.5, 1e-7), missing: Annotated[int, "k"],
perhaps: Annotated[float | None, "perhaps"] = 0.5
"""


def repeated(run: Run) -> Run:
    """The run that its command would make, as the command line reads it."""
    words = shlex.split(command(run, Path("a folder")))
    arguments, arguments.extra = top_parser().parse_known_args(words[1:])
    assert words[0] == "tamatch" and arguments.out == Path("a folder")
    return configure(given_options(arguments), arguments.config)


@pytest.mark.parametrize("data", ["digits", "cifar10-lt", "some/folder"])
@pytest.mark.parametrize("method", BY_THEMSELVES)
def test_the_command_makes_the_same_run(method: str, data: str) -> None:
    run = configure({"method": method, "data": data})
    assert repeated(run) == run


@pytest.mark.parametrize(
    "given",
    [
        {"method": "flexmatch", "threshold_warmup": False},
        {"prior": {"cat": 0.018, "dog": 0.982}},
        {"prior": {"Doe, Jane": 3, "a=b": 1}},
        {"prior": [0.1, 0.2, 0.7], "method": "fixmatch"},
        {"head_labelled": 20, "gamma": -10},
        {"root": "-dash"},
        {"graph": False, "kernels": False, "deterministic": True},
        {"data": "cifar10-lt", "method": "tamatch", "select": "freematch", "target": "uniform"},
    ],
    ids=lambda given: " ".join(map(str, given)),
)
def test_whatever_was_given(given: dict[str, Any]) -> None:
    run = configure(given)
    assert repeated(run) == run


def test_options_of_a_method_of_one_s_own(tmp_path: Path) -> None:
    method = own_method(tmp_path, OPTIONS.strip())
    run = configure({"method": method, "missing": 3, "perhaps": None})
    assert repeated(run) == run
    folder = RunFolder(tmp_path / "run")
    begin(run, folder)
    assert stored_config(folder) == run
    onwards = configure({"from_": str(folder.path)})
    assert onwards.options == run.options


def test_the_result_follows_from_the_log() -> None:
    found = [90.0, 80.0, 3.0, 3.0, *range(10, 28)]  # of 22 tests
    rows: list[dict[str, Any]] = [{"kind": "train", "step": 1, "used": 0.2}]
    for step, error in enumerate(found, 1):
        rows.append({"kind": "test", "step": step, "error": error, "per_class": [100.0 - error]})
        rows.append({"kind": "validation", "step": step, "error": 0.0, "per_class": [100.0]})
    rows.append({"kind": "train", "step": 22, "used": 0.7})
    run = configure({"steps": 22, "seed": 5})
    assert result_of(run, rows, 1.23456) == {
        "method": run.method, "dataset": "digits", "seed": 5, "steps": 22,
        "error_last": 27, "error_median20": 17.5, "error_best": 3.0, "best_step": 3,
        "per_class_accuracy": [73.0], "utilization": 0.7, "seconds": 1.235,
    }  # fmt: skip
    nothing = result_of(run, [], 0.0)
    assert {v for k, v in nothing.items() if k not in ("method", "dataset", "seed", "steps")} == {
        None, 0.0,
    }  # fmt: skip
