"""Reading JSON, YAML and .npz files that anybody may have written: plain values or an error."""

import json
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

from ..errors import one_line

if TYPE_CHECKING:
    import numpy.typing as npt

LONGEST = 100_000  # characters of YAML, which is slow to read; configurations have hundreds
LONGEST_NUMBER = 40  # digits; Python refuses to show a number of thousands, as 1:59:59… may be

SMALL_BYTES = 2**26  # bytes; smaller members may be packed as tightly as they like
MOST_PACKED = 200  # times smaller than its content: images and weights never are, bombs always


def parse_json(content: str | bytes) -> Any:
    """The values in a JSON text; `ValueError` if it is not valid, or nested too deeply."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_yaml(text: str) -> Any:
    """The values in a YAML text; `yaml.YAMLError` if it is not valid.

    References are refused: a few lines of them can stand for more values than memory holds.
    """
    if len(text) > LONGEST:
        raise yaml.YAMLError(f"longer than {LONGEST:,} characters")
    try:
        return yaml.load(text, Plain)
    except (RecursionError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise yaml.YAMLError(f"a value that cannot be: {error}") from None


class Plain(yaml.SafeLoader):
    """The safe loader, without references, keys that are set twice and endless whole numbers."""

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references (*name) are not supported; write the value out")
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: ScalarNode) -> int:
        if len(str(node.value)) > LONGEST_NUMBER:
            problem = f"a number of {len(node.value):,} characters"
            raise ConstructorError(problem=problem, problem_mark=node.start_mark)
        return int(super().construct_yaml_int(node))

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [str(key.value) for key, _ in node.value]
        for i in (i for i, key in enumerate(keys) if key in keys[:i]):
            mark = node.value[i][0].start_mark
            raise ConstructorError(problem=f"{keys[i]} is set twice", problem_mark=mark)
        return super().construct_mapping(node, deep)


Plain.add_constructor("tag:yaml.org,2002:int", Plain.construct_yaml_int)


def read_npz(path: Path, names: Collection[str] | None = None) -> "dict[str, npt.NDArray[Any]]":
    """The arrays of a file, or those of these names that it has.

    Objects are not unpickled, and bombs are not unpacked.
    """
    import numpy as np  # reports read JSON with this module, and do without NumPy

    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.file_size > max(SMALL_BYTES, MOST_PACKED * member.compress_size):
                    raise ValueError(
                        f"{member.filename} would unpack to {member.file_size:,} bytes"
                    )
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files if names is None or name in names}
    except Exception as error:  # archives and headers can be wrong in any way
        raise ValueError(one_line(error)) from None
