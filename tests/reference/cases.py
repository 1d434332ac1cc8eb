"""Every method and its reference under the same settings, which each of them names in its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .base import SlowMethod
from .data import random_bank, random_params, realistic_facts
from .records import Facts
from .simmatch import EMBEDDING
from .starts import (
    PRIOR,
    far_apart,
    filled,
    half_learnt,
    hardly_learnt,
    narrow,
    narrow_and_flat,
    one_head,
    skewed,
    skewed_against_prior,
    skewed_against_shares,
    skewed_pool,
    visited,
    well_on,
)
from .table import REFERENCES

Start = Callable[[SlowMethod, np.random.Generator], None]


FACTS = (
    realistic_facts(),
    realistic_facts(classes=3, batch_labelled=5, batch_unlabelled=12),
    realistic_facts(classes=4, batch_labelled=8, batch_unlabelled=8),
    realistic_facts(classes=6, batch_labelled=6, batch_unlabelled=21, labelled=30, unlabelled=45),
    realistic_facts(classes=2, batch_labelled=4, batch_unlabelled=10, labelled=12, unlabelled=25),
)
FIRST = (50, 10, 1, 30, 0)  # the first step of each seed: inside and past the ramps


@dataclass(frozen=True)
class Case:
    """One setting of one method."""

    reference: str
    title: str = "default"
    options: dict[str, Any] = field(default_factory=dict)  # of the method
    hyper: dict[str, Any] = field(default_factory=dict)  # of the reference
    start: Start | None = None  # gives the reference the state that both begin with
    row: str = ""  # of the table of methods, where its name is not the reference's
    steps: tuple[int, ...] | None = None  # instead of two steps from FIRST
    facts: Facts | None = None  # instead of FACTS
    tolerance: float = 1e-9

    @property
    def name(self) -> str:
        return self.row or self.reference

    @property
    def id(self) -> str:
        return f"{self.name}: {self.title}"

    def steps_of(self, seed: int) -> tuple[int, ...]:
        first = FIRST[seed % len(FIRST)]
        return self.steps or (first, first + 1)

    def facts_of(self, seed: int) -> Facts:
        return self.facts or FACTS[seed % len(FACTS)]

    def made(self, seed: int) -> tuple[SlowMethod, np.random.Generator]:
        """The reference in its first state, and the generator that made it."""
        facts, rng = self.facts_of(seed), np.random.default_rng(seed)
        reference: Any = REFERENCES[self.reference]
        params = random_params(rng, facts.classes, heads=reference.heads)
        given = {"bank": random_bank(rng, EMBEDDING, facts.labelled)}
        hyper = self.hyper | (given if self.reference == "simmatch" else {})
        made: SlowMethod = reference(params, facts, **hyper)
        if self.start is not None:
            self.start(made, rng)
        return made, rng


def tamatch(title: str, options: dict[str, Any], hyper: dict[str, Any], **more: Any) -> Case:
    """TaMatch where its ratio matters."""
    return Case("tamatch", title, options, hyper, more.pop("start", skewed), **more)


MOVING = {"target": "adaptive"}, {"target_momentum": 0.99999}
ABLATIONS: dict[str, dict[str, Any]] = {
    "no_rescaling": {"rescale": False},
    "no_weighting": {"weigh": False},
    "no_clipping": {"clip": "none"},
    "no_ema_target": {"target_momentum": 1.0},
}
COMATCH_COUNTS = (
    {"memory_after": 1, "queue": 2, "tau": 0.8},
    {"epoch": 1, "queue_batches": 2, "threshold": 0.8},
)
SIMMATCH_COUNTS = {"memory_after": 1, "tau": 0.8}, {"epoch": 1, "threshold": 0.8}

CASES = [
    Case("supervised"),
    Case("supervised", row="fully_supervised"),
    Case("pseudo_label"),
    Case(
        "pseudo_label", "other values", {"tau": 0.7, "lambda_u": 2.0, "rampup": 0.2},
        {"threshold": 0.7, "unlabelled_weight": 2.0, "ramp_share": 0.2},
    ),
    Case("pi_model"),
    Case(
        "pi_model", "other values", {"lambda_u": 3.0, "rampup": 0.9},
        {"unlabelled_weight": 3.0, "ramp_share": 0.9},
    ),
    Case("mean_teacher"),
    Case("mean_teacher", "parity", {"parity": "usb"}, {"parity": "usb"}),
    Case(
        "mean_teacher", "quick teacher", {"ema": 0.7, "lambda_u": 8.0, "rampup": 0.2},
        {"momentum": 0.7, "unlabelled_weight": 8.0, "ramp_share": 0.2}, steps=(30, 31, 32),
    ),
    # At ξ = 1e-6 even float64 leaves few digits to the direction from which a sure image moves.
    Case("vat", tolerance=1e-3),
    Case("vat", "long probe", {"xi": 0.1}, {"xi": 0.1}),
    Case(
        "vat", "other values",
        {"xi": 0.1, "epsilon": 0.5, "lambda_u": 2.0, "lambda_entropy": 0.3, "rampup": 0.7},
        {"xi": 0.1, "epsilon": 0.5, "unlabelled_weight": 2.0, "entropy_weight": 0.3,
         "ramp_share": 0.7},
    ),
    Case("mixmatch"),
    Case(
        "mixmatch", "other values", {"lambda_u": 100.0, "temperature": 0.8, "rampup": 0.1},
        {"unlabelled_weight": 100.0, "temperature": 0.8, "ramp_share": 0.1},
    ),
    Case("remixmatch"),
    Case(
        "remixmatch", "other values",
        {"lambda_u": 2.0, "lambda_strong": 0.7, "lambda_rotation": 0.3, "temperature": 0.8,
         "momentum": 0.6, "rampup": 0.6},
        {"unlabelled_weight": 2.0, "unmixed_weight": 0.7, "rotation_weight": 0.3,
         "temperature": 0.8, "momentum": 0.6, "ramp_share": 0.6}, skewed,
    ),
    Case("adamatch"),
    Case(
        "adamatch", "quick averages", {"momentum": 0.6, "tau": 0.9, "lambda_u": 2.0},
        {"momentum": 0.6, "threshold": 0.9, "unlabelled_weight": 2.0}, skewed,
    ),
    Case("uda"),
    Case("uda", "parity", {"parity": "usb"}, {"parity": "usb"}),
    Case(
        "uda", "other values", {"temperature": 0.7, "tau": 0.93, "lambda_u": 2.0},
        {"temperature": 0.7, "threshold": 0.93, "unlabelled_weight": 2.0},
    ),
    Case("fixmatch"),
    Case(
        "fixmatch", "other values", {"tau": 0.7, "lambda_u": 2.0},
        {"threshold": 0.7, "unlabelled_weight": 2.0},
    ),
    Case("flexmatch"),
    Case("flexmatch", "half learnt", start=half_learnt),
    Case(
        "flexmatch", "hardly learnt", {"tau": 0.9, "lambda_u": 2.0},
        {"threshold": 0.9, "unlabelled_weight": 2.0}, hardly_learnt,
    ),
    Case(
        "flexmatch", "hardly learnt, no warm-up", {"threshold_warmup": False},
        {"warm_up": False}, hardly_learnt,
    ),
    Case(
        "dash", "schedule", {"supervised_steps": 2, "rho_period": 2, "rho_decay": 2.0},
        {"warm_up": 2, "period": 2, "gamma": 2.0}, steps=(0, 1, 2, 3, 4, 5, 6),
    ),
    Case(
        "dash", "down to the floor",
        {"supervised_steps": 1, "rho_period": 1, "rho_decay": 6.0, "rho_min": 0.15,
         "temperature": 0.8, "lambda_u": 2.0},
        {"warm_up": 1, "period": 1, "gamma": 6.0, "floor": 0.15, "temperature": 0.8,
         "unlabelled_weight": 2.0}, steps=(0, 1, 2, 3, 4),
    ),
    Case("crmatch"),
    Case(
        "crmatch", "other values", {"tau": 0.7, "lambda_u": 2.0},
        {"threshold": 0.7, "unlabelled_weight": 2.0}, far_apart,
    ),
    Case("comatch"),
    Case("comatch", "memory counts", *COMATCH_COUNTS),
    Case("comatch", "full memory", *COMATCH_COUNTS, filled),
    Case(
        "comatch", "other values",
        {"memory_after": 1, "queue": 3, "tau": 0.6, "link": 0.5, "alpha": 0.6, "temperature": 0.5,
         "lambda_u": 2.0, "lambda_contrast": 5.0, "window": 4},
        {"epoch": 1, "queue_batches": 3, "threshold": 0.6, "graph_threshold": 0.5,
         "smoothing": 0.6, "temperature": 0.5, "unlabelled_weight": 2.0, "contrast_weight": 5.0,
         "alignment_length": 4}, filled,
    ),
    Case("simmatch", "first epoch"),
    Case("simmatch", "memory counts", *SIMMATCH_COUNTS),
    Case("simmatch", "all visited", *SIMMATCH_COUNTS, visited),
    Case(
        "simmatch", "parity", {**SIMMATCH_COUNTS[0], "parity": "usb"},
        {**SIMMATCH_COUNTS[1], "parity": "usb"}, visited,
    ),
    Case(
        "simmatch", "other values",
        {"memory_after": 1, "tau": 0.6, "alpha": 0.6, "temperature": 0.3, "lambda_u": 2.0,
         "lambda_instance": 0.5, "momentum": 0.4, "window": 4},
        {"epoch": 1, "threshold": 0.6, "smoothing": 0.6, "temperature": 0.3,
         "unlabelled_weight": 2.0, "instance_weight": 0.5, "bank_momentum": 0.4,
         "alignment_length": 4}, visited,
    ),
    Case("freematch"),
    Case("freematch", "well on", {"lambda_f": 0.5}, {"fairness_weight": 0.5}, well_on),
    Case(
        "freematch", "begins high", {"init_threshold": 0.95, "momentum": 0.9, "lambda_u": 2.0},
        {"init_threshold": 0.95, "momentum": 0.9, "unlabelled_weight": 2.0},
    ),
    Case("freematch", "parity", {"parity": "usb"}, {"parity": "usb"}),
    Case(
        "freematch", "parity, well on", {"parity": "usb", "lambda_f": 0.5},
        {"parity": "usb", "fairness_weight": 0.5}, well_on,
    ),
    Case("softmatch"),
    Case("softmatch", "narrow", start=narrow),
    Case(
        "softmatch", "learns from raw", {"learn_from": "raw", "momentum": 0.7},
        {"observe": "raw", "momentum": 0.7}, narrow,
    ),
    Case(
        "softmatch", "other values", {"n_sigma": 1.0, "momentum": 0.7, "lambda_u": 2.0},
        {"sigmas": 1.0, "momentum": 0.7, "unlabelled_weight": 2.0}, narrow,
    ),
    Case("softmatch", "parity", {"parity": "usb"}, {"parity": "usb"}, narrow_and_flat),
    Case(
        "softmatch", "parity, learns from raw", {"parity": "usb", "learn_from": "raw"},
        {"parity": "usb", "observe": "raw"}, narrow_and_flat,
    ),
    Case("defixmatch"),
    Case(
        "defixmatch", "other values", {"tau": 0.7, "lambda_u": 2.0},
        {"threshold": 0.7, "unlabelled_weight": 2.0},
    ),
    Case("tamatch"),
    tamatch("skewed", {}, {}),
    tamatch("symmetric clip", {"clip": "symmetric"}, {"clip": "symmetric"}),
    tamatch("no clip", {"clip": "none"}, {"clip": "none"}),
    tamatch("adaptive target", *MOVING),
    tamatch(
        "other values",
        {"lambda_model": 0.6, "lambda_target": 0.7, "tau": 0.8, "lambda_u": 2.0},
        {"model_momentum": 0.6, "target_momentum": 0.7, "threshold": 0.8,
         "unlabelled_weight": 2.0},
    ),
    tamatch("labelled target", {"target": "labelled"}, {}, start=skewed_against_shares),
    tamatch(
        "prior target", {"target": "prior", "prior": PRIOR}, {}, start=skewed_against_prior,
        facts=realistic_facts(),
    ),
    Case("efficientmatch"),
    Case(
        "efficientmatch", "other values",
        {"tau": 0.7, "lambda_u": 2.0, "lambda_mix": 0.5, "mix_target": "dominant"},
        {"threshold": 0.7, "unlabelled_weight": 2.0, "mixed_weight": 0.5, "dominant": True},
    ),
    Case("saw"),
    Case(
        "saw", "other values", {"momentum": 0.6, "tau": 0.8, "lambda_u": 2.0},
        {"momentum": 0.6, "threshold": 0.8, "unlabelled_weight": 2.0},
    ),
    Case("abc"),
    Case(
        "abc", "other values", {"tau": 0.7, "lambda_u": 2.0},
        {"threshold": 0.7, "unlabelled_weight": 2.0},
    ),
    Case("acr"),
    Case(
        "acr", "other values", {"momentum": 0.6, "tau": 0.8, "lambda_u": 2.0, "strength": 1.5},
        {"momentum": 0.6, "threshold": 0.8, "unlabelled_weight": 2.0, "strength": 1.5},
        steps=(0, 1, 2),
    ),
    Case("cdmad"),
    Case(
        "cdmad", "other values", {"lambda_u": 2.0, "debias_after": 0.31},
        {"unlabelled_weight": 2.0, "start": 0.31},
    ),
    Case("ccl"),
    Case(
        "ccl", "other values",
        {"momentum": 0.6, "tau": 0.8, "strength": 1.5, "energy": -6.0, "temperature": 0.3,
         "lambda_contrast": 0.5},
        {"momentum": 0.6, "threshold": 0.8, "strength": 1.5, "energy": -6.0, "temperature": 0.3,
         "contrast_weight": 0.5}, skewed_pool,
    ),
    Case("daso"),
    Case(
        "daso", "other values",
        {"temperature": 0.2, "flatten": 0.3, "lambda_assign": 0.5, "rows": 3, "blend_after": 0.31,
         "momentum": 0.6, "ema": 0.7, "tau": 0.8, "lambda_u": 2.0},
        {"temperature": 0.2, "flatten": 0.3, "assign_weight": 0.5, "rows": 3, "start": 0.31,
         "momentum": 0.6, "teacher_momentum": 0.7, "threshold": 0.8, "unlabelled_weight": 2.0},
    ),
    Case("simpro"),
    Case(
        "simpro", "other values", {"momentum": 0.6, "tau": 0.8, "strength": 1.5},
        {"momentum": 0.6, "threshold": 0.8, "strength": 1.5},
    ),
    Case("tamatch_lt"),
    Case("tamatch_lt", "skewed", start=skewed),
    Case("tamatch_lt", "one head", {"heads": 1}, start=one_head),
    Case(
        "tamatch_lt", "other values",
        {"strength": 1.5, "lambda_model": 0.6, "tau": 0.8, "lambda_u": 2.0, "used": "accepted"},
        {"strength": 1.5, "model_momentum": 0.6, "threshold": 0.8, "unlabelled_weight": 2.0,
         "accepted": True}, skewed,
    ),
    Case("taught", row="tamatch_solved"),
    Case(
        "taught", "other values", {"lambda_u": 2.0}, {"unlabelled_weight": 2.0},
        row="tamatch_solved",
    ),
    *(
        tamatch("moving target", MOVING[0], MOVING[1] | hyper, row=f"tamatch_{row}")
        for row, hyper in ABLATIONS.items()
    ),
]  # fmt: skip
CASES += [
    Case(name, start=reference.starts.get("default"))
    for name, reference in REFERENCES.items()
    if name not in {case.reference for case in CASES}
]
OWN = [
    Case(name, title, options, options, reference.starts.get(title))
    for name, reference in REFERENCES.items()
    for title, options in vars(reference).get("settings", {}).items()
]
CASES += OWN
