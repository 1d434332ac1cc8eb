"""Exported models say what the run's own model says, and say it without this package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import tamatch
from tamatch import cli, nets
from tamatch.data import load as load_data
from tamatch.errors import NumericError, UsageError
from tamatch.model.export import TOLERANCE, compared, export
from tamatch.model.model import Facts, Model
from tamatch.report import model_card
from tamatch.report.words import literal
from tests.faults.runs import unseal

onnxruntime = pytest.importorskip("onnxruntime")
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "run_onnx.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run on the digits whose net is sure of some images and unsure of others."""
    path = tmp_path_factory.mktemp("export") / "run"
    options = {"steps": 60, "batch": 16, "unlabelled": 16, "lr": 0.1, "ema": 0.0}
    tamatch.train(out=path, data="digits", baseline="none", test_every=60, quiet=True, **options)
    return path


@pytest.fixture(scope="module")
def onnx_file(run: Path) -> Path:
    return export(run, "onnx").path


def digits() -> np.ndarray:
    """1,000 images: the 500 of the test part and others."""
    data = load_data("digits")
    test = data.part("test")
    others = np.setdiff1d(np.arange(len(data.images)), test)[: 1000 - len(test)]
    return np.ascontiguousarray(data.images[np.concatenate([test, others])].transpose(0, 3, 1, 2))


def test_onnx_equals_ours_on_1000_images(run: Path, onnx_file: Path) -> None:
    pixels = digits()
    assert len(pixels) == 1000
    ours = tamatch.load(run).probabilities(torch.from_numpy(pixels)).numpy()
    session = onnxruntime.InferenceSession(onnx_file)
    found = session.run(None, {"pixels": pixels})[0]
    assert (found.argmax(-1) == ours.argmax(-1)).all()
    assert np.abs(found - ours).max() <= 1e-4
    assert ours.max(-1).min() < 0.5 and ours.max() > 0.9  # the comparison saw all kinds
    one = session.run(None, {"pixels": pixels[:1]})[0]
    assert one.shape == (1, 10) and np.abs(one - ours[:1]).max() <= 1e-4


def test_the_onnx_file_takes_bytes_and_tells_of_itself(onnx_file: Path) -> None:
    session = onnxruntime.InferenceSession(onnx_file)
    (pixels,), (probabilities,) = session.get_inputs(), session.get_outputs()
    assert (pixels.name, pixels.type, pixels.shape) == (
        "pixels", "tensor(uint8)", ["batch", 3, 8, 8],
    )  # fmt: skip
    assert (probabilities.name, probabilities.shape) == ("probabilities", ["batch", 10])
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["classes"]) == [str(c) for c in range(10)]


