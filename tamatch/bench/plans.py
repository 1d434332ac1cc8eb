"""The runs behind each table of the paper: its settings, its rows and what it prints."""

from __future__ import annotations

from dataclasses import replace

from ..methods import METHODS
from . import published
from .cells import Plan, Setting, Variant


def few_labels(data: str, title: str, classes: int, per_class: int) -> Setting:
    labels = classes * per_class
    options = {"labels_per_class": per_class}
    return Setting(f"{data}-{labels}", f"{title}, {labels} labels", data, options)


def long_tail(labelled: int, unlabelled: int, gamma: int) -> Setting:
    """Class i of C has N⁽¹⁾·γ^(−(i−1)/(C−1)) images; N_l⁽¹⁾, N_u⁽¹⁾ and γ are given."""
    options = {"head_labelled": labelled, "head_unlabelled": unlabelled, "gamma": float(gamma)}
    title = f"CIFAR-10-LT, {labelled} / {unlabelled}, γ = {gamma}"
    return Setting(f"lt-{labelled}-{unlabelled}-{gamma}", title, "cifar10-lt", options)


CIFAR100 = tuple(few_labels("cifar100", "CIFAR-100", 100, n) for n in (2, 4))
STL10 = tuple(few_labels("stl10", "STL-10", 10, n) for n in (4, 10))
EUROSAT = tuple(few_labels("eurosat", "EuroSAT", 10, n) for n in (2, 4))
LONG_TAIL = tuple(
    long_tail(*heads, gamma) for heads in ((1500, 3000), (500, 4000)) for gamma in (100, 150)
)
DIGITS = few_labels("digits", "embedded digits", 10, 4)
STAND_IN = tuple(
    replace(s, name=f"{s.name}-tiny", options={**s.options, "net": "vit_tiny_p2_32"})
    for s in EUROSAT
)
TITLES = {s.name: s.title for s in (*CIFAR100, *STL10, *EUROSAT, *LONG_TAIL, *STAND_IN, DIGITS)}
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
TABLE_1_METHODS = (  # the paper's rows, whatever else METHODS has by now
    "supervised", "fully_supervised", "pseudo_label", "mean_teacher", "pi_model", "vat",
    "mixmatch", "remixmatch", "adamatch", "uda", "fixmatch", "flexmatch", "dash", "crmatch",
    "comatch", "simmatch", "freematch", "softmatch", "defixmatch", "tamatch",
)  # fmt: skip
ABLATIONS = (
    "tamatch_no_rescaling", "tamatch_no_weighting", "tamatch_no_clipping", "tamatch_no_ema_target",
)  # fmt: skip
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
        (
            ORACLE,
            "The paper's errors are those of a larger net, whose weights were made for images of "
            "32 pixels; these were made for 224: compare only the order.",
        ),
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
        CAUSE_METHODS,
        (CAUSE_SETTING,),
        published.part(
            published.TABLE_5, CAUSE_METHODS, {CAUSE_SETTING.name: CAUSE_SETTING.name}
        ),
        (
            "`Δ` is the error minus TaMatch's, at the last step and at the best test: the mean "
            "over the seeds that both have. The deviation of TaMatch's own row shows the effect "
            "of the seed alone.",
            "The augmentation has no row: the tests compare it with Pillow's pixel for pixel.",
        ),
        variants=CAUSES,
        against="tamatch",
    ),
    "digits": Plan(
        "All methods: error (%) on the embedded digits with 40 labels", tuple(METHODS), (DIGITS,)
    ),
}  # fmt: skip
