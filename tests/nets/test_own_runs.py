"""Whole runs with a net of the user's own: from the command line, from Python, and safely."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.base import clone
from torch import nn

import tamatch
from tamatch.cli import main
from tamatch.errors import UsageError
from tamatch.nets import CUSTOM
from tamatch.review.session import Session
from tamatch.storage import checkpoint
from tamatch.storage.folder import RunFolder
from tests.dist.torchrun import DOZEN, torchrun
from tests.faults.runs import unseal
from tests.nets import foreign
from tests.processes import environment, fingerprint
from tests.test_docs import DOCS, blocks, folder_of_photos

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_net.py"
SMALL = f"{EXAMPLE}:SmallCNN"
QUICK: dict[str, Any] = {
    "steps": 6, "batch": 4, "unlabelled": 4, "test_every": 3, "save_every": 3, "log_every": 2,
    "threads": 1, "quiet": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos, a file with a net, and a finished run of both."""
    place = tmp_path_factory.mktemp("place")
    folder_of_photos(place / "photos")
    shutil.copy(EXAMPLE, place / "models.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        tamatch.train(
            data="photos", size=8, net="models.py:SmallCNN", out="run", baseline="none",
            validation_per_class=2, **QUICK,
        )  # fmt: skip
    return place


@pytest.fixture
def here(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to work in."""
    shutil.copytree(place, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def half(run: Path) -> None:
    """Back to the last checkpoint but one."""
    shutil.rmtree(checkpoint.saved_in(run / "checkpoints")[-1])
    RunFolder(run).update(status="running", step=3)


WITH_NET = [
    "evaluate run --data photos", "predict run photos/cat", "label run --out new.csv",
    "export run --format pt2", "export run --format safetensors",
    "train --data photos --from run --steps 1 --out next --size 8",
]  # fmt: skip


@pytest.mark.parametrize("words", WITH_NET)
def test_commands_want_the_code_to_be_named(
    words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    told = capsys.readouterr().err
    assert "your own code" in told and "--net FILE.py:NAME" in told and told.count("\n") == 1
    assert main([*words.split(), "--net", "models.py:SmallCNN"]) == 0, capsys.readouterr().err
    assert main([*words.split(), "--net", "models.py:Missing"]) == 2
    if "train" not in words:
        assert main([*words.split(), "--net", "models.py:SmallCNN", "--nets", "x"]) == 2


def test_review_wants_it_too(here: Path) -> None:
    from tamatch.review.command import review

    with pytest.raises(UsageError, match="is your own code"):
        review(Path("run"), browser=False)


def test_onnx_and_the_card_go_on_without_the_code(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "run", "--format", "onnx", "--net", "models.py:SmallCNN"]) == 0
    assert main(["export", "run", "--format", "safetensors", "--net", "models.py:SmallCNN"]) == 0
    folder = here / "run" / "export" / "safetensors"
    assert json.loads((folder / "model.json").read_text())["net"] == "models.py:SmallCNN"
    card = (folder / "README.md").read_text()
    assert "`models.py:SmallCNN`" in card and 'net="FILE.py:NAME"' in card and str(here) not in card
    net = foreign_module()
    net.load_state_dict(
        {k.removeprefix("model."): v for k, v in load_file(folder / "model.safetensors").items()}
    )
    images = torch.rand(3, 3, 8, 8)
    model = tamatch.load(folder, net="models.py:SmallCNN").net
    assert model is not None
    assert torch.equal(model(images).logits, net.eval()(images))


def foreign_module(classes: int = 2) -> nn.Module:
    from examples.own_net import SmallCNN

    return SmallCNN(classes)


def test_no_record_can_name_code_that_is_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even where the user names another file."""
    code = Path("models.py").read_text()
    Path("evil.py").write_text(f"{code}\nfrom pathlib import Path\nPath('executed').touch()\n")
    record = json.loads(Path("run/run.json").read_text())
    record["config"]["net"] = str(here / "evil.py:SmallCNN")
    unseal(Path("run/run.json"), config=record["config"])
    model = Path("run/model/model.json")
    folds = "label run --out new.csv --folds 2 --precision 0.5"
    for name in ("evil.py:SmallCNN", str(here / "evil.py:SmallCNN")):
        unseal(model, net=name)
        for words in (w.split() for w in [*WITH_NET, folds]):
            again = [] if "predict" in words or "evaluate" in words else ["--overwrite"]
            assert main([*words, *again]) == 2
            assert main([*words, *again, "--net", "models.py:SmallCNN"]) == 0, words
            assert main(["report", "run"]) == 0
            assert not Path("executed").exists(), words
    assert Path("run/folds/2-of-2/model").is_dir()
    unseal(model, size=10**6)
    assert main(["predict", "run", "photos/cat", "--net", "models.py:SmallCNN"]) == 3
    assert "size is 1000000, not a whole number from 1 to 4,096" in capsys.readouterr().err
    main(["train", "--net", "evil.py:SmallCNN", "--steps", "1", "--out", "meant"])
    assert Path("executed").exists()


def test_weights_of_other_code_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "run", "photos/cat", "--net", f"{foreign.__file__}:ResNet"]) == 2
    assert "are not those of foreign.py:ResNet as it is now" in capsys.readouterr().err
    assert main(["predict", "run", "photos/cat", "--net", "wrn_10_1"]) == 2
    assert "are not those of wrn_10_1" in capsys.readouterr().err


