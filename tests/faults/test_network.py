"""No network unless asked for by name: every command runs where each attempt would be noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.data.pictures import put
from tests.faults.runs import WORDS
from tests.processes import environment

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
for line in sys.stdin:
    tried.clear()
    status = cli.main(json.loads(line))
    print("\\n" + json.dumps([status, tried]))
"""


def guarded(*commands: list[str]) -> list[tuple[int, list[str]]]:
    """The exit code of each command, and what it tried to do with the network."""
    done = subprocess.run(
        [sys.executable, "-c", GUARDED], input="\n".join(map(json.dumps, commands)),
        capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return [(status, tried) for status, tried in told]


def test_no_command_uses_the_network(tmp_path: Path) -> None:
    run, image = str(tmp_path / "run"), str(put(tmp_path / "a.png"))
    commands = [
        ["train", "--out", run, *WORDS], ["resume", run], ["report", run], ["evaluate", run],
        ["predict", run, image], ["label", run, "--out", str(tmp_path / "labels.csv")],
        ["export", run, "--format", "safetensors"], ["check", "digits"], ["methods"], ["nets"],
    ]  # fmt: skip
    assert guarded(*commands) == [(0, [])] * len(commands)


def test_a_missing_set_is_fetched_if_asked_for_by_name(tmp_path: Path) -> None:
    words = ["check", "cifar10", "--root", str(tmp_path)]
    unasked, (status, tried) = guarded(words, [*words, "--download"])
    assert unasked == (3, [])
    assert status == 3 and tried  # it tried, and was told that it could not
