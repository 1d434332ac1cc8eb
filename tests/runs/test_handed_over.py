"""Methods of one's own from Python: whatever class trains can also be resumed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tamatch
from tamatch import methods
from tamatch.cli import main
from tamatch.errors import Stopped, UsageError
from tamatch.methods.fixmatch import FixMatch
from tamatch.runs.record import code_digest
from tamatch.step.engine import Engine
from tests.faults.runs import DOZEN
from tests.processes import environment, fingerprint

SCRIPT = """
import tamatch
from tamatch.methods.fixmatch import FixMatch

class Mine(FixMatch):
    pass

run = tamatch.train(method=Mine, out="runs/script", quiet=True, **{options})
print("accuracy", run.accuracy)
"""


class Outer:
    class Inner(FixMatch):
        pass


def made() -> type[FixMatch]:
    class Local(FixMatch):
        pass

    return Local


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are asked to stop in their sixth step, once."""
    whole = Engine.advance

    def advance(engine: Engine) -> None:
        if engine.steps_done == 5:
            monkeypatch.undo()
            os.kill(os.getpid(), signal.SIGINT)
        whole(engine)

    monkeypatch.setattr(Engine, "advance", advance)


@pytest.mark.usefixtures("stopping")
@pytest.mark.parametrize("method", [Outer.Inner, made()], ids=lambda m: m.__name__)
def test_a_class_that_no_file_has_by_name_is_handed_over_again(
    method: type[FixMatch], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, name = tmp_path / "run", f"python:{method.__name__}"
    with pytest.raises(Stopped) as stopped:
        tamatch.train(method=method, out=run, quiet=True, **DOZEN)
    assert f"`tamatch.resume({str(run)!r}, method=…)` continues" in str(stopped.value)
    shutil.copytree(run, tmp_path / "copy")
    del methods.CUSTOM.things[name]  # as in another process
    with pytest.raises(
        UsageError, match=rf"{name} was passed as a Python object.+resume\('.+', method=…\), or"
    ):
        tamatch.resume(run, quiet=True)
    tamatch.resume(run, method=method, quiet=True)
    tamatch.train(method=method, out=tmp_path / "whole", quiet=True, **DOZEN)
    assert fingerprint(run) == fingerprint(tmp_path / "whole")

    (tmp_path / "mine.py").write_text("from tests.runs.test_handed_over import FixMatch as Mine\n")
    assert main(["resume", str(tmp_path / "copy"), "--method", f"{tmp_path / 'mine.py'}:Mine"]) == 0
    assert fingerprint(tmp_path / "copy") == fingerprint(tmp_path / "whole")
    assert main(["resume", str(run), "--method", "fixmatch"]) == 2
    assert "keeps its settings. `tamatch train --from" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"your own method; give FILE\.py:CLASS"):
        tamatch.resume(run, method="fixmatch")


@pytest.mark.usefixtures("stopping")
def test_several_seeds_take_it_too(tmp_path: Path) -> None:
    home, method = tmp_path / "both", made()
    with pytest.raises(Stopped) as stopped:
        tamatch.train_seeds([0, 1], method=method, out=home, quiet=True, **DOZEN)
    assert f"`tamatch.resume_seeds({str(home)!r}, method=…)` continues" in str(stopped.value)
    del methods.CUSTOM.things["python:Local"]
    done = tamatch.resume_seeds(home, method=method, quiet=True)
    assert [run.path.name for run in done] == ["s0", "s1"]


def test_where_the_file_is_gone_the_class_can_be_given(tmp_path: Path) -> None:
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text("from tamatch.methods.fixmatch import FixMatch as Mine\n")
    run = tamatch.train(method=f"{old}:Mine", out=tmp_path / "run", quiet=True, **DOZEN).path
    old.rename(new)
    with pytest.raises(UsageError, match=rf"file .+ not found.+`tamatch resume {run} --method FIL"):
        tamatch.resume(run)
    tamatch.resume(run, method=f"{new}:Mine", quiet=True)
    assert code_digest(methods.CUSTOM.own_name(f"{old}:Mine")) == code_digest(f"{new}:Mine") != ""
    del methods.CUSTOM.things[f"{old}:Mine"], methods.CUSTOM.substitutes[f"{old}:Mine"]


def test_a_module_of_a_package_finds_its_siblings(tmp_path: Path) -> None:
    inner = tmp_path / "outermost" / "inner"
    inner.mkdir(parents=True)
    for package in (inner, inner.parent):
        (package / "__init__.py").touch()
    (inner.parent / "base.py").write_text("from tamatch.methods.fixmatch import FixMatch as Base\n")
    (inner / "mine.py").write_text("from ..base import Base\n\nclass Mine(Base):\n    pass\n")
    before = [*sys.path]
    assert issubclass(methods.get(f"{inner / 'mine.py'}:Mine"), FixMatch)
    assert sys.path == before


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """It trains whenever it is imported, as a first attempt does."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.format(options={**DOZEN, "steps": 2}))
    return file


@pytest.mark.parametrize("how", ["train", "resume", "train_seeds", "resume_seeds"])
def test_a_file_that_starts_a_run_when_imported(how: str, script: Path) -> None:
    what = {"train": "", "resume": "'runs/x'", "train_seeds": "[0]", "resume_seeds": "'runs/x'"}
    script.write_text(f"import tamatch\n\ntamatch.{how}({what[how]})\n")
    said = r"script\.py, line 3 starts a run while script\.py is imported\. .+ `if __name__ =="
    with pytest.raises(UsageError, match=said):
        tamatch.train(method=f"{script}:Mine")
    script.write_text("from tamatch.methods.fixmatch import FixMatch as Mine\n")
    assert methods.get(f"{script}:Mine") is FixMatch  # the mistake is forgotten


def test_its_own_run_is_not_resumed_by_importing_it(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = python(script)
    assert done.returncode == 0 and "accuracy" in done.stdout, done.stderr
    monkeypatch.chdir(script.parent)
    assert main(["resume", "runs/script"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1, told
    assert "script.py, line 8 starts a run while script.py is imported" in told


@pytest.mark.slow
def test_two_processes_share_the_class_of_a_script(script: Path) -> None:
    done = python("-m", "torch.distributed.run", "--nproc-per-node", "2", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("accuracy") == 2


def python(*words: Any) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=Path(words[-1]).parent,
        capture_output=True, text=True, env={**environment(), "PYTHONPATH": root},
        check=False, timeout=300,
    )  # fmt: skip