def test_a_named_net_needs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tamatch.train(net="wrn_10_1", out="run", **{**QUICK, "steps": 1, "baseline": "none"})
    with pytest.raises(UsageError, match="--net works only for models with your own net; "):
        tamatch.load("run", net=SMALL)
    with pytest.raises(UsageError, match="--net works only for runs with your own net; this one"):
        tamatch.resume("run", net=SMALL)
    assert tamatch.load("run", net="wrn_10_1").facts.net == "wrn_10_1"


def test_a_stopped_run_goes_on_and_says_if_the_file_has_changed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, code = Path("run"), Path("models.py").read_text()
    before = fingerprint_of_photos(run)
    half(run)
    assert main(["resume", "run"]) == 0
    assert fingerprint_of_photos(run) == before
    half(run)
    Path("models.py").write_text(code + "\n")
    assert main(["resume", "run"]) == 0
    assert "The file of the net has changed since the checkpoint" in capsys.readouterr().err
    half(run)
    Path("models.py").write_text(code.replace("width: int = 32", "width: int = 16"))
    assert main(["resume", "run"]) == 3
    assert "or the code of your own net or method" in capsys.readouterr().err
    Path("models.py").unlink()
    assert main(["resume", "run"]) == 2
    assert "file models.py not found" in capsys.readouterr().err
    Path("moved.py").write_text(code)
    assert main(["resume", "run", "--net", "moved.py:SmallCNN"]) == 0


def fingerprint_of_photos(run: Path) -> Any:
    (run / "predictions").mkdir(exist_ok=True)
    (run / "predictions" / "test.csv").touch()
    return fingerprint(run)


def test_a_module_from_python_trains_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    module = foreign.ResNet(10)
    start = copy.deepcopy(module.state_dict())
    run = tmp_path / "run"
    done = tamatch.train(net=module, out=run, **QUICK)
    assert (run / "baseline" / "model").is_dir()
    for name, value in module.state_dict().items():
        assert torch.equal(value, start[name]), "the user's own module must not change"
    record = json.loads((run / "run.json").read_text())
    assert record["config"]["net"] == "python:ResNet"
    model = tamatch.load(run, net=module).net
    assert model is not None and isinstance(model.model, foreign.ResNet)
    assert not torch.equal(model.model.conv1.weight, module.conv1.weight)

    before = fingerprint(run)
    half(run)
    del CUSTOM.things["python:ResNet"]  # as in another process
    assert main(["resume", str(run)]) == 2
    assert "Pass it again (net=…)" in capsys.readouterr().err
    again = tamatch.resume(run, net=module, quiet=True)
    assert again.result == {**done.result, "seconds": again.result["seconds"]}
    assert fingerprint(run) == before
    half(run)
    assert main(["resume", str(run), "--net", f"{foreign.__file__}:ResNet"]) == 0
    # the weights are the checkpoint's
    assert fingerprint(run)["model"] == before["model"]


def test_tied_weights_are_saved(tmp_path: Path) -> None:
    run = tamatch.train(net=foreign.Tied, out=tmp_path / "run", **{**QUICK, "steps": 2})
    model = tamatch.load(run.path, net=foreign.Tied).net
    assert model is not None and isinstance(model.model, foreign.Tied)
    assert model.model.two.weight is model.model.three.weight


def test_going_on_from_a_run(here: Path) -> None:
    run = tamatch.train(
        data="photos", from_="run", net="models.py:SmallCNN", out="next", **{**QUICK, "lr": 1e-12}
    )
    first, second = (load_file(f"{p}/model/model.safetensors") for p in ("run", run.path))
    for name in (n for n in first if n.endswith(".weight")):
        torch.testing.assert_close(first[name], second[name])


