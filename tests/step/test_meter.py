from __future__ import annotations

import pytest
import torch

from tamatch.errors import UsageError
from tamatch.step.meter import Meter

GOOD, BAD = torch.tensor(False), torch.tensor(True)


def test_means_maxima_and_a_fresh_start() -> None:
    meter = Meter()
    for i in range(1, 4):
        value = torch.tensor(float(i))
        meter.add_({"a": value, "max_w": value % 3, "v": value.expand(2)}, GOOD)
    assert meter.read() == {"a": 2.0, "max_w": 2.0, "v": [2.0, 2.0]}
    meter.add_({"a": torch.tensor(5.0), "max_w": torch.tensor(0.5), "v": torch.zeros(2)}, GOOD)
    assert meter.read() == {"a": 5.0, "max_w": 0.5, "v": [0.0, 0.0]}


def test_sums_survive_a_stop() -> None:
    one, two = Meter(), Meter()
    one.add_({"a": torch.tensor(1.0)}, GOOD)
    two.load_state_dict(one.state_dict())
    two.add_({"a": torch.tensor(4.0)}, GOOD)
    assert two.read() == {"a": 2.5}


def test_a_bad_step_does_not_count() -> None:
    meter = Meter()
    meter.add_({"a": torch.tensor(3.0), "max_w": torch.tensor(2.0)}, GOOD)
    meter.add_({"a": torch.tensor(torch.nan), "max_w": torch.tensor(torch.inf)}, BAD)
    assert meter.read() == {"a": 3.0, "max_w": 2.0}
    meter.add_({"a": torch.tensor(torch.nan), "max_w": torch.tensor(torch.nan)}, BAD)
    assert meter.read() == {}


def test_no_gradient_is_kept() -> None:
    meter = Meter()
    meter.add_({"a": torch.ones((), requires_grad=True) * 2}, GOOD)
    assert not meter.total.requires_grad and meter.read() == {"a": 2.0}


@pytest.mark.parametrize(
    "later", [{}, {"a": torch.ones(2)}, {"a": torch.ones(()), "b": torch.ones(())}]
)
def test_each_step_has_the_same_parts(later: dict[str, torch.Tensor]) -> None:
    meter = Meter()
    meter.add_({"a": torch.ones(())}, GOOD)
    with pytest.raises(
        UsageError, match=r"the part '[ab]' of the method's loss is missing in some"
    ):
        meter.add_(later, GOOD)
