"""What augmentation a data set wants: a plain record."""

from dataclasses import dataclass

from ..errors import UsageError

RANGES: dict[str, tuple[float, float]] = {
    "AutoContrast": (0.0, 0.0),
    "Brightness": (0.05, 0.95),
    "Color": (0.05, 0.95),
    "Contrast": (0.05, 0.95),
    "Equalize": (0.0, 0.0),
    "Identity": (0.0, 0.0),
    "Posterize": (4.0, 8.0),
    "Rotate": (-30.0, 30.0),
    "Sharpness": (0.05, 0.95),
    "ShearX": (-0.3, 0.3),
    "ShearY": (-0.3, 0.3),
    "Solarize": (0.0, 256.0),
    "TranslateX": (-0.3, 0.3),
    "TranslateY": (-0.3, 0.3),
}
"""Each operation's magnitudes, [low, high): enhance factor, bits, degrees, shear, grey level,
fraction of the image. Operations without a magnitude have an empty range."""

OPERATIONS: tuple[str, ...] = tuple(RANGES)
CUTOUT_FILL = (125, 123, 114)  # red, green and blue of the erased square

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Policy:
    """How the images of one data set may be changed without changing their class."""

    size: int  # side of the square images that come out, in pixels
    mean: Triple  # of the pixels on the scale 0 … 1, for normalisation
    std: Triple
    horizontal_flip: bool = True  # digits and text must not be mirrored
    vertical_flip: bool = False  # for images without an up and down, such as aerial ones
    pad: int | None = None  # reflected border of the random crop; None: an eighth of the size
    operations: tuple[str, ...] = OPERATIONS  # drawn uniformly, with replacement
    count: int = 3  # operations per strong view; a medium one has one at most
    cutout: float = 0.5  # largest side of the erased square, as a fraction of the width

    def __post_init__(self) -> None:
        if self.size < 3:
            raise UsageError(f"augmentation: size must be at least 3 pixels, got {self.size}")
        if not 0 <= self.border < self.size:
            raise UsageError(f"augmentation: pad {self.border} does not fit images of {self.size}")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise UsageError("augmentation: mean and std need three numbers each, std above 0")
        if unknown := sorted(set(self.operations) - RANGES.keys()):
            known = ", ".join(OPERATIONS)
            raise UsageError(
                f"augmentation: unknown operation {', '.join(unknown)}; known: {known}"
            )
        if self.count < 0 or (self.count and not self.operations):
            raise UsageError(f"augmentation: cannot draw {self.count} of {self.operations}")
        if not 0 <= self.cutout <= 1:
            raise UsageError(f"augmentation: cutout must lie in [0, 1], got {self.cutout}")

    @property
    def border(self) -> int:
        """Pixels of reflected padding on each side before the random crop."""
        return max(1, int(self.size * (1 - 0.875))) if self.pad is None else self.pad