DIGITS = np.random.default_rng(0).integers(0, 256, (24, 8, 8), np.uint8)
LABELS = np.array([0, 1, 2, -1] * 6)


@pytest.mark.parametrize("net", [SMALL, foreign.ResNet, foreign.ResNet(3)], ids=lambda n: "net")
def test_the_estimators_take_it(net: Any) -> None:
    one = tamatch.SSLClassifier("fixmatch", net=net, steps=3, batch=4, unlabelled=4)
    one.fit(DIGITS, LABELS)
    again = pickle.loads(pickle.dumps(one))
    assert np.array_equal(one.predict_proba(DIGITS), again.predict_proba(DIGITS))
    other = clone(one).fit(DIGITS, LABELS)
    assert np.array_equal(one.predict_proba(DIGITS), other.predict_proba(DIGITS))
    with pytest.raises(ValueError, match=r"returns a tensor of 2 × 192 for 2 images"):
        tamatch.SSLClassifier(net=nn.Flatten(), steps=1).fit(DIGITS, LABELS)


def test_the_example_of_a_resnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a package that has torchvision's names: it is none that the tests may rely on."""
    models = types.ModuleType("torchvision.models")
    models.resnet18 = foreign.resnet18  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    run = tamatch.train(net=f"{EXAMPLE}:resnet", out=tmp_path / "run", **{**QUICK, "steps": 2})
    shapes = {k: v.shape for k, v in load_file(run.path / "model/model.safetensors").items()}
    assert shapes["model.conv1.weight"] == (64, 3, 3, 3) and "model.fc.weight" in shapes


@pytest.mark.slow
def test_two_processes_train_it_as_one(tmp_path: Path) -> None:
    """Its BatchNorm becomes ours, over both shares of the batch."""
    words = [w if w != "wrn_10_1_clean" else SMALL for w in DOZEN]
    code, said = torchrun("train", "--out", str(tmp_path / "two"), *words)
    assert code == 0, said
    assert main(["train", "--out", str(tmp_path / "one"), *words]) == 0
    one, two = (load_file(tmp_path / n / "model/model.safetensors") for n in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-3, atol=1e-4, msg=name)


def test_the_docs_show_the_example_and_their_session_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLE.read_text().replace("  # fmt: skip", "")
    *shown, session = blocks(DOCS / "nets.md", "python")
    assert len(shown) == 2 and all(body in example for body in shown)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    names: dict[str, Any] = {}
    exec(session.replace("steps=600", "steps=2, quiet=True"), names)
    assert type(names["trained"]) is sys.modules["own_net"].SmallCNN
    del sys.modules["own_net"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["ResNet", "Viewing", "Reading", "Frozen", "Convolutional"])
def test_on_a_gpu_it_is_compiled_and_captured_or_does_without(name: str, tmp_path: Path) -> None:
    options = {**QUICK, "threads": None, "device": "cuda", "baseline": "none", "steps": 8}
    run = tamatch.train(net=f"{foreign.__file__}:{name}", out=tmp_path / "run", **options)
    assert run.accuracy is not None
    told = (tmp_path / "run" / "log.txt").read_text()
    assert ("run without a CUDA graph" in told) == (name == "Reading")


SCRIPT = """
import torch
import tamatch
from tests.nets.foreign import ResNet

torch.manual_seed(0)
net = ResNet(10)
if __name__ == "__main__":
    tamatch.train(
        net=net, out={out!r}, steps=4, batch=4, unlabelled=4, test_every=2, save_every=2,
        baseline="none", device="cpu", threads=1, tau=0.2,
    )
"""


@pytest.mark.slow
def test_two_processes_of_a_script_hand_over_their_module(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    for name, before in (("one", [sys.executable]), ("two", start)):
        (tmp_path / f"{name}.py").write_text(SCRIPT.format(out=str(tmp_path / name)))
        words = [*before, str(tmp_path / f"{name}.py")]
        env = {**environment(), "PYTHONPATH": root}
        done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, done.stderr
    one, two = (load_file(tmp_path / n / "model/model.safetensors") for n in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-3, atol=1e-4, msg=name)


def test_the_review_page_names_the_net_in_the_next_command() -> None:
    nothing: Any = None
    session = Session(
        run=Path("run"), data="photos", classes=("a",), given=(1,), files=(), survey=nothing,
        pictures=nothing, store=cast(Any, types.SimpleNamespace(path=Path("labels.csv"))),
        net="models.py:CNN",
    )  # fmt: skip
    assert session.next_command().endswith(" --from run --net models.py:CNN")
