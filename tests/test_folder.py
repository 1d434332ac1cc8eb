"""The folder of a run: what a start that comes to nothing leaves there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamatch.cli import main
from tamatch.errors import StorageError, UsageError
from tamatch.machine.out_of_memory import OutOfMemory
from tamatch.runs.training import Training
from tamatch.storage.folder import RunFolder

TINY = ("--steps", "1", "--net", "wrn_10_1", "--baseline", "none")


@pytest.mark.parametrize(
    "mistake",
    [
        "--labels-per-class 5000", "--weights none.pth", "--seeds 0,1 --prior 1,2",
        "--seeds 0,1 --data nowhere",
    ],
)  # fmt: skip
@pytest.mark.parametrize("out", [("--out", "run"), ("--out", "runs/of/mine"), ()])
def test_a_run_that_is_refused_leaves_its_name_free(
    mistake: str, out: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *mistake.split(), *TINY, *out]) in (2, 3)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("seeds", [(), ("--seeds", "0,1")])
def test_what_was_there_before_a_refused_run_stays(seeds: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for out in ("mine", "mine/new"):
        assert main(["train", "--data", "nowhere", *seeds, "--out", str(tmp_path / out)]) == 2
        assert [*tmp_path.rglob("*")] == [tmp_path / "mine"]


def test_a_run_without_memory_for_its_first_step_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(training: Training) -> None:
        assert training.folder.read()["status"] == "running"
        raise OutOfMemory("too large")

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Training, "advance", no_room)
        assert main(["train", *TINY, "--out", str(out)]) == 2
    assert not out.exists()


@pytest.mark.parametrize("trace", ["metrics.jsonl", "checkpoints/step_00000001.ckpt"])
def test_what_can_be_gone_on_from_is_kept(trace: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(UsageError, match="too large"), folder.taken(overwrite=False):
        folder.update(status="running", step=0, config={"steps": 9})
        (folder.path / trace).parent.mkdir(exist_ok=True)
        (folder.path / trace).write_text("{}\n")
        raise UsageError("too large")
    with (
        pytest.raises(UsageError, match="contains an unfinished run"),
        folder.taken(overwrite=False),
    ):
        pass
    (folder.path / trace).unlink()
    with folder.taken(overwrite=False):  # killed before it had come to anything
        pass


def test_a_mistake_with_overwrite_loses_nothing(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    assert main(["train", *TINY, "--out", out]) == 0
    before = {path: path.read_bytes() for path in Path(out).rglob("*") if path.is_file()}
    assert main(["train", "--data", str(tmp_path / "phtoos"), "--out", out, "--overwrite"]) == 2
    assert {path: path.read_bytes() for path in Path(out).rglob("*") if path.is_file()} == before
    (Path(out) / "metrics.jsonl").write_text("of the older run\n")
    assert main(["train", *TINY, "--out", out, "--overwrite"]) == 0
    assert "older" not in (Path(out) / "metrics.jsonl").read_text()


def test_a_full_disk_is_no_mistake(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(StorageError), folder.taken(overwrite=False):
        folder.update(status="new", step=0, config={"steps": 9})
        raise StorageError("no room")
    assert folder.record.exists()
