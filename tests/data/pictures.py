"""Pictures for the tests, and one that only pretends."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def picture(width: int = 40, height: int = 40) -> Image.Image:
    """A smooth picture whose quarters differ, so that a turn or a mirror shows."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([255 * x / width, 255 * y / height, 128 + 0 * x], axis=-1)
    return Image.fromarray(pixels.astype(np.uint8))


def saved(image: Image.Image, kind: str, **options: object) -> io.BytesIO:
    file = io.BytesIO()
    image.save(file, kind, **options)  # type: ignore[arg-type]
    file.seek(0)
    return file


def png_header(width: int, height: int) -> bytes:
    """A PNG that only claims its size: a few bytes of compressed nothing."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(100_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def put(path: Path, shade: int = 100, size: tuple[int, int] = (24, 24)) -> Path:
    """A picture of one colour, in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade, shade // 2, 10)).save(path)
    return path