def test_the_example_runs_without_torch(run: Path, onnx_file: Path, tmp_path: Path) -> None:
    files = []
    for i, image in enumerate(digits()[:3]):
        files.append(tmp_path / f"{i}.png")
        Image.fromarray(image.transpose(1, 2, 0)).resize((24, 16)).save(files[-1])
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not here')")
    done = subprocess.run(
        [sys.executable, EXAMPLE, onnx_file, *files],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    ours = tamatch.load(run).predict(files)
    assert [line[1] for line in lines] == ours.label
    assert [float(line[2]) for line in lines] == pytest.approx(ours.confidence, abs=2e-4)


def test_pt2_equals_ours_for_any_batch(run: Path, tmp_path: Path) -> None:
    made = export(run, "pt2", tmp_path / "model.pt2")
    module = torch.export.load(made.path).module()
    pixels = torch.from_numpy(digits()[:33])
    ours = tamatch.load(run).probabilities(pixels)
    with torch.no_grad():
        assert torch.equal(module(pixels), ours)
        assert torch.allclose(module(pixels[:1]), ours[:1], atol=1e-6)


def test_files_do_not_tell_where_they_were_made(run: Path, onnx_file: Path, tmp_path: Path) -> None:
    here = str(Path(tamatch.__file__).parent).encode()
    assert here not in onnx_file.read_bytes()
    made = export(run, "pt2", tmp_path / "model.pt2")
    with zipfile.ZipFile(made.path) as archive:
        assert all(here not in archive.read(name) for name in archive.namelist())


def test_a_safetensors_folder_is_a_model(run: Path, tmp_path: Path) -> None:
    made = export(run, "safetensors", tmp_path / "model")
    assert made.difference == 0
    assert {p.name for p in made.path.iterdir()} == {
        "README.md", "model.json", "model.safetensors",
    }  # fmt: skip
    images = [image.transpose(1, 2, 0) for image in digits()[:3]]
    ours, theirs = (tamatch.load(path).predict(images) for path in (run, made.path))
    assert (ours.probabilities == theirs.probabilities).all()


def test_the_card_tells_data_method_metrics_and_limits(run: Path) -> None:
    card = model_card(run)
    error = json.loads((run / "result.json").read_text())["error_last"]
    assert f"error {error:.2f} %" in card and "test images" in card
    for part in ("## Data", "## Method", "## Metrics", "## Limits", "## Use", "`wrn_10_1_clean`"):
        assert part in card
    assert str(run) not in card


def changed(run: Path, copy: Path, **changes: Any) -> Path:
    """A copy of what the card is made from, with these values in run.json or result.json."""
    copy.mkdir(exist_ok=True)
    (copy / "metrics.jsonl").write_bytes((run / "metrics.jsonl").read_bytes())
    for name in ("run.json", "result.json"):
        record = json.loads((run / name).read_text())
        record |= {key: value for key, value in changes.items() if key in record}
        (copy / name).write_text(json.dumps(record))
    return copy


def test_the_card_counts_the_classes_that_it_does_not_list(run: Path, tmp_path: Path) -> None:
    card = model_card(changed(run, tmp_path, classes=[f"class {i}" for i in range(203)]))
    assert "| `class 199` |" in card and "| `class 200` |" not in card
    assert "\n… and 3 more classes.\n" in card


@pytest.mark.parametrize("error", [0.0, 12.5])
def test_the_card_has_the_error_of_the_baseline(run: Path, tmp_path: Path, error: float) -> None:
    changed(run, changed(run, tmp_path) / "baseline", error_last=error)
    assert f"trained on the labelled images only: {error:.2f} % error." in model_card(tmp_path)


def test_the_card_takes_no_orders_from_names(run: Path, tmp_path: Path) -> None:
    hostile = ["<script>alert(1)</script>", "a\n# heading", "x | y", "[l](http://e.vil)", "`tick`"]
    record = json.loads((run / "run.json").read_text())
    classes, data = hostile + record["classes"][5:], record["data"] | {"name": hostile[1]}
    card = model_card(changed(run, tmp_path, classes=classes, data=data))
    assert "# heading\n" not in card.replace("`a # heading`\n", "")
    assert "| `<script>alert(1)</script>` |" in card and "| `x \\| y` |" in card
    assert "| `[l](http://e.vil)` |" in card and "| `` `tick` `` |" in card


def test_any_text_is_one_code_span() -> None:
    assert literal("a`b``c") == "```a`b``c```"
    assert literal(" \n ") == "–" and "\n" not in literal("a\nb\u202ec")
    assert len(literal("x" * 500)) < 90


def test_a_wrong_model_is_not_written_silently(run: Path) -> None:
    model = tamatch.load(run)

    def shifted(pixels: np.ndarray) -> np.ndarray:
        return model.probabilities(torch.from_numpy(pixels)).numpy() + 2 * TOLERANCE

    with pytest.raises(NumericError, match=r"differ from those of the run by up to 0\.0002"):
        compared(model, shifted)
    with pytest.raises(NumericError, match="nan"):
        compared(model, lambda pixels: np.full((len(pixels), 10), np.nan, np.float32))


def test_the_command_checks_and_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "model.onnx"
    assert cli.main(["export", str(run), "--format", "onnx", "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "matches the run's model on 18 images with ONNX Runtime" in told.out and not told.err
    assert cli.main(["export", str(run), "--format", "onnx", "--out", str(out)]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-run", "--format", "onnx"], "is not a folder"),
        (["{run}", "--format", "tflite"], "--format tflite is unknown. Available: onnx, pt2,"),
        (["{run}"], "--format"),
        (["{run}", "--format", "onnx", "--out", "model.pt2"], "must end in .onnx"),
        (["{run}", "--format", "onnx", "--out", "{run}/folder.onnx"], "is a folder"),
        (["{run}", "--format", "safetensors", "--out", "{run}/run.json"], "is a file"),
        (["{run}", "--format", "safetensors", "--out", "{run}"], "already exists"),
    ],
)
def test_mistakes(
    run: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "folder.onnx").mkdir(exist_ok=True)
    assert cli.main(["export", *(word.replace("{run}", str(run)) for word in words)]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


def test_a_missing_package_is_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UsageError, match="onnxscript: `pip install onnx onnxscript onnxruntime`"):
        export(run, "onnx", tmp_path / "model.onnx")


def test_a_net_that_cannot_be_exported_is_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise RuntimeError("no rule\nfor this")

    monkeypatch.setattr(torch.export, "export", fail)
    with pytest.raises(UsageError, match="cannot export the net wrn_10_1_clean: no rule for this"):
        export(run, "pt2", tmp_path / "model.pt2")


@pytest.mark.slow
@pytest.mark.parametrize("net", ["wrn_28_2", "vit_tiny_p4_16"])
def test_other_nets(net: str, tmp_path: Path, run: Path) -> None:
    """The paper's kinds of nets, with weights large enough for confident answers."""
    torch.manual_seed(0)
    built = nets.build(net, 10, 16).eval()
    with torch.no_grad():
        built.head.weight.mul_(20)
    facts = Facts(net, tuple("abcdefghij"), 16, (0.5,) * 3, (0.2,) * 3, temperature=1.5)
    Model(facts, built).save(tmp_path / "model")
    (tmp_path / "run.json").write_bytes((run / "run.json").read_bytes())
    unseal(tmp_path / "run.json")
    for form in ("onnx", "pt2", "safetensors"):
        assert export(tmp_path, form).difference <= TOLERANCE
