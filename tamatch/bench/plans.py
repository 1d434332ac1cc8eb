"""The runs behind each table of the paper, and which of them a command asks for."""

import ast
import hashlib
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from importlib.util import resolve_name
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import methods, nets
from ..errors import UsageError, unknown_name
from ..methods import BY_THEMSELVES
from ..own import usercode
from ..settings.config import RUN_OPTIONS, method_options
from ..settings.configure import resolve_method
from ..settings.options import as_text, flag_of
from . import published
from .cells import FULL, Cell, Plan, Setting, Variant, full_steps

ALL = "all"
OWN = "own"  # the bench whose data the user names
NOT_SET = {  # options of `train` that a bench sets in another way
    "data": "--settings", "method": "--methods", "seed": "--seeds", "steps": "--steps",
    "root": "--root", "device": "--device", "weights": "--weights", "baseline": "--methods",
}  # fmt: skip
CHECKSUM = 12  # digits of the checksum of a method's code


def few_labels(data: str, title: str, classes: int, per_class: int) -> Setting:
    labels = classes * per_class
    options = {"labels_per_class": per_class}
    return Setting(f"{data}-{labels}", f"{title}, {labels} labels", data, options)


def long_tail(labelled: int, unlabelled: int, gamma: int) -> Setting:
    """Class i of C has N⁽¹⁾·γ^(−(i−1)/(C−1)) images; N_l⁽¹⁾, N_u⁽¹⁾ and γ are given."""
    options = {"head_labelled": labelled, "head_unlabelled": unlabelled, "gamma": float(gamma)}
    title = f"CIFAR-10-LT, {labelled} / {unlabelled}, γ = {gamma}"
    return Setting(f"lt-{labelled}-{unlabelled}-{gamma}", title, "cifar10-lt", options)


def other_pool(setting: Setting, shape: str, **options: Any) -> Setting:
    """The same labels with a pool of other class shares."""
    return replace(
        setting,
        name=f"{setting.name}-{shape}",
        title=f"{setting.title}, {shape} pool",
        options={**setting.options, **options},
    )


CIFAR100 = tuple(few_labels("cifar100", "CIFAR-100", 100, n) for n in (2, 4))
STL10 = tuple(few_labels("stl10", "STL-10", 10, n) for n in (4, 10))
EUROSAT = tuple(few_labels("eurosat", "EuroSAT", 10, n) for n in (2, 4))
CLASSIC = tuple(  # the usual numbers of labels
    few_labels(data, title, classes, per_class)
    for data, title, classes, counts in (
        ("cifar10", "CIFAR-10", 10, (4, 25, 400)),
        ("cifar100-classic", "CIFAR-100", 100, (4, 25, 100)),
        ("stl10-classic", "STL-10", 10, (4, 25, 100)),
        ("svhn-extra", "SVHN", 10, (4, 25, 100)),
    )
    for per_class in counts
)
RACE = tuple(  # tested often, each test after a line of the log, which says when it began
    replace(s, name=f"race-{s.name}", options={**s.options, "test_every": 1024, "log_every": 1024})
    for s in CLASSIC
)
LONG_TAIL = tuple(
    long_tail(*heads, gamma) for heads in ((1500, 3000), (500, 4000)) for gamma in (100, 150)
)
OTHER_POOLS = (  # as in the literature on pools whose class shares are unknown
    other_pool(LONG_TAIL[2], "uniform", gamma_unlabelled=1.0),
    other_pool(LONG_TAIL[2], "reversed", gamma_unlabelled=-100.0),
    other_pool(LONG_TAIL[2], "middle", pool_shape="middle"),
)
DIGITS = few_labels("digits", "embedded digits", 10, 4)
STAND_IN = (  # a ViT-Tiny for the paper's larger net, and a further data set of the benchmark
    *(few_labels("eurosat-tuned", "EuroSAT", 10, n) for n in (2, 4)),
    *(few_labels("cifar10-tuned", "CIFAR-10", 10, n) for n in (4, 25)),
)
CAUSES = (  # candidates for what moves TaMatch's error: one option differs
    Variant("pool", "labelled images also in the pool", {"labelled_in_pool": "yes"}),
    Variant("replacement", "sampling with replacement", {"replacement": True}),
    Variant("fp32", "precision: float32", {"precision": "fp32"}),
    Variant("tf32", "precision: TF32", {"precision": "tf32"}),
    Variant("raw", "no weight average, as printed in the paper's Table 7", {"ema": 0.0}),
    Variant("norm", "usual BatchNorm: momentum 0.1, in every block", {"net": "wrn_28_2_clean"}),
    Variant("symmetric", "weights clipped to [1/r_max, r_max]", {"clip": "symmetric"}),
    Variant("eps-9", "ε = 1e-9 in the ratio", {"eps": 1e-9}),
    Variant("eps-4", "ε = 1e-4 in the ratio", {"eps": 1e-4}),
    Variant("after", "p_model and p_target updated after their use", {"update": "after"}),
)
ABLATIONS = (
    "tamatch_no_rescaling", "tamatch_no_weighting", "tamatch_no_clipping", "tamatch_no_ema_target",
)  # fmt: skip
TAILS = tuple(  # TaMatch-LT with one option changed
    Variant(name, title, options, "tamatch_lt")
    for name, title, options in (
        ("strength-1", "κ = 1 in both losses", {"strength": 1.0}),
        ("strength-3", "κ = 3 in both losses", {"strength": 3.0}),
        ("freematch", "FreeMatch's thresholds", {"select": "freematch"}),
        ("accepted", "r of the accepted labels in the unlabelled loss", {"used": "accepted"}),
        ("one-head", "no second head", {"heads": 1}),
        ("two-views", "two strong views", {"strong_views": 2}),
        ("weak-labels", "labelled images as weak views only", {"labelled_views": 1}),
        ("class-weights", "TaMatch's class weights on top", {"weigh": "class"}),
    )
)
TAIL_METHODS = (
    "fixmatch", "freematch", "tamatch", "saw", "abc", "daso", "acr", "cdmad", "simpro", "ccl",
    "tamatch_lt",
)  # fmt: skip
ORACLE = "The paper's baselines are scored at their best test, so compare them with `best`."
STAND_IN_PRINTED = {  # of EuroSAT the paper's errors, of CIFAR-10 the benchmark's
    method: {
        f"{data}-tuned-{labels}": printed
        for name, printed in (
            published.TABLE_1.get(method, {}) | published.CLASSIC.get(method, {})
        ).items()
        for data, _, labels in [name.partition("-")]
        if data in ("eurosat", "cifar10")
    }
    for method in published.TABLE_1
}
STAND_IN_NOTE = (
    "The printed errors of EuroSAT are the paper's, of a larger net; those of CIFAR-10, which its "
    "Table 1 does not have, are the benchmark's of a wide residual net from scratch. Compare only "
    "the order of the methods."
)

