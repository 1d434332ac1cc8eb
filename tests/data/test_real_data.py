"""The published data themselves, where TAMATCH_DATA names a folder that holds them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from tamatch.data import SplitPlan, load, make_split

ROOT = Path(os.environ.get("TAMATCH_DATA") or "data")

# SHA-256 of the labelled and unlabelled indices of CIFAR-10, made once with the reference
# package's own split function (0.3.2) on the published labels
FORTY_LABELS = {
    0: (
        "df50c1f6c60064f50a52ccda1288a282aafbe4e69edf0c9b0d584ec4bf3c5388",
        "553881c3cbb0606c2a6fe07a77a1a59857a2e0bbeaf6a962e05d0ddf2b9a1709",
    ),
    1: (
        "80b6919bd43bc0924717519464dc945a2f972f5b47543fee2d30dd62fe064f90",
        "60aaa3422c80bc6a1ee0880c1edb0c3bf6aa7a7fef69ab21fd80a7345c8fa39f",
    ),
    2: (
        "3f95253fce9edb1ce0ce4b2810d80697ff16fca2e19a29ae6575060a6fea5c57",
        "f0990e025dc2523771f35445b908d138ed6e9675b212e545c8791d126ab677c7",
    ),
}
LONG_TAIL = {  # (1500, 3000), γ = 100
    0: (
        "7c89da86217f54d943b998b29420f4c540de343fd45d0e6d46f91e2024a46ce8",
        "b72c3ef6d43493c8d2fa667209af86d237f837c2980289bea0663b7bacde4b44",
    ),
    1: (
        "57ad682252f2fc9305ee7f2004571f6daaf8da0c9b74f0ec0261aec35ce28c5c",
        "6f6bf86aa84065c9325b350065c033f98982f8930d3a4db263388501088fe3ad",
    ),
    2: (
        "21109af158dcd472bd200537fe09806df6c3306afc8cba832db5e98c2125b240",
        "4cfd2dbc4a57a8bf7d5eafbf53dfa8fbc51202d6f3598a4396de2d9d56e4901f",
    ),
}


def sha(indices: np.ndarray) -> str:
    return hashlib.sha256(indices.astype("<i8").tobytes()).hexdigest()


def needs(folder: str) -> pytest.MarkDecorator:
    there = (ROOT / folder).is_dir()
    return pytest.mark.skipif(not there, reason=f"TAMATCH_DATA names no folder with {folder}")


@pytest.mark.slow
@needs("cifar-10-batches-py")
def test_cifar10_has_every_checksum_and_the_reference_package_s_labels() -> None:
    data = load("cifar10", ROOT)
    assert data.checksums == "every file has the published MD5"
    mean = data.images[data.part("train")].mean(axis=(0, 1, 2)) / 255
    assert mean == pytest.approx([0.49139968, 0.48215841, 0.44653091], abs=1e-8)
    for seed in range(3):
        split = make_split(data, SplitPlan(labels_per_class=4, seed=seed))
        assert (sha(split.labelled), sha(split.unlabelled)) == FORTY_LABELS[seed]
        plan = SplitPlan(
            head_labelled=1500, head_unlabelled=3000, gamma=100, labelled_in_pool=False, seed=seed
        )
        split = make_split(data, plan)
        assert (sha(split.labelled), sha(split.unlabelled)) == LONG_TAIL[seed]


@pytest.mark.slow
@needs("EuroSAT_RGB")
def test_eurosat_has_its_counts() -> None:
    data = load("eurosat", ROOT)
    assert [len(part) for part in data.parts] == [21_600, 0, 0, 5_400]
    counts = np.bincount(data.labels).tolist()
    assert counts == [3000, 3000, 3000, 2500, 2500, 2000, 2500, 3000, 2500, 3000]
