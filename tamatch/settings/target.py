"""Known class shares to steer towards: from a file, or from the command line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import yaml

from ..errors import UsageError
from ..storage.untrusted import parse_yaml

ROUNDING = 1e-9  # by which shares may miss a sum of 1


def read_target(text: str) -> tuple[str, tuple[float, ...] | None]:
    """`--target` as a keyword, or the class shares in a file."""
    path = Path(text)
    if path.suffix not in (".json", ".yaml", ".yml", ".txt"):
        return text, None
    try:
        content = parse_yaml(path.read_text())
        given = [float(v) for v in (content.values() if isinstance(content, dict) else content)]
    except OSError as error:
        raise UsageError(f"--target {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, TypeError, ValueError, AttributeError):
        raise UsageError(
            f"--target {path} must hold one number a class, as a list or as `class: share` lines."
        ) from None
    return "prior", shares(given, f"--target {path}")


def shares(numbers: Sequence[float], option: str) -> tuple[float, ...]:
    """Class shares that sum to 1, from shares, percentages or counts."""
    total = sum(numbers)
    if not 0 < total < math.inf or min(numbers) < 0:
        raise UsageError(f"{option}: the class shares must be non-negative, not all zero.")
    if abs(total - 1) < ROUNDING:
        return tuple(numbers)  # read again, a run's own shares are what they were, to the bit
    return tuple(number / total for number in numbers)
