"""The benchmark's sampling rules, against a slow second computation and the reference's hashes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tamatch.data import (
    UNKNOWN,
    DataSet,
    Past,
    Split,
    SplitPlan,
    make_split,
    make_split_again,
    shares,
)
from tamatch.data.splits import long_tail
from tamatch.errors import DataError, UsageError

EMPTY = np.empty(0, np.int64)


def make_set(labels: np.ndarray, test: int = 0, **fields: object) -> DataSet:
    """A set of one-pixel images with these training labels, and some test images after them.

    No two are equal.
    """
    count = len(labels)
    classes = int(labels.max()) + 1
    every = np.concatenate([labels, np.arange(test) % classes]).astype(np.int64)
    data = DataSet(
        name="made",
        classes=tuple(f"class {c}" for c in range(classes)),
        images=np.arange(count + test, dtype=">i4").view(np.uint8).reshape(-1, 1, 1, 4)[..., 1:],
        labels=every,
        parts=(np.arange(count), EMPTY, EMPTY, np.arange(count, count + test)),
        files=[str(i) for i in range(count + test)],
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
    )
    return replace(data, **fields)  # type: ignore[arg-type]


def sha(indices: np.ndarray) -> str:
    return hashlib.sha256(indices.astype("<i8").tobytes()).hexdigest()


class Words:
    """The 32-bit words of the Mersenne twister, drawn in blocks."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.RandomState(seed)
        self.block: list[int] = []

    def next(self) -> int:
        if not self.block:
            self.block = self.random.randint(0, 2**32, 4096, dtype=np.uint32).tolist()[::-1]
        return self.block.pop()


def slowly_shuffled(items: list[int], words: Words) -> list[int]:
    """Fisher and Yates from the back; each partner by masking and rejecting words."""
    items = list(items)
    for i in range(len(items) - 1, 0, -1):
        mask = (1 << i.bit_length()) - 1
        while (j := words.next() & mask) > i:
            pass
        items[i], items[j] = items[j], items[i]
    return items


def slow_split(
    labels: list[int], counts: list[int], pool: list[int] | None, seed: int, shuffled: bool = False
) -> tuple[list[int], list[int]]:
    words = Words(seed)
    order = list(range(len(labels)))
    if shuffled:
        order = slowly_shuffled(order, words)
    labelled: list[int] = []
    rest: list[int] = []
    for c, count in enumerate(counts):
        own = slowly_shuffled([i for i in order if labels[i] == c], words)
        labelled += own[:count]
        rest += own[count : None if pool is None else count + pool[c]]
    return labelled, rest


@pytest.fixture(scope="module")
def cifar_like() -> DataSet:
    """Ten classes of 5,000 in a mixed order, as CIFAR-10 has them."""
    labels = np.random.RandomState(2009).permutation(np.repeat(np.arange(10), 5000))
    return make_set(labels, test=100)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_forty_labels_equal_a_second_computation(cifar_like: DataSet, seed: int) -> None:
    split = make_split(cifar_like, SplitPlan(labels_per_class=4, seed=seed))
    labelled, rest = slow_split(cifar_like.labels[:50_000].tolist(), [4] * 10, None, seed)
    assert split.labelled.tolist() == labelled
    assert split.unlabelled.tolist() == labelled + rest
    assert split.test.tolist() == list(range(50_000, 50_100))


def test_a_pool_may_be_largest_in_the_middle(cifar_like: DataSet) -> None:
    plan = SplitPlan(head_labelled=500, head_unlabelled=4000, gamma=100, pool_shape="middle")
    split = make_split(cifar_like, replace(plan, labelled_in_pool=False))
    pool = np.bincount(cifar_like.labels[split.unlabelled]).tolist()
    tail = long_tail(4000, 100, 10)
    assert pool == [tail[i] for i in (8, 6, 4, 2, 0, 1, 3, 5, 7, 9)]
    assert np.bincount(cifar_like.labels[split.labelled]).tolist() == long_tail(500, 100, 10)


@pytest.mark.parametrize("gamma_unlabelled", [None, 150, -100, 1])
def test_long_tail_equals_a_second_computation(
    cifar_like: DataSet, gamma_unlabelled: float | None
) -> None:
    plan = SplitPlan(
        head_labelled=500,
        head_unlabelled=4000,
        gamma=100,
        gamma_unlabelled=gamma_unlabelled,
        labelled_in_pool=False,
        seed=1,
    )
    pool = long_tail(4000, gamma_unlabelled or 100, 10)
    labels = cifar_like.labels[:50_000].tolist()
    labelled, rest = slow_split(labels, long_tail(500, 100, 10), pool, 1)
    split = make_split(cifar_like, plan)
    assert split.labelled.tolist() == labelled
    assert split.unlabelled.tolist() == rest
    assert np.bincount(cifar_like.labels[split.unlabelled]).tolist() == pool
    assert not np.isin(split.labelled, split.unlabelled).any()


