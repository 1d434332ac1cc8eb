"""Choosing images to label, junk, suspect labels and the live loop, on clusters of features."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tamatch.frozen import choose as choosing
from tamatch.frozen.choose import choose, doubts, sample
from tamatch.frozen.features import Space
from tamatch.frozen.junk import solve_with_junk, weights_of
from tamatch.frozen.live import DRAWN, FIRST, NONE, PAYS, UNKNOWN, Live, gain
from tamatch.frozen.suspects import guessed_from_others, near_duplicates, suspects

NOTHING = torch.empty(0, dtype=torch.int64)


def clusters(
    sizes: tuple[int, ...] = (80, 40, 20, 10), width: int = 16, spread: float = 0.4, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Rows in clusters of these sizes, in random order, and the cluster of each."""
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(len(sizes), width, generator=g)
    y = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    y = y[torch.randperm(len(y), generator=g)]
    return centres[y] + spread * torch.randn(len(y), width, generator=g), y


# choosing


def test_every_cluster_is_found_before_any_is_asked_twice() -> None:
    x, y = clusters()
    assert sorted(y[choose(x, 4)].tolist()) == [0, 1, 2, 3]


def test_a_beginning_of_the_list_is_the_list_for_fewer() -> None:
    x, _ = clusters()
    assert torch.equal(choose(x, 12)[:5], choose(x, 5))
    assert torch.equal(choose(x, 12), choose(x, 12))


def test_labelled_images_are_not_chosen_and_speak_for_their_cluster() -> None:
    x, y = clusters()
    labelled = torch.cat([(y == c).nonzero()[:3, 0] for c in (0, 2)])
    chosen = choose(x, 2, labelled)
    assert sorted(y[chosen].tolist()) == [1, 3] and not torch.isin(chosen, labelled).any()


def test_an_outlier_is_no_typical_image() -> None:
    x, y = clusters()
    x = torch.cat([x, 6 * torch.randn(5, x.shape[1], generator=torch.Generator().manual_seed(5))])
    assert int(choose(x, 4).max()) < len(y)


def test_only_what_is_in_doubt_counts() -> None:
    x, y = clusters()
    assert (y[choose(x, 5, doubt=(y == 2).float())] == 2).all()


def test_the_greedy_choice_is_the_best_one_at_each_step() -> None:
    x, _ = clusters((20, 15, 5))
    space = Space.of(x)
    v = space.smoothed(2)
    likeness = choosing.likeness(v @ v.T)
    covered = torch.zeros(len(x))
    for image in choosing.spread_out(space, 6, NOTHING).tolist():
        gains = (likeness - covered[:, None]).clamp(min=0).sum(0)
        assert gains[image] >= gains.max() - 1e-4
        covered = torch.maximum(covered, likeness[:, image])


def test_more_images_than_there_are_and_one_alone() -> None:
    x, _ = clusters((3, 2))
    assert sorted(choose(x, 50).tolist()) == [0, 1, 2, 3, 4]
    assert choose(x[:1], 5).tolist() == [0] and choose(x, 50, torch.arange(5)).tolist() == []


def test_equal_images_do_no_harm() -> None:
    x, y = clusters()
    assert {*y[choose(x.repeat(3, 1), 4) % len(y)].tolist()} == {0, 1, 2, 3}


def test_a_large_folder_is_seen_through_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "CROWD", 60)
    x, y = clusters((400, 300, 200))
    chosen = choose(x, 3, torch.tensor([7]))
    assert {*y[chosen].tolist()} == {0, 1, 2} and 7 not in chosen
    part = sample(900, 61, torch.tensor([7]))
    assert len(part) == 61 and 7 in part and part.unique().equal(part)


def test_doubt_is_the_missing_margin() -> None:
    q = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.6, 0.3, 0.1]])
    assert doubts(q).tolist() == pytest.approx([1.0, 0.0, 0.49])
    assert doubts(q[:, :1]).tolist() == [1, 1, 1]


# junk


