"""Inputs nobody would think of: whatever comes in, the only error that comes out is our own.

`python -m tests.faults.fuzz MINUTES` tries all targets in turn, with new examples each round, until
the time is over. The tests of `make test` try a few dozen examples of each.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tamatch import cli
from tamatch.data import DATASETS, SplitPlan, load, make_split, read_split
from tamatch.data.arrays import from_arrays
from tamatch.data.decode import Unreadable, decode
from tamatch.data.layout import list_images
from tamatch.errors import TamatchError
from tamatch.methods import METHODS
from tamatch.nets import NETS
from tamatch.report import write_report
from tamatch.settings.config import RUN_OPTIONS, dump, method_options
from tamatch.settings.configure import configure
from tests.data.pictures import picture, put, saved

ROUND = 200  # examples of a target in one round
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP")
PICTURES = {kind: saved(picture(), kind).getvalue() for kind in FORMATS}

# --- what inputs are made of ---------------------------------------------------------------------

OPTIONS = sorted({*RUN_OPTIONS, *(o for m in METHODS for o in method_options(m))})
WORDS = sorted({*METHODS, *NETS, *DATASETS, "yes", "no", "none", "auto", "cpu", "sgd", "adamw"})
TEXTS = st.text(max_size=12) | st.sampled_from(WORDS)
NUMBERS = st.integers() | st.floats() | st.integers(-3, 3) | st.sampled_from([1e308, 2**64, -0.0])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXTS, v, max_size=3), max_leaves=6
)
NAMES = st.sampled_from(OPTIONS) | st.text(max_size=8)
SETTINGS = st.dictionaries(NAMES, VALUES, max_size=5)
COMMANDS = ("train", "check", "methods", "nets", "report", "resume", "evaluate", "predict", "bench")
FLAGS = [f"--{name.replace('_', '-')}" for name in OPTIONS]
LINE = st.lists(
    st.sampled_from([*FLAGS, *COMMANDS, "--json", "--help", "--", "-", "--out=", "=", "--lr=nan"])
    | TEXTS
    | NUMBERS.map(str),
    max_size=7,
)
CELLS = TEXTS | st.sampled_from(
    ["a.png", "../a.png", "'=1", '"', "\x00", "file_name", "label", "\r"]
)
TABLE = st.lists(st.lists(CELLS, max_size=4), max_size=6)
FLIPS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=30)
TEN = from_arrays(np.arange(10 * 64, dtype=np.uint8).reshape(10, 8, 8), np.arange(10) % 3)


def spoilt(content: bytes, flips: list[tuple[int, int]]) -> bytes:
    out = bytearray(content)
    for at, value in flips:
        if out:
            out[at % len(out)] = value
    return bytes(out)


def spelled(rows: list[list[str]], separator: str, heading: bool) -> bytes:
    lines = [separator.join(row) for row in rows]
    first = [f"file_name{separator}label"] if heading else []
    return "\n".join([*first, *lines]).encode(errors="surrogatepass")


@contextlib.contextmanager
def place() -> Any:
    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    before = Path.cwd()
    os.chdir(folder)  # whatever a name may lead to, it leads from here
    try:
        yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


# --- the targets ---------------------------------------------------------------------------------

Target = Callable[..., None]
TARGETS: dict[Target, tuple[Any, ...]] = {}  # and the strategies of their arguments


def target(*strategies: Any) -> Callable[[Target], Target]:
    def enter(function: Target) -> Target:
        TARGETS[function] = strategies
        return function

    return enter


@target(SETTINGS)
def any_settings(values: dict[str, Any]) -> None:
    configure(values)


@target(VALUES)
def any_yaml_values(content: Any) -> None:
    with place() as folder:
        (folder / "c.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        configure({}, folder / "c.yaml")


@target(st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode(errors="ignore")))
def any_yaml_bytes(content: bytes) -> None:
    with place() as folder:
        (folder / "c.yaml").write_bytes(content)
        configure({}, folder / "c.yaml")


@target(FLIPS, SETTINGS)
def spoilt_yaml(flips: list[tuple[int, int]], values: dict[str, Any]) -> None:
    with place() as folder:
        (folder / "c.yaml").write_bytes(spoilt(dump(configure({})).encode(), flips))
        configure(values, folder / "c.yaml")


@target(VALUES)
def any_target(content: Any) -> None:
    with place() as folder:
        (folder / "t.json").write_text(yaml.safe_dump(content), encoding="utf-8")
        configure({"target": str(folder / "t.json")})


@target(st.sampled_from(COMMANDS), LINE)
def any_command_line(command: str, words: list[str]) -> None:
    """A training is described, not begun; nothing is fetched."""
    if command == "train":
        words = [*words, "--print-config"]
    quiet = io.StringIO()
    with place(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        try:
            status = cli.main([command, *words])
        except SystemExit as end:  # --help and --version
            status = end.code if isinstance(end.code, int) else 1
    assert status in (0, 2, 3), (command, words, status)


@target(TABLE, st.sampled_from([",", ";", "\t"]), st.booleans())
def any_table_of_labels(rows: list[list[str]], separator: str, heading: bool) -> None:
    with place() as folder:
        put(folder / "photos" / "a.png")
        (folder / "photos" / "labels.csv").write_bytes(spelled(rows, separator, heading))
        list_images(folder / "photos")


@target(st.binary(max_size=200))
def any_bytes_as_a_table(content: bytes) -> None:
    with place() as folder:
        put(folder / "photos" / "a.png")
        (folder / "photos" / "labels.csv").write_bytes(content)
        load(folder / "photos")


@target(TABLE, st.booleans())
def any_added_labels(rows: list[list[str]], heading: bool) -> None:
    with place() as folder:
        for name in ("dark/a.png", "light/b.png", "unlabelled/c.png"):
            put(folder / "photos" / name, len(name) * 9)
        (folder / "mine.csv").write_bytes(spelled(rows, ",", heading))
        load(folder / "photos", labels=folder / "mine.csv")


@target(TABLE, st.booleans())
def any_split_file(rows: list[list[str]], heading: bool) -> None:
    first = [["image", "hash", "role", "label"]] if heading else []
    with place() as folder:
        (folder / "split.csv").write_bytes(spelled([*first, *rows], ",", heading=False))
        read_split(folder / "split.csv", TEN)


@target(st.sampled_from(FORMATS), FLIPS, st.integers(0, 4000))
def spoilt_images(kind: str, flips: list[tuple[int, int]], length: int) -> None:
    content = spoilt(PICTURES[kind], flips)[: length if length > 10 else None]
    with contextlib.suppress(Unreadable):
        assert decode(io.BytesIO(content), 16)[0].shape == (16, 16, 3)


@target(st.lists(st.tuples(st.sampled_from(FORMATS), FLIPS, st.text(max_size=20)), max_size=4))
def any_folder(files: list[tuple[str, list[tuple[int, int]], str]]) -> None:
    with place() as folder:
        for i, (kind, flips, name) in enumerate(files):
            usable = "".join(c for c in name if c not in "/\0") or "x"
            path = folder / "photos" / f"{usable}{i % 2}".encode()[:200].decode(errors="ignore")
            path.mkdir(parents=True, exist_ok=True)
            (path / f"{i}.{kind.lower()}").write_bytes(spoilt(PICTURES[kind], flips))
        make_split(load(folder / "photos", size=8), SplitPlan())


SHAPES = arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
ANY_ARRAY = arrays.arrays(arrays.scalar_dtypes(), SHAPES)


@target(ANY_ARRAY, ANY_ARRAY, st.none() | ANY_ARRAY, st.none() | ANY_ARRAY)
def any_arrays(images: Any, labels: Any, test: Any, test_labels: Any) -> None:
    from_arrays(images, labels, test, test_labels)


@target(
    st.dictionaries(st.sampled_from(["images", "labels", "test_images", "x"]), ANY_ARRAY), FLIPS
)
def any_npz(content: dict[str, Any], flips: list[tuple[int, int]]) -> None:
    file = io.BytesIO()
    np.savez(file, **content)
    with place() as folder:
        (folder / "d.npz").write_bytes(spoilt(file.getvalue(), flips))
        load(folder / "d.npz")


COUNTS = st.none() | st.integers(-1, 5)


@target(COUNTS, COUNTS, COUNTS, st.integers(-1, 5), NUMBERS, st.none() | NUMBERS, st.integers())
def any_split(
    per_class: Any, head: Any, pool: Any, held: int, gamma: Any, other: Any, seed: int
) -> None:
    plan = SplitPlan(per_class, True, seed, head, pool, gamma, other, held)
    make_split(TEN, plan)


FILES = ("run.json", "result.json", "metrics.jsonl", "split.csv", "predictions/test.csv",
         "trust.json", "skipped.csv", "batch.png", "log.txt")  # fmt: skip


@target(st.dictionaries(st.sampled_from(FILES), VALUES.map(repr) | st.text(max_size=80)))
def any_run_folder(files: dict[str, str]) -> None:
    with place() as folder:
        for name, content in files.items():
            (folder / "run" / name).parent.mkdir(parents=True, exist_ok=True)
            text = content.replace("'", '"').replace("None", "null").replace("True", "true")
            (folder / "run" / name).write_text(text, encoding="utf-8", errors="replace")
        write_report(folder / "run")


def tried(function: Target, strategies: tuple[Any, ...], examples: int, number: int = 0) -> int:
    """Try so many examples, others for each number; the first unexpected error is raised."""
    count = 0

    @seed(number)
    @settings(
        max_examples=examples, deadline=None, database=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.tuples(*strategies))
    def attempt(values: tuple[Any, ...]) -> None:
        nonlocal count
        count += 1
        with contextlib.suppress(TamatchError):
            function(*values)

    attempt()
    return count


def main(minutes: float) -> int:
    os.environ["TAMATCH_CACHE"] = tempfile.mkdtemp(prefix="fuzzcache")
    end, began = time.monotonic() + 60 * minutes, time.time_ns()
    counts: Counter[str] = Counter()
    turn = 0
    while time.monotonic() < end:
        function, strategies = [*TARGETS.items()][turn % len(TARGETS)]
        counts[function.__name__] += tried(function, strategies, ROUND, began + turn)
        turn += 1
    for name, count in counts.items():
        print(f"{name:24} {count:8,} examples")
    print(f"{'all':24} {counts.total():8,} examples in {minutes:g} minutes, no other error")
    shutil.rmtree(os.environ["TAMATCH_CACHE"])
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
