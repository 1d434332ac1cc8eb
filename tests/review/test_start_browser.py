"""From a folder without one label to an exported model, in a real browser, by keyboard alone."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tamatch
from tamatch.data.labels import NONE_OF_THESE
from tests.review.browser import opened_browser, opened_page, saved, serving
from tests.review.conftest import served, small_labelling


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as started:
        yield started


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Ninety images of three groups in turn, and a live answer."""
    session = small_labelling(tmp_path, 90)
    with session.answers.computed(), served(session) as server:
        shown = opened_page(browser, server.gate.address(server.gate.token))
        shown.store = session.store
        answered(shown)
        yield shown
        shown.context.close()
        assert not shown.problems


def answered(page: Any) -> None:
    page.wait_for_function("() => live.change >= data.change && view.length > 0 && !waiting")


def chosen(page: Any) -> str:
    return str(page.inner_text("#file"))


def type_name(page: Any, name: str) -> None:
    if page.evaluate("document.activeElement.id") != "name":
        page.keyboard.press("/")
    page.keyboard.type(name)
    page.keyboard.press("Enter")


def label(page: Any, names: dict[str, str], count: int) -> None:
    """Label the images that are asked for, as one who knows."""
    for _ in range(count):
        name = names[chosen(page)]
        classes = page.evaluate("data.classes")
        done = page.evaluate("labels.size")
        if name in classes:
            page.keyboard.press("123456789abcdefghij"[classes.index(name)])
        else:
            type_name(page, name)
        saved(page, done + 1)
        answered(page)


GROUPS = {f"{i}.png": ("left", "right", "up")[i % 3] for i in range(90)}


def test_keys(page: Any) -> None:
    store, press = page.store, page.keyboard.press
    assert page.evaluate("document.activeElement.id") == "name"  # the first thing is to type
    first = chosen(page)
    type_name(page, "cat <b>")
    saved(page, 1)
    assert store.labels == {first: "cat <b>"} and chosen(page) != first
    assert page.locator("#classes b").count() == 0
    second = chosen(page)
    press("1")
    saved(page, 2)
    assert store.labels[second] == "cat <b>"
    third = chosen(page)
    press("0")
    saved(page, 3)
    fourth = chosen(page)
    press(" ")
    saved(page, 4)
    assert store.labels[third] == NONE_OF_THESE and store.labels[fourth] == ""
    press("Backspace")
    saved(page, 3)
    assert chosen(page) == fourth and fourth not in store.labels
    press("x")  # no class has this key
    press("9")
    type_name(page, "CAT <B>")  # the class that is there
    saved(page, 4)
    assert store.labels[fourth] == "cat <b>"
    press("F2")
    page.keyboard.type("dog")
    press("Enter")
    page.wait_for_function("() => data.classes[0] === 'dog'")
    assert [*store.labels.values()].count("dog") == 3
    press("?")
    press("1")
    press("Escape")
    saved(page, 4)


def test_a_name_that_is_refused_stops_nothing(page: Any) -> None:
    first = chosen(page)
    for name in ("unlabelled", "_Unlabeled"):
        type_name(page, name)
        saved(page, 0)  # what was shown as labelled is not, and is asked for again
        assert page.locator("#trouble").is_visible()
        assert chosen(page) == first and not page.store.labels
    assert page.inner_text("#trouble").startswith('Not saved: "_Unlabeled" stands for no label')
    type_name(page, "cat")
    saved(page, 1)
    assert page.store.labels == {first: "cat"} and page.locator("#trouble").is_hidden()
    page.problems.clear()  # the browser's own lines on the status


def test_guesses_are_confirmed_by_the_row_and_corrected(page: Any) -> None:
    label(page, GROUPS, 6)
    page.keyboard.press(".")
    page.wait_for_function("() => view.length > 60")
    guessed = page.evaluate("view.map(i => [data.files[i], guessOf(i).name])")
    assert all(GROUPS[file] == name for file, name in guessed)
    order = page.evaluate("view.map(i => data.classes.indexOf(guessOf(i).name))")
    assert order == sorted(order)
    row, before = page.evaluate("columns"), len(page.store.labels)
    page.keyboard.press("Shift+Enter")
    saved(page, before + row)
    page.keyboard.press("2")  # a correction
    saved(page, before + row + 1)
    page.keyboard.press("Backspace")
    saved(page, before + row)
    page.keyboard.press("Backspace")  # the row was one decision
    saved(page, before)
    page.wait_for_function("() => live.done && live.change >= data.change")
    assert "thinking" not in page.inner_text(".live")


