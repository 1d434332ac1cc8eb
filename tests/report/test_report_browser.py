"""The pages in a real browser: none is wider than its screen or paper, in light and dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tamatch.report import write_comparison, write_report
from tests.review.browser import opened_browser

MakeRun = Callable[..., Path]
NAMES = ["HerbaceousVegetation", "a", "class with a long name of several words", "x" * 60]


def test_pages_fit_their_screens(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run(f"run{seed}", classes=NAMES, seed=seed) for seed in (0, 1)]
    pages = [write_report(runs[0]), write_comparison(runs, tmp_path / "comparison.html")]
    with opened_browser() as browser:
        for address in pages:
            for width, media, colours in (
                (390, "screen", "light"),
                (1200, "screen", "dark"),
                (794, "print", "light"),
            ):
                page = browser.new_page(viewport={"width": width, "height": 900})
                page.emulate_media(media=media, color_scheme=colours)
                complaints: list[str] = []
                page.on("console", lambda message, to=complaints: to.append(message.text))
                page.goto(address.as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") == width
                assert not complaints, complaints  # such as a blocked picture
                dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert (dark == "rgb(20, 24, 29)") == (colours == "dark")
                page.close()


def test_a_short_class_name_stays_on_its_line(make_run: MakeRun) -> None:
    address = write_report(make_run(classes=["Highway", "River", *NAMES]))
    with opened_browser() as browser:
        for width in (400, 1200):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(address.as_uri())
            for name in page.locator(".classes .name").all():
                height = name.evaluate("name => name.getClientRects()[0].height")
                if name.inner_text() in ("Highway", "River"):
                    assert height < 30  # pixels: one line
                else:
                    assert height < 300  # also 60 letters break somewhere
            page.close()


def test_no_column_of_the_matrix_is_cut_off_and_no_option_broken(make_run: MakeRun) -> None:
    names = ["HerbaceousVegetation", *(f"Kind{n}" for n in range(15))]
    address = write_report(make_run(classes=names, baseline=False))
    with opened_browser() as browser:
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.goto(address.as_uri())
        box = page.locator(".mistakes > .scroll")
        assert box.locator("tbody tr").count() == len(names)
        assert box.evaluate("box => box.scrollWidth - box.clientWidth") == 0
        page.set_viewport_size({"width": 400, "height": 900})
        options = page.locator("p .word").all()
        assert options and all(
            option.evaluate("word => word.getClientRects().length") == 1 for option in options
        )
        page.close()
