"""Figure 1: how often a distribution that learns from its own samples becomes more biased.

p1 = 1/(1 + e^θ). A step draws n samples from p, whose share of class 1 is p̃1, and moves
θ' = θ − η·(p̃1 − p1) with η = 1. The truth is (½, ½), so KL[p ‖ truth] grows with |θ|.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tamatch.bench.results import commit, source_digest
from tamatch.bench.tables import FORMATS, Grid, Page
from tamatch.errors import UsageError
from tamatch.kinds import AT_LEAST_ONE, AT_LEAST_ZERO, Between
from tamatch.storage.files import write_json

from . import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Shares = npt.NDArray[np.float64]
Values = npt.NDArray[np.floating[Any]]  # θ is float32

FILE = "toy.json"
BATCHES = (1, 4, 16, 64)
STARTS, TRAJECTORIES, STEPS = 20, 1000, 1000
RANGES = {"trajectories": Between(1, 1_000_000), "steps": AT_LEAST_ONE, "seed": AT_LEAST_ZERO}
SURE = 3.0  # standard errors that a trend must exceed
READINGS = {
    "step": "a single step raises the KL (mean over all steps)",
    "end": "the KL is larger at the end than at the start (the words of the paper)",
}


@dataclass(frozen=True)
class Amplification:
    """Probability that the bias grows, for each start p1, by both readings of "amplification"."""

    batch: int
    starts: Shares
    shares: dict[str, Shares]  # by reading
    errors: dict[str, Shares]  # their standard errors, over trajectories


def simulate(
    batch: int,
    *,
    starts: int = STARTS,
    trajectories: int = TRAJECTORIES,
    steps: int = STEPS,
    seed: int = 0,
) -> Amplification:
    """All trajectories of all starts at once, one step after the other."""
    random = np.random.Generator(np.random.SFC64((seed, batch)))
    grid = np.linspace(0.05, 0.95, starts)
    first = np.repeat(np.log(1 / grid - 1).astype(np.float32), trajectories)
    theta: Values = first
    grew = np.zeros(theta.shape, np.int32)
    for _ in range(steps):
        p1 = 1 / (1 + np.exp(theta))
        sampled = random.binomial(batch, p1).astype(np.float32) / np.float32(batch)
        moved = theta - (sampled - p1)
        grew += np.abs(moved) > np.abs(theta)
        theta = moved
    by_start = (starts, trajectories)
    outcomes = {
        "step": (grew / steps).reshape(by_start),
        "end": (np.abs(theta) > np.abs(first)).astype(np.float64).reshape(by_start),
    }
    return Amplification(
        batch,
        grid,
        {k: v.mean(1) for k, v in outcomes.items()},
        {k: v.std(1) / np.sqrt(trajectories) for k, v in outcomes.items()},
    )


def verdict(difference: float, error: float) -> str:
    """Whether a difference that a claim says is positive is so beyond chance."""
    if abs(difference) <= SURE * error:
        return "undecided"
    return "holds" if difference > 0 else "is contradicted"


def outer_gap(found: Amplification, reading: str) -> tuple[float, float]:
    """Claim 1: how much likelier amplification is from the most biased starts than the least."""
    share, error = found.shares[reading], found.errors[reading]
    order = np.argsort(np.abs(found.starts - 0.5))
    ends, middle = order[-2:], order[:2]
    gap = share[ends].mean() - share[middle].mean()
    return float(gap), float(np.hypot(norm(error[ends]), norm(error[middle])))


def batch_gap(small: Amplification, large: Amplification, reading: str) -> tuple[float, float]:
    """Claim 2: how much likelier amplification is with small batches, over all starts."""
    gap = small.shares[reading].mean() - large.shares[reading].mean()
    return float(gap), float(np.hypot(norm(small.errors[reading]), norm(large.errors[reading])))


def norm(errors: Shares) -> float:
    """The standard error of a mean of independent values."""
    return float(np.sqrt(np.square(errors).sum()) / len(errors))


def claims(found: list[Amplification]) -> list[str]:
    """Which reading of "amplification" supports which claim of the paper."""
    lines = []
    for reading, meaning in READINGS.items():
        outer = {f"n = {a.batch}": outer_gap(a, reading) for a in found}
        batches = {
            f"{a.batch} against {b.batch}": batch_gap(a, b, reading) for a, b in pairwise(found)
        }
        lines += [
            f"Read as: {meaning}.",
            f"  Claim 1, a more biased start amplifies more, {judged(outer)}.",
            f"  Claim 2, a smaller batch amplifies more, {judged(batches)}.",
        ]
    return lines


def judged(gaps: dict[str, tuple[float, float]]) -> str:
    """One verdict where all agree, one each where they do not; with the differences."""
    verdicts = {case: verdict(*gap) for case, gap in gaps.items()}
    if len(set(verdicts.values())) == 1:
        told = next(iter(verdicts.values()))
    else:
        told = ", ".join(f"{said} for {case}" for case, said in verdicts.items())
    return f"{told} ({', '.join(f'{case} {gap:+.3f}' for case, (gap, _) in gaps.items())})"


def page(found: list[Amplification], seconds: float, size: str) -> Page:
    header = ("p1", *(f"n = {a.batch}" for a in found))
    grids = [
        Grid(
            f"Probability that {meaning}",
            header,
            [
                (f"{start:.3f}", *(f"{a.shares[reading][i]:.3f}" for a in found))
                for i, start in enumerate(found[0].starts)
            ],
        )
        for reading, meaning in READINGS.items()
    ]
    notes = [*claims(found), f"{size}; {seconds:.1f} s."]
    return Page("Figure 1: probability of bias amplification", grids, notes)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--trajectories", type=int, default=TRAJECTORIES, help="trajectories per start"
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="steps per trajectory")
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples (default: 0)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="format of the table")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder of the figure")
    parser.add_argument("--results", type=Path, help=f"folder to keep the numbers in, as {FILE}")


def run(arguments: Namespace) -> int:
    figures.require()
    for name, allowed in RANGES.items():
        if (number := getattr(arguments, name)) not in allowed:
            raise UsageError(f"--{name} must {allowed}, got {number}.")
    began = time.perf_counter()
    size = {"trajectories": arguments.trajectories, "steps": arguments.steps}
    found = [simulate(batch, **size, seed=arguments.seed) for batch in BATCHES]
    told = f"{STARTS} starts × {size['trajectories']:,} trajectories × {size['steps']:,} steps"
    table = page(found, time.perf_counter() - began, told)
    sys.stdout.write(FORMATS[arguments.format](table))
    figures.save(figure, found, arguments.out, "toy")
    if arguments.results:
        write_json(arguments.results / FILE, kept(found, told, arguments.seed))
    return 0


def figure(found: list[Amplification]) -> Figure:
    """Figure 1, by both readings of "amplification"."""
    drawn, axes = figures.canvas(2)
    titles = {"step": "(a) in a single step", "end": "(b) from the start to the end"}
    for panel, reading in zip(axes, READINGS, strict=True):
        for colour, one in zip(figures.COLOURS, found, strict=True):
            panel.plot(
                one.starts, one.shares[reading], "o-", ms=3, color=colour, label=f"n = {one.batch}"
            )
        panel.set(title=titles[reading], xlabel="initial $p_1$", ylim=(0.45, 1.02))
    axes[0].set_ylabel("probability of bias amplification")
    axes[0].legend(ncols=2, loc="center", bbox_to_anchor=(0.5, 0.45))
    return drawn


def kept(found: list[Amplification], size: str, seed: int) -> dict[str, Any]:
    """The numbers behind the figure, and the code they come from."""
    return {
        "size": size, "seed": seed, "claims": claims(found),
        "starts": found[0].starts.round(6).tolist(),
        "shares": {
            reading: {str(a.batch): a.shares[reading].round(6).tolist() for a in found}
            for reading in READINGS
        },
        "made": {"commit": commit(), "source_sha256": source_digest(), "numpy": np.__version__},
    }  # fmt: skip
