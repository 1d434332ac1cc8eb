"""Decoding: what a picture becomes, and that no file can do harm."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tamatch.data.decode import MAX_PIXELS, Unreadable, decode, header_size, resized, square_of
from tests.data.memory import resident
from tests.data.pictures import picture, png_header, saved

RED = (200, 30, 40)


def colour(file: io.BytesIO | Path) -> list[int]:
    """The colour of an image that has only one."""
    pixels = decode(file, 8)[0].reshape(-1, 3)
    assert (np.ptp(pixels, axis=0) <= 1).all()
    return [int(value) for value in pixels[0]]


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP"])
def test_lossless_formats_are_exact(kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    pixels, own = decode(saved(picture(), kind, **options), 40)
    assert (pixels == np.asarray(picture())).all() and pixels.dtype == np.uint8
    assert own == (40, 40)


def test_central_square_of_an_oblong_picture() -> None:
    for width, height in ((60, 20), (20, 60)):
        scaled = picture(width, height).resize((width // 2, height // 2), Image.Resampling.BILINEAR)
        left, top = (scaled.width - 10) // 2, (scaled.height - 10) // 2
        pixels, own = decode(saved(picture(width, height), "PNG"), 10)
        assert (pixels == np.asarray(scaled.crop((left, top, left + 10, top + 10)))).all()
        assert own == (width, height)


def test_scaling_is_pillow_s_bilinear() -> None:
    expected = np.asarray(picture(64, 64).resize((32, 32), Image.Resampling.BILINEAR))
    assert (decode(saved(picture(64, 64), "PNG"), 32)[0] == expected).all()


def test_large_jpeg_by_draft_is_close_to_the_full_decode() -> None:
    file = saved(picture(1600, 1200), "JPEG", quality=95)
    fast, own = decode(file, 32)
    file.seek(0)
    full, _ = decode(file, 32, draft=False)
    assert own == (1600, 1200)
    assert np.abs(fast.astype(int) - full).max() <= 3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(orientation: int) -> None:
    stored_as = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    upright = picture(40, 30)
    image = upright.transpose(stored_as[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned, _ = decode(saved(image, "PNG", exif=exif), 30)
    assert (turned == decode(saved(upright, "PNG"), 30)[0]).all()


def test_broken_exif_is_ignored() -> None:
    file = saved(Image.new("RGB", (16, 16), RED), "JPEG", exif=b"Exif\x00\x00MM\x00\xff\xff\xff")
    assert np.abs(np.array(colour(file)) - RED).max() <= 3


def test_every_mode_becomes_rgb() -> None:
    grey = [120, 120, 120]
    assert colour(saved(Image.new("L", (9, 9), 120), "PNG")) == grey
    assert colour(saved(Image.new("LA", (9, 9), (120, 255)), "PNG")) == grey
    assert colour(saved(Image.new("1", (9, 9), 1), "PNG")) == [255, 255, 255]
    assert colour(saved(Image.new("RGB", (9, 9), RED).quantize(), "PNG")) == list(RED)
    assert colour(saved(Image.new("I;16", (9, 9), 120 * 256 + 7), "PNG")) == grey
    assert colour(saved(Image.new("I;16", (9, 9), 120 * 256 + 7), "TIFF")) == grey
    assert colour(saved(Image.new("CMYK", (9, 9), (0, 0, 0, 0)), "TIFF")) == [255, 255, 255]
    assert colour(saved(Image.new("CMYK", (9, 9), (0, 0, 0, 0)), "JPEG")) == [255, 255, 255]
    assert colour(saved(Image.new("F", (9, 9), 3.5), "TIFF")) == [0, 0, 0]


def test_32_bit_values_are_stretched() -> None:
    values = np.linspace(-3, 7, 64).astype(np.float32).reshape(8, 8)
    values[0, 1] = np.nan
    pixels, _ = decode(saved(Image.fromarray(values), "TIFF"), 8)
    assert pixels[0, 0, 0] == 0 and pixels[7, 7, 0] == 255


def test_transparency_is_laid_on_white() -> None:
    assert colour(saved(Image.new("RGBA", (9, 9), (*RED, 0)), "PNG")) == [255, 255, 255]
    assert colour(saved(Image.new("RGBA", (9, 9), (*RED, 255)), "PNG")) == list(RED)
    palette = Image.new("P", (9, 9), 5)
    palette.putpalette([10, 20, 30] * 256)
    assert colour(saved(palette, "PNG", transparency=5)) == [255, 255, 255]
    assert colour(saved(palette, "PNG", transparency=6)) == [10, 20, 30]
    keyed = Image.new("RGB", (9, 9), RED)
    assert colour(saved(keyed, "PNG", transparency=RED)) == [255, 255, 255]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_first_frame_of_an_animation(kind: str) -> None:
    frames = [Image.new("RGB", (9, 9), c) for c in ("red", "green", "blue")]
    more = {"save_all": True, "append_images": frames[1:]}
    if kind == "WEBP":
        more["lossless"] = True
    assert colour(saved(frames[0], kind, **more)) == [255, 0, 0]


@pytest.mark.parametrize(("width", "height"), [(1, 1), (20_000, 1), (1, 20_000), (7, 3)])
def test_extreme_shapes(width: int, height: int) -> None:
    before = resident()
    assert colour(saved(Image.new("RGB", (width, height), RED), "PNG")) == list(RED)
    assert resident() - before < 50e6


@pytest.mark.parametrize("side", [7_100, 10_000, 12_000, 60_000])
def test_a_bomb_is_refused_by_its_header(side: int) -> None:
    before = resident()
    with pytest.raises(Unreadable, match="more than 50 megapixels"):
        decode(io.BytesIO(png_header(side, side)), 32)
    assert resident() - before < 50e6
    assert side * side > MAX_PIXELS


def test_formats_beyond_the_list_are_not_parsed(tmp_path: Path) -> None:
    for kind in ("PPM", "TGA", "ICO", "PCX", "EPS", "PDF"):
        with pytest.raises(Unreadable, match="not an image in the formats"):
            decode(saved(picture(), kind), 32)


def test_a_very_large_file_is_read_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamatch.data.decode.SLURP", 0)
    picture().save(tmp_path / "large.png")
    assert (decode(tmp_path / "large.png", 40)[0] == np.asarray(picture())).all()


def test_a_file_that_comes_in_pieces_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.read
    asked: list[int] = []

    def short(handle: int, length: int) -> bytes:
        asked.append(length)
        return whole(handle, length // 2)

    monkeypatch.setattr(os, "read", short)
    picture().save(tmp_path / "far.png")
    assert (decode(tmp_path / "far.png", 40)[0] == np.asarray(picture())).all()
    assert asked == [(tmp_path / "far.png").stat().st_size]


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="No such file"):
        decode(tmp_path / "none.jpg", 32)
    with pytest.raises(Unreadable, match="not a file"):
        decode(tmp_path, 32)
    assert header_size(tmp_path / "none.jpg") is None


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP"])
def test_a_cut_file_is_never_half_an_image(kind: str) -> None:
    noise = np.random.RandomState(0).randint(0, 256, (64, 64, 3)).astype(np.uint8)
    content = saved(Image.fromarray(noise), kind).getvalue()
    for length in (0, 1, 10, len(content) // 3, len(content) * 2 // 3):
        with pytest.raises(Unreadable):
            decode(io.BytesIO(content[:length]), 32)


BASE = {kind: saved(picture(), kind).getvalue() for kind in ("JPEG", "PNG", "WEBP", "TIFF", "GIF")}


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(sorted(BASE)),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=20),
)
def test_hostile_bytes_give_an_image_or_a_reason(kind: str, flips: list[tuple[int, int]]) -> None:
    content = bytearray(BASE[kind])
    for at, value in flips:
        content[at % len(content)] = value
    try:
        assert decode(io.BytesIO(bytes(content)), 16)[0].shape == (16, 16, 3)
    except Unreadable as reason:
        assert str(reason) and "\n" not in str(reason)


@pytest.mark.parametrize("height", [8, 4])
def test_arrays_are_scaled_as_files_are(height: int) -> None:
    images = np.stack([np.asarray(picture(8, height)), np.asarray(picture(8, height))[::-1]])
    for image, small in zip(images, resized(images, 4), strict=True):
        assert (small == decode(saved(Image.fromarray(image), "PNG"), 4)[0]).all()
        assert (small == square_of(Image.fromarray(image), 4)).all()


def test_arrays_of_the_size_asked_for_stay_as_they_are() -> None:
    images = np.stack([np.asarray(picture(8, 8))] * 2)
    assert (resized(images, 8) == images).all()


def test_what_counts_is_how_many_pixels_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A camera's JPEG is decoded at a smaller scale, however large it is."""
    monkeypatch.setattr("tamatch.data.decode.MAX_PIXELS", 40_000)
    large = Image.new("RGB", (400, 300), RED)
    pixels, own = decode(saved(large, "JPEG"), 16)
    assert own == (400, 300) and abs(pixels.mean((0, 1)) - RED).max() < 3
    for whole in (saved(large, "JPEG", progressive=True), saved(large, "PNG")):
        with pytest.raises(Unreadable, match="400 × 300 pixels: more than"):
            decode(whole, 16)
    with pytest.raises(Unreadable, match="400 × 300 pixels: more than"):
        decode(saved(large, "JPEG"), 16, draft=False)


def test_an_opened_image_that_is_too_large_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamatch.data.decode.MAX_PIXELS", 99)
    with pytest.raises(Unreadable, match="10 × 10 pixels: more than"):
        square_of(picture(10, 10), 8)


def test_an_opened_image_whose_file_is_cut_off_is_unreadable() -> None:
    content = saved(picture(64, 64), "BMP").getvalue()
    with Image.open(io.BytesIO(content[:-200])) as image, pytest.raises(Unreadable, match="trunc"):
        square_of(image, 32)
