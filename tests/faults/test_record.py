"""Files of a run folder that were changed, in every way: told in one line, never believed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import tamatch
from tamatch import cli
from tamatch.errors import DataError, TamatchError, UsageError
from tamatch.model.evaluate import evaluate
from tamatch.progress import Progress
from tamatch.report import write_report
from tamatch.storage import checkpoint
from tamatch.storage.folder import RunFolder
from tamatch.storage.record import FILES, OWN, files_in
from tamatch.storage.seedfolder import SeedFolder
from tests.faults.runs import DOZEN, WORDS, Crash, crash_at, unseal

QUICK = {**DOZEN, "steps": 4, "log_every": 1, "test_every": 2, "save_every": 2}
CHECKED = ("run.json", "result.json", "metrics.jsonl", "trust.json", "split.csv", "batch.png",
           "model/model.json", "model/model.safetensors", "predictions/test.csv",
           "predictions/pool.csv", "never_accepted.csv", "pictures/doubtful.jpg")  # fmt: skip
PIXELS = np.arange(3 * 8 * 8 * 3, dtype=np.uint8).reshape(3, 8, 8, 3)

Answers = dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("record") / "run"
    tamatch.train(out=out, quiet=True, data="digits", **QUICK)
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def answers(run: Path) -> dict[str, Callable[[], Any]]:
    """What each command says about a run folder, without what is true of this moment alone."""
    return {
        "predict": lambda: tamatch.load(run).predict(PIXELS).probabilities.tolist(),
        "report": lambda: write_report(run, run.parent / "page.html").read_text(),
        "resume": lambda: {**tamatch.resume(run, quiet=True).result, "seconds": 0},
        "evaluate": lambda: evaluate(run).trust,
        "rows": lambda: RunFolder(run).rows(),
    }


def told(page: str) -> bool:
    """Whether a report names a file that is not as it was written."""
    marks = ("not as the run wrote it", "has been changed", "cannot be read", "is missing")
    return any(mark in page for mark in marks)


def same_or_refused(run: Path, whole: Answers) -> None:
    """Each command says what it said before, or why it does not, in one line."""
    for name, ask in answers(run).items():
        try:
            found = ask()
        except TamatchError as error:
            assert "\n" not in str(error) and str(error).endswith("."), (name, error)
            continue
        assert found == whole[name] or (name == "report" and told(found)), name


@pytest.fixture(scope="module")
def whole(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    copy = Path(shutil.copytree(finished, tmp_path_factory.mktemp("whole") / "run"))
    return {name: ask() for name, ask in answers(copy).items()}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value inside a JSON value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in entries:
        yield (*path, key)
        if isinstance(entry, dict | list):
            yield from places(entry, (*path, key))


def with_value(content: Any, place: tuple[Any, ...], new: Any) -> Any:
    content = json.loads(json.dumps(content))
    inside = content
    for key in place[:-1]:
        inside = inside[key]
    if new is KeyError:
        del inside[place[-1]]
    else:
        inside[place[-1]] = new
    return content


ROUNDS = [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))]
STRANGE = (5, -1, 0, 10**30, 1.5, float("nan"), "x", "", None, True, [], {}, [[]], KeyError)


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("number", ROUNDS)
def test_flipped_bits(
    number: int, name: str, run: Path, whole: Answers,
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    raw, rng = (run / name).read_bytes(), random.Random(f"{name} {number}")
    tries = 2
    for _ in range(tries):
        changed = bytearray(raw)
        changed[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        (run / name).write_bytes(changed)
        same_or_refused(run, whole)
        (run / name).write_bytes(raw)
    record_property("tries", tries)


@pytest.mark.parametrize("name", ["run.json", "result.json", "trust.json", "model/model.json"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("number", ROUNDS)
def test_strange_values(
    number: int, name: str, version: int, run: Path, whole: Answers,
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    """Also where no checksum tells; then another valid value cannot be noticed."""
    if version == 1:
        unseal(run / "run.json")
        unseal(run / "model/model.json")
    content, rng = json.loads((run / name).read_text()), random.Random(f"{name} {number}")
    raw, every = (run / name).read_bytes(), [*places(content)]
    chosen = rng.sample(every, min(len(every), 6 if number else 3))
    if version == 1 and number:  # in `make test-all` every field: a checksum is of the whole
        chosen += [(key,) for key in content]
    for place in chosen:
        (run / name).write_text(json.dumps(with_value(content, place, rng.choice(STRANGE))))
        if version == 2:
            same_or_refused(run, whole)
        else:
            for ask in answers(run).values():
                try:
                    ask()
                except TamatchError as error:
                    assert "\n" not in str(error), (place, error)
        (run / name).write_bytes(raw)
    record_property("tries", len(chosen))


@pytest.mark.sample(17)
@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("how", ["empty", "folder", "missing", "half"])
def test_a_file_that_is_something_else(how: str, name: str, run: Path, whole: Answers) -> None:
    raw = (run / name).read_bytes()
    (run / name).unlink()
    if how == "folder":
        (run / name).mkdir()
    elif how != "missing":
        (run / name).write_bytes(raw[: len(raw) // 2 if how == "half" else 0])
    same_or_refused(run, whole)


def test_every_file_of_a_run_is_described(finished: Path) -> None:
    """And all but these few are checked when they are read."""
    there = {p.relative_to(finished).as_posix() for p in finished.rglob("*") if p.is_file()}
    assert there == {*files_in(finished, OWN)}
    listed = json.loads((finished / "run.json").read_text())["files"].keys()
    by_other_means = {f for f in there - listed if not f.startswith("checkpoints/")}
    assert by_other_means == {
        "run.json", "log.txt", "metrics.jsonl", "model/model.safetensors", "report.html",
    }  # fmt: skip
    assert len({file.name for file in FILES}) == len(FILES)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"error": ', '"error": 1', "is not as the run wrote it"),
        ('"error": ', '"err0r": ', "is not as the run wrote it"),
    ],
)
def test_changed_metrics_before_the_checkpoint_are_noticed(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = crash_at(9, monkeypatch, tmp_path / "run")
    text = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(text.replace(old, new, 1)[: len(text)])
    with pytest.raises(DataError, match=message):
        tamatch.resume(run, quiet=True)


def test_a_damaged_line_of_an_older_run_is_told_with_its_number(run: Path) -> None:
    unseal(run / "run.json")
    lines = (run / "metrics.jsonl").read_text().replace('"error"', '"err0r"')
    (run / "metrics.jsonl").write_text(lines)
    with pytest.raises(DataError, match=r"metrics\.jsonl, line \d, is damaged: error is missing"):
        RunFolder(run).rows()


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", 0), ("temperature", float("nan")), ("temperature", -1.0), ("size", 0),
     ("size", "8"), ("std", [0.1, 0.0, 0.1]), ("classes", []), ("mean", 5), ("net", None)],
)  # fmt: skip
def test_nonsense_in_a_model_is_refused_by_name(run: Path, field: str, value: Any) -> None:
    unseal(run / "run.json")
    unseal(run / "model/model.json", **{field: value})
    with pytest.raises(DataError, match=rf"model\.json is damaged: {field}"):
        tamatch.load(run)


def int8(tensors: dict[str, torch.Tensor]) -> None:
    tensors.update({name: tensor.to(torch.int8) for name, tensor in tensors.items()})


def not_finite(tensors: dict[str, torch.Tensor]) -> None:
    tensors["head.weight"][0] = float("inf")


@pytest.mark.parametrize("change", [int8, not_finite])
def test_other_weights_are_refused_even_without_a_checksum(
    run: Path, change: Callable[[dict[str, torch.Tensor]], None]
) -> None:
    unseal(run / "run.json")
    unseal(run / "model/model.json")
    tensors = load_file(run / "model/model.safetensors")
    tamatch.load(run)
    change(tensors)
    save_file(tensors, run / "model/model.safetensors")
    with pytest.raises(DataError, match="is damaged"):
        tamatch.load(run)


@pytest.mark.parametrize(
    ("field", "value"),
    [("threads", 2), ("threads", 0), ("threads", 10**9), ("data", 5), ("config", None),
     ("config", 5), ("warnings", [5]), ("versions", 3), ("status", "done")],
)  # fmt: skip
def test_a_changed_record_is_refused_by_name(
    field: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, field: value}))
    with pytest.raises(DataError, match=rf"run\.json .*{field}") as error:
        tamatch.resume(run, quiet=True)
    assert "\n" not in str(error.value)


def test_options_that_are_no_table_are_refused_by_name(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    unseal(run / "run.json", config={**record["config"], "options": 5})
    with pytest.raises(DataError, match=r"config\.options is 5, not a table"):
        tamatch.resume(run, quiet=True)


def test_a_record_of_a_later_version_is_not_guessed_at(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    record["seal"]["version"] = 3
    (run / "run.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match=r"seal\.version is 3, and this version reads 2"):
        tamatch.resume(run, quiet=True)


def test_a_run_of_version_1_goes_on_and_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    run = crash_at(3, monkeypatch, tmp_path / "run", **{**QUICK, "data": "digits"})
    [last] = checkpoint.saved_in(run / "checkpoints")
    state = checkpoint.load(last)
    state["metrics_length"] = state.pop("metrics")["bytes"]
    checkpoint.save(run / "checkpoints", 2, state)
    unseal(run / "run.json")
    tamatch.resume(run, quiet=True)
    assert tamatch.load(run).predict(PIXELS).probabilities.tolist() == (
        tamatch.load(finished).predict(PIXELS).probabilities.tolist()
    )
    assert "seal" in json.loads((run / "run.json").read_text())


def test_files_of_the_user_s_are_never_deleted(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = ("notes.txt", "model/notes.txt", "checkpoints/notes.txt", ".draft.tmp", ".replaced/mine",
            "checkpoints/step_00000002/notes.txt", "export/model.onnx", "sub/run.json")  # fmt: skip
    for name in mine:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(name)
    assert cli.main(["train", "--out", str(run), *WORDS, "--overwrite"]) == 0
    kept = [name.removeprefix(".replaced/") for name in mine]
    for name, place in zip(mine, kept, strict=True):
        assert (run / place).read_text() == name
    assert "not of a run: kept" in capsys.readouterr().err
    assert RunFolder(run).finished()


def test_a_bare_start_makes_no_file_beside_it_the_run_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt), RunFolder(run).held():
        RunFolder(run).update(status="new", step=0, config={"steps": 9})
        raise KeyboardInterrupt
    (run / "notes.txt").write_text("mine")
    (run / "model").mkdir()
    (run / "model" / "model.safetensors").write_text("mine, too")
    words = ["train", "--out", str(run), *WORDS]
    for more in ([], ["--overwrite"]):
        assert cli.main([*words, *more]) == 2
        assert "contains model/model.safetensors, which the run" in capsys.readouterr().err
    (run / "model" / "model.safetensors").unlink()
    assert cli.main(words) == 0
    assert "notes.txt, not of a run: kept" in capsys.readouterr().err
    assert (run / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "log.txt"])
def test_a_link_to_a_file_elsewhere_is_not_written_through(
    name: str, hard: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")
    (run / name).unlink(missing_ok=True)
    mine = tmp_path / "mine"
    mine.write_text("mine")
    if hard:
        (run / name).hardlink_to(mine)
    else:
        (run / name).symlink_to(mine)
    with pytest.raises(DataError, match="it is a link to another file"):
        tamatch.resume(run, quiet=True)
        Progress(RunFolder(run).log, quiet=True).say("a resumed run may have nothing to say")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("name", ["model", "checkpoints", "predictions", "pictures", "baseline"])
def test_a_folder_that_is_a_link_is_not_written_through(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mine = crash_at(6, monkeypatch, tmp_path / "run"), tmp_path / "mine"
    if (run / name).exists():
        shutil.move(run / name, mine)
    else:
        mine.mkdir()
    (run / name).symlink_to(mine)
    before = sorted(mine.rglob("*"))
    with pytest.raises(UsageError, match=f"{name} is a symbolic link"):
        tamatch.resume(run, quiet=True)
    assert sorted(mine.rglob("*")) == before


def test_the_record_of_several_seeds_is_checked_too(tmp_path: Path) -> None:
    home = SeedFolder(tmp_path / "home")
    home.claim([0, 1])
    (tmp_path / "mine").mkdir()
    (home.path / "s1").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="s1 is a symbolic link"):
        tamatch.resume_seeds(home.path, quiet=True)
    home.record.write_text(home.record.read_text().replace("1", "2", 1))
    with pytest.raises(DataError, match=r"seeds\.json has been changed: seeds is \[0, 2\]"):
        tamatch.resume_seeds(home.path, quiet=True)


def test_reasons_are_written_with_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a kill right after it cannot lose them."""

    def die(*given: object, **named: object) -> None:
        raise Crash

    monkeypatch.setattr("tamatch.runs.decide.Decided.announce", die)
    with pytest.raises(Crash):
        tamatch.train("digits", out=tmp_path / "run", quiet=True, time="5m", net="wrn_10_1_clean",
                      batch=4, unlabelled=4)  # fmt: skip
    assert "steps" in RunFolder(tmp_path / "run").read()["chosen"]
