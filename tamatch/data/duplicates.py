"""Images that are equal to the last pixel."""

from __future__ import annotations

import numpy as np

from .dataset import DIGEST, Digests, Indices


def equal_images(digests: Digests) -> list[Indices]:
    """The groups of two or more images with one digest, each by ascending index."""
    keys = np.ascontiguousarray(digests).view(f"V{DIGEST}").ravel()
    order = np.lexsort(digests.T)
    ordered = keys[order]
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts, ends = np.append(0, changes), np.append(changes, len(order))
    several = np.flatnonzero(ends - starts > 1)
    groups = [order[starts[g] : ends[g]] for g in several]
    return sorted(groups, key=lambda group: int(group[0]))
