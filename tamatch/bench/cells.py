"""The runs behind each table and figure: a bench is a plan, a plan is a list of cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..methods import METHODS
from . import published
from .scale import FULL, shortened
from .settings import CIFAR100, DIGITS, EUROSAT, LONG_TAIL, STAND_IN, STL10, Setting
from .variants import CAUSES, Variant

RECIPE = 1  # raised by every change to the package that alters results; no table mixes two
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Cell:
    """One run. Benches that need the same run share it: the bench is no part of its name."""

    bench: str
    setting: Setting
    method: str
    seed: int
    scale: Fraction = FULL
    variant: Variant | None = None

    @property
    def row(self) -> str:
        """Its row in a table: the method, or what differs from it."""
        return self.method if self.variant is None else self.variant.name

    @property
    def name(self) -> str:
        """Unique among all runs, and the path of its files."""
        length = "full" if self.scale == FULL else str(self.scale).replace("/", "of")
        what = self.method if self.variant is None else f"{self.method}+{self.variant.name}"
        return f"{self.setting.name}/{what}.s{self.seed}.{length}.r{RECIPE}"

    @property
    def options(self) -> dict[str, Any]:
        """What `tamatch.train` is called with."""
        data = self.setting.data
        named = {"data": data, "method": self.method, "seed": self.seed, "baseline": "none"}
        other = {} if self.variant is None else self.variant.options
        short = shortened(data, self.method, self.scale)
        return {**named, **self.setting.options, **short, **other}

    @property
    def command(self) -> str:
        return " ".join(["tamatch train", *(flag(k, v) for k, v in self.options.items())])


def flag(name: str, value: Any) -> str:
    """An option on the command line; those that are on or off have no value."""
    words = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{words}" if value else f"--no-{words}"
    return f"--{words} {value}"


@dataclass(frozen=True)
class Plan:
    """The rows and columns of a table, and the cells the paper has no run for."""

    title: str
    methods: tuple[str, ...]
    settings: tuple[Setting, ...]
    printed: published.Table | None = None
    notes: tuple[str, ...] = ()
    absent: frozenset[tuple[str, str]] = frozenset()  # (data, method)
    figure: str = ""  # drawn from the results, by its name in `figures`
    variants: tuple[Variant, ...] = ()  # rows beside those of the methods
    against: str = ""  # row that the others are compared with
    pretrained: bool = False  # the nets are meant to start from a file of weights

    @property
    def rows(self) -> dict[str, str]:
        """The titles of all rows, by name."""
        own = {method: METHODS[method].title for method in self.methods}
        return own | {variant.name: variant.title for variant in self.variants}

    def cells(
        self, bench: str, seeds: tuple[int, ...] = SEEDS, scale: Fraction = FULL
    ) -> list[Cell]:
        """One seed after the other, so that the first full table comes early."""
        rows: list[tuple[str, Variant | None]] = [
            *((method, None) for method in self.methods),
            *((variant.method, variant) for variant in self.variants),
        ]
        return [
            Cell(bench, setting, method, seed, scale, variant)
            for seed in seeds
            for setting in self.settings
            for method, variant in rows
            if (setting.data, method) not in self.absent
        ]


ABLATIONS = tuple(name for name in METHODS if name.startswith("tamatch_"))
TABLE_1_METHODS = tuple(name for name in METHODS if name not in ABLATIONS)
STAND_IN_METHODS = (
    "supervised", "fixmatch", "flexmatch", "freematch", "softmatch",
    "tamatch_no_rescaling", "tamatch_no_weighting", "tamatch",
)  # fmt: skip
CAUSE_METHODS, CAUSE_SETTING = ("tamatch", "tamatch_no_clipping"), LONG_TAIL[2]
ORACLE = "The paper's baselines are scored at their best test, so compare them with `best`."

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
        (
            "fixmatch", "tamatch_no_rescaling", "tamatch_no_weighting", "tamatch_no_clipping",
            "tamatch",
        ),
        CIFAR100,
        published.TABLE_4,
        (ORACLE, "The paper has no row without clipping here. λ_target is 1 in all rows."),
        pretrained=True,
    ),
    "stand-in": Plan(
        "EuroSAT from ViT-Tiny, which stands in for ViT-S-P2-32: error (%)",
        STAND_IN_METHODS,
        STAND_IN,
        published.part(
            published.TABLE_1,
            STAND_IN_METHODS,
            {new.name: old.name for new, old in zip(STAND_IN, EUROSAT, strict=True)},
        ),
        (ORACLE, "The paper's errors are those of a larger net: compare the order alone."),
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
        "What moves TaMatch's error: one option at a time, error (%) on CIFAR-10-LT",
        CAUSE_METHODS,
        (CAUSE_SETTING,),
        published.part(
            published.TABLE_5, CAUSE_METHODS, {CAUSE_SETTING.name: CAUSE_SETTING.name}
        ),
        (
            "`moves` is the error at the last step less TaMatch's, the mean over the seeds that "
            "both have. What the seeds alone move is the deviation of TaMatch's own row.",
            "The augmentation has no row: the tests compare it with Pillow's pixel for pixel.",
        ),
        variants=CAUSES,
        against="tamatch",
    ),
    "digits": Plan(
        "All methods: error (%) on the embedded digits with 40 labels", tuple(METHODS), (DIGITS,)
    ),
    "bias": Plan(
        "Figure 3: confirmation bias of TaMatch and FixMatch",
        ("fixmatch", "tamatch"),
        (STL10[0], EUROSAT[0], LONG_TAIL[2], DIGITS),
        figure="bias",
    ),
    "clipping": Plan(
        "Figure 4: TaMatch with and without clipping",
        ("tamatch_no_clipping", "tamatch"),
        (LONG_TAIL[3], DIGITS),
        figure="clipping",
    ),
}  # fmt: skip
