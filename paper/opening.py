"""The first paragraph of the page of results: what the runs that are in say, to be quoted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from statistics import mean

from tamatch.bench.cells import FULL, Plan
from tamatch.bench.order import Errors, agreements, column, standings
from tamatch.bench.plans import PLANS
from tamatch.bench.race import Race, reached_in_words
from tamatch.bench.rank import UNRANKED, by_seed, ranked_errors
from tamatch.bench.results import Store
from tamatch.bench.tables import length
from tamatch.methods import METHODS

from .evidence import Evidence
from .judges import NOISE, SCORES, Score, decided
from .race import begun

RIVALS = ("fixmatch", "freematch")
NEITHER = (
    f"A difference within the noise of two runs of one seed ({NOISE} points, divided by √n) is "
    "neither lower nor higher."
)


def opening(store: Store, shorter: Fraction, stand_in: Fraction) -> str:
    """One paragraph; `shorter` and `stand_in` are the lengths that its runs may have."""
    told = [
        *long_tails(store, FULL), *long_tails(store, shorter), *tables_of_vits(store, stand_in),
        *times(store),
    ]  # fmt: skip
    return f"**In short.** {' '.join(told)} {NEITHER}\n"


def long_tails(store: Store, scale: Fraction) -> Iterator[str]:
    """How TaMatch stands on long-tailed CIFAR-10."""
    cells = PLANS["lt"].cells("lt", scale=scale)
    done = f"{len(store.results(cells))} of {len(cells)} {length(scale)} are done"
    evidence = Evidence(store, "lt", scale)
    found = {m: [gaps(evidence, m, score) for score in SCORES.values()] for m in RIVALS}
    told = [against(m, *both) for m, both in found.items() if all(both)]
    stands = f": TaMatch {', and '.join(told)}" if told else ""
    yield f"On long-tailed CIFAR-10 (Table 3), {done}{stands}."


Gaps = list[tuple[float, bool | None]]  # by setting; whether ours is lower, None within the noise


def gaps(evidence: Evidence, rival: str, score: Score) -> Gaps:
    """TaMatch's mean error minus a rival's, of the seeds that both have."""
    found: Gaps = []
    for setting in evidence.settings:
        if pairs := evidence.by_seed(("tamatch", rival), setting):
            gap = mean(score(ours) - score(theirs) for ours, theirs in pairs)
            found.append((gap, decided(gap < 0, gap, NOISE / math.sqrt(len(pairs)))))
    return found


def against(rival: str, last: Gaps, best: Gaps) -> str:
    """Whether it leads a rival: its error is lower at the last step and at the best test."""
    points = [gap for gap, _ in (*last, *best)]
    title, between = METHODS[rival].title, f"{min(points):+.1f} to {max(points):+.1f} points"
    if all(holds for _, holds in (*last, *best)):
        return f"leads {title} in {len(last)} of {len(last)} settings ({between})"
    (lower, lower_best), (higher, higher_best) = (
        [sum(held is way for _, held in found) for found in (last, best)] for way in (True, False)
    )
    also = f", higher in {higher} and {higher_best}" if higher or higher_best else ""
    return (
        f"does not lead {title} (its error is lower in {lower} of {len(last)} at the last step, in "
        f"{lower_best} at the best test{also}; {between})"
    )


def tables_of_vits(store: Store, scale: Fraction) -> Iterator[str]:
    """How TaMatch stands in Table 1, with its own nets and with the one that stands in."""
    own = PLANS["usb"].cells("usb")
    done = len(store.results(own))
    yield f"Table 1 with the paper's nets: {done} of {len(own)} runs are done."
    plan = PLANS["stand-in"]
    cells = plan.cells("stand-in", scale=scale)
    found = store.results(cells)
    told = f"With a pre-trained ViT-Tiny in their place: {len(found)} of {len(cells)}"
    errors, _ = ranked_errors(plan, by_seed(plan, found, "error_best"))
    places = standings(errors)
    if "tamatch" not in places or len(places) < 2:
        yield f"{told}, so nothing is said of the paper's order of methods."
        return
    least = next(iter(places.values())).rank
    first = [method for method, standing in places.items() if standing.rank == least]
    others = " and ".join(METHODS[method].title for method in first if method != "tamatch")
    if "tamatch" in first:
        who, against = f"TaMatch shares the lead with {others}" if others else "TaMatch leads", ""
    else:
        who = f"TaMatch does not lead: {others} {'do' if len(first) > 1 else 'does'}"
        against = f" against {places['tamatch'].rank:.2f}"
    missing = [m for m in plan.methods if m not in places and m not in UNRANKED]
    among = f"the {len(places)} methods that have runs" if missing else f"{len(places)} methods"
    yield (
        f"{told} ({length(scale)}): {who}, with a Friedman rank of {least:.2f}{against} among "
        f"{among}, by the best tests."
    )
    yield from lowest(plan, errors)
    for title, agree in [*agreements(plan, errors).items()][-1:]:
        yield (
            f"Kendall's τ with the printed order ({title}) is {agree.tau:.2f} (95 % interval "
            f"{agree.low:.2f} to {agree.high:.2f}, {agree.methods} methods)."
        )


def lowest(plan: Plan, errors: Errors) -> Iterator[str]:
    """Whose error is lowest in each setting."""
    for setting in plan.settings:
        if own := column(errors, setting.name):
            best = min(own, key=own.__getitem__)
            told = (
                f"The lowest error on {setting.title} is {METHODS[best].title}'s {own[best]:.1f} %"
            )
            yield told + ("." if best == "tamatch" else f" (TaMatch {own['tamatch']:.1f} %).")


def times(store: Store) -> Iterator[str]:
    """The minutes to each target, where they have been measured."""
    race = Race()
    plan, results = begun(race, store)
    for setting in plan.settings:
        target = race.targets[0]
        own = {
            METHODS[m].title: [
                r for c, r in results.items() if (c.setting, c.method) == (setting, m)
            ]
            for m in plan.methods
        }
        told = [f"{title} {reached_in_words(r, target)[1]}" for title, r in own.items() if r]
        if told:
            yield f"Minutes to {target:g} % on {setting.title}: {', '.join(told)}."
