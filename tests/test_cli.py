"""The commands as a user types them; in real processes where that matters."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tamatch
from tamatch.cli import main
from tamatch.methods import METHODS
from tamatch.model.evaluate import evaluate
from tests.photos import dark_and_light
from tests.processes import SMALL
from tests.processes import tamatch as process

ROOT = Path(__file__).parents[1]
ROLES = ("labelled", "unlabelled", "test")
Command = Callable[..., CompletedProcess[str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """A command in this process."""

    def call(*words: str) -> CompletedProcess[str]:
        code = main(words)
        return CompletedProcess(words, code, *capsys.readouterr())

    return call


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished run with its baseline."""
    path = tmp_path_factory.mktemp("cli") / "run"
    with redirect_stdout(io.StringIO()) as told:
        assert main(["train", "--out", str(path), *SMALL[:-1], "supervised"]) == 0
    assert "report.html" in told.getvalue()
    assert "Did the unlabelled images help? " in told.getvalue()
    return path


def test_a_run_folder_explains_itself(run: Path) -> None:
    names = {p.name for p in run.iterdir()}
    assert names == {
        "run.json", "result.json", "metrics.jsonl", "split.csv", "checkpoints", "model",
        "predictions", "baseline", "batch.png", "report.html", "log.txt", "trust.json", "pictures",
        "never_accepted.csv",
    }  # fmt: skip
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "finished" and record["step"] == 60
    assert record["data"]["labelled_in_pool"] is True
    result = json.loads((run / "result.json").read_text())
    assert set(result) == {
        "method", "dataset", "seed", "steps", "error_last", "error_median20", "error_best",
        "best_step", "per_class_accuracy", "utilization", "seconds",
    }  # fmt: skip
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    tests = [row for row in rows if row["kind"] == "test"]
    assert [r["step"] for r in tests] == [20, 40, 60]
    assert result["error_last"] == tests[-1]["error"]


def test_the_roles_do_not_overlap(run: Path) -> None:
    rows = read_csv(run / "split.csv")
    roles = {name: {r["image"] for r in rows if r["role"] == name} for name in ROLES}
    assert len(roles["labelled"]) == 40 and len(roles["test"]) == 500
    assert roles["labelled"] <= roles["unlabelled"]
    assert not roles["test"] & (roles["labelled"] | roles["unlabelled"])


def test_the_stored_command_repeats_the_run(run: Path, tmp_path: Path, command: Command) -> None:
    words = shlex.split(json.loads((run / "run.json").read_text())["command"])
    words[words.index("--out") + 1] = str(tmp_path / "again")
    assert words[0] == "tamatch"
    assert command(*words[1:]).returncode == 0
    again = json.loads((tmp_path / "again" / "result.json").read_text())
    first = json.loads((run / "result.json").read_text())
    assert {**again, "seconds": 0} == {**first, "seconds": 0}


