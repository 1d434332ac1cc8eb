"""The parts of the results page that judge the paper: its claims, and the order of its methods."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tamatch.bench.cells import FULL, Setting
from tamatch.bench.order import TAU_RULE, agreements, in_print, printed_means, ranks, standings
from tamatch.bench.plans import PLANS
from tamatch.bench.rank import by_seed, order_grid, ranked_errors
from tamatch.bench.results import Store
from tamatch.bench.tables import length
from tamatch.methods import METHODS

from .claims import CLAIMS, STAND_IN_CLAIMS, Claim
from .evidence import Evidence, short
from .judges import NOISE

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

The Friedman ranks of the methods {where}, next to those that the printed errors give
{printed}, and how far our order agrees with the printed one. {rule} Below, the paper's
claims about these methods are judged as those on long-tailed CIFAR-10 are above.
"""
NO_ORDER = """### Does the paper's order hold here?

No setting has results of all methods with one seed yet, so there are no ranks. The paper's claims
about these methods are judged as those on long-tailed CIFAR-10 are above.
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
    """What the net that stands in for the paper's says about the paper's order and claims."""
    evidence = Evidence(store, "stand-in", scale)
    verdicts, figures = judged(STAND_IN_CLAIMS, evidence)
    return "\n".join([*order(store, scale), "", *verdicts, "", *figures, ""])


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


def order(store: Store, scale: Fraction) -> list[str]:
    """The ranks of the stand-in's methods, and how far they agree with the printed ones."""
    plan = PLANS["stand-in"]
    results = store.results(plan.cells("stand-in", scale=scale))
    errors = {
        name: ranked_errors(plan, by_seed(plan, results, score))[0]
        for name, score in (("last step", "error_last"), ("best test", "error_best"))
    }
    ours = {name: standings(found) for name, found in errors.items()}
    best = errors["best test"]
    if not ours["best test"]:
        return [NO_ORDER]
    shared = in_print(plan, best)
    printed = ranks(printed_means(plan, best), {setting.name for setting in shared})
    rows: list[tuple[str, ...]] = [("method", *(f"ours, {name}" for name in ours), "printed")]
    for method in ours["best test"]:
        own = (f"{found[method].rank:.2f}" for found in ours.values())
        rows.append((METHODS[method].title, *own, f"{printed[method]:.2f}" if printed else ""))
    header = "methods ordered by", "score", "methods", "Kendall's τ", "95 % interval"
    agree: list[tuple[str, ...]] = []
    for name, found in errors.items():
        agree += [(t, name, *cells) for t, *cells in order_grid(agreements(plan, found)).rows]
    ranked = [s for s in plan.settings if any(s.name in row for row in best.values())]
    head = ORDER_HEAD.format(
        where=f"over {titles(ranked)}", printed=f"over {titles(shared)}", rule=TAU_RULE
    )
    return [head, *text_table(rows), *(["", *text_table([header, *agree])] if agree else [])]


def titles(settings: Sequence[Setting]) -> str:
    return " and ".join(setting.title for setting in settings) or "no setting"


def text_table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Markdown's table of words; the first row is its header."""
    header, *others = (f"| {' | '.join(row)} |" for row in rows)
    return [header, f"|{' --- |' * len(rows[0])}", *others]
