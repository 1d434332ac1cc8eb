"""A method of one's own is tried in several processes, too: by each of them alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tamatch.errors import UsageError
from tamatch.runs.build import engine_of
from tamatch.settings.configure import configure
from tests.dist.pair import in_both
from tests.tiny import digits

METHOD = """
import tamatch, torch
from tamatch import dist
from tamatch.losses import each_ce
from tamatch.types import Loss

class Mine(tamatch.Method):
    def __init__(self, net, task, **base):
        super().__init__(net, task, **base)
        self.register_buffer("last", torch.zeros(task.batch_labelled, task.classes))

    def forward(self, batch):
        (x,) = self.predict(*batch.x)
        self.last.copy_(dist.gather(x.logits.detach()))
        return Loss(each_ce(x.logits, batch.y).mean(), {"spread": self.last.std()})
"""


def what_is_told(method: str) -> str:
    run = configure({"method": method, "net": "wrn_10_1", "batch": 8, "unlabelled": 8, "steps": 2})
    try:
        engine = engine_of(run, *digits())
    except UsageError as error:
        return str(error)
    assert not engine.method.last.any()  # type: ignore[operator, union-attr]
    engine.advance()
    return "nothing"


@pytest.mark.slow
@pytest.mark.parametrize("gathered", ["dist.gather", "dist.gahter"])
def test_each_process_tries_it(gathered: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(METHOD.replace("dist.gather", gathered))
    told = in_both(partial(what_is_told, f"{tmp_path}/mine.py:Mine"), tmp_path)
    assert told[0] == told[1]
    if gathered == "dist.gather":
        assert told[0] == "nothing"
    else:
        assert "a first step failed (mine.py, line 14: AttributeError:" in told[0]
