"""Every error that a user can cause, with its message: three tables, which are complete.

`COMMANDS` is what one types, `CALLS` what one calls from Python, and `ELSEWHERE` names the test of
an error that needs more than a line to cause. A new error needs a row in one of them.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tamatch import errors
from tamatch.cli import main
from tamatch.errors import TamatchError
from tests.errors.calls import CALLS
from tests.errors.commands import ANY, COMMANDS
from tests.errors.elsewhere import ELSEWHERE
from tests.errors.shop import furnish

ROOT = Path(__file__).parents[2]
HOLE = "\0"  # a value in a message of the source
KINDS = {name for name, kind in vars(errors).items() if isinstance(kind, type)}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the rows name, in one folder."""
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        furnish(folder)
    return folder


def pattern(message: str, shop: Path) -> str:
    parts = message.replace("{shop}", str(shop)).split(ANY)
    return ".+".join(map(re.escape, parts))


@pytest.mark.parametrize(("words", "code", "message"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_mistake_is_told_in_one_line(
    words: str, code: int, message: str, shop: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(shop)
    assert main(shlex.split(words)) == code
    told = capsys.readouterr().err.splitlines()
    assert re.fullmatch("tamatch: " + pattern(message, shop), told[-1])
    assert not any("Traceback" in line for line in told)


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[row[1][:40] for row in CALLS])
def test_a_wrong_call_is_told_too(
    call: Callable[[], object], message: str, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    with pytest.raises(TamatchError, match=f"^{pattern(message, shop)}$"):
        call()


class Site(NamedTuple):
    """A place in the package that makes an error, and its message with holes."""

    file: str
    line: int
    template: str

    def makes(self, message: str) -> bool:
        parts = map(re.escape, self.template.split(HOLE))
        return re.fullmatch(".*".join(parts), message.replace(ANY, "x"), re.DOTALL) is not None


def template(node: ast.expr) -> str:
    """The constant parts of a message."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(template, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return HOLE


def sites() -> list[Site]:
    found = []
    package = ROOT / "tamatch"
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                if node.func.id not in KINDS:
                    continue
                place = path.relative_to(package).as_posix()
                found.append(Site(place, node.lineno, template(node.args[0])))
    return found


@pytest.mark.parametrize(
    ("word", "names", "near"),
    [
        ("A-b", ["ab", "abc"], ["ab"]),  # only spelled otherwise: the one that was meant
        ("abd", ["abc", "zzz", "ab"], ["ab", "abc"]),
        ("Two_Words", ["two-words", "TWO_WORDS"], ["two-words"]),
        ("abcd", ["abc1", "abc2", "abc3", "abc4"], ["abc4", "abc3", "abc2"]),
        ("nothing", ["ab"], []),
    ],
)
def test_near_misses(word: str, names: list[str], near: list[str]) -> None:
    assert errors.nearest(word, names) == near
    told = f" Perhaps you meant {' or '.join(near)}." if near else ""
    assert errors.perhaps(word, names) == told
    assert errors.nearest(word, names, most=1) == near[:1]


def test_every_error_of_the_package_is_listed() -> None:
    messages = [row[2] for row in COMMANDS] + [row[1] for row in CALLS]
    missing = [
        f"{site.file}:{site.line} {site.template!r}"
        for site in sites()
        if not any(map(site.makes, messages))
        and not any(part in site.template for part in ELSEWHERE)
    ]
    assert not missing, "\n".join(missing)


def test_the_tests_named_exist() -> None:
    templates = [site.template for site in sites()]
    for part, test in ELSEWHERE.items():
        file, _, name = test.partition("::")
        assert f"def {name or 'test_'}" in (ROOT / "tests" / file).read_text(), test
        assert any(part in message for message in templates), part
