"""Runs of a dozen steps inside the test process, which can be stopped and looked at anywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamatch
from tamatch.step.engine import Engine
from tests.data.pictures import put

ANY_DATA: dict[str, Any] = {
    "net": "wrn_10_1_clean", "batch": 4, "unlabelled": 6, "steps": 12, "threads": 1, "ema": 0.9,
    "log_every": 3, "test_every": 6, "save_every": 4, "baseline": "none", "device": "cpu",
}  # fmt: skip
# A third of such a run would predict the 1,397 digits of the pool, and the 360 of the test.
FEW = {"head_labelled": 4, "head_unlabelled": 20, "test_images": 60}
DOZEN = {**ANY_DATA, **FEW}


def words_of(options: dict[str, Any]) -> list[str]:
    """Options on the command line."""
    return [w for k, v in options.items() for w in (f"--{k.replace('_', '-')}", str(v))]


WORDS = words_of(DOZEN)


class Crash(BaseException):
    """The process dies here, as far as the run can tell."""


def unseal(path: Path, **fields: Any) -> None:
    """Make a record one of version 1, which has no checksums, with these fields changed."""
    record = {**json.loads(path.read_text()), **fields}
    sums = ("seal", "files", "metrics", "weights")
    path.write_text(json.dumps({k: v for k, v in record.items() if k not in sums}))


def soon() -> float:
    """Five seconds; more where other work keeps the processors busy."""
    return 5.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def crash_at(step: int, monkeypatch: pytest.MonkeyPatch, out: Path, **options: Any) -> Path:
    """A run that ended without warning before this step."""
    whole_advance = Engine.advance

    def advance(engine: Engine) -> None:
        if engine.steps_done == step:
            raise Crash
        whole_advance(engine)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "advance", advance)
        with pytest.raises(Crash):
            few = {} if "data" in options else FEW
            tamatch.train(out=out, quiet=True, **{**ANY_DATA, **few, **options})
    return out


def own_folder(place: Path) -> Path:
    """Two classes of four labelled images, eight unlabelled ones, and four to test on."""
    shades = iter(range(10, 250, 7))
    for part, count in (("train/dark", 4), ("train/light", 4), ("train/unlabelled", 8)):
        for i in range(count):
            put(place / part / f"{i}.png", next(shades))
    for name in ("dark", "light"):
        put(place / "test" / name / "0.png", next(shades))
        put(place / "test" / name / "1.png", next(shades))
    return place


def arrays(path: Path, images: np.ndarray, labels: list[int], test: list[int]) -> Path:
    """An .npz file whose last images, as many as `test` has labels, are the test part."""
    cut = len(images) - len(test)
    np.savez(
        path, images=images[:cut], labels=np.array(labels),
        test_images=images[cut:], test_labels=np.array(test),
    )  # fmt: skip
    return path
