from __future__ import annotations

import torch

from tamatch.meter import Meter


def test_means_maxima_and_a_fresh_start() -> None:
    meter = Meter()
    for i in range(1, 4):
        value = torch.tensor(float(i))
        meter.add_({"a": value, "max_w": value % 3, "v": value.expand(2)})
    assert meter.read() == {"a": 2.0, "max_w": 2.0, "v": [2.0, 2.0]}
    meter.add_({"a": torch.tensor(5.0), "max_w": torch.tensor(0.5), "v": torch.zeros(2)})
    assert meter.read() == {"a": 5.0, "max_w": 0.5, "v": [0.0, 0.0]}


def test_sums_survive_a_stop() -> None:
    one, two = Meter(), Meter()
    one.add_({"a": torch.tensor(1.0)})
    two.load_sums(one.state_dict())
    two.add_({"a": torch.tensor(4.0)})
    assert two.read() == {"a": 2.5}
