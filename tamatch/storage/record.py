"""The record of a run folder: every file that a run writes, what it must contain, and its seal.

Everything that reads a run folder uses this module. A file that is not as it was written is refused
with one line. That guards against damage and against edits by hand, not against forgery: whoever
can write the folder can also compute its checksums.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError
from .files import read_bytes, write_json
from .untrusted import parse_json

VERSION = 2  # of sealed records; those of version 1 have no seal and are read without one
SEAL = "seal"
MACHINE = (
    "root",
    "device",
    "images",
    "tensorboard",
    "wandb",
    "mlflow",
)  # may be edited in run.json
RESTORE = "Restore it, or train again"


class File(NamedTuple):
    """A file of a run folder; a name with a * stands for several."""

    name: str
    writer: str  # the module
    first: bool = False  # written before the first step
    listed: bool = False  # its checksum is in run.json


FILES = (
    File("run.json", "runs.record", first=True),
    File("log.txt", "progress", first=True),
    File("split.csv", "runs.record", first=True, listed=True),
    File("skipped.csv", "runs.record", first=True, listed=True),
    File("batch.png", "runs.start", first=True, listed=True),
    File("metrics.jsonl", "runs.training", first=True),  # run.json and checkpoints: see `Mark`
    File("events/events.out.tfevents.*", "storage.events", first=True),
    File("checkpoints/step_*/state.pt", "storage.checkpoint"),
    File("checkpoints/step_*/manifest.json", "storage.checkpoint"),  # has that of state.pt
    File("model/model.json", "model.model", listed=True),
    File("model/model.safetensors", "model.model"),  # its checksum is in model.json
    File("trust.json", "runs.end", listed=True),
    File("predictions/test.csv", "runs.end", listed=True),
    File("predictions/validation.csv", "runs.end", listed=True),
    File("predictions/pool.csv", "runs.end", listed=True),
    File("never_accepted.csv", "runs.end", listed=True),
    File("odd.csv", "runs.end", listed=True),
    File("suspects.csv", "runs.first_answer", listed=True),
    File("pictures/suspects.jpg", "runs.first_answer", listed=True),
    File("pictures/doubtful.jpg", "runs.end", listed=True),
    File("pictures/confident_wrong.jpg", "runs.end", listed=True),
    File("pictures/never_accepted.jpg", "runs.end", listed=True),
    File("pictures/odd.jpg", "runs.end", listed=True),
    File("result.json", "runs.training", listed=True),
    File("report.html", "report.page"),
)
INSIDE = r"(?:(?:baseline|first|folds/\d+-of-\d+)/)*"  # runs that belong to a run
FOLDERS = {name.split("/")[0] for name, *_ in FILES if "/" in name} | {"baseline", "first", "folds"}


class Kind(NamedTuple):
    """What a value must be, in words and as a test; the fields of a table, entries of a list."""

    words: str
    fits: Callable[[Any], bool]
    fields: Mapping[str, "Kind"] = {}
    each: "Kind | None" = None
    required: tuple[str, ...] = ()
    closed: bool = False  # no other fields


def whole(least: int = 0, most: int = 2**63 - 1) -> Kind:
    within = f"from {least:,} to {most:,}" if most < 2**63 - 1 else f"of {least:,} or more"
    return Kind(f"a whole number {within}", lambda v: type(v) is int and least <= v <= most)


def number(least: float = -math.inf, most: float = math.inf, *, above: bool = False) -> Kind:
    ends = [f"above {least:g}" if above else f"of at least {least:g}"] * (least > -math.inf)
    ends += [f"of at most {most:g}"] * (most < math.inf)

    def fits(v: Any) -> bool:
        finite = type(v) in (int, float) and abs(v) < 2**1023 and math.isfinite(v)
        return finite and least <= v <= most and not (above and v == least)

    return Kind(" ".join(["a number", " and ".join(ends)]).strip(), fits)


def either(*names: str) -> Kind:
    return Kind(f"one of {', '.join(names)}", lambda v: v in names and isinstance(v, str))


def maybe(kind: Kind) -> Kind:
    return kind._replace(words=f"{kind.words}, or null", fits=lambda v: v is None or kind.fits(v))


def listed(each: Kind, least: int = 0, most: float = math.inf) -> Kind:
    size = f"{least} " if least == most else ""
    fits = lambda v: isinstance(v, list) and least <= len(v) <= most  # noqa: E731
    return Kind(f"a list of {size}values, each {each.words}", fits, each=each)


def table(
    required: Mapping[str, Kind] | None = None, *, closed: bool = False, **fields: Kind
) -> Kind:
    needed = dict(required or {})
    return Kind(
        "a table", lambda v: isinstance(v, dict), {**needed, **fields}, None, (*needed,), closed
    )


def named(each: Kind) -> Kind:
    """A table of any names, whose values are all of one kind."""
    return Kind("a table", lambda v: isinstance(v, dict), each=each)


ANY = Kind("a value", lambda v: True)
TEXT = Kind("text", lambda v: isinstance(v, str))
FLAG = Kind("true or false", lambda v: isinstance(v, bool))
DIGEST = Kind("a SHA-256", lambda v: isinstance(v, str) and bool(re.fullmatch("[0-9a-f]{64}", v)))
SHARES = listed(number(0, 1))
ACCURACIES = maybe(listed(maybe(number(0, 100))))
ERROR = number(0, 100)

MARK = table({"bytes": whole(), "sha256": DIGEST}, closed=True)
SETTINGS = table(
    options=table(), steps=whole(1), size=maybe(whole(1)), seed=whole(), data=TEXT, method=TEXT,
    net=TEXT, baseline=TEXT, root=maybe(TEXT), labels=maybe(TEXT), weights=maybe(TEXT),
    from_=maybe(TEXT),
)  # fmt: skip
DATA = table(
    {"name": TEXT, "sha256": DIGEST}
    | dict.fromkeys(("labelled", "unlabelled", "validation", "test"), whole())
    | {"labelled_in_pool": FLAG, "labelled_shares": SHARES, "true_shares": maybe(SHARES)},
    closed=True,
)
RUN = table(
    {"config": SETTINGS}, closed=True,
    status=either("new", "running", "stopped", "finished"), step=whole(), command=TEXT,
    started_in=TEXT, torchrun=TEXT, chosen=named(TEXT), versions=named(TEXT), device=TEXT,
    threads=whole(1, 4096), precision=TEXT, images=TEXT, classes=listed(TEXT, 1), data=DATA,
    seen=named(whole()), parameters=whole(), times=named(TEXT), memory=named(whole()),
    warnings=listed(table(dict.fromkeys(("name", "what", "cause", "cure"), TEXT), closed=True)),
    metrics=MARK, files=named(DIGEST),
)  # fmt: skip
FOUND = {"error": ERROR, "interval": listed(ERROR, 2, 2)}  # with its 95 % confidence interval
HELD_OUT = maybe(table({"labels": whole(1), **FOUND}, closed=True))
FIRST_ANSWER = table(
    {
        "features_seconds": number(0), "pool_shares": maybe(SHARES), "reason": TEXT,
        "cross_validation": HELD_OUT,
        "learning_curve": maybe(
            table({"labels": listed(whole(1)), "errors": listed(ERROR), "doubled": table(FOUND)})
        ),
    },
    closed=True, suspects=maybe(whole()), chosen=whole(), lower_blocks=FLAG,
)  # fmt: skip
JUNK = table({"share": number(0, 1), "images": whole(), "marked": whole()}, closed=True)
RUNG = table(
    {
        "name": TEXT, "error": maybe(ERROR), "interval": maybe(listed(ERROR, 2, 2)),
        "held_out": HELD_OUT, "seconds": number(0),
    },
    closed=True,
)  # fmt: skip
TUNING = table(
    {
        "kept": FLAG, "reason": TEXT, "labels": whole(), "wrong": whole(), "first_wrong": whole(),
        "ladder": listed(RUNG, 1),
    },
    closed=True,
)  # fmt: skip
RESULT = table(
    {
        "method": TEXT, "dataset": TEXT, "seed": whole(), "steps": whole(1),
        "per_class_accuracy": ACCURACIES, "utilization": maybe(number()), "seconds": number(0),
        "best_step": maybe(whole()),
    } | dict.fromkeys(("error_last", "error_median20", "error_best"), maybe(ERROR)),
    closed=True, first_answer=FIRST_ANSWER, tuning=TUNING, method_reason=TEXT, junk=maybe(JUNK),
)  # fmt: skip
MODEL = table(
    {
        "net": TEXT, "classes": listed(TEXT, 1), "size": whole(1, 4096),
        "mean": listed(number(-1e3, 1e3), 3, 3), "std": listed(number(0, 1e3, above=True), 3, 3),
    },
    closed=True, temperature=number(0, 1e6, above=True), weights=DIGEST,
)  # fmt: skip
SEEDS = table({"seeds": listed(whole(), 1)})
ROW = table({"step": whole(), "kind": TEXT})
TEST_ROW = table({"step": whole(), "kind": TEXT, "error": ERROR, "per_class": ACCURACIES})
STATE = table({"conditions": named(TEXT), "engine": table(), "seconds": number(0)}, metrics=MARK)


def wrong(value: Any, kind: Kind, where: str = "") -> Iterator[str]:
    """Where a value is not of its kind: the field, what it is, and what it should be."""
    if not kind.fits(value):
        yield f"{where or 'it'} is {shown(value)}, not {kind.words}"
        return
    inside = f"{where}." if where else ""
    if isinstance(value, dict):
        for name in kind.required:
            if name not in value:
                yield f"{inside}{name} is missing"
        for name, entry in value.items():
            if name in kind.fields or kind.each:
                yield from wrong(entry, kind.fields.get(name) or kind.each or ANY, inside + name)
            elif kind.closed and name != SEAL:
                yield f"it has the unknown field {shown(inside + name)}"
    elif isinstance(value, list) and kind.each:
        for i, entry in enumerate(value):
            yield from wrong(entry, kind.each, f"{where}[{i}]")


def shown(value: Any, most: int = 60) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= most else f"{text[:most]}…"


def check(value: Any, kind: Kind, path: Path, advice: str = RESTORE) -> Any:
    """The value, or one line that names the file, the field, what it is and what to do."""
    if error := next(wrong(value, kind), None):
        raise DataError(f"{path} is damaged: {error}. {advice}.")
    return value


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """A record with the checksum of each of its fields, so that an edited one can be named."""
    fields = {name: digest(value) for name, value in fields_of(content)}
    return {**content, SEAL: {"version": VERSION, "fields": fields}}


def fields_of(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a seal covers: every field, and of the settings those that are not of the machine."""
    for name, value in content.items():
        if name == "config" and isinstance(value, dict):
            yield from ((f"{name}.{k}", v) for k, v in value.items() if k not in MACHINE)
        elif name != SEAL:
            yield name, value