NO_LABELS = frozenset({("stl10-classic", "fully_supervised")})  # its pool has none
TABLE_1_METHODS = ("supervised", "fully_supervised", *[*published.TABLE_1][2:])

PLANS: dict[str, Plan] = {
    "usb": Plan(
        "Table 1: error (%) on CIFAR-100, STL-10 and EuroSAT",
        TABLE_1_METHODS,
        (*CIFAR100, *STL10, *EUROSAT),
        published.TABLE_1,
        (ORACLE,),
        frozenset({("stl10", "fully_supervised"), ("stl10", "crmatch")}),
        pretrained=True,
    ),
    "lt": Plan(
        "Table 3: error (%) on CIFAR-10-LT",
        ("supervised", "fixmatch", "freematch", "tamatch"),
        LONG_TAIL,
        published.TABLE_3,
        (ORACLE, *published.TABLE_3_NOTES),
    ),
    "ablation-usb": Plan(
        "Table 4: ablations, error (%) on CIFAR-100",
        ("fixmatch", *ABLATIONS[:3], "tamatch"),
        CIFAR100,
        published.TABLE_4,
        (ORACLE, "The paper has no row without clipping here. λ_target is 1 in all rows."),
        pretrained=True,
    ),
    "stand-in": Plan(
        "Table 1 with a ViT-Tiny that stands in for ViT-S-P2-32: error (%)",
        TABLE_1_METHODS,
        STAND_IN,
        STAND_IN_PRINTED,
        (ORACLE, STAND_IN_NOTE),
        pretrained=True,
    ),
    "ablation-stand-in": Plan(
        "Table 4 with a ViT-Tiny that stands in for ViT-S-P2-32: error (%)",
        ("fixmatch", *ABLATIONS[:3], "tamatch"),
        STAND_IN,
        {method: STAND_IN_PRINTED[method] for method in ("fixmatch", "tamatch")},
        (ORACLE, STAND_IN_NOTE),
        pretrained=True,
    ),
    "ablation-lt": Plan(
        "Table 5: ablations, error (%) on CIFAR-10-LT",
        ("fixmatch", *ABLATIONS, "tamatch"),
        LONG_TAIL,
        published.TABLE_5,
        (ORACLE, "The paper has no rows without rescaling and without weighting here."),
    ),
    "causes": Plan(
        "What affects TaMatch's error: one option at a time, error (%) on CIFAR-10-LT",
        ("tamatch", "tamatch_no_clipping"),
        (LONG_TAIL[2],),
        published.TABLE_5,
        (
            "`Δ` is the error minus TaMatch's, at the last step and at the best test: the mean "
            "over the seeds that both have. The deviation of TaMatch's own row shows the effect "
            "of the seed alone.",
            "The augmentation has no row: the tests compare it with Pillow's pixel for pixel.",
        ),
        variants=CAUSES,
        against="tamatch",
    ),
    "tails": Plan(
        "Long tails beyond the paper: error (%) on CIFAR-10-LT, with TaMatch-LT's variants",
        TAIL_METHODS,
        (*LONG_TAIL, *OTHER_POOLS),
        notes=("`Δ` is the error minus TaMatch-LT's, at the last step and at the best test.",),
        variants=TAILS,
        against="tamatch_lt",
    ),
    "classic": Plan(
        "The classic protocol: error (%) of wide residual nets trained from scratch",
        TABLE_1_METHODS,
        CLASSIC,
        absent=NO_LABELS,
    ),
    "race": Plan("Time to accuracy, from random weights", BY_THEMSELVES, RACE, absent=NO_LABELS),
    OWN: Plan(
        "Your own images: error (%)",
        ("supervised", "fixmatch", "freematch", "softmatch", "tamatch"),
        (),
    ),
    "digits": Plan(
        "All methods: error (%) on the embedded digits with 40 labels", BY_THEMSELVES, (DIGITS,)
    ),
}  # fmt: skip


