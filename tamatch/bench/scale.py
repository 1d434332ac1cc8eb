"""Shorter runs with the same shape: what `--scale 1/8` does to a recipe."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from ..errors import UsageError
from ..methods import entry
from ..settings import recipes

FULL = Fraction(1)
LAMBDA_TARGET = 0.99999  # of TaMatch where the target moves
LAMBDA_MODEL = 0.999
INTERVALS = ("log_every", "test_every")  # a checkpoint costs as much in a short run: they stay


def parse_scale(text: str) -> Fraction:
    """`1/8` or `0.125`: a share of the full length."""
    try:
        scale = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"--scale takes a fraction such as 1/8, got {text!r}.") from None
    return checked(scale, f"--scale {text}")


def checked(scale: Fraction, given: str) -> Fraction:
    if not 0 < scale <= FULL:
        raise UsageError(
            f"{given} is out of range: it must be above 0 and at most the full length of a run."
        )
    return scale


def full_steps(data: str) -> int:
    """Steps of the full-length recipe."""
    return int(recipes.PROTOCOLS[data]["steps"])


def target_momentum(data: str, method: str) -> float:
    """λ_target of the full-length recipe; 1 where the target does not move."""
    fixed = entry(method).options.get("lambda_target")
    if fixed is not None:
        return float(fixed)
    adaptive = recipes.defaults(data, method, named=True).options.get("target") == "adaptive"
    return LAMBDA_TARGET if adaptive else 1.0


def shortened(data: str, method: str, scale: Fraction) -> dict[str, Any]:
    """The options that differ from the full-length recipe.

    Whatever is counted in steps shrinks. λ_target becomes λ_target^(1/scale), so that the target
    moves as far over the whole run; the weight average, λ_model and the lengths of memories stay,
    as they answer to the noise of single steps.
    """
    if scale == FULL:
        return {}
    recipe = recipes.defaults(data, method, named=True).run
    options: dict[str, Any] = {k: shrink(recipe[k], scale, 1) for k in ("steps", *INTERVALS)}
    options["warmup"] = shrink(recipe["warmup"], scale, 0)
    momentum = target_momentum(data, method)
    if momentum < 1:
        options["lambda_target"] = momentum ** float(1 / scale)
    for name, count in counted(data, method).items():
        options[name] = shrink(count, scale, entry(method).counts[name].least)
    return options


def counted(data: str, method: str) -> dict[str, int]:
    """The method's options that count steps, as in the full-length recipe."""
    preset = recipes.defaults(data, method, named=True).options
    return {
        name: int(preset.get(name, min(count.most, full_steps(data) // count.share)))
        for name, count in entry(method).counts.items()
    }


def shrink(count: int, scale: Fraction, least: int) -> int:
    return max(least, round(count * scale))


def explain(pairs: Iterable[tuple[str, str]], scale: Fraction) -> list[str]:
    """In words, what a scale does to runs of these (data, method) pairs."""
    if scale == FULL:
        return ["Runs of full length."]
    pairs = list(pairs)
    lines = [f"Runs of {scale} of the full length:"]
    for data in dict.fromkeys(data for data, _ in pairs):
        full = recipes.PROTOCOLS[data]
        short = shortened(data, "supervised", scale)
        moved = [f"{k.replace('_', ' ')} {full[k]:,} → {v:,}" for k, v in short.items()]
        lines.append(f"{data}: {', '.join(moved)}.")
    if any(target_momentum(*pair) < 1 for pair in pairs):
        power = float(1 / scale)
        moved_target = f"{LAMBDA_TARGET}^{power:g} = {LAMBDA_TARGET**power:.10g}"
        lines.append(f"λ_target {LAMBDA_TARGET} → {moved_target}.")
    delays = {counted(*pair).get("memory_after") for pair in pairs}
    for delay in sorted(delay for delay in delays if delay is not None):
        fewer = shrink(delay, scale, 0)
        lines.append(f"CoMatch and SimMatch: memory after {delay:,} → {fewer:,} steps.")
    for data in sorted({data for data, method in pairs if method == "dash"}):
        moved_counts = [
            f"{name.replace('_', ' ')} {count:,} → {shrink(count, scale, 1):,}"
            for name, count in counted(data, "dash").items()
        ]
        lines.append(f"Dash on {data}: {', '.join(moved_counts)}.")
    kept = "Unchanged: weight average (EMA), λ_model, learning rate, lengths of banks and queues."
    return [*lines, kept]
