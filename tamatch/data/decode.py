"""One image file to one square of RGB bytes, or the reason why it cannot be used."""

import io
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, UnidentifiedImageError

from ..errors import one_line
from .dataset import Pixels

File = str | Path | IO[bytes]

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")  # no parser beyond these is ever started
PHONE = (".heic", ".heif", ".avif")  # not read, unless the content is a JPEG, as it often is
SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", *PHONE,
)  # fmt: skip
FOREIGN = (".jp2", ".jxl", ".psd", ".svg", ".cr2", ".nef", ".dng")  # not opened: raw files are huge
NOT_READ = "unsupported format: convert it to JPEG or PNG"
MAX_PIXELS = 50_000_000  # held in memory at once
ORIENTATION = 0x0112  # the EXIF tag
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
READ = os.O_RDONLY | os.O_NONBLOCK  # else a pipe that nobody writes to would be waited for
SLURP = 1 << 26  # bytes; larger files are read piece by piece
DRAFT = 2  # a JPEG may be decoded at a smaller scale, if still this many times the wanted size
_TOO_LARGE = f"more than {MAX_PIXELS // 1_000_000} megapixels; scale it down"


class Unreadable(Exception):
    """Why a file cannot be used, in words for the user."""


def decode(file: File, size: int, draft: bool = True) -> tuple[Pixels, tuple[int, int]]:
    """The central square of an image at `size` × `size`, and the file's own width and height.

    The shorter side is scaled to `size` (bilinear) and the longer one cropped on both ends alike:
    shapes keep their proportions, which classes often depend on. With `draft`, a large JPEG is
    decoded at 1/2, 1/4 or 1/8 scale directly. The whole file is decoded, so a damaged one is
    found, and nothing is written to it.
    """
    with without_warnings():
        pixels, own = decode_bytes(file, size, draft)
    return np.frombuffer(pixels, np.uint8).reshape(size, size, 3), own


@contextmanager
def without_warnings() -> Iterator[None]:
    """Pillow warns of odd metadata; what matters arrives as an exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def decode_bytes(file: File, size: int, draft: bool = True) -> tuple[bytes, tuple[int, int]]:
    """As `decode`, the pixels as plain bytes. To be called `without_warnings`."""
    try:
        with Image.open(_in_memory(file), formats=FORMATS) as image:
            own = image.size
            return _square(image, size, draft).tobytes(), own
    except Unreadable:
        raise
    except UnidentifiedImageError:
        raise Unreadable(_unidentified(file)) from None
    except Image.DecompressionBombError:
        raise Unreadable(_TOO_LARGE) from None
    except Exception as error:  # decoders raise many kinds on hostile bytes
        raise Unreadable(_reason(error)) from None


def square_of(image: Image.Image, size: int) -> Pixels:
    """An image in memory as `decode` would read it from a file."""
    try:
        return np.asarray(_square(image, size, draft=False))
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(_reason(error)) from None


def header_size(file: File) -> tuple[int, int] | None:
    """Width and height from the header alone, or None."""
    with without_warnings():
        try:
            with Image.open(file, formats=FORMATS) as image:
                return image.size
        except Exception:  # whatever is wrong with it, `decode` will say
            return None


def resized(images: Pixels, size: int) -> Pixels:
    """Square images of a set at another size (bilinear), in one block of memory."""
    if images.shape[1:3] == (size, size):
        return np.ascontiguousarray(images)
    out = np.empty((len(images), size, size, 3), np.uint8)
    for i, image in enumerate(images):
        out[i] = np.asarray(_cropped(Image.fromarray(np.ascontiguousarray(image)), size))
    return out


def _in_memory(file: File) -> File:
    """A file of ordinary size, read at once: each further system call slows down a small image.

    One that is larger, or does not come whole, is left to Pillow, which reads piece by piece.
    """
    if not isinstance(file, str | Path):
        return file
    if os.fspath(file).lower().endswith(FOREIGN):
        raise Unreadable(NOT_READ)
    handle = os.open(file, READ)
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise Unreadable("not a file")
        length = state.st_size
        content = os.read(handle, length) if length <= SLURP else b""
    finally:
        os.close(handle)
    return io.BytesIO(content) if len(content) == length else file


def _square(image: Image.Image, size: int, draft: bool) -> Image.Image:
    own = image.size
    if draft and min(own) >= 2 * DRAFT * size:
        image.draft(None, (DRAFT * size, DRAFT * size))
    width, height = own if "progressive" in image.info else image.size  # progressive: held whole
    if width * height > MAX_PIXELS:
        raise Unreadable(f"{own[0]} × {own[1]} pixels: {_TOO_LARGE}")
    turn = UPRIGHT.get(_orientation(image))
    return _cropped(_rgb(image if turn is None else image.transpose(turn)), size)


def _orientation(image: Image.Image) -> int:
    if image.format == "JPEG" and not {"exif", "xmp"} & image.info.keys():
        return 1  # nothing to look through
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # broken metadata are no reason to lose the image
        return 1


def _cropped(image: Image.Image, size: int) -> Image.Image:
    """Scale the central square only: a strip of 20,000 × 1 pixels must not become a huge image."""
    if image.size == (size, size):
        return image
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BILINEAR, box=box)


def _rgb(image: Image.Image) -> Image.Image:
    """Any mode to RGB: transparency over white, 16 bits by their upper byte, 32 stretched."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        # these have no fixed range: the least value becomes black, the greatest white
        values = np.nan_to_num(np.asarray(image, np.float64), posinf=0, neginf=0)
        low, high = values.min(), values.max()
        grey = (values - low) * (255 / (high - low) if high > low else 0)
        return Image.fromarray(np.rint(grey).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _unidentified(file: File) -> str:
    if isinstance(file, str | Path) and os.path.getsize(file) == 0:
        return "the file is empty"
    if isinstance(file, str | Path) and os.fspath(file).lower().endswith(PHONE):
        return NOT_READ
    return "not an image in the formats " + ", ".join(FORMATS)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(error)
