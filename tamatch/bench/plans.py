"""The runs behind each table and figure of the paper."""

from __future__ import annotations

from ..methods import METHODS
from . import published
from .cells import Plan
from .settings import CIFAR100, DIGITS, EUROSAT, LONG_TAIL, STAND_IN, STL10
from .variants import CAUSES

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
    "bias": Plan(
        "Figure 3: confirmation bias of TaMatch and FixMatch",
        ("fixmatch", "tamatch"),
        (STL10[0], EUROSAT[0], LONG_TAIL[2], DIGITS),
        figure="bias",
        pretrained=True,
    ),
    "clipping": Plan(
        "Figure 4: TaMatch with and without clipping",
        ("tamatch_no_clipping", "tamatch"),
        (LONG_TAIL[3], DIGITS),
        figure="clipping",
    ),
}  # fmt: skip