def broken_seal(content: Mapping[str, Any]) -> Iterator[str]:
    """How a record differs from what was written; nothing for a record of version 1."""
    if SEAL not in content:
        return
    seal = content[SEAL]
    if not (isinstance(seal, dict) and isinstance(seal.get("fields"), dict)):
        yield f"{SEAL} is {shown(seal)}"
        return
    if seal.get("version") != VERSION:
        yield f"{SEAL}.version is {shown(seal.get('version'))}, and this version reads {VERSION}"
    found = dict(fields_of(content))
    for name in {**seal["fields"], **found}:
        if name not in found:
            yield f"{name} is missing"
        elif digest(found[name]) != seal["fields"].get(name):
            yield f"{name} is {shown(found[name])}, which is not what was written"


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    write_json(path, sealed(content))


def read_sealed(path: Path, kind: Kind, advice: str = RESTORE) -> dict[str, Any]:
    """The record in a file without its seal, every field checked."""
    return unsealed(read_record(path, advice), kind, path, advice)


def unsealed(content: Any, kind: Kind, path: Path, advice: str) -> dict[str, Any]:
    """A record without its seal, or an error if a field is not as it was written."""
    check(content, kind, path, advice)
    if change := next(broken_seal(content), None):
        raise DataError(f"{path} has been changed: {change}. {advice}.")
    return {name: value for name, value in content.items() if name != SEAL}


