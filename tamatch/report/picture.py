"""Put an image file inside the page."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

LARGEST = 600_000  # bytes; a larger picture is scaled down so that the page stays small
_WIDEST = 1000


def data_url(path: Path) -> str | None:
    """The picture as a data: address; None if it is missing or no picture."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    for kind, mark in (("png", b"\x89PNG\r\n\x1a\n"), ("jpeg", b"\xff\xd8\xff")):
        if raw.startswith(mark) and len(raw) <= LARGEST:
            return f"data:image/{kind};base64," + base64.b64encode(raw).decode()
    return _scaled(raw)


def _scaled(raw: bytes) -> str | None:
    from PIL import Image

    try:
        with Image.open(BytesIO(raw), formats=["PNG", "JPEG"]) as image:
            small = image.convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    small.thumbnail((_WIDEST, _WIDEST))
    out = BytesIO()
    small.save(out, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
