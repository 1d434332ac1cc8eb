"""Fill a template and put the page where it belongs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ..storage.files import write_bytes
from .words import count, percent, share

_OPTION = re.compile(r"--[a-z][a-z-]*")  # browsers break a line after each hyphen


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


def tidy(text: str) -> Markup:
    """Keep a number and its percent sign on one line, and so the parts of an option's name."""
    safe = str(escape(text)).replace(" %", "\u00a0%")
    return Markup(_OPTION.sub(r'<span class="word">\g<0></span>', safe))


def write_page(template: str, out: Path, **values: object) -> Path:
    """Write the page whole or not at all, so that a reader never sees half of it."""
    page = environment("tamatch.report").get_template(template).render(**values)
    # A file name may hold bytes that are no text; "replace" writes them as question marks.
    write_bytes(out, page.encode("utf-8", "replace"))
    return out
