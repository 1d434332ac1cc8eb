"""Fill a template and put the page where it belongs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..storage.files import write_bytes
from .words import count, percent, share


@cache
def environment(package: str, folder: str = "templates") -> Environment:
    """What fills the templates in a folder of a package; a name or value cannot become HTML."""
    made = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"count": count, "percent": percent, "share": share, "tidy": tidy}
    return made


def tidy(text: str) -> str:
    """Keep a number and its percent sign on one line."""
    return text.replace(" %", "\u00a0%")


def write_page(template: str, out: Path, **values: object) -> Path:
    """Write the page whole or not at all, so that a reader never sees half of it."""
    page = environment("tamatch.report").get_template(template).render(**values)
    # A file name may hold bytes that are no text; "replace" writes them as question marks.
    write_bytes(out, page.encode("utf-8", "replace"))
    return out
