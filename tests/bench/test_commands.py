"""Every bench from the command line, end to end at smoke scale."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tamatch.bench import BENCHES
from tamatch.bench.plans import PLANS
from tamatch.bench.results import Store
from tamatch.cli import main
from tamatch.data import DataSet, load
from tamatch.methods import BY_THEMSELVES
from tamatch.nets import build
from tests.bench.made import NET, noise, result, small_recipes


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small nets, and noise for the data sets that are not embedded."""
    small_recipes(monkeypatch)
    monkeypatch.setattr(
        "tamatch.settings.inputs.load",
        lambda name, *rest: load(name, *rest) if name == "digits" else noise(name),
    )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("usb --methods fixmatch --settings stl10-40", "STL-10, 40 labels"),
        ("lt --methods tamatch --settings lt-500-4000-150", "CIFAR-10-LT, 500 / 4000, γ = 150"),
        ("ablation-usb --methods tamatch_no_rescaling --settings cifar100-200", "CIFAR-100, 200"),
        ("ablation-lt --methods tamatch_no_clipping --settings lt-1500-3000-100", "1500 / 3000"),
        ("causes --methods replacement", "What affects TaMatch's error"),
        ("causes --methods eps-4", "ε = 1e-4 in the ratio"),
        ("tails --methods one-head --settings lt-500-4000-150", "no second head"),
        ("tails --methods cdmad --settings lt-500-4000-100", "CDMAD"),
        ("classic --methods comatch --settings stl10-classic-40", "STL-10, 40 labels"),
        ("digits --methods supervised", "embedded digits, 40 labels"),
    ],
)
def test_tables(words: str, title: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words.split(), "--seeds", "0", "--steps", "2"]) == 0
    shown = capsys.readouterr()
    assert title in shown.out and "1 of 1 cells done" in shown.out
    assert "missing" not in shown.out
    assert "of the full length" in shown.err
    assert len(list(Path("results").rglob("*.json"))) == 1


@pytest.mark.usefixtures("small")
def test_the_truth_of_an_unknown_pool_is_uniform() -> None:
    words = "bench usb --settings stl10-40 --seeds 0 --methods tamatch --steps 2"
    assert main(words.split()) == 0
    path = next(Path("results").rglob("*.json"))
    assert '"truth": "uniform"' in path.read_text()


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html"])
def test_rank_in_every_format(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "rank", "--format", form]) == 0
    assert "10.33" in capsys.readouterr().out


