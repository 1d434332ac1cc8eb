"""Folders of photos as a person has them: dark and light ones, told apart at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def dark_and_light(folder: Path, known: int, unlabelled: int, sides: tuple[int, int]) -> Path:
    """So many of each class to train on and to test, and unlabelled ones of both."""
    draw = np.random.default_rng(0)
    for part in ("train/dark", "train/light", "unlabelled", "test/dark", "test/light"):
        (folder / part).mkdir(parents=True)
        for i in range(unlabelled if part == "unlabelled" else known):
            light = part.endswith("light") or (part == "unlabelled" and i % 2)
            pixels = draw.integers(130 * light, 120 + 130 * light, (*sides, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / part / f"{i}.png")
    return folder
