"""The docs are true: commands and options exist, links lead somewhere, tables are complete."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import tamatch
from tamatch import cli, nets
from tamatch.bench import BENCHES
from tamatch.cli.commands import COMMANDS, top_parser
from tamatch.errors import UsageError
from tamatch.methods import METHODS
from tamatch.rules.pace import Speed
from tamatch.runs import speed
from tamatch.settings.config import RUN_OPTIONS, method_options
from tamatch.settings.configure import configure
from tests import reference_page
from tests.reference_page import bench_parser
from tests.test_layers import LAYERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OF_THE_CALL = {"out", "overwrite", "quiet", "config"}  # what `tamatch.train` takes besides options

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


class Command(NamedTuple):
    """A command line of a page, and what the page says it prints."""

    page: str
    line: str
    shown: str = ""

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line, comments=True)

    @property
    def id(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def blocks(page: Path, kind: str) -> list[str]:
    return [body for own, body in FENCE.findall(page.read_text()) if own == kind]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def sections(page: Path) -> dict[str, str]:
    """The text below each heading, up to the next one."""
    parts = re.split(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def typed() -> Iterator[Command]:
    """Every line of the `bash` blocks."""
    for page in PAGES:
        for body in blocks(page, "bash"):
            for line in body.replace("\\\n", " ").splitlines():
                yield Command(page.name, line)


def transcripts() -> Iterator[Command]:
    """Every prompt of the `console` blocks, with what follows it."""
    for page in PAGES:
        for body in blocks(page, "console"):
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                yield Command(page.name, line, shown)


def ours(*names: str) -> list[Command]:
    """The lines that call tamatch with one of these commands; all such lines without names."""
    found = [c for c in typed() if c.words[:1] == ["tamatch"]]
    return [c for c in found if not names or c.words[1] in names]


def parsers() -> Iterator[argparse.ArgumentParser]:
    """The parser of every command and every bench."""
    top = top_parser()
    yield top
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()
    for bench in BENCHES:
        yield bench_parser(bench)


def folder_of_photos(place: Path) -> None:
    for name, count in (("cat", 12), ("dog", 12), ("unlabelled", 6)):
        (place / name).mkdir(parents=True)
        for i in range(count):
            pixels = np.full((10, 12, 3), 9 * i + 60 * (name == "dog"), np.uint8)
            Image.fromarray(pixels).save(place / name / f"{i}.png")


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the docs' commands name."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "shares.yaml").write_text("[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]")
    own_part = next(b for b in blocks(DOCS / "methods.md", "python") if "class Margin" in b)
    (tmp_path / "margin.py").write_text(own_part)
    folder_of_photos(tmp_path / "photos")
    (tmp_path / "labels.csv").write_text("file_name,label\nunlabelled/0.png,cat\n")
    for words in (command.words for command in ours("train")):
        if "--from" in words:
            earlier = tmp_path / words[words.index("--from") + 1]
            earlier.mkdir(parents=True, exist_ok=True)
            (earlier / "run.json").write_text('{"config": {}}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(speed, "speed_of", lambda *_: Speed(1, 0.1, 1))
    return tmp_path


def test_the_docs_have_commands_to_check() -> None:
    assert len(ours("train")) > 15 and len(ours()) > 30 and len([*transcripts()]) >= 2


@pytest.mark.parametrize("command", ours("train"), ids=lambda command: command.id)
def test_train_commands_are_complete(
    command: Command, workshop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "photos/labels.csv" in command.words:
        rows = [f"{name}/{i}.png,{name}" for name in ("cat", "dog") for i in range(3)]
        Path("photos/labels.csv").write_text("\n".join(["file_name,label", *rows]))
    # no network here: a file stands for the weights that a name would fetch
    words = ["vit_tiny.safetensors" if w == "vit_tiny" else w for w in command.words]
    if "vit_tiny.safetensors" in words:
        with torch.device("meta"):
            net = nets.build("vit_tiny_p16_224", 1000, 224)
        made = {k: torch.zeros(v.shape, dtype=torch.half) for k, v in net.state_dict().items()}
        save_file(made, "vit_tiny.safetensors")
    if "--help" not in words:
        assert cli.main([*words[1:], "--print-config"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("command", ours(), ids=lambda command: command.id)
def test_other_commands_are_understood(command: Command) -> None:
    words = command.words[1:]
    if words[0] == "train" or {"--help", "--version"} & {*words}:
        return
    known, extra = top_parser().parse_known_args(words)
    assert not extra
    if known.command == "bench" and known.name:
        _, extra = bench_parser(known.name).parse_known_args(known.rest)
        flags = {word.partition("=")[0] for word in extra if word.startswith("--")}
        assert flags <= known_flags()  # options of `train` and of the methods


@pytest.mark.parametrize(
    "command",
    [
        c
        for c in ours()
        if c.words[1] in ("methods", "nets") or {"--help", "--version"} & {*c.words}
    ],
    ids=lambda command: command.id,
)
def test_cheap_commands_run(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = cli.main(command.words[1:])
    except SystemExit as left:  # argparse, after --help and --version
        status = int(left.code or 0)
    assert status == 0 and capsys.readouterr().out


@pytest.mark.parametrize("command", [*transcripts()], ids=lambda command: command.id)
def test_transcripts_show_what_is_printed(
    command: Command, workshop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command.words[1:])
    printed = capsys.readouterr()
    assert printed.out + printed.err == command.shown


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {c.words[1] for c in typed() if c.words[:1] == ["make"]}
    assert {"demo", "test"} <= named <= targets


@pytest.mark.usefixtures("workshop")
def test_the_part_of_one_s_own_takes_no_option_that_it_would_ignore() -> None:
    ours = method_options("margin.py:Margin")
    assert method_options("tamatch").keys() - ours.keys() == {"select"}
    assert ours["tau"].help.startswith("lead of the best class")
    with pytest.raises(UsageError, match="--select is not an option"):
        configure({"method": "margin.py:Margin", "select": "freematch"})


def known_flags() -> set[str]:
    """Every option of every command, bench and method, and of the example's."""
    own = f"{ROOT / 'examples' / 'own_method.py'}:Rising"
    of_commands = {flag for parser in parsers() for flag in parser._option_string_actions}
    return of_commands | {o.flag for m in (*METHODS, own) for o in method_options(m).values()}


