"""FlexMatch and its curriculum of thresholds."""

from __future__ import annotations

import pytest
import torch

from tamatch.losses import each_ce
from tamatch.methods.flexmatch import FlexMatch
from tamatch.pseudo import Curriculum
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits, seen


def test_first_mask_is_all_ones() -> None:
    method = FlexMatch(Echo(), echo_task())
    pseudos, batch = seen(method), echo_batch()
    loss = method(batch)
    assert pseudos[0].mask.tolist() == [1.0] * 12
    label = batch.u[0].argmax(-1)
    want = each_ce(batch.x[0], batch.y).mean() + each_ce(batch.u[1], label).mean()
    torch.testing.assert_close(loss.total, want)


@pytest.mark.parametrize("warmup", [True, False])
def test_masks_and_memory_equal_a_recount_in_every_step(warmup: bool) -> None:
    method = FlexMatch(Echo(), echo_task(), tau=0.7, threshold_warmup=warmup)
    pseudos, memory, used = seen(method), [-1] * 30, 0.0
    random = torch.Generator().manual_seed(5)
    bias = torch.tensor([2.0, 1.0, 0.0, -1.0])  # classes learnt at different speed
    for step in range(25):
        ids = torch.randint(30, (12,), generator=random).tolist()
        weak = random_logits(step) + bias
        counts = [memory.count(c) for c in range(4)]
        rivals = [*counts, memory.count(-1)] if warmup else counts
        beta = [count / max(*rivals, 1) for count in counts]
        method(echo_batch(u=(weak, random_logits(step + 100)), ids=ids))
        mask = []
        for i, p in zip(ids, weak.softmax(-1).tolist(), strict=True):
            label = p.index(max(p))
            mask.append(float(max(p) >= 0.7 * beta[label] / (2 - beta[label])))
            if max(p) >= 0.7:
                memory[i] = label
        assert pseudos[-1].mask.tolist() == mask
        part = method.labeler.select
        assert part.labels.tolist() == [4 if label == -1 else label for label in memory]
        assert part.counts.tolist() == [memory.count(c) for c in (0, 1, 2, 3, -1)]
        used += sum(mask) / 12
    assert 0 < used < 25
    assert len({*memory}) == 5 or -1 not in memory


def test_a_class_learnt_fully_has_the_full_threshold() -> None:
    part = Curriculum(echo_task(unlabelled=4), 0.9)
    part.counts.copy_(torch.tensor([3, 1, 0, 0, 0]))
    level = 0.9 * part.beta / (2 - part.beta)
    assert level.tolist() == pytest.approx([0.9, 0.9 * (1 / 3) / (5 / 3), 0, 0])


def test_never_selected_images_hold_beta_down_only_with_the_warmup() -> None:
    for warmup, want in ((True, 2 / 7), (False, 1.0)):
        part = Curriculum(echo_task(unlabelled=9), warmup=warmup)
        part.counts.copy_(torch.tensor([2, 0, 0, 0, 7]))
        assert part.beta[0].item() == pytest.approx(want)
