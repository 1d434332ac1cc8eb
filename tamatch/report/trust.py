"""trust.json: scores on held-out images, and what was predicted of the unlabelled ones."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..judge.figures import Level, Trust
from ..storage.typed import typed
from .words import text


@dataclass(frozen=True)
class Picture:
    """A small picture, its true and its predicted class."""

    image: str
    label: str  # the true class, empty where it is not known
    predicted: str
    confidence: float


@dataclass(frozen=True)
class Held(Trust):
    """Scores on held-out images, and some of these."""

    doubtful: list[Picture]
    confident_wrong: list[Picture]

    @property
    def low(self) -> float:
        """The lower end of the accuracy's interval, in percent."""
        return 100 * self.interval[0]

    @property
    def high(self) -> float:
        """The upper end."""
        return 100 * self.interval[1]


@dataclass(frozen=True)
class PoolScores:
    """The unlabelled images at the end of the run; lists have a value for each class."""

    images: int
    drawn: int
    never_accepted: int | None
    tau: float | None
    sweep: list[Level]
    factors: list[float] | None = None
    weights: list[float] | None = None
    p_model: list[float] | None = None


@dataclass(frozen=True)
class TrustFile:
    """Contents of trust.json; `held` is None with a `reason` where no label was held out."""

    held: Held | None = None
    pool: PoolScores | None = None
    reason: str = "trust.json is written when a run finishes"


def trust_of(content: Mapping[str, object]) -> TrustFile:
    """Read trust.json; TypeError if something in it is missing or of another type."""
    if not content:
        return TrustFile()
    held = typed(content, Held) if content.get("images") else None
    pool = typed(content.get("pool"), PoolScores | None)
    return TrustFile(held, pool, text(content.get("reason")))
