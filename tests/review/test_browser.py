"""The page in a real browser, by keyboard alone."""

from __future__ import annotations

import csv
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.review.browser import answer, decisions, opened_browser, opened_page, reviewing, saved
from tests.review.conftest import Project, served, small_session


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as started:
        yield started


def read(path: Path) -> dict[str, str]:
    with path.open(newline="") as file:
        return {row["file_name"]: row["label"] for row in csv.DictReader(file)}


@pytest.mark.parametrize("wanted", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_labels_and_a_kill(browser: Any, project: Project, tmp_path: Path, wanted: int) -> None:
    """Labels by keyboard, kill -9 in the middle of a burst, again from there: none is lost."""
    half = wanted // 2 - 10
    path = tmp_path / "labels.csv"
    with reviewing(project.run, path) as review:
        page = opened_page(browser, review.address)
        for _ in range(half):
            answer(page, project.truth)
        saved(page, half)
        killer = threading.Timer(0.15, review.process.kill)
        killer.start()
        for _ in range(wanted - half - 5):  # as fast as it goes, while the process dies
            answer(page, project.truth)
            if page.locator("#trouble").is_visible():
                break
        page.wait_for_selector("#trouble:not([hidden])")
        killer.join()
        assert "connection" in page.inner_text("#trouble")
        shown, there = decisions(page), read(path)
        assert len(there) - 1 <= len(shown) <= len(there)  # one may be written, not yet confirmed
        assert shown.items() <= {name: int(label) for name, label in there.items()}.items()
        assert half <= len(shown) < wanted and page.locator("#confirm").is_disabled()
    with reviewing(project.run, path) as review:
        assert f"{len(there)} labels" in review.said
        page = opened_page(browser, review.address)
        saved(page, len(there))
        assert page.inner_text("#file") not in there
        for _ in range(len(there), wanted):
            answer(page, project.truth)
        saved(page, wanted)
        assert not page.problems
        end = review.end(signal.SIGINT)
    labels = read(path)
    assert len(labels) == wanted
    assert labels == {name: project.truth[name] for name in labels}
    assert there.items() <= labels.items()
    assert f"{wanted} labels" in end and f"--labels {path} --from {project.run}" in end
    assert review.process.returncode == 0


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """A page with 500 made-up images and three classes."""
    names = tuple(f"unlabelled/{i:03}.png" for i in range(500))
    with served(small_session(tmp_path, names, ("ant", "bee", "<b>cow</b>"))) as server:
        shown = opened_page(browser, server.gate.address(server.gate.token))
        shown.server = server
        yield shown
        shown.context.close()
        assert not shown.problems


def chosen(page: Any) -> str:
    return str(page.inner_text("#file"))


def test_keys(page: Any) -> None:
    store = page.server.session.store
    press = page.keyboard.press
    assert page.url.endswith("/")  # the key is no longer in the address
    press("2")
    press("3")
    saved(page, 2)
    assert list(store.labels.values()) == ["bee", "<b>cow</b>"]
    press("s")
    saved(page, 3)
    assert store.labels["unlabelled/002.png"] == ""
    press("u")
    press("u")
    saved(page, 1)
    assert store.labels == {"unlabelled/000.png": "bee"} and chosen(page) == "unlabelled/001.png"
    press("ArrowLeft")
    assert chosen(page) == "unlabelled/000.png"
    press("1")
    saved(page, 1)
    assert store.labels == {"unlabelled/000.png": "ant"}
    press("u")
    saved(page, 1)
    page.wait_for_function(
        "() => document.getElementById('decided').textContent === 'Labelled bee'"
    )
    guess = page.inner_text("#confirm-text").removeprefix("It is ")
    press("ArrowRight")
    guess = page.inner_text("#confirm-text").removeprefix("It is ")
    press("Enter")
    saved(page, 2)
    assert store.labels["unlabelled/001.png"] == guess
    for key in ("9", "x", "Control+z", "F3"):
        press(key)
    saved(page, 2)
    press("End")
    assert chosen(page) == "unlabelled/499.png"
    press("ArrowUp")
    press("Home")
    assert chosen(page) == "unlabelled/000.png"


def test_help_and_focus(page: Any) -> None:
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("1")
    page.keyboard.press("Escape")
    assert page.locator("#help").is_hidden()
    assert page.server.session.store.labels == {}  # keys meant for the help are no labels
    page.click("#classes button >> nth=1")
    saved(page, 1)
    guess = page.inner_text("#confirm-text").removeprefix("It is ")
    page.keyboard.press("Enter")  # the next guess, not the button once more
    saved(page, 2)
    assert list(page.server.session.store.labels.values()) == ["bee", guess]


def test_filters(page: Any) -> None:
    page.keyboard.press("1")
    saved(page, 1)
    page.select_option("#state", "labelled")
    assert page.inner_text("#shown") == "1 shown" and chosen(page) == "unlabelled/000.png"
    page.select_option("#state", "skipped")
    assert page.locator("#empty").is_visible() and page.locator("#confirm").is_disabled()
    page.select_option("#state", "todo")
    page.select_option("#class", "1")
    page.select_option("#confidence", "0.5 0.8")
    guesses = page.evaluate("view.map(i => [data.guesses[i][0], data.shares[i][0]])")
    assert guesses and all(c == 1 and 0.5 <= share < 0.8 for c, share in guesses)
    page.select_option("#class", "")
    page.select_option("#confidence", "0 2")
    assert page.inner_text("#shown") == "499 shown"


def test_only_what_is_seen_is_drawn(page: Any) -> None:
    assert 10 < page.locator(".tile-image").count() < 150
    page.keyboard.press("End")
    page.wait_for_selector('[aria-posinset="500"][aria-selected="true"]')
    assert page.locator(".tile-image").count() < 150
    assert page.locator("#image-499").is_visible()


def test_names_and_roles(page: Any) -> None:
    """Everything can be reached and has a name."""
    for role, name in (
        ("listbox", re.compile("most useful")), ("button", re.compile("It is")),
        ("button", re.compile("Skip")), ("button", re.compile("Undo")),
        ("button", re.compile("Help")), ("combobox", "Show"), ("combobox", "guessed as"),
        ("combobox", "with"), ("group", "Classes"), ("button", re.compile("cow")),
    ):  # fmt: skip
        assert page.get_by_role(role, name=name).count() == 1, name
    active = page.get_attribute("#grid", "aria-activedescendant")
    label = page.get_attribute(f"#{active}", "aria-label")
    assert label.startswith("unlabelled/000.png: guess ") and label.endswith("no label")
    reached = set()
    for _ in range(25):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"state", "class", "confidence", "grid", "confirm", "skip", "copy"} <= reached
    assert page.locator("#classes b").count() == 0  # names are text, never markup


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(browser: Any, page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    for button in ("#confirm", "#skip", "#undo", "#help-button"):
        box = page.locator(button).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width


def test_many_classes_are_found_by_typing(browser: Any, tmp_path: Path) -> None:
    classes = (*(f"kind {i:03}" for i in range(60)), "zebra", "zebu")
    session = small_session(tmp_path, ("a.png", "b.png", "c.png"), classes)
    with served(session) as server:
        page = opened_page(browser, server.gate.address(server.gate.token))
        page.keyboard.press("/")
        page.keyboard.type("zebu")
        assert page.locator("#classes button:visible").count() == 1
        page.keyboard.press("Enter")
        saved(page, 1)
        assert page.locator("#classes button:visible").count() == len(classes)
        page.keyboard.press("0")
        saved(page, 2)
        assert list(session.store.labels.values()) == ["zebu", "kind 009"]
        page.keyboard.press("/")
        page.keyboard.press("1")
        page.keyboard.press("Escape")
        page.keyboard.press("1")
        saved(page, 3)
        assert session.store.labels["c.png"] == "kind 000"
        assert page.locator("#empty").is_visible() and not page.problems


SCROLL = """async () => {
  const grid = document.getElementById("grid"), gaps = [];
  for (let i = 0; i < 60; i++) {
    const before = performance.now();
    grid.scrollTop += 900;
    await new Promise(requestAnimationFrame);
    gaps.push(performance.now() - before);
  }
  return gaps.sort((a, b) => a - b)[30];
}"""


def test_ten_thousand_images_stay_fluid(browser: Any, tmp_path: Path) -> None:
    names = tuple(f"unlabelled/{i:05}.jpg" for i in range(10_000))
    session = small_session(tmp_path, names, tuple("abcdefghij"))
    with served(session) as server:
        page = opened_page(browser, server.gate.address(server.gate.token))
        assert page.evaluate(SCROLL) < 200  # milliseconds; about 17 where nothing else runs
        assert page.locator(".tile-image").count() < 150
        for i in range(20):
            page.keyboard.press(str(i % 10))
        saved(page, 20)
        assert len(session.store.labels) == 20 and not page.problems
