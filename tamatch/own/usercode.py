"""The user's own code: imported from a file, and named by file and line where it fails."""

import re
import sys
import sysconfig
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import TamatchError, UsageError

OBJECT_PREFIX = "python:"  # of the name of an object that was given in Python and is in no file
OWN_NAME = rf".+\.py:\w+|{OBJECT_PREFIX}.+"

REASON_LENGTH = 300  # characters of what an exception says
PACKAGES = {"site-packages", "dist-packages"}
OURS, PYTHONS = Path(__file__).parents[1], Path(sysconfig.get_path("stdlib"))

_imported: dict[Path, tuple[bytes, ModuleType]] = {}  # with the text that was run
_under_way: list[Path] = []  # files that are being imported


def is_own(name: str) -> bool:
    """Whether a method or net of this name is code of the user's own."""
    return re.fullmatch(OWN_NAME, name) is not None


def is_object(name: str) -> bool:
    """Whether it names an object that was given in Python and is in no file."""
    return name.startswith(OBJECT_PREFIX)


def display_name(thing: Any) -> str:
    """A name for people; of an object that has none, that of its class."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return str(named.__qualname__).rpartition(".")[2]


def name_of(thing: Any) -> str:
    """What a run calls an object of the user's: FILE.py:NAME if it can be imported by that."""
    name = getattr(thing, "__qualname__", "")
    module = sys.modules.get(getattr(thing, "__module__", ""))
    if module is not None and getattr(module, name, None) is thing:
        file = Path(getattr(module, "__file__", None) or "")
        if file.suffix == ".py" and file.is_file():
            return f"{file.resolve()}:{name}"
    return OBJECT_PREFIX + display_name(thing)


@dataclass
class UserObjects:
    """The user's own methods or nets: in files, or given in Python, by the names runs have."""

    what: str  # "method" or "net"
    place: str  # how one in a file is named
    takes: str  # what is accepted
    lacks: str  # what a file does not have, before and after its name
    fits: Callable[[Any], bool] = callable  # whether a thing can be one of them
    things: dict[str, Any] = field(default_factory=dict)
    substitutes: dict[str, str] = field(default_factory=dict)  # own names of what replaces a run's

    @property
    def option(self) -> str:
        return f"--{self.what}"

    def register(self, thing: Any) -> str:
        """The name by which `get` finds a thing in this process from now on; a text is one."""
        if isinstance(thing, str):
            return thing
        if not self.fits(thing):
            raise UsageError(f"{self.what} takes {self.takes}; got {display_name(thing)}.")
        name = name_of(thing)
        self.things[name] = thing
        self.substitutes.pop(name, None)
        return name

    def register_as(self, name: str, thing: Any) -> None:
        """From now on, find `thing` by the name that a run has, if one is given."""
        if thing is None or thing == name:
            return
        own = f"your own {self.what}"
        if not is_own(name):
            raise UsageError(f"{self.option} works only for runs with {own}; this one uses {name}.")
        if isinstance(thing, str) and not is_own(thing):
            raise UsageError(f"{self.option} {thing}: this run uses {own}; give {self.place}.")
        own_name = self.register(thing)
        self.things[name], self.substitutes[name] = self.get(own_name), own_name

    def own_name(self, name: str) -> str:
        """The name of what is found by this name, if it was substituted."""
        return self.substitutes.get(name, name)

    def get(self, name: str) -> Any:
        """The thing behind a name; that of a file is imported."""
        if name in self.things:
            return self.things[name]
        if is_object(name):
            raise UsageError(
                f"the {self.what} {name} was passed as a Python object, which is not available "
                f"here. Pass it again ({self.what}=…), or use {self.option} {self.place}."
            )
        return self.in_file(name)

    def in_file(self, name: str) -> Any:
        """What FILE.py:NAME names. The file is run as Python code, again only if it has changed."""
        file, _, attribute = name.rpartition(":")
        if not Path(file).is_file():
            raise UsageError(f"{self.option} {name}: file {file} not found.")
        with blaming(f"{self.option} {name}", "importing the file"):
            found = getattr(imported(Path(file).resolve()), attribute, None)
        if not self.fits(found):
            lacks = self.lacks.format(attribute)
            raise UsageError(f"{self.option} {name}: {file} has no {lacks}.")
        return found

    @contextmanager
    def held(self, names: Iterable[str]) -> Iterator[None]:
        """In here, names keep their meaning if a file changes; new ones are forgotten after it."""
        before = {**self.things}, {**self.substitutes}
        try:
            for name in names:
                self.things[name] = self.in_file(name)
            yield
        finally:
            self.things, self.substitutes = before


def imported(file: Path) -> ModuleType:
    """The file as a module, of a package if it lies in one; it can import what lies beside it."""
    content = file.read_bytes()
    if file not in _imported or _imported[file][0] != content:
        # others may look the module up by its name, which must not be that of another module
        packages, above = enclosing_packages(file)
        name = ".".join([*packages, f"_own_{file.stem}_{zlib.crc32(bytes(file)):08x}"])
        spec = spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = module_from_spec(spec)
        places = [str(place) for place in dict.fromkeys((file.parent, above))]
        sys.path[:0] = places
        _under_way.append(file)
        try:
            spec.loader.exec_module(module)
        finally:
            _under_way.pop()
            for place in places:
                sys.path.remove(place)
        _imported[file] = content, module
    return _imported[file][1]


def enclosing_packages(file: Path) -> tuple[list[str], Path]:
    """The packages that a file is part of, outermost first, and the folder they lie in."""
    packages: list[str] = []
    place = file.parent
    while (place / "__init__.py").is_file():
        packages.insert(0, place.name)
        place = place.parent
    return packages, place


def refuse_runs_on_import() -> None:
    """An error if a file that is imported for what it defines starts a run on the way."""
    if _under_way:
        place = innermost_user_line(traceback.extract_stack()) or "something"
        raise UsageError(
            f"{place} starts a run while {_under_way[-1].name} is imported. Move what is to run "
            'only as a script below `if __name__ == "__main__":`.'
        )


@contextmanager
def blaming(what: str, doing: str) -> Iterator[None]:
    """Turn whatever the user's code raises in here into one line that says where it was raised."""
    try:
        yield
    except TamatchError:
        raise
    except (Exception, SystemExit) as error:
        place = innermost_user_line(traceback.extract_tb(error.__traceback__))
        if isinstance(error, SyntaxError) and error.filename:
            place = f"{Path(error.filename).name}, line {error.lineno}"
        told = " ".join(str(error).split())[:REASON_LENGTH].rstrip(".")
        reason = f"{place + ': ' if place else ''}{type(error).__name__}: {told}"
        raise UsageError(f"{what}: {doing} failed ({reason}).") from error


def innermost_user_line(frames: traceback.StackSummary) -> str:
    """File and line of the innermost of the user's frames; empty if there is none."""
    theirs = [f for f in frames if is_user_code(f.filename)]
    return f"{Path(theirs[-1].filename).name}, line {theirs[-1].lineno}" if theirs else ""


def is_user_code(file: str) -> bool:
    path = Path(file)
    installed = PACKAGES & {*path.parts} or PYTHONS in path.parents
    return not (installed or OURS in path.parents or file.startswith("<frozen"))
