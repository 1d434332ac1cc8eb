"""The kinds of values that options take: a type, the allowed range, and what it means.

A method's signature names them (`tau: Tau = 0.95`), the command line and the validation read
them from there, so that a bound or a help text is written once.
"""

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
        if self.low == -math.inf and self.high == math.inf:
            return "be a number"
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
ContrastWeight = Annotated[float, AT_LEAST_ZERO, "weight of the contrastive loss"]
DistanceWeight = Annotated[float, AT_LEAST_ZERO, "weight of the loss on feature distances"]
EntropyWeight = Annotated[float, AT_LEAST_ZERO, "weight of the entropy loss"]
AgreementWeight = Annotated[
    float, AT_LEAST_ZERO, "weight of the loss on different logits of two strong views"
]
FairnessWeight = Annotated[float, AT_LEAST_ZERO, "weight of the fairness loss"]
MixWeight = Annotated[float, AT_LEAST_ZERO, "weight of the loss on mixed images"]
InstanceWeight = Annotated[
    float, AT_LEAST_ZERO, "weight of the loss on similarities between images"
]
RotationWeight = Annotated[float, AT_LEAST_ZERO, "weight of the rotation loss"]
StrongWeight = Annotated[float, AT_LEAST_ZERO, "weight of the loss on a strong view without MixUp"]
Momentum = Annotated[float, SHARE, "momentum of the running averages of predictions"]
LambdaModel = Annotated[float, SHARE, "momentum of p_model, the average prediction"]
LambdaTarget = Annotated[float, SHARE, "momentum of p_target towards p_model; 1: constant"]
MemoryMomentum = Annotated[float, SHARE, "momentum of the embeddings of labelled images"]
WeightMomentum = Annotated[float, SHARE, "momentum of the weight average"]
Rampup = Annotated[float, POSITIVE, "share of the run over which the unlabelled loss grows"]
Temperature = Annotated[float, POSITIVE, "temperature that sharpens predictions"]
SimilarityTemperature = Annotated[float, POSITIVE, "temperature of embedding similarities"]
Sigmas = Annotated[float, POSITIVE, "the Gaussian's standard deviation is divided by this"]
EmbeddingWidth = Annotated[int, AT_LEAST_ONE, "length of an embedding"]
MemoryBatches = Annotated[int, AT_LEAST_ONE, "batches of embeddings in the memory"]
AlignedBatches = Annotated[int, AT_LEAST_ONE, "batches averaged for distribution alignment"]
WarmThreshold = Annotated[bool, "keep thresholds low while many images were never selected"]
StartThreshold = Annotated[float, SHARE, "initial confidence threshold"]
LossBoundDecay = Annotated[
    float, AT_LEAST_ONE, "the bound on the loss is divided by this every period"
]
LossBoundScale = Annotated[float, AT_LEAST_ONE, "factor on the initial bound on the loss"]
LowestLossBound = Annotated[float, POSITIVE, "lowest bound on the loss"]
LossBoundPeriod = Annotated[
    int, AT_LEAST_ONE, "steps between two reductions of the bound on the loss"
]
SupervisedSteps = Annotated[int, AT_LEAST_ONE, "supervised steps before the loss is bounded"]
LearnFrom = Annotated[
    Literal["aligned", "raw"], "predictions that the Gaussian of the weights is fitted to"
]
Alpha = Annotated[float, POSITIVE, "parameter of the Beta distribution that mixing draws from"]
MixTarget = Annotated[
    Literal["mixed", "dominant"], "target of a mixed image: both labels, or the one it has more of"
]
OwnShare = Annotated[float, SHARE, "share of the model's own prediction; the rest is the memory's"]
Similarity = Annotated[float, FRACTION, "similarity above which two images are linked"]
Epsilon = Annotated[float, POSITIVE, "length of the adversarial perturbation of an image"]
Xi = Annotated[float, POSITIVE, "length of the probe used to find the adversarial direction"]
Delay = Annotated[int, AT_LEAST_ZERO, "steps before the memory is used"]

EnergyBound = Annotated[
    float, Between(), "energy up to which an image counts for the pool's class shares"
]
Strength = Annotated[float, AT_LEAST_ZERO, "strength of the logit adjustment in both losses"]
TestStrength = Annotated[
    float, Between(), "multiple of log p_model that is added to the logits when tested"
]
FitTest = Annotated[bool, "add the multiple that fits labelled images, as if classes were equal"]
UsedShares = Annotated[Literal["pool", "accepted"], "whose class shares adjust the unlabelled loss"]
Heads = Annotated[int, Between(1, 2), "linear heads; a second one helps to make pseudo-labels"]
StrongViews = Annotated[int, AT_LEAST_ONE, "strong views of each unlabelled image"]
LabelledViews = Annotated[int, AT_LEAST_ONE, "views of each labelled image, all but one strong"]

Generate = Annotated[Literal["raw", "rescale", "pool"], "how pseudo-labels are made"]
Select = Annotated[
    Literal["fixed", "all", "relative", "flexmatch", "freematch"], "which pseudo-labels are used"
]
Weigh = Annotated[
    Literal["even", "class", "effective", "gaussian", "class*gaussian"],
    "how much each pseudo-label counts",
]
Clip = Annotated[Literal["literal", "symmetric", "none"], "how the class weights are bounded"]
Target = Annotated[
    Literal["uniform", "labelled", "adaptive", "prior"],
    "class shares to steer towards, or a file of them",
]
Eps = Annotated[float, POSITIVE, "added to both class shares in the ratio r"]
Update = Annotated[Literal["before", "after"], "class shares are updated before or after their use"]
Parity = Annotated[Literal["ours", "usb"], "with usb, behave like the published benchmark code"]
