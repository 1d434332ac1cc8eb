"""`python -m paper`: from the command line, and from a checkout alone."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from setuptools import find_packages

from paper import race as race_page
from paper.__main__ import COMMANDS, main
from paper.figures import FIGURES
from tamatch.bench.cells import FULL
from tamatch.bench.plans import PLANS
from tamatch.bench.race import Race
from tamatch.bench.results import Curve, Store, Vectors
from tamatch.errors import DataError
from tests.bench.made import result

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_paper_is_not_in_the_wheel() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    packed = find_packages(str(ROOT), **found["find"])
    assert "tamatch.bench" in packed and (ROOT / "paper/__init__.py").exists()
    assert {name.partition(".")[0] for name in packed} == {"tamatch"}


def test_figures_of_full_results() -> None:
    """Three seeds with curves, and the same file again from the same results."""
    store = Store(Path("results"))
    for name, figure in FIGURES.items():
        for cell in figure.cells(next(iter(figure.benches)), FULL):
            store.write(cell, result(cell))
        assert main([name]) == 0
    assert {p.name for p in Path("figures").iterdir()} == {
        "bias-stl10-40.svg", "bias-stl10-40.png",
        "clipping-lt-500-4000-150.svg", "clipping-lt-500-4000-150.png",
        "classes-lt-500-4000-150.svg", "classes-lt-500-4000-150.png",
        "pool-lt-500-4000-150.svg", "pool-lt-500-4000-150.png",
    }  # fmt: skip
    first = Path("figures/bias-stl10-40.svg").read_bytes()
    assert b"<svg" in first[:1000]
    assert Path("figures/bias-stl10-40.png").read_bytes().startswith(b"\x89PNG")
    main(["bias"])
    assert Path("figures/bias-stl10-40.svg").read_bytes() == first


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("name", "data"), [(name, data) for name, figure in FIGURES.items() for data in figure.benches]
)
def test_the_runs_of_a_figure_are_those_of_the_bench_it_names(
    name: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [name, "--data", data, "--scale", "1/8"]
    assert main(words) == 3
    told, cells = capsys.readouterr().err, FIGURES[name].cells(data, Fraction(1, 8))
    runs = f"of the {len(cells)} runs of this figure are in results."
    assert told.startswith(f"paper: 0 {runs} `tamatch bench ")
    assert not Path("figures").exists()
    from tamatch.cli import main as tamatch

    command = told.split("`")[1].split()
    assert tamatch([*command[1:], "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(cell.command({}) in listed for cell in cells)
    assert f"{len(cells)} runs, 0 of" in listed
    Store(Path("results")).write(cells[0], result(cells[0]))
    assert main(words) == 0
    assert capsys.readouterr().err.startswith(f"1 {runs}")


def test_classes_are_drawn_as_the_results_have_them() -> None:
    """A line for each class and method; of the seeds that all methods have, the mean."""
    cells = FIGURES["pool"].cells("cifar10-lt", FULL)
    ours = [result(cell) for cell in cells if (cell.method, cell.seed) != ("tamatch", 2)]
    ours[0] = replace(ours[0], p_model=Vectors([10, 20], [[0.9, 0.1, 0, 0], [0.7, 0.3, 0, 0]]))
    ours[3] = replace(ours[3], p_model=Vectors([10, 20], [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]]))
    panels = FIGURES["pool"].draw(ours).axes
    assert [panel.get_title() for panel in panels] == ["FixMatch", "TaMatch", "TaMatch-LT"]
    labelled = [line for line in panels[0].get_lines() if not line.get_label().startswith("_")]
    assert [line.get_label() for line in labelled] == [
        "a, 60 % of the pool", "b, 20 % of the pool", "c, 15 % of the pool", "d, 5 % of the pool",
    ]  # fmt: skip
    assert [*labelled[0].get_ydata()] == pytest.approx([0.7, 0.6])  # of seeds 0 and 1
    dotted = [line.get_ydata()[0] for line in panels[1].get_lines() if line.get_linestyle() == ":"]
    assert dotted == [0.6, 0.2, 0.15, 0.05]
    (first, *_), *_ = FIGURES["classes"].draw(ours).axes[0].get_lines(), None
    assert first.get_ydata()[-1] == 75.0
    with pytest.raises(DataError, match="no seed in common"):
        FIGURES["classes"].draw([replace(one, per_class=None) for one in ours])


def test_the_picture_of_a_race(capsys: pytest.CaptureFixture[str]) -> None:
    """Minutes to the right, a line for each run, whatever methods there are."""
    assert main(["race"]) == 3
    told = capsys.readouterr().err
    assert told.startswith("paper: no run of these settings and targets is in results: `tamatch ")
    store, race = Store(Path("results")), Race()
    cells = race.plan(PLANS["race"]).cells("race", (0, 1))
    for cell in cells:
        if cell.setting.name == "race-cifar10-250-to-94" and cell.method in ("tamatch", "uda"):
            made, times = result(cell), Curve([1, 2], [60.0, 180.0])
            store.write(cell, replace(made, error=Curve([1, 2], [50.0, 20.0]), clock=times))
    assert main(["race"]) == 0
    assert {p.name for p in Path("figures").iterdir()} == {"race.svg", "race.png"}
    found = list(store.results(cells).values())
    [panel] = race_page.picture(race)(found).axes
    assert panel.get_title() == "CIFAR-10, 250 labels"
    runs = [line for line in panel.get_lines() if not line.get_label().startswith("_")]
    assert [line.get_label() for line in runs] == ["UDA", "UDA", "TaMatch", "TaMatch"]
    assert [*runs[0].get_xdata()] == [1.0, 3.0] and [*runs[0].get_ydata()] == [50.0, 20.0]
    dotted = {line.get_ydata()[0] for line in panel.get_lines() if line.get_linestyle() == ":"}
    assert dotted == {20.0, 10.0, 6.0}


def test_toy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["toy", "--trajectories", "20", "--steps", "20", "--out", "f"]) == 0
    shown = capsys.readouterr().out
    assert "20 starts × 20 trajectories × 20 steps" in shown and "Claim 1" in shown
    assert {p.name for p in Path("f").iterdir()} == {"toy.svg", "toy.png"}


def test_without_matplotlib(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["toy"]) == 2
    assert "figures need matplotlib: `pip install matplotlib`." in capsys.readouterr().err


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html"])
def test_params_in_every_format(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", "--format", form]) == 0
    assert "0.65" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("report --results resluts", "--results resluts is not a folder. The page was not"),
        ("bias --data digits,stl10", "--data takes one name, got 'digits,stl10'."),
        ("clipping --data stl11", "--data stl11 is unknown."),
        ("toy --trajectories 1000000000", "--trajectories must lie in [1, 1000000]"),
        ("toy --steps 0", "--steps must be at least 1, got 0."),
        ("toy --seed -1", "--seed must be at least 0, got -1."),
        ("reprot", "command reprot is unknown. Perhaps you meant report."),
        ("report --otu x", "--otu is not an option. See `python -m paper"),
        ("", "NAME is missing."),
    ],
)
def test_mistakes_are_one_line(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"paper: {told}")


@pytest.mark.parametrize("words", ["params", "toy --steps 2", "--help", "report --help"])
def test_no_command_imports_torch(words: str) -> None:
    code = (
        f"import sys; from paper.__main__ import main\ntry: assert main({words.split()}) == 0\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
