from __future__ import annotations

import torch

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
