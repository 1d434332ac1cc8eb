"""Class shares to steer towards: known ones from a file or an option, or ones that move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from ..errors import UsageError
from ..methods import entry
from ..storage.untrusted import parse_yaml
from .config import Run

ROUNDING = 1e-9  # by which shares may miss a sum of 1
Shares = tuple[float, ...] | dict[str, float]  # in the order of the classes, or by their names


def read_target(text: str) -> tuple[str, Shares | None]:
    """`--target` as a keyword, or the class shares in a file."""
    path = Path(text)
    if path.suffix not in (".json", ".yaml", ".yml", ".txt"):
        return text, None
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
        given: Shares
        if isinstance(content, dict):
            given = {str(name): float(share) for name, share in content.items()}
        else:
            given = tuple(float(share) for share in content)
    except OSError as error:
        raise UsageError(f"--target {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, TypeError, ValueError, AttributeError):
        raise UsageError(
            f"--target {path} must contain one number per class, as a list or as `class: share` "
            "lines."
        ) from None
    return "prior", normalised_shares(given, f"--target {path}")


def normalised_shares(given: Shares, option: str) -> Shares:
    """Class shares that sum to 1, from shares, percentages or counts."""
    numbers = [*given.values()] if isinstance(given, dict) else given
    total = sum(numbers)
    if not 0 < total < math.inf or min(numbers) < 0:
        raise UsageError(f"{option}: class shares must be non-negative and not all zero.")
    if abs(total - 1) < ROUNDING:
        return given  # read again, a run's own shares are what they were, to the bit
    if isinstance(given, dict):
        return {name: share / total for name, share in given.items()}
    return tuple(share / total for share in given)


def in_order(
    given: Mapping[str, float] | Sequence[float], classes: Sequence[str], data: str
) -> tuple[float, ...]:
    """The shares in the order of the classes; an error for a name that is no class."""
    if len(given) != len(classes):
        raise UsageError(
            f"--prior or --target gives {len(given)} class shares, but {data} has {len(classes)} "
            "classes."
        )
    if not isinstance(given, Mapping):
        return tuple(given)
    strange = [name for name in given if name not in classes]
    if strange:
        missing = [name for name in classes if name not in given]
        raise UsageError(
            f"--prior or --target gives a share for {strange[0]!r}, which is not a class of "
            f"{data}; {missing[0]!r} has no share."
        )
    return tuple(given[name] for name in classes)


def target_follows(run: Run) -> bool:
    """Does the target follow the model, at a speed that the method leaves open?"""
    free = run.options.keys() - entry(run.method).options.keys()
    return "lambda_target" in free and run.options.get("target") == "adaptive"
