"""Values of JSON files, narrowed to a type; numbers as a reader wants them; pages from templates.

A field that is missing or of another type becomes None or empty.
"""

import math
import re
from functools import cache
from pathlib import Path
from typing import cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ..storage.files import write_bytes

UNKNOWN = "–"
_NARROW_SPACE = "\u202f"  # does not break, so 12 000 stays on one line
_OPTION = re.compile(r"--[a-z][a-z-]*")  # browsers break a line after each hyphen
_LONGEST = 80  # characters of a name in Markdown


def number(value: object) -> float | None:
    """The value as a finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        converted = float(value)
    except OverflowError:
        return None
    return converted if math.isfinite(converted) else None


def whole(value: object) -> int | None:
    """The value as an int, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def numbers(value: object) -> list[float]:
    """A list of numbers, NaN where an entry is none; empty if the value is no list of numbers."""
    if not isinstance(value, list) or not any(number(entry) is not None for entry in value):
        return []
    return [math.nan if (found := number(entry)) is None else found for entry in value]


def table(value: object) -> dict[str, object]:
    """A JSON object, or an empty one."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def text(value: object, default: str = "") -> str:
    """A scalar in words; `default` for a missing value."""
    if value is None:
        return default
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(text(entry, "none") for entry in value)
    return str(value)


def percent(value: float | None, digits: int = 1) -> str:
    """A value already in percent: 2.1 %."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.{digits}f} %"


def share(value: float | None, digits: int = 1) -> str:
    """A share of one, in percent: 0.713 is 71.3 %."""
    return percent(None if value is None else 100 * value, digits)


def points(value: float | None, digits: int = 1) -> str:
    """A difference of percentages with its sign."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    rounded = round(value, digits)
    return (
        f"{abs(rounded):.{digits}f}" if rounded == 0 else f"{rounded:+.{digits}f}".replace("-", "−")
    )


def count(value: int | None) -> str:
    """A whole number with thin spaces between thousands."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", _NARROW_SPACE)


def decimal(value: float | None) -> str:
    """Three significant digits, in scientific form only where plain digits would be unreadable."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """45 s, 3 min 20 s, 5 h 12 min."""
    if seconds is None:
        return UNKNOWN
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def shortened(name: str, most: int = 28) -> str:
    """A name that fits into a table cell."""
    return name if len(name) <= most else name[: most - 1] + "…"


def compact(value: float) -> str:
    """A short axis label: 500, 20k, 1.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (abs(value) >= size and value % (size / 10) == 0):
            return f"{value / size:.1f}".removesuffix(".0") + letter
    return f"{value:g}"


def tidy(words: str) -> Markup:
    """Keep a number and its percent sign on one line, and so the parts of an option's name."""
    safe = str(escape(words)).replace(" %", "\u00a0%")
    return Markup(_OPTION.sub(r'<span class="word">\g<0></span>', safe))


def literal(value: str) -> str:
    """Any text as a Markdown code span on one line: nothing in it is a link, an image or HTML."""
    shown = "".join(c if c.isprintable() else " " for c in value)
    shown = shortened(" ".join(shown.split()), _LONGEST)
    if not shown:
        return UNKNOWN
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}".replace("|", "\\|")


@cache
def environment(package: str, folder: str = "templates") -> Environment:
    """What fills the templates in a folder of a package; in HTML, no value can become a tag."""
    made = Environment(
        loader=PackageLoader(package, folder),
        autoescape=lambda name: name is None or ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (count, percent, share, decimal, duration, text, tidy, literal, shortened)
    made.filters |= {each.__name__: each for each in filters}
    return made


def filled(template: str, **values: object) -> str:
    """A template of this package with these values in it."""
    return environment("tamatch.report").get_template(template).render(**values)


def write_page(template: str, out: Path, **values: object) -> Path:
    """Write the page whole or not at all, so that a reader never sees half of it."""
    page = filled(template, **values)
    # A file name may hold bytes that are no text; "replace" writes them as question marks.
    write_bytes(out, page.encode("utf-8", "replace"))
    return out
