"""The kinds of values that options take: a type, the allowed range, and what it means.

A method's signature names them (`tau: Tau = 0.95`), the command line and the validation read
them from there, so that a bound or a help text is written once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal


@dataclass(frozen=True)
class Between:
    """An interval; a bound is excluded where `open_low` or `open_high` is set."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = self.low < value if self.open_low else self.low <= value
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"be {'greater than' if self.open_low else 'at least'} {self.low:g}"
        left, right = "(" if self.open_low else "[", ")" if self.open_high else "]"
        return f"lie in {left}{self.low:.12g}, {self.high:.12g}{right}"


FRACTION = Between(0, 1, open_low=True, open_high=True)
SHARE = Between(0, 1)
AT_LEAST_ZERO = Between(0)
AT_LEAST_ONE = Between(1)
POSITIVE = Between(0, open_low=True)

Inherited = Any  # options that a method hands through to its parent class

Tau = Annotated[float, FRACTION, "confidence threshold"]
LambdaU = Annotated[float, AT_LEAST_ZERO, "weight of the unlabelled loss"]
LossWeight = Annotated[float, AT_LEAST_ZERO, "weight of a loss term"]
Momentum = Annotated[float, SHARE, "momentum of a running average"]
Rampup = Annotated[float, POSITIVE, "share of the run over which the unlabelled loss grows"]
Temperature = Annotated[float, POSITIVE, "temperature"]
Positive = Annotated[float, POSITIVE, "a positive number"]
Count = Annotated[int, AT_LEAST_ONE, "a count"]
Switch = Annotated[bool, "on or off"]
Steps = Annotated[int, AT_LEAST_ONE, "a number of steps"]
StartThreshold = Annotated[float, SHARE, "confidence threshold to begin with"]
Factor = Annotated[float, AT_LEAST_ONE, "factor of at least 1"]
LearnFrom = Annotated[Literal["aligned", "raw"], "predictions that set the Gaussian of weights"]
Alpha = Annotated[float, POSITIVE, "parameter of the Beta distribution that MixUp draws from"]
OwnShare = Annotated[float, SHARE, "share of the model's own prediction against the memory's"]
Similarity = Annotated[float, FRACTION, "similarity from which two images are linked"]
Epsilon = Annotated[float, POSITIVE, "length of the adversarial perturbation of an image"]
Xi = Annotated[float, POSITIVE, "length of the probe that finds the adversarial direction"]
Delay = Annotated[int, AT_LEAST_ZERO, "steps before the memory counts"]

Generate = Annotated[Literal["raw", "rescale"], "how pseudo-labels are made"]
Select = Annotated[
    Literal["fixed", "all", "relative", "flexmatch", "freematch"], "which pseudo-labels are used"
]
Weigh = Annotated[
    Literal["even", "class", "gaussian", "class*gaussian"], "how much each pseudo-label counts"
]
Clip = Annotated[Literal["literal", "symmetric", "none"], "bound of the class weights"]
Target = Annotated[
    Literal["uniform", "labelled", "adaptive", "prior"], "class shares to steer towards"
]
RatioEps = Annotated[float, POSITIVE, "added to the class shares whose ratio is r"]
Update = Annotated[Literal["before", "after"], "class shares are updated before or after their use"]
Parity = Annotated[Literal["ours", "usb"], "usb: behave as the published benchmark code"]
