"""The parts of the results page that judge the paper: its claims, and the order of its methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from statistics import mean

from tamatch.bench.cells import FULL, Setting
from tamatch.bench.plans import PLANS
from tamatch.bench.results import Store
from tamatch.bench.tables import length
from tamatch.methods import METHODS

from .claims import CLAIMS, STAND_IN_CLAIMS, Claim
from .evidence import Evidence, short
from .judges import NOISE, SCORES

EIGHTH = Fraction(1, 8)
CLAIMS_HEAD = """## The paper's claims

Every claim of the paper that results can decide, judged by {runs} on
long-tailed CIFAR-10, even if the paper shows it on other data; claims of Table 1 by its own runs.
The paper does not say how it scores, so errors are compared both at the last step and at the best
test; where both agree, there is one verdict. All figures are means over the seeds that the methods
have in common. A verdict is open until all its runs are done, and where errors differ within their
noise. On a GPU, the errors of two runs of one seed differ by up to {noise} points ([log](log.md),
measured at 1/8 of the length); the difference of two means over n seeds has this noise divided by
√n, that of two deviations divided by √(n − 1). Figures that are not errors are compared as they
are, since their noise has not been measured. How the paper's words are read:

- "throughout": in every eighth of a run but the first, in which p_model leaves its uniform start;
- "large oscillations": larger than TaMatch's, from point to point of the curve after that;
- "roughly the same": within 5 points over the whole run;
- "matters more": on the mean of the settings named than of the others;
- "approaches 1": below 1.1 at the end.
"""

FIGURES_HEAD = """### The figures behind the verdicts

TaMatch's figures come first, or the ablation's where the claim does not name TaMatch. Two errors
(%) are followed by their difference, mean ± standard deviation over pairs of runs with the same
seed, and so with the same labels, and by the noise of that mean. For "matters more" it is the
ablation's error minus TaMatch's. n is given if it is not three.
"""

TOLD_BELOW = """Runs of full length may contradict: [what those so far
say](#the-same-claims-in-the-full-length-runs-so-far) stands below.
"""

FULL_HEAD = """### The same claims in the full-length runs so far

Only those that a full-length run says something about.
"""

ORDER_HEAD = """### Does the paper's order hold here?

The paper's methods from the lowest mean error to the highest, and how many pairs of them are in the
paper's order. Below, its claims about them are judged as those on long-tailed CIFAR-10 are above.
"""


def claims(store: Store) -> str:
    """All claims, by the longest runs on long-tailed CIFAR-10 that are complete.

    What longer ones say so far is told as well, since they may contradict.
    """
    lt = PLANS["lt"].cells("lt", scale=FULL)
    long = store.results(lt)
    scale = FULL if len(long) == len(lt) else EIGHTH
    verdicts, figures = judged(CLAIMS, Evidence(store, "lt", scale))
    parts = [*verdicts, "", FIGURES_HEAD, *figures, ""]
    if long and scale != FULL:
        verdicts, figures = judged(CLAIMS, Evidence(store, "lt", FULL), begun=True)
        parts = [TOLD_BELOW, *parts, FULL_HEAD, *verdicts, "", *figures, ""]
    return "\n".join([CLAIMS_HEAD.format(runs=length(scale), noise=NOISE), *parts])


def stand_in(store: Store, scale: Fraction) -> str:
    """What the net that stands in for the paper's says about the paper's order."""
    evidence = Evidence(store, "stand-in", scale)
    verdicts, figures = judged(STAND_IN_CLAIMS, evidence)
    orders = [row for setting in evidence.settings for row in order(evidence, setting)]
    listed = text_table([("setting", "errors", "order", "pairs as in the paper"), *orders])
    return "\n".join([ORDER_HEAD, *listed, "", *verdicts, "", *figures, ""])


def judged(
    claims: Sequence[Claim], evidence: Evidence, begun: bool = False
) -> tuple[list[str], list[str]]:
    """A table of verdicts, and one of the figures behind them; if `begun`, of those with any."""
    found = [(f"{i}", claim, claim.judge(evidence)) for i, claim in enumerate(claims, 1)]
    settings = [short(setting) for setting in evidence.settings]
    if begun:
        found = [row for row in found if row[2].figures]
        there = {name for *_, verdict in found for of in verdict.figures.values() for name in of}
        settings = [name for name in settings if name in there]
    verdicts, figures = [("no.", "claim", "where", "verdict")], [("claim no.", "score", *settings)]
    for number, claim, verdict in found:
        verdicts.append((number, claim.says, claim.where, verdict.said))
        for score, by_setting in verdict.figures.items():
            figures.append((number, score, *(by_setting.get(s, "none yet") for s in settings)))
    return text_table(verdicts), text_table(figures)


def order(evidence: Evidence, setting: Setting) -> Iterable[tuple[str, ...]]:
    """The methods that the paper has an error of, in its order and in ours."""
    printed = {
        method: row[setting.name].mean
        for method, row in (PLANS[evidence.bench].printed or {}).items()
    }
    theirs = {method: error for method, error in printed.items() if error is not None}
    yield short(setting), "the paper's", from_the_lowest(theirs), ""
    if found := evidence.by_seed([*theirs], setting):
        for name, score in SCORES.items():
            columns = zip(*found, strict=True)
            ours = {m: mean(map(score, runs)) for m, runs in zip(theirs, columns, strict=True)}
            yield short(setting), f"ours, {name}", from_the_lowest(ours), agreeing(ours, theirs)


def from_the_lowest(errors: Mapping[str, float]) -> str:
    return ", ".join(METHODS[method].title for method in sorted(errors, key=errors.__getitem__))


def agreeing(ours: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    """How many pairs of methods are in the same order."""
    pairs = [*combinations(theirs, 2)]
    same = sum((ours[a] - ours[b]) * (theirs[a] - theirs[b]) > 0 for a, b in pairs)
    return f"{same} of {len(pairs)}"


def text_table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Markdown's table of words; the first row is its header."""
    header, *others = (f"| {' | '.join(row)} |" for row in rows)
    return [header, f"|{' --- |' * len(rows[0])}", *others]