@every_page
def test_commands_and_options_in_the_text_exist(page: Path) -> None:
    code = re.findall(r"`([^`\n]+)`", prose(page))
    called = [span.split() for span in code if span.startswith(("tamatch ", "--"))]
    flags = {word.partition("=")[0] for words in called for word in words if word[:2] == "--"}
    assert flags <= known_flags()
    first = {words[1] for words in called if words[0] == "tamatch"}
    assert {word for word in first if word[:2] != "--"} <= COMMANDS.keys()


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        assert place.exists(), target
        assert ROOT in (place, *place.parents), target
        assert not anchor or anchor in map(slug, sections(place)), target


def slug(heading: str) -> str:
    """The anchor that code hosts give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@every_page
def test_python_blocks_are_sound(page: Path) -> None:
    for body in blocks(page, "python"):
        for node in ast.walk(ast.parse(textwrap.dedent(body))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tamatch"):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, alias.name) for alias in node.names), node.module
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "tamatch.train":
                plain = [k for k in node.keywords if isinstance(k.value, ast.Constant)]
                given = {k.arg: ast.literal_eval(k.value) for k in plain if k.arg}
                configure({k: v for k, v in given.items() if k not in OF_THE_CALL})


def test_the_reference_is_that_of_the_program() -> None:
    """If not: `python -m tests.reference_page` writes it again."""
    assert reference_page.PAGE.read_text() == reference_page.page()


def test_everything_in_the_reference_has_a_meaning() -> None:
    rows = (DOCS / "reference.md").read_text().splitlines()
    assert not [row for row in rows if row.startswith("|") and row.endswith("|  |")]


def test_every_option_and_every_public_name_is_in_the_reference() -> None:
    text = (DOCS / "reference.md").read_text()
    told = {*re.findall(r"--[\w-]+", text)}
    own = {flag for flag in known_flags() if flag[:2] == "--" and flag[:5] != "--no-"}
    assert own - told == {"--help", "--version", "--tau-start"}  # the last is the example's
    assert {o.flag for o in RUN_OPTIONS.values()} <= {*re.findall(r"`(--[\w-]+)`", text)}
    python = (DOCS / "python.md").read_text()
    for name in tamatch.__all__:
        if name[0] != "_":
            assert f"### tamatch.{name}\n" in text and name in python, name


def test_the_readme_lists_every_method() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert rows == [(name, row.title, row.summary) for name, row in METHODS.items()]


def test_the_methods_page_lists_every_method() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "methods.md").read_text(), re.MULTILINE)
    assert rows == list(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_section_with_its_true_defaults(name: str) -> None:
    text = sections(DOCS / "methods.md")[METHODS[name].title]
    assert f"`{name}`" in text
    fixed = METHODS[name].options
    listed = text.partition("Fixes:" if fixed else "Options:")[2]
    told = {flag: value or None for flag, value in re.findall(r"`(--[\w-]+) ?([^`]*)`", listed)}
    options = {o.flag: o for k, o in method_options(name).items() if k != "parity"}
    if fixed:
        options = {flag: o for flag, o in options.items() if o.name in fixed}
    assert told.keys() == options.keys()
    assert {f: options[f].parse(v) for f, v in told.items()} == {
        f: o.default for f, o in options.items()
    }


def test_the_walk_through_is_the_example() -> None:
    example = (ROOT / "examples" / "own_method.py").read_text().replace("  # fmt: skip", "")
    for body in blocks(DOCS / "add-a-method.md", "python"):
        assert {*body.splitlines()} <= {*example.splitlines()}


def test_the_table_of_layers_is_the_tested_one() -> None:
    rows = re.findall(
        r"^\| \d+ \| ([^|]+) \|", (DOCS / "architecture.md").read_text(), re.MULTILINE
    )
    told = [{*re.findall(r"`(\w+)`", row)} for row in rows]
    assert told == [layer for layer in LAYERS if "__init__" not in layer]


def test_the_reliability_page_names_tests_that_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "reliability.md").read_text()))
    there = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert len(named) > 20 and named <= there


def test_the_overview_is_a_picture_with_a_description() -> None:
    root = ElementTree.parse(DOCS / "overview.svg").getroot()
    assert root.tag.endswith("svg") and root.find("{http://www.w3.org/2000/svg}desc") is not None


@pytest.mark.parametrize("page", ["log.md", "log-archive.md"])
def test_every_log_entry_names_a_commit(page: str) -> None:
    entries = re.split(r"(?m)^## ", (DOCS / page).read_text())[1:]
    without = [e.splitlines()[0] for e in entries if not re.search(r"\b[0-9a-f]{7}\b", e)]
    assert entries and not without


def test_every_page_is_in_the_index() -> None:
    named = {*re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "index.md").read_text())}
    assert named == {page.name for page in DOCS.glob("*.md")} - {"index.md"}