@pytest.mark.sample(1)
@pytest.mark.parametrize("data", ["eurosat-tuned-20", "cifar10-tuned-40"])
def test_every_row_of_the_stand_in_can_be_tried_on_a_cpu(
    data: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a transformer of one block: rotations, banks, prototypes, attacks, second heads."""

    def images(name: str, root: object, size: int, *rest: object) -> DataSet:
        draw = np.random.default_rng(0).integers(0, 256, (len(noise(name).labels), size, size, 3))
        return dataclasses.replace(noise(name), images=draw.astype(np.uint8))

    monkeypatch.setattr("tamatch.settings.inputs.load", images)
    assert main(["bench", "stand-in", "--smoke", "--settings", data, "--device", "cpu"]) == 0
    assert "20 of 20 cells done" in capsys.readouterr().out
    configs = [json.loads(path.read_text())["config"] for path in Path("results").rglob("*.json")]
    assert {config["method"] for config in configs} == {*PLANS["stand-in"].methods}
    kept = {(c["net"], c["size"], c["head"], c["layer_decay"], c["steps"]) for c in configs}
    assert kept == {("vit_64x1_p8_32", 32, "zero", 0.65, 4)}


@pytest.mark.usefixtures("small")
def test_the_weights_that_runs_start_from_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "stand-in", "--methods", "fixmatch", "--seeds", "0", "--steps", "2"]
    torch.manual_seed(0)
    save_file(build(NET, 10, 8).state_dict(), "tiny.safetensors")
    tuned = [*words, "--settings", "eurosat-tuned-20", "--weights", "tiny.safetensors"]
    assert main(tuned) == 0
    assert "Started from: tiny.safetensors (1 runs)." in capsys.readouterr().out
    assert main([*words, "--settings", "eurosat-tuned-40"]) == 0
    assert "Started from: random weights (1 runs)." in capsys.readouterr().out
    config = json.loads(next(Path("results/eurosat-tuned-20").iterdir()).read_text())["config"]
    assert config["weights"] == "tiny.safetensors"


@pytest.mark.parametrize("words", ["--seeds 0", "--seeds 0 --show", "--seeds 0,1 --list"])
def test_results_from_other_weights_are_refused(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store, bench = Store(Path("results")), "usb --methods fixmatch --settings eurosat-20"
    cell, *_ = (c for c in PLANS["usb"].cells("usb") if c.setting.name == "eurosat-20")
    store.write(cell := dataclasses.replace(cell, method="fixmatch"), result(cell))
    begin = ["bench", *bench.split(), *words.split()]
    assert main([*begin, "--weights", "new/w2.npz"]) == 2
    told = capsys.readouterr().err
    assert (
        "results/eurosat-20/fixmatch.s0.full.r1.json started from random weights, but this "
        "command starts from w2.npz. Use different --results and --runs"
    ) in told
    store.write(cell, result(cell, config={"weights": "w2.npz"}))
    refused = "--list" in words  # that lists a run from random weights beside the one that is in
    assert main(begin) == (2 if refused else 0)
    assert ("started from w2.npz" in capsys.readouterr().err) == refused


@pytest.mark.usefixtures("small")
def test_rank_of_own_results(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bench", "digits", "--methods", "fixmatch", "--seeds", "0", "--steps", "2"])
    assert main(["bench", "rank", "--of", "digits", "--steps", "2"]) == 0
    shown = capsys.readouterr().out
    assert f"1 of {3 * len(BY_THEMSELVES)} cells done" in shown
    ours = shown.split("From our results")[1].splitlines()
    (row,) = (line for line in ours if line.startswith("FixMatch "))
    assert "10.83" not in row  # the paper's rank is one among other settings


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("usb", 348), ("lt", 48), ("ablation-usb", 30), ("ablation-lt", 72),
        ("digits", 3 * len(BY_THEMSELVES)), ("causes", 36), ("stand-in", 240), ("tails", 399),
        ("race", 6), ("race --methods all --settings all --seeds 0", 12 * len(BY_THEMSELVES) - 3),
        ("lt --methods tamatch --seeds 0,1,2,3,4", 20),
        ("usb --settings eurosat-20", 60), ("usb --cell 2/100", 4),
    ],
)  # fmt: skip
def test_list(words: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words.split(), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("tamatch train --data" in line for line in lines) == count
    assert f"{count} runs, 0 of them done." in lines


def test_a_listed_run_is_the_command_that_makes_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = "lt --methods tamatch --seeds 2 --scale 1/8 --settings lt-500-4000-100 --list"
    main(["bench", *words.split()])
    line, *_, last = capsys.readouterr().out.splitlines()
    made_by = line.split("tamatch ", 1)[1].split()
    assert main([*made_by, "--print-config"]) == 0
    shown = capsys.readouterr().out.splitlines()
    for wanted in ("steps: 32768", "seed: 2", "test_every: 128", "head_unlabelled: 4000"):
        assert wanted in shown
    assert any(row.startswith("lambda_target: 0.99992") for row in shown)
    assert "Unchanged" in last


def test_a_listed_run_has_the_options_of_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    words = "usb --methods tamatch --settings eurosat-20 --list --device cpu --weights w.npz"
    main(["bench", *words.split(), "--root", "my data"])
    line = capsys.readouterr().out.splitlines()[0]
    made_by = shlex.split(line.split("tamatch ", 1)[1])
    assert main([*made_by, "--print-config"]) == 0
    shown = capsys.readouterr().out.splitlines()
    for wanted in ("weights: w.npz", "root: my data", "device: cpu"):
        assert wanted in shown


def test_names_and_near_misses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in BENCHES)
    assert main(["bench", "ablation-ust"]) == 2
    assert "Perhaps you meant ablation-usb" in capsys.readouterr().err
    assert main(["bench", "usb", "--metods", "x"]) == 2
    assert "--metods" in capsys.readouterr().err
    assert main(["bench", "rank", "--of", "tabel"]) == 2
    assert "--of tabel is unknown" in capsys.readouterr().err


def test_help_of_a_bench(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", "lt", "--help"])
    assert end.value.code == 0
    assert "lt-500-4000-150" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["usb --list --scale 1/8", "lt --show", "race --show", "rank"])
def test_what_prints_does_not_import_torch(words: str, tmp_path: Path) -> None:
    code = (
        f"import sys; from tamatch.cli import main; assert main(['bench', *{words.split()}]) == 0\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        ("methods", set()),
        ("bench speed --steps 0", {"speed"}),
    ],
)
def test_a_command_loads_the_benches_it_uses(words: str, loaded: set[str]) -> None:
    code = (
        f"import sys; from tamatch.cli import main; main({words.split()})\n"
        "print('loaded:', *(name for name in sys.modules if name.startswith('tamatch.bench.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    names = done.stdout.splitlines()[-1].split()[1:]
    assert {name.removeprefix("tamatch.bench.") for name in names} == loaded, done.stderr
