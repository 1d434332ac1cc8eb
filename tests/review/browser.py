"""A real browser and a real `tamatch review` or `tamatch start`, for the tests of the pages."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes import environment

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def opened_browser() -> Iterator[Any]:
    """Chromium without a window; the test is skipped where there is none."""
    reason = "playwright is not installed"
    sync_api = pytest.importorskip("playwright.sync_api", reason=reason)
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Serving:
    """A process that serves a page, and its address."""

    def __init__(self, *words: str, place: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tamatch", *words, "--no-browser"], cwd=place,
            stdout=subprocess.PIPE, text=True, env={**environment(), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if found := re.match(r"Open (\S+)", line):
                self.address = found[1]
                return
        raise AssertionError(f"tamatch ended: {self.said}")

    def end(self, how: signal.Signals) -> str:
        """End the process and return the rest of what it said."""
        self.process.send_signal(how)
        return str(self.process.communicate(timeout=30)[0])


@contextmanager
def serving(*words: str, place: Path | None = None) -> Iterator[Serving]:
    made = Serving(*words, place=place)
    try:
        yield made
    finally:
        made.process.kill()
        if made.process.stdout is not None:
            made.process.stdout.close()
        made.process.wait()


def reviewing(run: Path, labels: Path) -> AbstractContextManager[Serving]:
    return serving("review", str(run), "--labels", str(labels))


def opened_page(browser: Any, address: str, **options: Any) -> Any:
    """The page, ready for keys; an error in its script is an error here."""
    page = browser.new_context(**options).new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("console", lambda said: said.type == "error" and page.problems.append(said.text))
    page.goto(address)
    page.wait_for_selector("#saved.good")
    return page


def decisions(page: Any) -> dict[str, int]:
    """What the page takes for saved: file and class."""
    pairs = page.evaluate("[...labels].map(([image, label]) => [data.files[image], label])")
    return dict(pairs)


def saved(page: Any, count: int) -> None:
    """Wait until this many decisions are confirmed."""
    page.wait_for_function(
        "n => document.querySelector('#saved.good')?.dataset.labels === String(n)", arg=count
    )


def answer(page: Any, truth: dict[str, str]) -> None:
    """Label the chosen image as one who knows: Enter if the guess is right, else a digit."""
    file, guess = page.evaluate(
        "[document.getElementById('file').textContent,"
        " document.getElementById('confirm-text').textContent]"
    )
    right = truth[file]
    page.keyboard.press("Enter" if guess == f"It is {right}" else str((int(right) + 1) % 10))
