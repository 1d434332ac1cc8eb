"""The commands of the docs, done one after the other, page by page, on a small scale.

Not done here: benches, which take hours; sets that must be downloaded; and the labelling pages,
which wait for a browser. Of these, `test_docs.py` checks that every word is understood.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import save_file

import tamatch
from tamatch import nets
from tamatch.cli import main
from tamatch.data import DATASETS, load
from tests.bench.made import noise
from tests.processes import environment
from tests.test_docs import DOCS, PAGES, Command, blocks, folder_of_photos, ours, typed

SMALL = ["--steps", "2", "--batch", "2", "--unlabelled", "2", "--net", "wrn_10_1_clean"]
PHOTOS = ("photos", "land")  # folders of images that pages speak of
LEFT_OUT = ("bench", "review", "start")
REFUSED = {"--precision": 3}  # with so few validation images, rightly
QUICK = ("quick-start.md",)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages take for granted: photos, and runs of them and of the digits."""
    folder = tmp_path_factory.mktemp("made")
    folder_of_photos(folder / "photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        small = {"steps": 2, "batch": 2, "unlabelled": 2, "net": "wrn_10_1_clean", "quiet": True}
        tamatch.train(data="digits", out="runs/digits", **small)
        tamatch.train(data="photos", out="runs/photos", size=8, **small)
    save_file(nets.build("vit_tiny_p16_224", 2, 224).state_dict(), folder / "vit_tiny.safetensors")
    return folder


@pytest.fixture
def desk(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, in which a page is worked through."""
    for photos in PHOTOS:
        shutil.copytree(made / "photos", tmp_path / photos)
    for images in ("images", "new-images"):
        shutil.copytree(made / "photos" / "unlabelled", tmp_path / images)
    (tmp_path / "labels.csv").write_text("file_name,label\nunlabelled/0.png,cat\n")
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    (tmp_path / "vit_tiny.safetensors").symlink_to(made / "vit_tiny.safetensors")
    own = next(b for b in blocks(DOCS / "methods.md", "python") if "class Margin" in b)
    (tmp_path / "margin.py").write_text(own)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepared(words: list[str], made: Path) -> list[str]:
    """The words with what makes them small; runs that another page leaves are put there.

    Without a network, a file stands for the weights that a name would fetch.
    """
    words = ["vit_tiny.safetensors" if word == "vit_tiny" else word for word in words]
    for word in words[1:]:
        if word.startswith("runs/") and "--out" not in words[: words.index(word)][-1:]:
            kind = "photos" if any(name in word for name in PHOTOS) else "digits"
            if not Path(word).exists():
                shutil.copytree(made / "runs" / kind, word)
    if words[0] == "train":
        classes = 2 if "--data" in words else 10
        Path("shares.yaml").write_text(str([1] * classes))
        if "--time" in words:
            at = words.index("--time")
            words = words[:at] + words[at + 2 :]
        small = SMALL if "--from" not in words else SMALL[:2]
        if "--from" not in words and {"--net", "--weights"} & {*words}:
            small = small[:-2]
        size = ["--size", "8"] if classes == 2 and "--from" not in words else []
        return [*words, *small, *size, "--overwrite"]
    if words[0] == "pick":
        return [*words, "--weights", "vit_tiny.safetensors", "--overwrite"]
    if words[0] in ("label", "export", "predict") and "--overwrite" not in words:
        return [*words, "--overwrite"]
    return words


def done_here(command: Command) -> bool:
    words = command.words
    named = DATASETS.keys() - {"digits"}
    return words[1] not in LEFT_OUT and not named & {*words} and words[1][:2] != "--"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page.name, marks=() if page.name in QUICK else pytest.mark.slow)
        for page in PAGES
        if any(done_here(c) for c in ours() if c.page == page.name)
    ],
)
def test_the_commands_of_a_page_work(
    page: str, made: Path, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (c for c in ours() if c.page == page and done_here(c)):
        words = command.words[1:]
        if "--help" in words:
            continue
        wanted = next((code for flag, code in REFUSED.items() if flag in words), 0)
        assert main(prepared(words, made)) == wanted, (command.line, capsys.readouterr().err)


@pytest.mark.parametrize("page", ["own-loop.md", "report.md"])
def test_the_examples_of_a_page_work(
    page: str, made: Path, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "runs" / "digits", "runs/python")
    for body in blocks(DOCS / page, "python"):
        exec(body, {})
    assert capsys.readouterr().out


@pytest.mark.slow
def test_benches_take_the_options_that_the_page_names(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.csv").write_text("method,a,b\nMine,1,2\nTheirs,2,1\n")
    monkeypatch.setattr(
        "tamatch.settings.inputs.load",
        lambda name, *rest: noise(name) if name == "cifar10-lt" else load(name, *rest),
    )
    block = next(b for b in blocks(DOCS / "benchmark.md", "bash") if "--smoke" in b)
    for line in block.splitlines():
        words = line.replace("--steps 2000", "--steps 2 --size 8").split()[1:]
        if words[1] in ("digits", "own"):
            words += ["--seeds", "0", "--batch", "2", "--unlabelled", "2", "--device", "cpu"]
            words += [] if "--net" in words else ["--net", "wrn_10_1_clean"]
            words += ["--steps", "2"] if words[1] == "digits" else []
        assert main(words) == 0, (line, capsys.readouterr().err)
        shown = capsys.readouterr().out
        done = re.search(r"(\d+) of (\d+) cells done", shown)
        assert "rank" in words or (done and done[1] == done[2]), (line, shown)


def test_names_can_come_through_a_pipe(made: Path, desk: Path) -> None:
    line = next(c.line for c in typed() if "| tamatch predict" in c.line)
    shutil.copytree(made / "runs" / "digits", "runs/first")
    here = f"{sys.executable} -m tamatch"
    done = subprocess.run(
        ["bash", "-c", line.replace("| tamatch", f"| {here}")],
        capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 7