def names(flag: str, text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """The known names that the user listed, in their own order; `all` or no list means all."""
    wanted = [word.strip() for word in (ALL if text is None else text).split(",")]
    for word in wanted:
        if word not in (*known, ALL):
            raise unknown_name(flag, word, known)
    return tuple(name for name in known if name in wanted or ALL in wanted)


def one_name(flag: str, text: str, known: tuple[str, ...]) -> str:
    """The one known name that the user gave."""
    chosen = names(flag, text, known)
    if len(chosen) > 1:
        raise UsageError(f"{flag} takes one name, got {text!r}.")
    return chosen[0]


def share(text: str | None, cells: list[Cell]) -> list[Cell]:
    """`--cell K/N`: job K of an array of N, which takes every N-th cell."""
    if text is None:
        return cells
    job, slash, jobs = text.partition("/")
    if not (slash and job.isdecimal() and jobs.isdecimal() and 1 <= int(job) <= int(jobs)):
        raise UsageError(f"--cell takes K/N with K from 1 to N, got {text!r}.")
    return cells[int(job) - 1 :: int(jobs)]


def option_values(words: Sequence[str], sets: Sequence[str]) -> dict[str, list[str]]:
    """The values of each option, from `--name value` and from `--set name=v1,v2`."""
    found: dict[str, list[str]] = {}

    def put(name: str, values: list[str]) -> None:
        name = name.replace("-", "_")
        if name in found:
            several = f"--set {name}=" + ",".join([*found[name], *values])
            raise UsageError(f"{flag_of(name)} is given twice. For a row each: {several}.")
        found[name] = values

    at = 0
    while at < len(words):
        name, equals, value = words[at].partition("=")
        if not name.startswith("--"):
            raise UsageError(f"{words[at]} is not an option. See `tamatch bench --help`.")
        follows = at + 1 < len(words) and not words[at + 1].startswith("--")
        if not equals:
            value = words[at + 1] if follows else "no" if name.startswith("--no-") else "yes"
        at += 2 if follows and not equals else 1
        put(name.removeprefix("--").removeprefix("no-"), [value])
    for text in sets:
        name, equals, value = text.partition("=")
        if not (name and value):
            raise UsageError(f"--set takes NAME=VALUE or NAME=V1,V2, got {text!r}.")
        put(name.strip().lstrip("-"), [v.strip() for v in value.split(",")])
    return found


def with_options(plan: Plan, values: Mapping[str, Sequence[str]]) -> Plan:
    """The plan with these options in each row that has them; several values make a row each."""
    if not values:
        return plan  # without importing torch, which the options of a method need
    for name in values:
        if name in NOT_SET:
            raise UsageError(f"{flag_of(name)} is set by {NOT_SET[name]} here.")
    rows: list[tuple[str, str, dict[str, Any]]] = [
        *((method, plan.rows[method], {}) for method in plan.methods),
        *((variant.method, variant.title, variant.options) for variant in plan.variants),
    ]
    known = {method: {**RUN_OPTIONS, **method_options(method)} for method, _, _ in rows}
    for name in values:
        if rows and not any(name in options for options in known.values()):
            resolve_method(rows[0][0], {name: values[name][0]}, None, {})  # says what is wrong
    for net in values.get("net", ()):  # before the runs with other nets
        nets.CUSTOM.get(net) if nets.is_user_code(net) else nets.find(net)
    variants, kept = list[Variant](), list[str]()
    for method, title, fixed in rows:
        own = [name for name in values if name in known[method]]
        if not own and not fixed:
            kept.append(method)
            continue
        for chosen in product(*(values[name] for name in own)):
            options = {n: known[method][n].parse(v) for n, v in zip(own, chosen, strict=True)}
            typed = {name: as_text(value) for name, value in options.items()}
            told = ", ".join([title, *(f"{name} {value}" for name, value in typed.items())])
            start = method.rpartition(":")[2] + (f"-{title}" if fixed else "")
            name = row_name(start, typed)
            if any(name == other.name for other in variants):
                raise UsageError(f"--set gives the row {told} twice.")
            variants.append(Variant(name, told, {**fixed, **options}, method))
    return replace(plan, methods=tuple(kept), variants=tuple(variants), against="")


def row_name(start: str, options: Mapping[str, str]) -> str:
    """A name for files, the same for the same options: code of the user's own by its content."""
    parts = [start]
    for name, value in options.items():
        file = Path(value.rpartition(":")[0])
        own = hashlib.sha256(file.read_bytes()).hexdigest()[:CHECKSUM] if file.is_file() else ""
        parts.append(f"{name}={Path(value).name}{'@' * bool(own)}{own}")
    return re.sub(r"[^\w=@+-]", "_", "-".join(parts))


def own_setting(folder: str, steps: int) -> Setting:
    """A person's own images as a column of a table."""
    path = Path(folder).resolve()
    if not path.exists():
        raise UsageError(f"--data {folder} does not exist.")
    place = hashlib.sha256(str(path).encode()).hexdigest()[:CHECKSUM]
    return Setting(f"own-{place}-{steps}", f"{folder}, {steps} steps", str(path), {"steps": steps})


def scale_of(plan: Plan, scale: str | None, steps: int | None) -> Fraction:
    """The share of the full length, such as 1/8 or 0.125; `--steps N` is the one for N steps."""
    if scale is not None and steps is not None:
        raise UsageError("--scale and --steps both set the length of a run: give only one.")
    if steps is not None:
        share, given = Fraction(steps, full_steps(plan.settings[0].data)), f"--steps {steps}"
    else:
        try:
            share, given = FULL if scale is None else Fraction(scale), f"--scale {scale}"
        except (ValueError, ZeroDivisionError):
            raise UsageError(f"--scale takes a fraction such as 1/8, got {scale!r}.") from None
    if not 0 < share <= FULL:
        raise UsageError(
            f"{given} is out of range: it must be above 0 and at most the full length of a run."
        )
    return share


def selected_plan(arguments: Namespace) -> Plan:
    """The bench's plan with the rows and columns that were asked for."""
    plan = PLANS[arguments.bench]
    if arguments.bench == OWN:
        if arguments.steps is None:
            raise UsageError("bench own needs --steps, so that all methods train equally long.")
        setting = own_setting(arguments.data, RUN_OPTIONS["steps"].parse(arguments.steps))
        arguments.steps = None  # which is no share of any recipe's
        return replace(with_rows(plan, arguments.methods), settings=(setting,))
    wanted = names("--settings", arguments.settings, tuple(s.name for s in plan.settings))
    settings = tuple(setting for setting in plan.settings if setting.name in wanted)
    return replace(with_rows(plan, arguments.methods), settings=settings)


def with_rows(plan: Plan, listed: str | None) -> Plan:
    """The plan with the rows that `--methods` lists, among them methods of the user's own."""
    words = [word.strip() for word in (listed or "").split(",")]
    codes = {word: code_of(word) for word in words if ".py" in word}
    rows = names("--methods", listed, (*plan.rows, *codes))
    return replace(
        plan,
        methods=tuple(method for method in (*plan.methods, *codes) if method in rows),
        variants=tuple(variant for variant in plan.variants if variant.name in rows),
        codes=codes,
    )


def code_of(name: str) -> str:
    """The checksum of the code that a method consists of; an error if there is no such method."""
    methods.entry(name)  # a file without a class is told so
    methods.CUSTOM.in_file(name)
    module = usercode.imported(Path(name.rpartition(":")[0]).resolve())
    joined = b"\0".join(sorted(set(sources(module))))
    return hashlib.sha256(joined).hexdigest()[:CHECKSUM]


def sources(module: ModuleType) -> Iterator[bytes]:
    """The content of the user's files that a module is made of: its own, and those it imports."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        module = waiting.pop()
        file = getattr(module, "__file__", None) or ""
        if file in seen or not (file.endswith(".py") and usercode.is_user_code(file)):
            continue
        seen.add(file)
        content = Path(file).read_bytes()
        yield content
        waiting += [sys.modules[n] for n in imports(content, module) if n in sys.modules]


def imports(content: bytes, module: ModuleType) -> Iterator[str]:
    """The modules that a file may import, by name."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # of a name that is relative, but to no package
                base = resolve_name("." * node.level + (node.module or ""), module.__package__)
                yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