# SHA-256 of the labelled and the pool's index arrays that the reference package's own function
# (0.3.2) draws from the labels of `cifar_like`, for seeds 0, 1 and 2
REFERENCE: dict[str, tuple[dict[str, float], list[tuple[str, str]]]] = {
    "40 labels": (
        {"labels_per_class": 4},
        [
            (
                "783b479f0dc389441057b3b8e00b66c61cc61d00c500599809ea06ffb8704dc9",
                "879cb798b5eaf4197a4c8a5148070bce2e120872919531ae194edb55113e652a",
            ),
            (
                "13dd9490e41407e43ab24d7a197907771cc71b1fac47acbbf75bcbbe179b3c0e",
                "2e18bcf2ee645e8bd635bea94dbc176e4f0176a9c47c92809488daa5a71536b8",
            ),
            (
                "05465a68c55ec3477d7aed04203c713fda5cdf7a1b0afd3346808c86fc07001e",
                "3287581ffcb829cce0a0a56241daf19ade132402d475bb0215e6e6450843747e",
            ),
        ],
    ),
    "long tail": (
        {"head_labelled": 500, "head_unlabelled": 4000, "gamma": 100, "labelled_in_pool": False},
        [
            (
                "ee1e6a40bbf4a0ee42827efa25a8ce0292c6e4136e7476bd7900c8a4f5803810",
                "fee7737d571b11168ff9f4ba4bf2849e7b7004ec5c6ea03d4f744671a02348b0",
            ),
            (
                "578008fcef7313625fa82fc1d4dd0c7996db448ed42b17f37917cd1fe454dd25",
                "a63631cb80f5813bb1b60b63112312fc338ab6809524bec0b9cc7c2bb3d15ffa",
            ),
            (
                "2503fcd60cd05b5e499bac4bb568a0b9dacd0c92af90d6534807876229f2c8db",
                "a6b6770dcb11de9383a5b644a651e64ab206ef12151dd70f17f3c601fff1fca0",
            ),
        ],
    ),
    "reversed pool": (
        {
            "head_labelled": 500, "head_unlabelled": 4000, "gamma": 100, "gamma_unlabelled": -100,
            "labelled_in_pool": False,
        },
        [
            (
                "ee1e6a40bbf4a0ee42827efa25a8ce0292c6e4136e7476bd7900c8a4f5803810",
                "54a574e77cce6ab8fe0c4677925f2185398d833d82edd11805527ada59a76997",
            ),
            (
                "578008fcef7313625fa82fc1d4dd0c7996db448ed42b17f37917cd1fe454dd25",
                "803ed0db7eb447279ec7954d00311f5c76911c8fd75f8f292621c7d23e953512",
            ),
            (
                "2503fcd60cd05b5e499bac4bb568a0b9dacd0c92af90d6534807876229f2c8db",
                "202e21c41f903dec7adbdf92b9da59c1567d71c444a70f8cd9592447f598fb1e",
            ),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_package_draws_the_same_images(
    cifar_like: DataSet, name: str, seed: int
) -> None:
    plan, drawn = REFERENCE[name]
    split = make_split(cifar_like, SplitPlan(**plan, seed=seed))  # type: ignore[arg-type]
    assert (sha(split.labelled), sha(split.unlabelled)) == drawn[seed]


EUROSAT_COUNTS = [3000, 3000, 3000, 2500, 2500, 2000, 2500, 3000, 2500, 3000]
# SHA-256 of the index arrays that the reference package's own function draws (0.3.2)
EUROSAT_REFERENCE = {
    (2, 0): "82ae07f50d910040aabcdc2fddd87d9222996079f50d22c35d142aca12e0b795",
    (2, 1): "163a6595546b8bfc377188f80d3f793d616db92ff0d9617eb3876494dd1d7a39",
    (2, 2): "8145cd297ab0ab8e2ef3f9e6772d83e4f2ad3e2c903f6e2023dc3c097a84b6c4",
    (4, 0): "d821b8e08038ca8b51423b0af1b007d09130499a39bc707c8477560ca669a771",
    (4, 1): "e624fa73a525e7f75a53ddd4399b1a64a6840a74b8835ec2287527d7e90bcbf7",
    (4, 2): "860323c9c2fbda097dea204540a4eaf51ecfdaf808ab31be633c7c191094ddc8",
}


@pytest.mark.parametrize(("per_class", "seed"), EUROSAT_REFERENCE)
def test_eurosat_is_shuffled_first_as_in_the_reference(per_class: int, seed: int) -> None:
    labels = np.repeat(np.arange(10), EUROSAT_COUNTS)
    within = np.concatenate([np.arange(n) for n in EUROSAT_COUNTS])
    train = np.flatnonzero(within < np.array(EUROSAT_COUNTS)[labels] * 8 // 10)
    data = make_set(labels, shuffled_first=True)
    data = replace(data, parts=(train, EMPTY, EMPTY, EMPTY))
    split = make_split(data, SplitPlan(labels_per_class=per_class, seed=seed))
    assert sha(split.labelled) == EUROSAT_REFERENCE[per_class, seed]
    assert len(split.unlabelled) == 21_600


def test_stl10_pool_is_the_unlabelled_images_and_the_whole_training_part() -> None:
    labels = np.concatenate([np.repeat(np.arange(10), 50), np.full(1000, UNKNOWN)])
    data = make_set(labels, train_in_pool=True)
    train, hidden = np.arange(500), np.arange(500, 1500)
    data = replace(data, parts=(train, hidden, EMPTY, EMPTY))
    split = make_split(data, SplitPlan(labels_per_class=4, seed=0))
    assert split.unlabelled.tolist() == [*split.labelled, *hidden, *train]
    apart = make_split(data, SplitPlan(labels_per_class=4, labelled_in_pool=False))
    assert not np.isin(apart.labelled, apart.unlabelled).any()
    assert len(apart.unlabelled) == 1500 - 40
    with pytest.raises(DataError, match="has unlabelled images"):
        make_split(data, SplitPlan(labels_per_class=4, head_unlabelled=10))


@pytest.mark.parametrize(
    ("head", "gamma", "counts"),
    [
        (1500, 100, [1500, 899, 539, 323, 193, 116, 69, 41, 25, 15]),
        (3000, 100, [3000, 1798, 1078, 646, 387, 232, 139, 83, 50, 30]),
        (1500, 150, [1500, 859, 492, 282, 161, 92, 53, 30, 17, 10]),
        (3000, 150, [3000, 1719, 985, 564, 323, 185, 106, 60, 34, 20]),
        (500, 100, [500, 299, 179, 107, 64, 38, 23, 13, 8, 5]),
        (4000, 100, [4000, 2397, 1437, 861, 516, 309, 185, 111, 66, 40]),
        (500, 150, [500, 286, 164, 94, 53, 30, 17, 10, 5, 3]),
        (4000, 150, [4000, 2292, 1313, 752, 431, 247, 141, 81, 46, 26]),
    ],
)
def test_long_tail_counts(head: int, gamma: float, counts: list[int]) -> None:
    assert long_tail(head, gamma, 10) == counts
    assert long_tail(head, -gamma, 10) == counts[::-1]


@pytest.mark.parametrize(
    ("head", "gamma", "classes", "last"),
    [(3000, 200, 10, 15), (500, 50, 10, 10), (500, 100, 100, 5), (100, 100, 100, 1)],
)
def test_the_smallest_class_is_divided_not_powered(
    head: int, gamma: float, classes: int, last: int
) -> None:
    """The power of a rounded root falls just short of the whole number here."""
    assert long_tail(head, gamma, classes)[-1] == last


def test_long_tail_of_equal_classes_and_of_one() -> None:
    assert long_tail(7, 1, 4) == [7, 7, 7, 7]
    assert long_tail(7, 100, 1) == [7]


def test_validation_comes_out_of_the_labelled_images_alone() -> None:
    data = make_set(np.repeat(np.arange(3), 30), test=9)
    whole = make_split(data, SplitPlan(labels_per_class=10, seed=3))
    split = make_split(data, SplitPlan(labels_per_class=10, validation_per_class=2, seed=3))
    assert np.bincount(data.labels[split.validation]).tolist() == [2, 2, 2]
    assert np.bincount(data.labels[split.labelled]).tolist() == [8, 8, 8]
    assert set(split.labelled) | set(split.validation) == set(whole.labelled)
    assert not set(split.validation) & (set(split.unlabelled) | set(split.test))
    assert len(split.unlabelled) == 90 - 6


def test_validation_images_are_not_in_the_pool_of_stl10_either() -> None:
    data = make_set(np.repeat(np.arange(2), 20), train_in_pool=True)
    split = make_split(data, SplitPlan(labels_per_class=5, validation_per_class=1))
    assert not set(split.validation) & set(split.unlabelled)


def with_copies(labels: np.ndarray, original: np.ndarray) -> DataSet:
    """Image i shows what image original[i] shows."""
    data = make_set(labels)
    return replace(data, images=data.images[original])


@pytest.mark.parametrize("count", [1, 5])
def test_no_validation_image_has_a_copy_to_learn_from(count: int) -> None:
    """Each of ten images a class is there twice: as many as asked for, and the copies of these."""
    original = np.arange(40) % 20
    data = with_copies(original % 2, original)
    split = make_split(data, SplitPlan(validation_per_class=count, seed=4))
    assert np.bincount(data.labels[split.validation]).tolist() == [count + 1] * 2
    assert not {*original[split.validation]} & {*original[split.labelled]}
    assert len(split.validation) + len(split.labelled) == 40


def test_images_without_copies_validate_first() -> None:
    original = np.array([0, 0, 0, 0, 0, 0, 0, 0, 8, 9, *range(10, 20)])
    data = with_copies(np.repeat([0, 1], 10), original)
    for seed in range(5):
        split = make_split(data, SplitPlan(validation_per_class=2, seed=seed))
        assert {*split.validation[:2]} == {8, 9}


def test_what_has_a_copy_in_another_class_is_learnt() -> None:
    original = np.array([0, 1, 2, 3, 0, 1, 6, 7])
    data = with_copies(np.repeat([0, 1], 4), original)
    for seed in range(5):
        split = make_split(data, SplitPlan(validation_per_class=2, seed=seed))
        assert {*split.validation} == {2, 3, 6, 7}
        parts = [make_split(data, SplitPlan(fold=(k, 2), seed=seed)).validation for k in (1, 2)]
        assert sorted(np.concatenate(parts)) == [2, 3, 6, 7]
    with pytest.raises(DataError, match=r'"class 0": only 2 of its 4 .* have copies among'):
        make_split(data, SplitPlan(validation_per_class=3))
    alike = with_copies(np.repeat([0, 1], 4), np.repeat([0, 4], 4))
    with pytest.raises(DataError, match="0 of its 4 labelled images can be held out"):
        make_split(alike, SplitPlan(validation_per_class=1))


def past(count: int, learnt: list[int], held_out: list[int]) -> Past:
    return Past(np.isin(np.arange(count), learnt), np.isin(np.arange(count), held_out))


def test_what_was_learnt_before_never_validates() -> None:
    """What validated before does first, and then what is new."""
    data = make_set(np.arange(20) % 2)
    before = past(20, learnt=[*range(12)], held_out=[12, 13])
    for seed in range(5):
        split = make_split(data, SplitPlan(validation_per_class=2, seed=seed), before)
        assert {12, 13} < {*split.validation} <= {*range(12, 20)} and len(split.validation) == 4
        fewer = make_split(data, SplitPlan(validation_per_class=1, seed=seed), before)
        assert {*fewer.validation} == {12, 13}
    with pytest.raises(
        DataError,
        match=r'"class 0": only 4 of its 10 labelled images can be held out, as the run of '
        r"--from was trained on the others, but --validation-per-class is 5\. Request fewer, label",
    ):
        make_split(data, SplitPlan(validation_per_class=5), before)


def test_a_copy_of_what_was_learnt_before_does_not_validate_either() -> None:
    """Even where only the file of the learnt one is known."""
    original = np.array([0, 1, 2, 3, 4, 5, 0, 1])
    data = with_copies(np.arange(8) % 2, original)
    split = make_split(data, SplitPlan(validation_per_class=2), past(8, [0, 1], []))
    assert {*split.validation} == {2, 3, 4, 5}


@pytest.mark.parametrize("train_in_pool", [False, True])
@pytest.mark.parametrize("in_pool", [False, True])
def test_a_split_is_made_again_by_what_it_held_out(train_in_pool: bool, in_pool: bool) -> None:
    data = make_set(np.arange(60) % 3, test=6, train_in_pool=train_in_pool)
    plan = SplitPlan(
        labels_per_class=8, validation_per_class=2, fold=(2, 3), labelled_in_pool=in_pool, seed=1
    )
    split = make_split(data, plan)
    again = make_split_again(data, plan, np.isin(np.arange(66), split.validation))
    for role in vars(split):
        assert getattr(again, role).tolist() == getattr(split, role).tolist()


def test_known_are_all_with_a_label_and_unknown_the_others_of_the_pool() -> None:
    """Each in its own order."""
    pool = np.array([7, 9, 2, 5, 4, 0])
    split = Split(labelled=np.array([7, 2]), unlabelled=pool, validation=np.array([5]))
    assert split.known.tolist() == [7, 2, 5]
    assert split.unknown_places.tolist() == [1, 4, 5]
    assert split.unknown.tolist() == [9, 4, 0]


def test_own_labels_are_all_used_and_images_without_one_are_in_the_pool() -> None:
    labels = np.array([0, 1, UNKNOWN, 0, 1, UNKNOWN])
    data = make_set(labels, given_labels=True)
    split = make_split(data, SplitPlan())
    assert sorted(split.labelled) == [0, 1, 3, 4]
    assert sorted(split.unlabelled) == [0, 1, 2, 3, 4, 5]
    assert sorted(make_split(data, SplitPlan(labelled_in_pool=False)).unlabelled) == [2, 5]


def test_the_set_is_not_changed_and_a_seed_repeats() -> None:
    data = make_set(np.repeat(np.arange(3), 30), shuffled_first=True)
    before = [part.copy() for part in data.parts]
    first = make_split(data, SplitPlan(labels_per_class=2, seed=5))
    again = make_split(data, SplitPlan(labels_per_class=2, seed=5))
    other = make_split(data, SplitPlan(labels_per_class=2, seed=6))
    assert first.labelled.tolist() == again.labelled.tolist() != other.labelled.tolist()
    assert all((a == b).all() for a, b in zip(before, data.parts, strict=True))


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (SplitPlan(labels_per_class=31), '"class 0" has 30 labelled images'),
        (SplitPlan(head_labelled=10, gamma=20), 'leaves none for class "class 2"'),
        (SplitPlan(head_labelled=10, gamma=-20), 'leaves none for class "class 0"'),
        (SplitPlan(head_labelled=10, head_unlabelled=21), "31 are requested"),
        (SplitPlan(labels_per_class=3, validation_per_class=3), "leave none for training"),
    ],
)
def test_plans_that_the_data_cannot_fill(plan: SplitPlan, says: str) -> None:
    with pytest.raises(DataError, match=says):
        make_split(make_set(np.repeat(np.arange(3), 30)), plan)


def test_a_class_without_labels_is_named_beside_the_others() -> None:
    data = replace(make_set(np.array([0, 0, 1])), classes=("leaf", "mould", "rust"))
    with pytest.raises(DataError, match=r'"rust" has no labelled images \(leaf 2, mould 1, rust 0'):
        make_split(data, SplitPlan())


@pytest.mark.parametrize(
    "fields",
    [
        {"gamma": 100},
        {"head_labelled": 10, "gamma": 0.5},
        {"head_labelled": 10, "gamma": float("nan")},
        {"gamma_unlabelled": 10},
        {"labels_per_class": 4, "head_labelled": 10},
        {"fold": (1, 1)},
        {"fold": (0, 3)},
        {"fold": (4, 3)},
    ],
)
def test_plans_that_make_no_sense(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        SplitPlan(**fields)


def test_one_image_of_each_class_can_be_asked_for() -> None:
    plan = SplitPlan(head_labelled=1, head_unlabelled=1, labelled_in_pool=False)
    data = make_set(np.repeat(np.arange(3), 4))
    split = make_split(data, plan)
    assert data.labels[split.labelled].tolist() == data.labels[split.unlabelled].tolist()
    assert data.labels[split.labelled].tolist() == [0, 1, 2]


def test_shares() -> None:
    assert shares(np.array([0, 0, 2, 2]), 3) == (0.5, 0.0, 0.5)


def test_equal_images_are_in_one_fold() -> None:
    original = np.arange(24) % 12
    data = with_copies(original % 2, original)
    parts = [make_split(data, SplitPlan(fold=(k, 3))) for k in (1, 2, 3)]
    assert sorted(np.concatenate([part.validation for part in parts])) == [*range(24)]
    for part in parts:
        assert not {*original[part.validation]} & {*original[part.labelled]}


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_folds_hold_out_each_labelled_image_once(folds: int) -> None:
    """But for the only one of a class; what is held out is in no pool."""
    data = make_set(np.repeat(np.arange(4), [1, 2, 7, 10]))
    whole = make_split(data, SplitPlan())
    parts = [make_split(data, SplitPlan(fold=(k, folds))) for k in range(1, folds + 1)]
    away = np.concatenate([part.validation for part in parts])
    assert sorted(away) == sorted(set(whole.labelled) - {0})
    for part in parts:
        assert set(data.labels[part.labelled]) == {0, 1, 2, 3}
        assert set(part.labelled) | set(part.validation) == set(whole.labelled)
        assert not set(part.validation) & {*part.labelled, *part.unlabelled}
