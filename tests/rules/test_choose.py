"""The rules for settings that nobody gave."""

from __future__ import annotations

import pytest

from tamatch.rules import choose


@pytest.mark.parametrize(
    ("side", "gpu", "size"),
    [
        (20, True, 32), (32, True, 32), (33, True, 64), (64, True, 64), (65, True, 96),
        (3000, True, 96), (20, False, 32), (64, False, 32), (3000, False, 32), (None, True, 32),
    ],
)  # fmt: skip
def test_the_size_follows_the_photos_and_the_device(side: int, gpu: bool, size: int) -> None:
    found = choose.image_size(side, gpu=gpu)
    assert found.settings == {"size": size} and f"{size} × {size}" in found.reasons["size"]


@pytest.mark.parametrize(
    ("images", "gpu", "net"),
    [
        (100, False, "wrn_10_1_clean"), (90_000, False, "wrn_10_1_clean"),
        (999, True, "wrn_16_2_clean"), (1000, True, "wrn_28_2_clean"),
    ],
)  # fmt: skip
def test_the_net_follows_the_device_and_the_images(images: int, gpu: bool, net: str) -> None:
    assert choose.net(images, gpu=gpu).settings == {"net": net}


@pytest.mark.parametrize(
    ("labels", "cpu", "gpu"),
    [(2, 8, 8), (20, 8, 8), (24, 8, 8), (50, 8, 16), (96, 8, 32), (200, 8, 64), (9000, 8, 64)],
)
def test_the_batch_follows_the_labels(labels: int, cpu: int, gpu: int) -> None:
    assert choose.batch(labels, gpu=False).settings == {"batch": cpu}
    assert choose.batch(labels, gpu=True).settings == {"batch": gpu}
    assert choose.pool_batch(cpu, gpu=False).settings == {"unlabelled": cpu}
    assert choose.pool_batch(gpu, gpu=True).settings == {"unlabelled": 3 * gpu}


@pytest.mark.parametrize(("together", "count"), [(0.05, 4), (0.09, 1), (0.8, 1)])
def test_more_threads_must_be_clearly_faster(together: float, count: int) -> None:
    assert choose.threads(4, 0.1, together).settings == {"threads": count}


@pytest.mark.parametrize(
    ("counts", "told"), [((3, 3), False), ((9, 3), False), ((10, 3), True), ((3, 10), True)]
)
def test_unequal_labels_are_told_from_three_to_one_on(counts: tuple[int, int], told: bool) -> None:
    line = choose.unequal_labels_remark(counts, ("cat", "dog"))
    assert bool(line) is told
    for option in ("--prior", "--target labelled", "--target adaptive"):
        assert (option in line) is told
