"""Output that nobody reads or that has no room: a run goes on, an answer that is lost is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import SMALL, environment


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """A command line with real pipes; `tamatch` is this one, and its exit code is told."""
    own = f'tamatch() {{ {sys.executable} -m tamatch "$@"; echo "code $?" >&9; }}; exec 9>&1; '
    return subprocess.run(
        ["bash", "-c", own + command], capture_output=True, text=True, env=environment(),
        check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("to", ["2>/dev/full | true", "2>&1 | head -1", ">/dev/full", ">&- 2>&-"])
def test_a_run_ends_well_whoever_reads_it(to: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = shell(f"tamatch train --out {run} {' '.join(SMALL)} --steps 8 {to}")
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "finished" and (run / "report.html").exists(), done
    assert "code 0" in done.stdout and "Traceback" not in done.stdout + done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("words", ["methods", "train --print-config", "nets --json"])
def test_an_answer_that_cannot_be_written_is_one_line(words: str) -> None:
    done = shell(f"tamatch {words} >/dev/full")
    assert done.stdout == "code 3\n"
    assert done.stderr == "tamatch: the output cannot be written: No space left on device.\n"


def test_who_has_read_enough_is_no_error() -> None:
    done = shell("tamatch methods | true")
    assert (done.stdout, done.stderr) == ("code 0\n", "")


@pytest.mark.parametrize("kilobytes", [200_000, 600_000])
def test_a_process_that_may_not_use_memory_says_so_in_one_line(
    kilobytes: int, tmp_path: Path
) -> None:
    """Too little even to load torch."""
    done = shell(f"ulimit -v {kilobytes}; tamatch train --out {tmp_path / 'run'}")
    assert done.stdout == "code 2\n"
    assert done.stderr == (
        f"tamatch: out of memory: this process may use {kilobytes * 1024 // 10**6} MB "
        "(`ulimit -v`), and torch alone takes 700 MB.\n"
    )


@pytest.mark.parametrize("error", ["MemoryError()", "SystemError('error return without')"])
def test_memory_that_ends_later_is_one_line_too(error: str) -> None:
    own = f"""
import sys
from tamatch import cli
from tamatch.cli import commands
def fails(): raise {error}
commands.top_parser = fails
sys.exit(cli.main(["nets"]))
"""
    done = subprocess.run([sys.executable, "-c", own], capture_output=True, text=True, check=False)
    told = "tamatch: out of memory: this process may not use enough of it.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)
