"""What torchrun tells a process, and what a run makes of it; here in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
import torch

import tamatch
from tamatch import dist
from tamatch.cli import main
from tamatch.errors import DataError, UsageError
from tamatch.machine import launch
from tamatch.runs import run
from tamatch.settings.configure import configure
from tamatch.settings.hardware import pick_device
from tamatch.storage.folder import RunFolder
from tests.faults.runs import DOZEN, crash_at
from tests.processes import fingerprint


def started(
    patch: pytest.MonkeyPatch, *, world: int = 1, rank: int = 0, restarts: int = 0, job: str = "a"
) -> None:
    """As if torchrun had started this process."""
    variables = {
        "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "RANK": rank, "LOCAL_RANK": rank,
        "TORCHELASTIC_RUN_ID": job, "TORCHELASTIC_RESTART_COUNT": restarts,
    }  # fmt: skip
    for name, value in variables.items():
        patch.setenv(name, str(value))


def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")  # some other program's
    assert (launch.processes(), launch.local_rank(), launch.leads()) == (1, 0, True)
    assert launch.name() is None
    with dist.joined():
        assert dist.alone() and dist.world() == 1


@pytest.mark.parametrize(
    ("world", "unlabelled", "said"),
    [
        (3, 16, "3 processes cannot share --batch 8 and --unlabelled 16 evenly. Possible"),
        (16, 16, "processes: 1, 2, 4, 8."),
        (2, 9, "processes: 1."),
    ],
)
def test_a_batch_that_cannot_be_shared(
    world: int, unlabelled: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(monkeypatch, world=world)
    with pytest.raises(UsageError, match=said):
        configure({"batch": 8, "unlabelled": unlabelled})
    started(monkeypatch, world=1)
    configure({"batch": 8, "unlabelled": unlabelled})


def test_a_taught_net_has_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"method": "tamatch_solved", "net": "tuned/vit_tiny_p2_8", "weights": "vit.npz"}
    started(monkeypatch, world=2)
    with pytest.raises(UsageError, match=r"one process, not in 2: --method tamatch does\."):
        configure(asked)
    configure({**asked, "method": "tamatch"})
    started(monkeypatch, world=1)
    configure(asked)


@pytest.mark.parametrize("rank", [0, 1])
def test_one_process_of_a_machine_speaks(
    rank: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started(monkeypatch, world=2, rank=rank)
    assert main(["methods"]) == 2
    assert ("torchrun works only with `tamatch train`" in capsys.readouterr().err) == (rank == 0)


def test_a_process_speaks_of_what_it_alone_has_met(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*code: object) -> NoReturn:
        raise DataError("other images here")

    started(monkeypatch, world=2, rank=1)
    monkeypatch.setattr(run, "follow", fail)
    assert main(["resume", "runs/some"]) == 3
    assert "other images here" in capsys.readouterr().err


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    started(monkeypatch, world=2, rank=1)
    assert pick_device("auto") == pick_device("cuda") == torch.device("cuda:1")
    assert chosen == [torch.device("cuda:1")] * 2
    assert pick_device("cpu") == torch.device("cpu")
    with pytest.raises(UsageError, match="cuda:0 is one GPU"):
        pick_device("cuda:0")
    started(monkeypatch, world=3, rank=0)
    with pytest.raises(UsageError, match="3 processes need 3 GPUs, but this machine has 2"):
        pick_device("auto")


def test_a_restarted_command_goes_on_with_its_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, path = tmp_path / "whole", tmp_path / "run"
    tamatch.train(out=whole, quiet=True, **DOZEN)
    started(monkeypatch, restarts=0)
    crash_at(6, monkeypatch, path)
    started(monkeypatch, restarts=1)
    (path / "mark").touch()
    tamatch.train(out=path, overwrite=True, quiet=True, **DOZEN)  # as it did on its first start
    assert fingerprint(path) == fingerprint(whole)
    assert RunFolder(path).read()["torchrun"].startswith("a: ")
    assert (path / "mark").exists()


def test_another_command_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    started(monkeypatch, job="a")
    crash_at(6, monkeypatch, path)
    started(monkeypatch, job="b", restarts=1)
    with pytest.raises(UsageError, match="contains an unfinished run"):
        tamatch.train(out=path, quiet=True, **DOZEN)


def test_the_first_start_may_overwrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    started(monkeypatch)
    crash_at(6, monkeypatch, path)
    (path / "log.txt").write_text("of the old run")
    tamatch.train(out=path, overwrite=True, quiet=True, **DOZEN)
    assert "of the old run" not in (path / "log.txt").read_text()
