"""Logit adjustment at test time: a method's `final` shifts logits wherever the model is used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import tamatch
from tamatch.cli import main
from tamatch.modules import KEY, Shifted, tensors_of
from tamatch.runs.training import Training
from tamatch.storage.folder import RunFolder

ADJUSTED = """
import torch
from tamatch.methods.fixmatch import FixMatch
from tamatch.modules import Shifted

class Adjusted(FixMatch):
    def __init__(self, net, task, **fixmatch):
        super().__init__(net, task, **fixmatch)
        self.register_buffer("log_prior", torch.zeros(task.classes))

    def forward(self, batch):
        with torch.no_grad():
            self.log_prior += torch.arange(len(self.log_prior)) / 10
        return super().forward(batch)

    @property
    def final(self):
        return Shifted(super().final, SHIFT)
"""
WORDS = "--steps 4 --net wrn_10_1 --baseline none --device cpu --ema 0.5 --save-every 1"
IMAGES = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8)


@pytest.fixture(autouse=True)
def own_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(ADJUSTED.replace("SHIFT", "self.log_prior"))
    Path("plain.py").write_text(ADJUSTED.replace("Shifted(super().final, SHIFT)", "super().final"))


def train(file: str, out: str) -> tamatch.model.model.Model:
    words = ["train", "--method", f"{file}:Adjusted", *WORDS.split(), "--out", out]
    assert main(words) == 0
    return tamatch.load(out)


def test_the_shift_is_in_every_use_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    shifted, plain = train("mine.py", "shifted"), train("plain.py", "plain")
    shift = torch.arange(10) * 0.4  # a tenth in each of four steps
    torch.testing.assert_close(shifted.net.logit_shift, shift)
    for name, tensor in plain.net.state_dict().items():  # the training is the same
        torch.testing.assert_close(tensors_of(shifted.net)[name], tensor)

    def adjusted(images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            p = plain.predict(images).probabilities
            logits = torch.from_numpy(p).log() * plain.facts.temperature + shift
            return (logits / shifted.facts.temperature).softmax(-1).numpy()

    want = adjusted(IMAGES)
    np.testing.assert_allclose(shifted.predict(IMAGES).probabilities, want, atol=1e-5)
    assert np.abs(want - plain.predict(IMAGES).probabilities).max() > 0.05
    assert shifted.features(IMAGES).shape == plain.features(IMAGES).shape
    pool = [row["error"] for row in RunFolder(Path("shifted")).rows() if row["kind"] == "test"]
    assert tamatch.evaluate("shifted").error == pytest.approx(pool[-1])
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    import onnxruntime

    for form in ("onnx", "pt2", "safetensors"):  # each compares its answers with the model's
        assert tamatch.export("shifted", form).difference < 1e-4
    [file] = Path("shifted").rglob("*.onnx")
    session = onnxruntime.InferenceSession(file)
    pixels = np.ascontiguousarray(IMAGES.transpose(0, 3, 1, 2))
    [found] = session.run(None, {session.get_inputs()[0].name: pixels})
    np.testing.assert_allclose(found, shifted.predict(IMAGES).probabilities, atol=1e-5)


def test_a_resumed_run_has_the_same_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train("mine.py", "whole")
    save = Training.save

    def stop(self: Training) -> None:
        save(self)
        if self.engine.steps_done == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "save", stop)
        words = ["train", "--method", "mine.py:Adjusted", *WORDS.split(), "--out", "stopped"]
        assert main(words) == 130
    assert main(["resume", "stopped"]) == 0
    again = tamatch.load("stopped")
    assert isinstance(again.net, Shifted)
    first, second = tensors_of(whole.net), tensors_of(again.net)
    assert KEY in first and first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("shape", [(40, 8, 8), (40, 5)], ids=["images", "rows"])
def test_estimators_shift_too_and_keep_it(shape: tuple[int, ...]) -> None:
    import pickle

    samples = np.random.default_rng(0).random(shape).astype(np.float32)
    labels = np.repeat([0, 1], 20)
    labels[4:20] = labels[24:] = -1
    Path("far.py").write_text(ADJUSTED.replace("SHIFT", "torch.tensor([0.0, 50.0])"))
    small = {"net": "wrn_10_1"} if len(shape) == 3 else {}
    fitted = tamatch.SSLClassifier("far.py:Adjusted", steps=2, device="cpu", **small)
    fitted.fit(samples, labels)
    for model in (fitted, pickle.loads(pickle.dumps(fitted))):
        assert model.predict_proba(samples)[:, 1].min() > 0.99


def test_a_shift_of_another_length_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(ADJUSTED.replace("SHIFT", "self.log_prior[:3]"))
    assert main(["train", "--method", "mine.py:Adjusted", *WORDS.split(), "--out", "run"]) == 2
    told = "must have one number for each class, shape (10,), not (3,)."
    assert told in capsys.readouterr().err


def test_what_a_class_fixes_and_passes_on_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(
        "from tamatch.methods.flexmatch import FlexMatch\n\nclass Mine(FlexMatch):\n"
        "    def __init__(self, net, task, **more):\n"
        "        super().__init__(net, task, tau=0.9, **more)\n"
    )
    assert main(["train", "--method", "mine.py:Mine", *WORDS.split(), "--out", "run"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        "tamatch: --method mine.py:Mine: Mine or a parent fixes tau and also passes on a tau that "
        "it was given. A class that fixes what its parent leaves open names it: add `tau=…` after "
        "the `*` of its __init__, and pass that on."
    )


def test_every_method_of_the_family_can_shift_by_what_its_net_prefers() -> None:
    words = "--method fixmatch --test-strength -1 --out mended"
    assert main(["train", *words.split(), *WORDS.split()]) == 0
    shift = tamatch.load("mended").net.logit_shift
    preferred = (-shift).exp()  # p_model + 1e-6
    assert float(preferred.sum()) == pytest.approx(1 + 1e-5, abs=1e-5) and preferred.std() > 0
    assert main(["export", "mended", "--format", "safetensors", "--out", "mended.safetensors"]) == 0
