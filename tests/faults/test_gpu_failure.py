"""The GPU fails in the midst of a run: one line that says how to go on, and a sound checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tamatch.bench import runner
from tamatch.bench.runner import Runner
from tamatch.cli import main
from tamatch.errors import DeviceError, UsageError
from tamatch.machine.branches import first_cause
from tamatch.machine.gpu import gpu_failure
from tamatch.machine.launch import StopSignals
from tamatch.storage import checkpoint
from tests.faults.runs import WORDS
from tests.processes import fingerprint, tamatch

ILLEGAL = """CUDA error: an illegal memory access was encountered
Search for `cudaErrorIllegalAddress' in the documentation for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below
might be incorrect. For debugging consider passing CUDA_LAUNCH_BLOCKING=1
"""
FAILING = f"""
from pathlib import Path
import torch
from tamatch.methods.fixmatch import FixMatch

class Failing(FixMatch):
    def forward(self, batch):
        if batch.step == 9 and Path(__file__).with_name("broken").exists():
            raise torch.AcceleratorError({ILLEGAL!r})
        return super().forward(batch)
"""


@pytest.fixture
def method(tmp_path: Path) -> str:
    (tmp_path / "failing.py").write_text(FAILING)
    (tmp_path / "broken").touch()
    return f"{tmp_path / 'failing.py'}:Failing"


def test_train_and_resume_end_with_one_line_and_the_run_goes_on(
    tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    for command in (
        ["train", *WORDS, "--method", method, "--out", str(out)],
        ["resume", str(out)],
    ):
        assert main(command) == DeviceError.exit_code
        told = capsys.readouterr().err
        assert told.splitlines()[-1] == (
            "tamatch: the GPU failed: an illegal memory access was encountered. The checkpoint "
            f"step_00000008 is intact. `tamatch resume {out}` continues."
        )
        assert "Traceback" not in told
        saved = checkpoint.saved_in(out / "checkpoints")
        assert [path.name for path in saved] == ["step_00000004", "step_00000008"]
        assert all(checkpoint.load(path) for path in saved)
    (tmp_path / "broken").unlink()
    assert main(["resume", str(out)]) == 0
    whole = tmp_path / "whole"
    assert main(["train", *WORDS, "--method", method, "--out", str(whole)]) == 0
    assert fingerprint(out) == fingerprint(whole)


@pytest.mark.slow
def test_seeds_name_the_folder_of_all(tmp_path: Path, method: str) -> None:
    out = tmp_path / "runs"
    words = ["--method", method, "--out", str(out), "--seeds", "0,1"]
    failed = tamatch("train", *WORDS, *words)
    assert failed.returncode == DeviceError.exit_code
    assert failed.stderr.splitlines()[-1].endswith(f"`tamatch resume {out}` continues.")
    assert "Traceback" not in failed.stderr


def test_a_benchmark_goes_on_by_the_same_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise torch.AcceleratorError(ILLEGAL)

    monkeypatch.setattr(runner, "complete_all", fails)
    made = Runner.__new__(Runner)
    with pytest.raises(DeviceError, match=r"illegal memory access.*The same command continues"):
        made.ends([object()], StopSignals())  # type: ignore[list-item]


def test_what_has_no_run_ends_with_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered\nCompile with …")

    monkeypatch.setattr("tamatch.bench.speed.measure", fails)
    assert main(["bench", "speed", "--device", "cpu"]) == DeviceError.exit_code
    expected = "tamatch: the GPU failed: device-side assert triggered.\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.AcceleratorError("CUDA error: unspecified launch failure\n…"), "unspecified launch"),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), "ECC error"),
        (RuntimeError("Triton Error [CUDA]: misaligned address"), "misaligned address"),
        (RuntimeError("CUDA: <CUresult.CUDA_ERROR_LAUNCH_FAILED: 719>"), "LAUNCH_FAILED"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), "cuDNN error"),
        (RuntimeError("CUDA error: operation not permitted when stream is capturing"), None),
        (RuntimeError("The size of tensor a (2) must match"), None),
        (UsageError("CUDA error: said by another"), None),
    ],
)
def test_what_counts(error: Exception, said: str | None) -> None:
    failure = gpu_failure(error)
    assert (failure is None) if said is None else said in str(failure)
    assert str(failure).count("\n") == 0


def test_the_first_failure_of_a_chain_counts() -> None:
    """A capture that ends hides what ended it."""
    try:
        try:
            raise torch.AcceleratorError(ILLEGAL)
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error of a capture")
    except RuntimeError as error:
        assert "illegal memory access" in first_cause(error)
        assert "illegal memory access" in str(gpu_failure(error))
