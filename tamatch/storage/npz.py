"""Reading .npz files that anybody may have made: arrays of numbers, or a `ValueError`."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import one_line

SMALL_BYTES = 2**26  # bytes; smaller members may be packed as tightly as they like
MOST_PACKED = 200  # times smaller than its content: images and weights never are, bombs always


def read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of a file. Objects are not unpickled, and bombs are not unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.file_size > max(SMALL_BYTES, MOST_PACKED * member.compress_size):
                    raise ValueError(
                        f"{member.filename} would unpack to {member.file_size:,} bytes"
                    )
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except Exception as error:  # archives and headers can be wrong in any way
        raise ValueError(one_line(error)) from None
