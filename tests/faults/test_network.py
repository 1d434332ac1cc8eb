"""No network unless asked for by name: every command runs where each attempt would be noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data.pictures import put
from tests.faults.runs import DOZEN
from tests.processes import environment

WORDS = [w for k, v in DOZEN.items() for w in (f"--{k.replace('_', '-')}", str(v))]
GUARDED = """
import json, sys
tried = []

def notice(event, given):
    if event.startswith(("socket.connect", "socket.getaddrinfo", "socket.gethostby",
                         "socket.bind", "socket.send", "urllib.")):
        tried.append(event)
        raise OSError("no network here")

sys.addaudithook(notice)
from tamatch import cli
status = cli.main(sys.argv[1:])
print("\\n" + json.dumps([status, tried]))
"""


def guarded(*words: str) -> tuple[int, list[str]]:
    """The exit code of a command, and what it tried to do with the network."""
    done = subprocess.run(
        [sys.executable, "-c", GUARDED, *words],
        capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    status, tried = json.loads(done.stdout.splitlines()[-1])
    return status, tried


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("offline") / "run"
    assert guarded("train", "--out", str(place), *WORDS) == (0, [])
    return place


@pytest.mark.parametrize(
    "words",
    [
        ["resume", "RUN"], ["report", "RUN"], ["evaluate", "RUN"], ["predict", "RUN", "IMAGE"],
        ["label", "RUN", "--out", "TABLE"], ["export", "RUN", "--format", "safetensors"],
        ["check", "digits"], ["methods"], ["nets"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_no_command_uses_the_network(run: Path, tmp_path: Path, words: list[str]) -> None:
    image = put(tmp_path / "a.png")
    places = {"RUN": str(run), "IMAGE": str(image), "TABLE": str(tmp_path / "labels.csv")}
    assert guarded(*(places.get(w, w) for w in words)) == (0, [])


def test_a_missing_set_is_not_fetched_unasked(tmp_path: Path) -> None:
    assert guarded("check", "cifar10", "--root", str(tmp_path)) == (3, [])


def test_asked_by_name_it_is(tmp_path: Path) -> None:
    status, tried = guarded("check", "cifar10", "--download", "--root", str(tmp_path))
    assert status == 3 and tried  # it tried, and was told that it could not