def test_the_answer_says_how_good_it_is(page: Any) -> None:
    label(page, GROUPS, 26)
    page.wait_for_function("() => live.done && live.change >= data.change")
    assert "of the guesses are right" in page.inner_text("#accuracy")
    assert "drawn by lot" in page.inner_text("#interval")
    assert "More labels hardly pay: train." in page.inner_text("#gain")
    wrong = next(file for file, name in page.store.labels.items() if name == "left")
    page.select_option("#state", "labelled")
    page.evaluate("file => choose(view.indexOf(data.files.indexOf(file)))", wrong)
    page.evaluate("document.getElementById('grid').focus()")
    page.keyboard.press(str(page.evaluate("data.classes.indexOf('right')") + 1))
    saved(page, 26)
    page.wait_for_function("() => live.done && live.change >= data.change")
    page.select_option("#state", "suspects")
    assert chosen(page) == wrong and page.inner_text("#confirm-text") == "It is left"
    page.evaluate("document.getElementById('grid').focus()")
    page.keyboard.press("Enter")
    saved(page, 26)
    assert page.store.labels[wrong] == "left"


def test_an_image_is_drawn_if_the_lot_brought_it_under_the_key(page: Any) -> None:
    label(page, GROUPS, 3)
    page.evaluate("polling = true")  # no answers but these
    under = page.evaluate("view[cursor]")
    doubtful, lucky, other = (i for i in range(90) if i in page.evaluate("view.slice(1, 4)"))

    def asks(images: list[int], by_lot: list[int]) -> None:
        page.evaluate(
            "([next, lots]) => { live = { ...live, next, lots }; filter(); }", [images, by_lot]
        )

    def labelled(image: int, done: int) -> bool:
        assert page.evaluate("view[cursor]") == image
        page.keyboard.press("1")
        saved(page, done)
        return bool(page.store.drawn[f"{image}.png"])

    asks([under, other, doubtful, lucky], [doubtful])
    asks([under, doubtful, lucky, other], [lucky, other])  # one is in doubt before its turn
    assert not labelled(under, 4) and not labelled(doubtful, 5)
    asks([other, lucky], [other])  # too late: the lot has brought it under the key
    assert labelled(lucky, 6)
    page.keyboard.press("Backspace")
    saved(page, 5)
    assert labelled(lucky, 6)  # labelled anew
    page.select_option("#state", "all")
    page.evaluate("image => choose(image)", other)
    page.evaluate("document.getElementById('grid').focus()")
    assert not labelled(other, 7)  # found by looking around


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(page: Any, width: int) -> None:
    label(page, GROUPS, 4)
    page.set_viewport_size({"width": width, "height": 800})
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    for button in ("#confirm", "#row", "#none", "#skip", "#undo", "#rename", "#train"):
        box = page.locator(button).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    assert page.locator("#grid").bounding_box()["height"] > 100


def test_everything_has_a_name(page: Any) -> None:
    label(page, GROUPS, 4)
    for role, name in (
        ("listbox", "Images"), ("button", "None of these"), ("button", "Skip"), ("button", "Undo"),
        ("button", "Rename"), ("button", "Train"), ("combobox", "Show"), ("group", "Classes"),
        ("combobox", "Name of the class"), ("button", "The guesses of this row are right"),
    ):  # fmt: skip
        assert page.get_by_role(role, name=name).count() == 1, name


def test_from_nothing_to_an_exported_model(
    browser: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    names, draw = {}, np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for i in range(40):
        light = i % 2
        pixels = draw.integers(130 * light, 120 + 130 * light, (24, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{i}.png")
        names[f"{i}.png"] = ("dark", "light")[light]
    words = ("start", "photos", "--weights", tiny, "--device", "cpu")
    with serving(*words, place=tmp_path) as process:
        page = opened_page(browser, process.address)
        answered(page)
        label(page, names, 8)
        process.process.kill()  # and again from there
    with serving(*words, place=tmp_path) as process:
        assert "40 images. photos/labels.csv: 8 labels." in process.said
        page = opened_page(browser, process.address)
        answered(page)
        label(page, names, 2)
        page.click("#train")
        page.wait_for_selector("#trouble.calm")
        page.wait_for_timeout(1000)  # the server is gone, and nothing is lost
        assert page.inner_text("#saved") == "saved" and page.locator("#train").is_disabled()
        said = process.process.communicate(timeout=300)[0]
        assert process.process.returncode == 0, said
    with (tmp_path / "photos" / "labels.csv").open(newline="") as file:
        rows = {row["file_name"]: row["label"] for row in csv.DictReader(file)}
    assert len(rows) == 10 and all(names[file] == name for file, name in rows.items())
    report = tmp_path / "runs" / "photos" / "report.html"
    assert "Report: runs/photos/report.html" in said and report.exists()
    model = tamatch.load(report.parent)
    assert model.facts.classes == ("dark", "light")
    assert tamatch.export(report.parent, "safetensors").path.exists()
