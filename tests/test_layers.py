"""Who may import whom: the architecture as a test."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tamatch"

LAYERS = [
    {"errors"},
    {"types", "kinds", "losses", "machine", "modules", "storage", "judge"},
    {"dist", "rules"},
    {"stats", "own"},
    {"pseudo", "nets", "augment", "data", "report"},  # siblings never import each other
    {"methods", "frozen", "progress"},
    {"settings"},
    {"step", "loop"},
    {"model"},
    {"runs"},
    {"estimators"},
    {"review"},
    {"bench"},
    {"cli"},
    {"__init__", "__main__"},
]
ORDER = {name: i for i, layer in enumerate(LAYERS) for name in layer}
SHARED = {"__init__", "base", "contrastive", "mixing"}  # in methods/, but no method
METHODS_MAY_USE = {"types", "kinds", "dist", "losses", "stats", "pseudo", "methods", "errors"} | {
    "own", "machine", "modules",
}  # fmt: skip

ACYCLIC = {"machine", "own", "storage", "nets", "data", "report", "settings"} | {
    "step", "model", "runs", "bench",
}  # fmt: skip


def home(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The parts of the package that a file imports, also inside functions."""
    parts: set[str] = set()
    here = ("tamatch", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = here[: len(here) - node.level + 1]
        module = (*base, *(node.module.split(".") if node.module else ()))
        if len(module) > 1:
            parts.add(module[1])
        else:
            names = (alias.name for alias in node.names)
            parts.update(
                n for n in names if (PACKAGE / n).is_dir() or (PACKAGE / f"{n}.py").exists()
            )
    return parts


def test_the_package_imports_itself_by_relative_names() -> None:
    """The other tests see no others."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert all(name.partition(".")[0] != "tamatch" for name in names), path


def test_every_module_has_a_layer() -> None:
    assert {home(p) for p in PACKAGE.rglob("*.py")} <= ORDER.keys()


def test_imports_only_go_down() -> None:
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        for other in imported(path):
            if other != home(path) and ORDER[other] >= ORDER[home(path)]:
                wrong.append(f"{path.relative_to(PACKAGE)} may not import {other}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", sorted(ACYCLIC))
def test_no_circle_within_a_package(package: str) -> None:
    """Its files can be read one after the other."""
    files = {path.stem: ast.parse(path.read_text()) for path in (PACKAGE / package).glob("*.py")}
    siblings = {
        stem: {
            part.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level == 1
            for part in ([node.module] if node.module else [alias.name for alias in node.names])
        }
        for stem, tree in files.items()
    }
    TopologicalSorter(siblings).prepare()  # raises where there is one


def test_methods_know_nothing_of_nets_data_or_engine() -> None:
    for path in (PACKAGE / "methods").glob("*.py"):
        assert imported(path) <= METHODS_MAY_USE, path.name


def test_every_method_file_is_in_the_table() -> None:
    from tamatch.methods import METHODS

    files = {p.stem for p in (PACKAGE / "methods").glob("*.py")} - SHARED
    assert files == {row.path.partition(":")[0] for row in METHODS.values()}