def labelled_and_pool(
    labels: int = 5, spread: float = 0.5
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Labels of the first three of six clusters; the other three are junk."""
    x, y = clusters((90,) * 6, spread=spread)
    known = torch.cat([(y == c).nonzero()[:labels, 0] for c in range(3)])
    pool = torch.arange(len(y))[~torch.isin(torch.arange(len(y)), known)]
    return x[known], y[known], x[pool], y[pool]


def test_junk_is_found_and_weighs_little() -> None:
    x, y, pool, truth = labelled_and_pool()
    found = solve_with_junk(x, y, pool, 3)
    belongs, junk = found.weight[truth < 3], found.weight[truth >= 3]
    assert belongs.mean() > 0.8 > 0.2 > junk.mean()
    assert found.junk == pytest.approx(len(junk) / len(pool), abs=0.15)
    assert (found.score[truth < 3].median() > found.score[truth >= 3].quantile(0.95)).all()


def test_a_clean_pool_is_hardly_touched() -> None:
    x, y, pool, truth = labelled_and_pool()
    found = solve_with_junk(x, y, pool[truth < 3], 3)
    assert found.junk < 0.15 and found.weight.min() > 0


def test_marked_images_count_against_their_like() -> None:
    """The junk resembles a class: half of it, with something added."""
    x, y, pool, truth = labelled_and_pool()
    pool, truth = pool[truth < 3], truth[truth < 3]
    junk = (truth == 0) & (torch.arange(len(truth)) % 2 == 0)
    pool[junk, :6] += 0.5
    marks = pool[junk][:5]
    before, after = solve_with_junk(x, y, pool, 3), solve_with_junk(x, y, pool, 3, none=marks)
    assert after.weight[junk].mean() < before.weight[junk].mean() - 0.2
    assert after.weight[junk].mean() < after.weight[~junk].mean() - 0.4


def test_few_comparisons_call_little_junk() -> None:
    """Two labels of one class and one of each other say little of what is usual."""
    x, y, pool, truth = labelled_and_pool()
    kept = torch.cat([torch.arange(2), torch.tensor([5, 10])])
    few, many = (solve_with_junk(*some, pool, 3).weight for some in ((x[kept], y[kept]), (x, y)))
    assert many[truth >= 3].mean() < 0.2 and few[truth >= 3].mean() > 0.7


def test_a_shift_of_all_images_is_no_junk_while_labels_are_few() -> None:
    """The pool lies a deviation below the labels: of few of them that may be chance."""
    score = torch.randn(1000, generator=torch.Generator().manual_seed(0)) / 4 - 1.3
    few, many = (float(1 - weights_of(score, n, 2).mean()) for n in (6, 60))
    assert few < 0.45 < 0.7 < many


def test_a_single_label_of_each_class_calls_nothing_junk() -> None:
    x, y, pool, _ = labelled_and_pool(labels=1)
    assert (solve_with_junk(x, y, pool, 3).weight == 1).all()


# wrong labels, images that are there twice


def test_wrong_labels_come_first() -> None:
    x, y = clusters((90,) * 4, spread=0.6)
    known = torch.cat([(y == c).nonzero()[:20, 0] for c in range(4)])
    labels = y[known].clone()
    labels[::10] = (labels[::10] + 1) % 4
    found = suspects(guessed_from_others(x[known], labels, x, 4), labels)
    assert {*found.order[:8].tolist()} == {*range(0, 80, 10)}
    assert found.wrong == 8 and (found.margin.diff() >= 0).all()
    assert torch.equal(found.instead[:8], y[known][found.order[:8]])


def test_nearly_equal_images_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamatch.frozen.suspects.CELLS", 1000)
    x, y = clusters(spread=1.0)
    noise = 0.01 * torch.randn(2, x.shape[1], generator=torch.Generator().manual_seed(1))
    found = near_duplicates(torch.cat([x, x[[3, 40]] + noise]))
    assert {pair[:2] for pair in found} == {(3, len(y)), (40, len(y) + 1)}


def test_images_are_nearly_equal_where_others_are_further_away() -> None:
    draw = torch.Generator().manual_seed(0)
    different = torch.randn(200, 32, generator=draw)
    sea = torch.randn(32, generator=draw) + 0.3 * torch.randn(30, 32, generator=draw)
    again = different[7] + 0.3 * torch.randn(32, generator=draw)
    found = near_duplicates(torch.cat([different, sea, again[None]]))
    assert [pair[:2] for pair in found] == [(7, 230)] and 0.85 < found[0][2] < 0.98
    assert near_duplicates(different[:1]) == []


# the live loop


def answered(live: Live, truth: Tensor, count: int) -> None:
    for image, drawn in live.next(count, live.answer()):
        live.labels[image], live.drawn[image] = truth[image], drawn


def test_from_nothing_to_an_answer() -> None:
    x, y = clusters((90,) * 4, spread=0.6)
    live = Live(x)
    assert live.answer() is None
    answered(live, y, 10)
    answer = live.answer()
    assert answer is not None and answer.labels == 10
    assert Live(x).estimate(answer).interval == (0, 1)  # nothing was drawn yet
    assert (answer.guess == y).float().mean() > 0.9
    given = live.labels != UNKNOWN
    assert torch.equal(answer.guess[given], y[given]) and (answer.confidence[given] == 1).all()
    answered(live, y, 10)
    assert not live.drawn.any()  # the first ones
    answered(live, y, 15)
    answer = live.answer()
    assert answer is not None
    estimate = live.estimate(answer)
    assert estimate.judged == (35 - FIRST) // DRAWN
    assert estimate.interval[0] <= float((answer.guess == y).float().mean()) <= estimate.interval[1]


def test_asked_images_are_new_and_different() -> None:
    x, y = clusters()
    live = Live(x)
    seen: set[int] = set()
    for _ in range(4):
        images = [image for image, _ in live.next(7, live.answer())]
        assert len({*images}) == 7 and not seen & {*images}
        answered(live, y, 7)
        seen |= {*images}
    assert len(live.next(1000)) == len(y) - len(seen)


def test_the_judge_does_not_learn_from_what_it_judges() -> None:
    x, y = clusters((60, 60))
    live = Live(x)
    for _ in range(3):
        answered(live, y, 10)
    assert live.drawn.sum() == (30 - FIRST) // DRAWN
    before = live.answer(judge=True)
    live.labels[live.drawn & (live.labels >= 0)] = 1  # whatever is said of them
    after = live.answer(judge=True)
    assert before is not None and after is not None and torch.equal(before.q, after.q)


def test_marked_images_are_no_class() -> None:
    x, y = clusters((80, 80, 80))
    live = Live(x)
    live.labels[(y == 0).nonzero()[:4, 0]] = 0
    live.labels[(y == 1).nonzero()[:4, 0]] = 1
    live.labels[(y == 2).nonzero()[:4, 0]] = NONE
    answer = live.answer()
    assert answer is not None and answer.classes == (0, 1)
    assert answer.belongs[y == 2].mean() < 0.3 < answer.belongs[y < 2].mean()


def test_a_new_class_is_a_gain_and_more_of_the_same_is_none() -> None:
    x, y = clusters((90,) * 4, spread=0.6)
    live = Live(x)
    live.labels[torch.cat([(y == c).nonzero()[:5, 0] for c in range(3)])] = 0
    live.labels[live.labels == 0] = y[live.labels == 0]
    answers = [live.answer()]
    for images in ((y == 3).nonzero()[:5, 0], torch.arange(30)):
        live.labels[images] = y[images]
        answers.append(live.answer())
    found, same = (gain(a, b) for a, b in pairwise(answers) if a and b)
    assert 0.1 < found < 0.5 and 0 <= same < PAYS


def test_the_images_outside_the_crowd_have_answers_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tamatch.frozen.live.CROWD", 80)
    x, y = clusters((200, 200, 200), spread=0.6)
    live = Live(x)
    answered(live, y, 15)
    answer = live.answer()
    assert answer is not None and answer.q.shape == (600, 3)
    assert (answer.guess == y).float().mean() > 0.9 and answer.belongs.mean() > 0.7