def read_record(path: Path, advice: str = RESTORE) -> Any:
    """The JSON in a file, or one line."""
    try:
        return parse_json(read_bytes(path))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}. {advice}.") from None
    except ValueError:
        raise DataError(f"{path} is damaged: it is not valid JSON. {advice}.") from None


Mark = dict[str, Any]  # {"bytes": …, "sha256": …}: a file up to there


def matches(path: Path, mark: Mark) -> bool:
    """Whether a file begins with the bytes that were marked."""
    seen, left = hashlib.sha256(), int(mark["bytes"])
    with path.open("rb") as file:
        for part in iter(partial(file.read, 2**20), b""):
            seen.update(part[:left])
            left -= len(part[:left])
    return left == 0 and seen.hexdigest() == mark["sha256"]


def file_digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


def names_of(files: Iterable[File], *, inside: bool) -> re.Pattern[str]:
    each = "|".join(re.escape(file.name).replace(r"\*", "[^/]*") for file in files)
    return re.compile(f"{INSIDE if inside else ''}(?:{each})")


OWN = names_of(FILES, inside=True)
FIRST = names_of((file for file in FILES if file.first), inside=True)
LISTED = names_of((file for file in FILES if file.listed), inside=False)
ANSWERS = names_of((f for f in FILES if f.writer in ("runs.end", "model.model")), inside=False)
TEMPORARY = re.compile(r"((?:.*/)?)\.([^/]+)\.\d+\.tmp")  # of `write_bytes`


