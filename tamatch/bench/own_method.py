"""A method of the user's own among the rows of a table: which code its results are of."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType

from .. import methods, usercode

DIGITS = 12  # of a checksum


def own_methods(text: str | None) -> dict[str, str]:
    """What `--methods` lists as FILE.py:CLASS, each with the checksum of its code."""
    words = [word.strip() for word in (text or "").split(",")]
    return {word: code_of(word) for word in words if ".py" in word}


def code_of(name: str) -> str:
    """The checksum of the code that a method consists of; an error if there is no such method."""
    methods.entry(name)  # a file without a class is told so
    methods.class_in_file(name)
    module = usercode.imported(Path(name.rpartition(":")[0]).resolve())
    joined = b"\0".join(sorted(set(sources(module))))
    return hashlib.sha256(joined).hexdigest()[:DIGITS]


def sources(module: ModuleType) -> Iterator[bytes]:
    """The content of the user's files that a module is made of: its own, and those it imports."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        module = waiting.pop()
        file = getattr(module, "__file__", None) or ""
        if file in seen or not (file.endswith(".py") and usercode.is_user_code(file)):
            continue
        seen.add(file)
        content = Path(file).read_bytes()
        yield content
        waiting += [sys.modules[n] for n in imports(content, module) if n in sys.modules]


def imports(content: bytes, module: ModuleType) -> Iterator[str]:
    """The modules that a file may import, by name."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # of a name that is relative, but to no package
                base = resolve_name("." * node.level + (node.module or ""), module.__package__)
                yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
