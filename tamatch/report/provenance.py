"""Where the numbers come from: data, configuration, versions, skipped files."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from ..errors import DataError
from ..storage.spreadsheet import read_rows
from .folder import RunFiles
from .values import number, table, text, whole
from .words import UNKNOWN, count, duration

Pairs = list[tuple[str, str]]
SKIPPED_LISTED = 50


def data_facts(run: RunFiles) -> Pairs:
    """Sizes of the parts, and what is known of the unlabelled pool."""
    data = run.data
    if not data:
        return []
    pool = data.get("labelled_in_pool")
    known = "yes" if data.get("true_shares") else "no, so the target is used instead"
    rows = [("Data set", text(data.get("name"), UNKNOWN))]
    for part in ("labelled", "unlabelled", "validation", "test"):
        rows.append((f"{part.capitalize()} images", count(whole(data.get(part)))))
    rows += [
        ("Labelled images also in the unlabelled pool", text(pool, UNKNOWN)),
        ("True class shares of the pool known", known),
        ("SHA-256", text(data.get("sha256"), UNKNOWN)),
    ]
    return rows


def configuration(run: RunFiles) -> Pairs:
    """The resolved configuration without the method's own options."""
    settings = ((k.rstrip("_"), v) for k, v in run.config.items() if k != "options")
    return [(name, text(value, "none")) for name, value in settings]


def method_options(run: RunFiles) -> Pairs:
    """The method's own hyper-parameters."""
    return [(k, text(v, "none")) for k, v in table(run.config.get("options")).items()]


def net_name(run: RunFiles) -> str:
    """The net; of one in a file of the user's own, FILE.py:NAME without where that lies."""
    name = text(run.config.get("net"))
    return Path(name).name if ":" in name else name


def circumstances(run: RunFiles) -> Pairs:
    """Versions, device and times."""
    about = run.about
    rows = [(name, text(version)) for name, version in table(about.get("versions")).items()]
    rows += [(name, text(about.get(name), UNKNOWN)) for name in ("device", "threads", "precision")]
    rows.append(("net parameters", count(whole(about.get("parameters")))))
    rows += [(name, text(when, UNKNOWN)) for name, when in table(about.get("times")).items()]
    rows.append(("training time", duration(number(run.result.get("seconds")))))
    return rows


def skipped_files(path: Path) -> tuple[int, Pairs]:
    """How many images were left out, and the first of them with the reason."""
    rows = read_rows(path, "file", "reason")
    try:
        listed = [(row["file"], row["reason"]) for row in islice(rows, SKIPPED_LISTED)]
        return len(listed) + sum(1 for _ in rows), listed
    except DataError:
        return 0, []
