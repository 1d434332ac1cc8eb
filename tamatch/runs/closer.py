"""`tamatch check --weights`: what a pre-trained net says of a person's own images and labels."""

from pathlib import Path

import numpy as np
import torch

from ..data import DATASETS, own_path
from ..data.check import Closer
from ..errors import UsageError
from ..frozen.blocks import telling
from ..frozen.suspects import contradicted, near_duplicates
from ..nets.pretrained import locate
from ..settings.hardware import pick_device
from .pick import looked_at


def look_closer(name: str, labels: Path | None, weights: str, device: str = "auto") -> Closer:
    """Doubtful labels of all parts, and images that are nearly the same, but not equal.

    Their features are kept, so that a run that follows does not look at the images again.
    """
    if name in DATASETS:
        raise UsageError(
            f"--weights looks at your own images, and {name} is a named data set: leave it out."
        )
    data, rows, upper = looked_at(own_path(name), labels, weights, pick_device(device))
    held = np.isin(np.arange(len(data.images)), np.concatenate(data.parts[2:]))
    digests = data.image_digests()
    known = torch.from_numpy(data.labels)
    doubtful = contradicted(telling(rows, known, upper), known)
    pairs = near_duplicates(rows[:, :upper])
    alike = [
        (data.files[a], data.files[b], cosine, bool(held[a] != held[b]))
        for a, b, cosine in pairs
        if (digests[a] != digests[b]).any()
    ]
    alike.sort(key=lambda pair: (not pair[3], -pair[2]))
    classes = data.classes
    return Closer(
        locate(weights).title,
        tuple((data.files[i], classes[data.labels[i]], classes[c], p) for i, c, p in doubtful),
        tuple(alike),
    )
