"""The folder of a run: what a start that comes to nothing leaves there."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

import tamatch
from tamatch.cli import main
from tamatch.errors import DataError, StorageError, UsageError
from tamatch.machine.memory import OutOfMemory
from tamatch.runs.training import Training
from tamatch.storage import checkpoint
from tamatch.storage.folder import RunFolder
from tests.faults.runs import DOZEN

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


def test_the_last_step_is_logged_tested_and_saved_whatever_the_intervals(tmp_path: Path) -> None:
    intervals = {"steps": 3, "log_every": 2, "test_every": 2, "save_every": 2}
    done = tamatch.train(out=tmp_path / "run", quiet=True, **{**DOZEN, **intervals})
    folder = RunFolder(done.path)
    rows = folder.rows()
    both = ("train", "test")
    assert [(row["step"], row["kind"]) for row in rows] == [(s, k) for s in (2, 3) for k in both]
    assert done.result["error_last"] == rows[-1]["error"]
    assert checkpoint.saved_in(folder.checkpoints)[-1].name == "step_00000003"


def test_lines_after_a_checkpoint_are_cut_off_and_missing_ones_are_told(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.mark()["bytes"] == 0
    folder.cut_metrics({})
    assert folder.rows() == []
    first, second = ({"step": step, "kind": "train"} for step in (1, 2))
    folder.append(first)
    mark = folder.mark()
    folder.append(second)
    folder.cut_metrics(mark)
    assert folder.rows() == [first]
    folder.append(second)
    assert folder.mark()["bytes"] == 2 * mark["bytes"]
    folder.metrics.write_text(folder.metrics.read_text().replace('"step": 1', '"step": 3'))
    with pytest.raises(DataError, match=r"metrics\.jsonl is not as the run wrote it"):
        RunFolder(tmp_path).cut_metrics(mark)
    folder.metrics.unlink()
    with pytest.raises(DataError, match="is shorter than its checkpoint says"):
        folder.cut_metrics(mark)


def test_a_record_without_settings_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"status": "finished"}')
    assert not RunFolder(tmp_path).holds_run()
    with pytest.raises(DataError, match="is not the record of a tamatch run"):
        RunFolder(tmp_path).read()


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


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("older") / "run"
    assert main(["train", *TINY, "--out", str(out)]) == 0
    return out


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "mistake",
    [
        "--data phtoos", "--prior 1,2", "--labels-per-class 5000", "--net nothing.py:Net",
        "--from {older}", "--from {older} --net wrn_16_1", "--seeds 0,1",
    ],
)  # fmt: skip
def test_a_mistake_with_overwrite_loses_nothing(mistake: str, older: Path) -> None:
    before = files(older)
    words = mistake.format(older=older).split()
    assert main(["train", *TINY, *words, "--out", str(older), "--overwrite"]) in (2, 3)
    assert files(older) == before


def test_what_interrupts_the_start_of_a_replacing_run_loses_nothing(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(training: Training) -> None:
        assert not (older / "model").exists()
        raise KeyboardInterrupt

    before = files(older)
    with monkeypatch.context() as patch:
        patch.setattr(Training, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tamatch.train(steps=1, out=older, overwrite=True, quiet=True)
    assert files(older) == before


def test_a_run_with_a_damaged_record_can_be_replaced(older: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(older, out)
    (out / "run.json").write_text("{")
    before, words = files(out), ["train", *TINY, "--out", str(out)]
    assert main(words) == 3
    assert main([*words, "--overwrite", "--labels-per-class", "5000"]) == 3
    assert files(out) == before
    assert main([*words, "--overwrite"]) == 0
    assert RunFolder(out).finished() and not (out / ".replaced").exists()


def test_overwrite_replaces(older: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(older, out)
    (out / "metrics.jsonl").write_text("of the older run\n")
    assert main(["train", *TINY, "--out", str(out), "--overwrite"]) == 0
    assert "older" not in (out / "metrics.jsonl").read_text()
    assert not (out / ".replaced").exists()


@pytest.mark.parametrize("moved", [0, 1, 2, 3])
@pytest.mark.parametrize("back", [False, True])
def test_a_kill_while_a_run_is_set_aside_loses_nothing(
    moved: int, back: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.update(status="finished", step=9, config={"steps": 9})
    folder.metrics.write_text("{}\n")
    folder.log.write_text("done\n")
    before, rename, count = files(folder.path), Path.rename, 0
    if back:
        folder.make_room()

    def killed(path: Path, target: Path) -> Path:
        nonlocal count
        if count == moved:
            raise InterruptedError
        count += 1
        return rename(path, target)

    with monkeypatch.context() as patch, suppress(InterruptedError):
        patch.setattr(Path, "rename", killed)
        if back:
            folder.replaced.restore()
        else:
            folder.make_room()
    with pytest.raises(UsageError, match="already contains"), folder.taken(overwrite=False):
        pass
    (folder.path / ".lock").unlink(missing_ok=True)
    assert files(folder.path) == before


def test_a_full_disk_is_no_mistake(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(StorageError), folder.taken(overwrite=False):
        folder.update(status="new", step=0, config={"steps": 9})
        raise StorageError("no room")
    assert folder.record.exists()
