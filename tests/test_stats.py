"""State that outlives a step."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tamatch.errors import UsageError
from tamatch.stats import (
    EPS,
    Ema,
    FittedStrength,
    Ring,
    Status,
    Window,
    last_position,
    log_shares,
    ratio,
    write_by_id_,
)
from tamatch.types import Task


def task(classes: int = 3, **more: tuple[float, ...]) -> Task:
    shares = more.pop("labelled_shares", (1 / classes,) * classes)
    return Task(classes, labelled=6, unlabelled=30, labelled_shares=shares, **more)


class TestEma:
    def test_is_the_weighted_mean_in_float64(self) -> None:
        ema = Ema(torch.tensor([1.0, 0.0]), 0.9)
        ema.update_(torch.tensor([0.5, 0.25]))
        ema.update_(torch.tensor([0.0, 1.0]))
        want = [0.9 * (0.9 * 1 + 0.1 * 0.5), 0.9 * 0.1 * 0.25 + 0.1]
        assert ema.value.tolist() == pytest.approx(want, rel=1e-15)

    def test_momentum_is_not_rounded_to_float32(self) -> None:
        ema = Ema(0.0, 0.999)
        ema.update_(torch.tensor(1.0, dtype=torch.float64))
        assert ema.value.item() == pytest.approx(0.001, rel=1e-12)

    def test_can_begin_with_the_first_observation(self) -> None:
        ema = Ema(0.2, 0.5, from_first=True)
        assert ema.update_(torch.tensor(4.0)).item() == 4
        assert ema.update_(torch.tensor(2.0)).item() == 3

    def test_first_observation_is_remembered_in_the_state(self) -> None:
        ema, other = (Ema(0.2, 0.5, from_first=True) for _ in range(2))
        ema.update_(torch.tensor(4.0))
        other.load_state_dict(ema.state_dict())
        assert other.update_(torch.tensor(2.0)).item() == 3

    def test_momentum_one_changes_no_bit(self) -> None:
        ema = Ema(1 / 3, 1.0)
        ema.update_(torch.tensor(0.9))
        assert ema.value.item() == 1 / 3

    def test_writes_in_place_and_keeps_no_gradient(self) -> None:
        ema = Ema(torch.zeros(2), 0.5)
        address = ema.value.data_ptr()
        ema.update_(torch.ones(2, requires_grad=True))
        assert ema.value.data_ptr() == address
        assert not ema.value.requires_grad

    def test_does_not_share_memory_with_its_start(self) -> None:
        start = torch.zeros(2, dtype=torch.float64)
        Ema(start, 0.5).update_(torch.ones(2))
        assert start.tolist() == [0, 0]


class TestWindow:
    def test_rows_not_yet_written_count_as_zero(self) -> None:
        window = Window(4, 2)
        assert window.update_(torch.tensor([4.0, 8.0])).tolist() == [1, 2]

    def test_forgets_the_oldest_row(self) -> None:
        window = Window(2, 1)
        means = [window.update_(torch.tensor([x])).item() for x in (1.0, 3.0, 5.0, 9.0)]
        assert means == [0.5, 2, 4, 7]

    def test_place_is_part_of_the_state(self) -> None:
        window, other = Window(2, 1), Window(2, 1)
        window.update_(torch.tensor([1.0]))
        other.load_state_dict(window.state_dict())
        assert other.update_(torch.tensor([3.0])).item() == 2


class TestRing:
    def test_fills_then_overwrites_the_oldest(self) -> None:
        ring = Ring(5, z=1, p=2)
        for start in (0, 2, 4):
            z = torch.tensor([[start], [start + 1.0]])
            ring.push_(z=z, p=z.expand(2, 2))
        assert ring.get_buffer("z").flatten().tolist() == [5, 1, 2, 3, 4]
        assert ring.get_buffer("p")[:, 1].tolist() == [5, 1, 2, 3, 4]

    def test_place_is_part_of_the_state(self) -> None:
        ring, other = Ring(3, z=1), Ring(3, z=1)
        ring.push_(z=torch.ones(2, 1))
        other.load_state_dict(ring.state_dict())
        other.push_(z=torch.full((2, 1), 2.0))
        assert other.get_buffer("z").flatten().tolist() == [2, 1, 2]

    def test_of_more_rows_than_it_holds_the_last_remain(self) -> None:
        ring, other = Ring(3, z=1), Ring(3, z=1)
        for row in torch.arange(8.0).view(-1, 1, 1):
            ring.push_(z=row)
        other.push_(z=torch.arange(8.0)[:, None])
        assert other.get_buffer("z").tolist() == ring.get_buffer("z").tolist()
        assert other.at == ring.at

    def test_keeps_its_type_whatever_autocast_makes_of_the_rows(self) -> None:
        ring = Ring(3, z=1)
        ring.push_(z=torch.ones(2, 1, dtype=torch.bfloat16))
        assert ring.get_buffer("z").flatten().tolist() == [1, 1, 0]
        assert ring.get_buffer("z").dtype == torch.float32

    def test_keeps_no_gradient(self) -> None:
        ring = Ring(3, z=1)
        ring.push_(z=torch.ones(2, 1, requires_grad=True))
        assert not ring.get_buffer("z").requires_grad


ids_and_keep = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=20)


class TestWriteById:
    @given(ids_and_keep)
    def test_equals_a_loop_in_which_the_last_wins(self, entries: list[tuple[int, bool]]) -> None:
        ids = torch.tensor([i for i, _ in entries])
        keep = torch.tensor([k for _, k in entries])
        rows = torch.arange(2.0 * len(ids)).view(-1, 2)
        memory = torch.full((7, 2), -1.0)
        want = memory.clone()
        for i, k, row in zip(ids, keep, rows, strict=True):
            if k:
                want[i] = row
        write_by_id_(memory, ids, rows, keep)
        assert memory.tolist() == want.tolist()

    def test_single_numbers_without_keep(self) -> None:
        memory = torch.zeros(4, dtype=torch.int64)
        write_by_id_(memory, torch.tensor([2, 0, 2]), torch.tensor([7, 8, 9]))
        assert memory.tolist() == [8, 0, 9, 0]

    def test_rows_of_another_type(self) -> None:
        memory = torch.zeros(3)
        write_by_id_(memory, torch.tensor([2, 0]), torch.ones(2, dtype=torch.bfloat16))
        assert memory.tolist() == [1, 0, 1]

    @given(ids_and_keep)
    def test_last_position(self, entries: list[tuple[int, bool]]) -> None:
        want = [
            max((j for j, (other, kept) in enumerate(entries) if kept and other == i), default=-1)
            for i, _ in entries
        ]
        ids = torch.tensor([i for i, _ in entries])
        keep = torch.tensor([k for _, k in entries])
        assert last_position(ids, 7, keep).tolist() == want


class TestStatus:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]])
    p_x = torch.tensor([[0.2, 0.2, 0.6]])

    def test_model_moves_first_and_target_follows_it(self) -> None:
        status = Status(task(), momentum=0.9, target_momentum=0.8)
        status.observe_(self.p, self.p_x)
        model = [0.9 / 3 + 0.1 * m for m in (0.6, 0.25, 0.15)]
        target = [0.8 / 3 + 0.2 * m for m in model]
        assert status.model.value.tolist() == pytest.approx(model, rel=1e-7)
        assert status.target.value.tolist() == pytest.approx(target, rel=1e-7)

    def test_target_may_follow_the_labelled_predictions(self) -> None:
        status = Status(task(), momentum=0.9, target_momentum=0.5, follow="labelled")
        status.observe_(self.p, self.p_x)
        want = [0.5 / 3 + 0.5 * m for m in (0.2, 0.2, 0.6)]
        assert status.target.value.tolist() == pytest.approx(want, rel=1e-7)

    def test_target_stays_bit_for_bit_at_momentum_one(self) -> None:
        status = Status(task())
        before = status.target.value.clone()
        status.observe_(self.p, self.p_x)
        assert status.target.value.tolist() == before.tolist()

    def test_model_may_begin_with_the_first_batch_or_be_a_window(self) -> None:
        first, window = Status(task(), from_first=True), Status(task(), window=2)
        for status in (first, window):
            status.observe_(self.p, self.p_x)
        assert first.model.value.tolist() == pytest.approx([0.6, 0.25, 0.15], rel=1e-7)
        assert window.model.value.tolist() == pytest.approx([0.3, 0.125, 0.075], rel=1e-7)

    def test_starts_of_the_target(self) -> None:
        known = task(labelled_shares=(0.5, 0.3, 0.2), prior=(0.1, 0.1, 0.8))
        assert Status(known, target="labelled").target.value.tolist() == [0.5, 0.3, 0.2]
        assert Status(known, target="prior").target.value.tolist() == [0.1, 0.1, 0.8]
        assert Status(known).target.value.tolist() == [1 / 3] * 3

    def test_an_unknown_prior_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="class shares"):
            Status(task(), target="prior")

    def test_ratio_and_bound_are_the_formulas(self) -> None:
        status = Status(task())
        status.model.value.copy_(torch.tensor([0.6, 0.3, 0.1]))
        model = [0.6, 0.3, 0.1]
        want = [(1 / 3 + EPS) / (m + EPS) for m in model]
        gap = sum(m * math.log(m * 3) for m in model)
        entropy = -sum(m * math.log(m) for m in model)
        assert status.ratio.tolist() == pytest.approx(want, rel=1e-6)
        assert status.bound.item() == pytest.approx(1 + gap / (entropy / 3), rel=1e-6)
        assert status.ratio.dtype == status.bound.dtype == torch.float32

    def test_ratio_is_finite_for_a_class_never_predicted(self) -> None:
        r = ratio(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
        assert r[1].item() == pytest.approx((0.5 + EPS) / EPS, rel=1e-5)

    def test_bound_is_finite_where_the_target_has_no_share(self) -> None:
        status = Status(task(prior=(0.5, 0.5, 0.0)), target="prior")
        gap = 2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / (3 * EPS))
        assert status.bound.item() == pytest.approx(1 + gap / (math.log(3) / 3), rel=1e-6)
        assert status.ratio.tolist() == pytest.approx([1.5, 1.5, 3 * EPS], rel=1e-5)

    def test_alignment_gives_a_model_with_the_target_s_shares(self) -> None:
        """Predictions whose mean is p_model have a mean near p_target after it."""
        status = Status(task(prior=(0.2, 0.3, 0.5)), target="prior", from_first=True)
        p = torch.eye(3)[torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1, 2])] * 0.01 + 0.33
        status.observe_(p, p)
        aligned = status.align(p)
        assert aligned.sum(-1).tolist() == pytest.approx([1.0] * 10)
        assert aligned.mean(0).tolist() == pytest.approx([0.2, 0.3, 0.5], abs=1e-3)
        want = [0.34 * 0.2 / 0.336, 0.33 * 0.3 / 0.333, 0.33 * 0.5 / 0.331]
        assert aligned[0].tolist() == pytest.approx([w / sum(want) for w in want], rel=1e-4)


TAIL = (0.6, 0.25, 0.1, 0.05)


def weighted_loss(k: float, z: np.ndarray, y: np.ndarray, a: np.ndarray) -> float:
    """E[H(y, softmax(z + k·a)) / (C·π_y)], one row after the other."""
    losses = []
    for row, label in zip(z + k * a, y, strict=True):
        total = math.log(sum(math.exp(v - row.max()) for v in row)) + row.max()
        losses.append((total - row[label]) / (len(a) * TAIL[label]))
    return float(np.mean(losses))


@pytest.mark.parametrize("known", [1.0, 0.4, 0.0])
def test_the_fitted_strength_is_where_the_weighted_loss_is_least(known: float) -> None:
    """Logits that have learnt the labels' shares to a power are corrected by its negative."""
    random = np.random.default_rng(0)
    y = random.choice(4, size=4000, p=TAIL)
    z = random.normal(size=(4000, 4)) + 2 * np.eye(4)[y]  # of densities in the ratio exp(2·z)
    z = 2 * z + known * np.log(TAIL)
    task = Task(classes=4, labelled=200, unlabelled=10, labelled_shares=TAIL)
    a = log_shares(torch.tensor(TAIL, dtype=torch.float64))
    fitted = FittedStrength(task, 0.98)
    for start in range(0, 3 * 4000, 50):
        rows = np.arange(start, start + 50) % 4000
        fitted.update_(torch.tensor(z[rows]), torch.tensor(y[rows]), a)
    found = float(fitted.value)
    assert found == pytest.approx(-known, abs=0.15)
    grid = np.linspace(found - 0.3, found + 0.3, 13)
    losses = [weighted_loss(k, z[:1000], y[:1000], np.log(TAIL)) for k in grid]
    assert abs(grid[int(np.argmin(losses))] - found) < 0.16


def test_the_fitted_strength_keeps_still_where_labels_are_known_by_heart() -> None:
    task = Task(classes=4, labelled=200, unlabelled=10, labelled_shares=TAIL)
    fitted, y = FittedStrength(task, 0.9), torch.arange(8) % 4
    for _ in range(50):
        fitted.update_(40.0 * torch.eye(4)[y], y, log_shares(torch.tensor(TAIL)))
    assert abs(float(fitted.value)) < 1e-6
    for _ in range(500):  # nothing fits: it ends at its bound, and stays finite
        fitted.update_(40.0 * torch.eye(4)[(y + 1) % 4], y, log_shares(torch.tensor(TAIL)))
    assert abs(float(fitted.value)) <= FittedStrength.MOST