def test_evaluate_agrees_with_training(run: Path, command: Command) -> None:
    done = command("evaluate", str(run), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads((run / "result.json").read_text())
    assert json.loads(done.stdout)["error"] == pytest.approx(result["error_last"])


def test_images_that_were_learnt_from_are_told(tmp_path: Path) -> None:
    photos = dark_and_light(tmp_path / "photos", 3, 4, (16, 16))
    out = str(tmp_path / "run")
    words = ["--net", "wrn_10_1", "--size", "16", "--steps", "2", "--baseline", "none"]
    assert main(["train", "--data", str(photos), "--out", out, *words]) == 0
    assert evaluate(out).learnt_from == 0
    found = evaluate(out, str(photos / "train"))
    assert found.learnt_from == found.images == 6
    told = "6 of these images were labelled training images of the run: the figures look too good."
    assert found.lines()[-1] == told


def test_predict_files_and_folders(run: Path, tmp_path: Path, command: Command) -> None:
    for i in range(3):
        Image.fromarray(np.full((20 + i, 30, 3), 80 * i, np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    done = command("predict", str(run), str(tmp_path), str(tmp_path / "1.png"))
    assert done.returncode == 3, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert len(rows) == 4
    assert "broken.png is left out" in done.stderr
    for row in rows:
        total = sum(float(row[f"p_{c}"]) for c in "0123456789")
        assert total == pytest.approx(1, abs=1e-4)
        assert float(row["confidence"]) == max(float(row[f"p_{c}"]) for c in "0123456789")


def test_python_gives_the_same_predictions(run: Path) -> None:
    from sklearn.datasets import load_digits

    rows = read_csv(run / "predictions" / "test.csv")[:20]
    grey = np.rint(load_digits().images * (255 / 16)).astype(np.uint8)
    images = [grey[int(row["image"].split("/")[1])] for row in rows]
    predictions = tamatch.load(run).predict([np.repeat(g[..., None], 3, -1) for g in images])
    assert predictions.label == [row["predicted"] for row in rows]
    assert predictions.confidence == pytest.approx([float(r["confidence"]) for r in rows], abs=1e-5)


def test_methods_and_nets_are_listed(command: Command) -> None:
    rows = json.loads(command("methods", "--json").stdout)
    assert [row["name"] for row in rows] == list(METHODS)
    assert "--tau" in command("methods", "tamatch").stdout
    typed = command("methods", "flexmatch").stdout  # a default as one types it
    assert "(default yes)" in typed and "None" not in command("methods", "dash").stdout
    fixed, *_ = (
        line
        for line in command("methods", "tamatch_no_rescaling").stdout.splitlines()
        if "fixed" in line
    )
    assert fixed.split()[0] == "--generate" and "(fixed at raw)" in fixed
    assert "wrn_28_2" in command("nets").stdout


def test_the_options_of_a_method_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "tamatch_no_rescaling", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["name"] == "tamatch_no_rescaling" and all(
        o["help"] for o in found["options"].values()
    )
    values = {name: (o["default"], o["fixed"]) for name, o in found["options"].items()}
    assert values["generate"] == ("raw", True) and values["tau"] == (0.95, False)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_any_encoding_of_the_output_will_do(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    for words, shown in (("methods", "\\u03a0-Model"), ("bench lt --scale 1/8 --list", "\\u03bb")):
        done = process(*words.split())
        assert done.returncode == 0 and shown in done.stdout, done.stderr


def test_a_finished_run_is_never_overwritten_unasked(run: Path, command: Command) -> None:
    done = command("train", "--out", str(run), *SMALL)
    assert done.returncode == 2
    assert "--overwrite" in done.stderr and "different --out" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --method fixmach", "Perhaps you meant fixmatch"),
        ("predict . x.png", "x.png does not exist"),  # after torch is loaded
    ],
)
def test_mistakes_get_one_line_and_an_exit_code(words: str, message: str) -> None:
    """All of them are in tests/errors."""
    done = process(*words.split())
    assert done.returncode == 2, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.startswith("tamatch: ") and done.stderr.count("\n") == 1


def test_a_run_that_is_refused_leaves_no_empty_folder(tmp_path: Path, command: Command) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "kept").mkdir()
    for out in ("new", "kept"):
        words = ["train", "--data", str(tmp_path / "photos"), "--out", str(tmp_path / out)]
        assert command(*words).returncode == 3
    assert not (tmp_path / "new").exists() and (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("predict {run} {image} --out", "x.csv"),
        ("predict {run} {image} --csv", "x.csv"),
        ("label {run} --out", "x.csv"),
        ("export {run} --format safetensors --out", "model"),
        ("report {run} --out", "x.html"),
        ("report {run} {run}/baseline --out", "x.html"),
    ],
)
def test_a_folder_to_write_to_is_made(words: str, file: str, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "deep" / file
    filled = words.format(run=run, image=run / "batch.png")
    assert main([*filled.split(), str(out)]) == 0
    assert [path.name for path in out.parent.iterdir()] == [file]


def test_help_says_what_each_option_takes() -> None:
    told = process("train", "--help").stdout
    for line in ("--data NAME|DIR ", "--steps N ", "--lr X ", "--from RUN ", "--prior A,B,… "):
        assert line in told, line
    assert "STR" not in told and "TUPLE" not in told
    assert "(default: tamatch)" in told and "default: None" not in " ".join(told.split())


def test_a_method_of_ones_own(tmp_path: Path, command: Command) -> None:
    own = f"{ROOT / 'examples' / 'own_method.py'}:Rising"
    small = [w for w in SMALL if w not in ("--tau", "0.5")]
    done = command(
        "train", "--out", str(tmp_path / "a"), "--method", own, "--tau-start", "0.3", *small
    )
    assert done.returncode == 0, done.stderr
    assert (
        json.loads((tmp_path / "a" / "run.json").read_text())["config"]["options"]["tau_start"]
        == 0.3
    )
    assert command("train", "--method", own, "--tau-start", "3").returncode == 2


def test_a_class_from_python_trains_and_resumes(tmp_path: Path) -> None:
    from examples.own_method import Rising

    options: dict[str, Any] = {"steps": 6, "batch": 4, "unlabelled": 4, "save_every": 3}
    done = tamatch.train(method=Rising, out=tmp_path / "a", quiet=True, **options)
    assert done.accuracy is not None and done.report_path.exists()
    again = tamatch.resume(tmp_path / "a", quiet=True)
    assert again == done and done.baseline is done.baseline_accuracy is None
    options |= {"method": Rising, "baseline": "supervised", "out": tmp_path / "b", "quiet": True}
    both = tamatch.train(**options)
    assert tamatch.resume(tmp_path / "b", quiet=True) == both
    assert both.baseline_accuracy is not None and both.baseline != both.result


def test_pretrained_weights_come_from_a_file(tmp_path: Path, run: Path, command: Command) -> None:
    weights = str(run / "model" / "model.safetensors")
    words = [*SMALL, "--steps", "1", "--weights", weights]
    done = command("train", "--out", str(tmp_path / "a"), *words)
    assert done.returncode == 0, done.stderr
    assert "loaded" in done.stderr
    bad = command("train", "--out", str(tmp_path / "b"), *words[:-1], str(run / "run.json"))
    assert bad.returncode == 2 and "Traceback" not in bad.stderr
