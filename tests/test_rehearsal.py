"""A method of one's own is tried before the run: what is wrong with it is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tamatch
from tamatch import methods
from tamatch.cli import main
from tamatch.runs.build import engine_of
from tamatch.settings.config import configure
from tests.tiny import digits

HEAD = """
import tamatch
from tamatch.losses import each_ce
from tamatch.types import Loss

class Mine(tamatch.Method):
"""
FORWARD = """
    def forward(self, batch):
        (x,) = self.predict(*batch.x)
        sup = each_ce(x.logits, batch.y).mean()
        return RETURNED
"""
CONSTRUCTOR = """
    def __init__(self, net, task, *, tau=0.5):
        super().__init__(net, task)
"""
TINY = ("--steps", "2", "--net", "wrn_10_1", "--baseline", "none")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("    pass", "a first step failed (NotImplementedError: Mine has no forward)."),
        (FORWARD.replace("RETURNED", "sup"),
         "forward must return tamatch.types.Loss(total, parts), not Tensor."),
        (FORWARD.replace("RETURNED", "Loss(each_ce(x.logits, batch.y), {})"),
         "the total of its loss must be one number, as a tensor: take a mean."),
        (FORWARD.replace("RETURNED", "Loss(sup.detach(), {})"),
         "nothing can learn from its loss. Its total has no gradient."),
        (FORWARD.replace("RETURNED", "Loss(sup, {'sup': sup.item()})"),
         "the part 'sup' of its loss must be a tensor, not float."),
        (FORWARD.replace("RETURNED", "Loss(supp, {})"),
         "a first step failed (mine.py, line 11: NameError: name 'supp' is not defined)."),
        (CONSTRUCTOR + FORWARD.replace("RETURNED", "Loss(sup, {})"),
         "building it failed (TypeError: Mine.__init__() got an unexpected keyword argument "
         "'ema')."),
    ],
    ids=["no forward", "tensor", "vector", "no gradient", "float", "name", "constructor"],
)  # fmt: skip
def test_a_mistake_is_told_in_one_line(
    body: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(HEAD + body)
    assert main(["train", "--method", "mine.py:Mine", *TINY, "--out", "run"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == f"tamatch: --method mine.py:Mine: {told}"
    assert not Path("run").exists()


def test_a_file_that_has_changed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for title in ("first", "second"):
        Path("mine.py").write_text(f"{HEAD}    title = '{title}'")
        assert methods.get("mine.py:Mine").title == title  # type: ignore[attr-defined]


def test_the_trial_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    example = Path(__file__).parents[1] / "examples/own_method.py"
    run = configure({"method": f"{example}:Rising", "net": "wrn_10_1", "steps": 2})
    data, split = digits()
    states = []
    for tried in (True, False):
        if not tried:
            monkeypatch.setattr("tamatch.runs.build.try_method", lambda *given: None)
        before = torch.get_rng_state()
        engine = engine_of(run, data, split)
        assert torch.equal(torch.get_rng_state(), before)
        states.append(engine.method.state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_what_is_none_is_left_open(tmp_path: Path) -> None:
    options = {"steps": 2, "net": "wrn_10_1", "lr": None, "baseline": None}
    assert tamatch.train(out=tmp_path / "run", quiet=True, **options).result["steps"] == 2


def test_a_keyword_that_says_nothing_about_itself_is_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(HEAD + CONSTRUCTOR)
    for flag, told in (
        ("--tau", "as mine.py:Mine does not say what tau is. Its type must be Annotated: `tau: "),
        ("--tav", "--tav is not an option."),
        ("--task", "--task is not an option. `tamatch train --help`"),
    ):
        assert main(["train", "--method", "mine.py:Mine", flag, "0.9", *TINY]) == 2
        assert told in capsys.readouterr().err
