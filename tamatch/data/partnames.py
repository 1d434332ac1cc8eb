"""What people call the parts of their data, and names that are nearly the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations

UNLABELLED = ("unlabelled", "unlabeled", "_unlabelled", "_unlabeled")
PART_NAMES = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}
# what a table says about an image; an unlabelled one joins the training part with its first label
PART_OF = {**PART_NAMES, **dict.fromkeys(UNLABELLED, "train")}
TELLING = ("unlabelled", "unlabeled", "validation", "val", "test")  # "train" may be a class
MANY = 100  # classes whose names are compared
ALIKE = 0.92  # "forest" and "forrest" are, "healthy" and "unhealthy" are not


def alike(first: str, second: str) -> bool:
    """Do two names differ by capitals or signs alone, or by a letter? Likely a typing error.

    Names with digits are not compared letter by letter.
    """
    first, second = (re.sub(r"[\W_]", "", name.casefold()) for name in (first, second))
    if first == second:
        return first != ""
    letters = min(len(first), len(second)) >= 5 and (first + second).isalpha()
    return letters and SequenceMatcher(None, first, second).ratio() > ALIKE


def nearly_equal(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of names that are alike, among the first `MANY` classes."""
    return ((a, b) for a, b in combinations(names[:MANY], 2) if alike(a, b))


def like_a_part(name: str) -> bool:
    """Is this the name of a part, nearly so, or such a word among others ("test images")?"""
    words = re.split(r"[\W\d_]+", name)
    return any(alike(name, part) for part in PART_OF) or any(
        alike(word, part) for word in words for part in TELLING
    )