def files_in(folder: Path, names: re.Pattern[str]) -> list[str]:
    """The files in a folder that have one of these names; links to folders are not entered."""
    found = []
    for place, _, files in os.walk(folder):
        inside = Path(place).relative_to(folder)
        found += [name for file in files if names.fullmatch(name := (inside / file).as_posix())]
    return sorted(found)


def left_over_in(folder: Path) -> list[str]:
    """Files that a process killed while writing has left."""
    return [
        name
        for name in files_in(folder, TEMPORARY)
        if (match := TEMPORARY.fullmatch(name)) and OWN.fullmatch(match[1] + match[2])
    ]


def changes(folder: Path, run: Mapping[str, Any]) -> Iterator[str]:
    """How a run folder differs from what the run wrote, in sentences for the report."""
    if change := next(broken_seal(run), None):
        yield f"run.json has been changed: {change}."
    files, mark = run.get("files"), run.get("metrics")
    for name, wanted in files.items() if isinstance(files, dict) else ():
        if not LISTED.fullmatch(name):
            continue
        if not (folder / name).is_file():
            yield f"{name} is missing."
        elif file_digest(folder / name) != wanted:
            yield f"{name} is not as the run wrote it."
    log = folder / "metrics.jsonl"
    if mark and not any(wrong(mark, MARK)) and log.is_file() and not matches(log, mark):
        yield f"{log.name} is not as the run wrote it."


def digests(folder: Path) -> dict[str, str]:
    """The checksums that run.json lists."""
    return {name: file_digest(folder / name) for name in files_in(folder, LISTED)}


def remove(folder: Path, names: Sequence[str]) -> None:
    """Delete these files, in this order, and the folders that are empty then."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    remove_empty(folder, names)


def remove_empty(folder: Path, names: Iterable[str]) -> None:
    """Delete the folders of these files that are empty."""
    inner = {parent for name in names for parent in Path(name).parents} - {Path()}
    for parent in sorted(inner, key=lambda p: -len(p.parts)):
        place = folder / parent
        if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
            place.rmdir()
