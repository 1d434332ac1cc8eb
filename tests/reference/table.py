"""Every reference by the name of its method."""

from __future__ import annotations

from . import (
    adamatch,
    comatch,
    crmatch,
    dash,
    defixmatch,
    fixmatch,
    flexmatch,
    freematch,
    mean_teacher,
    mixmatch,
    pi_model,
    pseudo_label,
    remixmatch,
    simmatch,
    softmatch,
    supervised,
    tamatch,
    uda,
    vat,
)
from .base import SlowMethod

REFERENCES: dict[str, type[SlowMethod]] = {
    "supervised": supervised.Reference,
    "pseudo_label": pseudo_label.Reference,
    "pi_model": pi_model.Reference,
    "mean_teacher": mean_teacher.Reference,
    "vat": vat.Reference,
    "mixmatch": mixmatch.Reference,
    "remixmatch": remixmatch.Reference,
    "adamatch": adamatch.Reference,
    "uda": uda.Reference,
    "fixmatch": fixmatch.Reference,
    "flexmatch": flexmatch.Reference,
    "dash": dash.Reference,
    "crmatch": crmatch.Reference,
    "comatch": comatch.Reference,
    "simmatch": simmatch.Reference,
    "freematch": freematch.Reference,
    "softmatch": softmatch.Reference,
    "defixmatch": defixmatch.Reference,
    "tamatch": tamatch.Reference,
}
