"""A method of one's own is tried before the run: what is wrong with it is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tamatch
from tamatch import methods
from tamatch.cli import main
from tamatch.runs.build import engine_of
from tamatch.settings.configure import configure
from tamatch.storage.folder import RunFolder
from tests.tiny import digits

HEAD = """
import tamatch, torch
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
STATE = """
    def __init__(self, net, task, **base):
        super().__init__(net, task, **base)
        self.seen = 0
        self.register_buffer("shares", torch.tensor(0.1).expand(10))
        self.head = torch.nn.Linear(net.width, 2)

    def after_step(self):
        super().after_step()
"""
FINAL = """
    @property
    def final(self):
        return RETURNED
"""
GOOD = FORWARD.replace("RETURNED", "Loss(sup, {})")
FILLED = (
    ("[]", "self.seen.append(torch.zeros(10))"),
    ("{}", "self.seen[3] = self.seen.get(3, 0) + 1"),
    ("set()", "self.seen.add(len(self.seen))"),
    ("numpy.zeros(3)", "self.seen += 1"),
    ("numpy.random.default_rng(0)", "self.seen.random()"),
    ("random.Random(0)", "self.seen.random()"),
)
TINY = ("--steps", "2", "--net", "wrn_10_1", "--baseline", "none")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("    pass", "a first step failed (NotImplementedError: Mine has no forward)."),
        (FORWARD.replace("RETURNED", "sup"),
         "forward must return tamatch.types.Loss(total, parts), not Tensor."),
        (FORWARD.replace("RETURNED", "Loss(each_ce(x.logits, batch.y), {})"),
         "the total of its loss must be a tensor with one number: take the mean."),
        (FORWARD.replace("RETURNED", "Loss(sup.detach(), {})"),
         "the total of its loss has no gradient, so nothing can be trained."),
        (FORWARD.replace("RETURNED", "Loss(sup, {'sup': sup.item()})"),
         "the part 'sup' of its loss must be a tensor, not float."),
        (FORWARD.replace("RETURNED", "Loss(supp, {})"),
         "a first step failed (mine.py, line 11: NameError: name 'supp' is not defined)."),
        (CONSTRUCTOR + FORWARD.replace("RETURNED", "Loss(sup, {})"),
         "its __init__ must take what every method takes: add `**base` to its parameters, and "
         "pass it on with `super().__init__(net, task, **base)`."),
        (FORWARD.replace("RETURNED", "Loss(sup, {'count': sup})"),
         "'count' cannot be the name of a part of its loss, as the log uses it for something "
         "else. Rename it."),
        ("    views = (['weak'], ['weak', 'strong'])" + GOOD,
         "views must be tamatch.types.Views(x=(…), u=(…)), not tuple."),
        ("    views = tamatch.types.Views(u=('weak', 'storng'))" + GOOD,
         "its view 'storng' is unknown; known are plain, weak, medium, strong."),
        (STATE + "        self.rows += 1" + GOOD,
         "a first step failed (mine.py, line 16: AttributeError: 'Mine' object has no attribute "
         "'rows')."),
        (STATE + "        self.seen += 1" + GOOD,
         "its number seen changes in a step. It is not saved, and keeps its first value in a "
         "CUDA graph: make it a buffer and write into it, as in `self.seen.add_(1)`."),
        (STATE + "        self.shares = 0.9 * self.shares" + GOOD,
         "its buffer shares is replaced in a step. Weight averages, checkpoints and CUDA graphs "
         "use the tensor that __init__ registers: write into it, with `self.shares.copy_(…)` or "
         "as in `self.shares.mul_(0.9).add_(…)`."),
        (STATE.replace("expand(10)", "repeat(10), False")
         + "        self.shares.mul_(0.9)" + GOOD,
         "its buffer shares changes in a step, but is not saved: register it without "
         "`persistent=False`."),
        (STATE.replace("self.seen = 0", "self.seen = [torch.zeros(10)]")
         + "        self.seen[0].add_(1)" + GOOD, "its seen changes in a step, but no checkpoint "),
        (STATE.replace("self.seen = 0", "self.seen = torch.zeros(10)")
         + "        self.seen = self.seen + 1" + GOOD,
         "its seen changes in a step, but no checkpoint holds it, because it is not registered. "
         "Keep what changes in tensors that __init__ registers, with `self.register_buffer(…)`, "
         "and write into them, as in `.mul_(0.9).add_(…)`; draw random numbers from torch's own "
         "generator."),
        *((STATE.replace("self.seen = 0", f"import numpy, random; self.seen = {empty}")
           + f"        {change}" + GOOD, "its seen changes in a step, but no checkpoint holds it")
          for empty, change in FILLED),
        (FORWARD.replace("RETURNED", "Loss(sup, {'ratio': sup.detach() / 0})"),
         "the part 'ratio' of its loss is not finite in the first step. Look for a division by "
         "zero, a logarithm of zero, or the mean of a selection that is empty."),
        (FORWARD.replace("RETURNED", "Loss(sup * float('nan'), {})"),
         "the total of its loss is not finite in the first step."),
        ("    views = tamatch.types.Views(u=('weak'))" + GOOD,
         "its views of u must be a tuple, with a comma even if there is one: Views(u=('weak',))."),
        (STATE.replace("self.seen = 0", "self.seen = torch.Generator()")
         + "        torch.rand(1, generator=self.seen)" + GOOD,
         "its seen changes in a step, but no checkpoint holds it"),
        (STATE + "        import numpy; numpy.random.beta(1, 1)" + GOOD,
         "a step draws from np.random. A resumed run would draw other numbers, and a CUDA graph "
         "repeats the first: draw from torch, as in `torch.rand(…)`."),
        (STATE + "        import random; random.random()" + GOOD,
         "a step draws from Python's random."),
        ("    seen = []\n" + FORWARD.replace("(x,) =", "self.seen.append(1)\n        (x,) =")
         .replace("RETURNED", "Loss(sup * (1 + len(self.seen)), {})"),
         "a step that is repeated from the saved state has another result. It depends on something "
         "that no checkpoint holds, such as a list that grows or a random generator of its own. "
         "Keep state in registered buffers, and draw from torch's generator."),
        (STATE.replace("self.seen = 0", "self.seen = False")
         + "        self.shares.add_(1 if self.seen else 2)\n        self.seen = True" + GOOD,
         "a step that is repeated from the saved state has another shares. It depends on something "
         "that no checkpoint holds (perhaps seen), such as"),
        (STATE.replace("self.seen = 0", "self.seen = None")
         + "        self.seen = torch.rand(3) if self.seen is None else self.seen" + GOOD,
         "its seen changes in a step, but no checkpoint holds it"),
        (STATE.replace("Linear(net.width, 2)", "ReLU(), [torch.nn.Linear(net.width, 2)]") + GOOD,
         "its head has weights that torch does not see, so they are neither trained nor saved. "
         "Use nn.ModuleList, nn.ModuleDict or nn.ParameterList instead of a list or dictionary."),
        (STATE.replace("self.head =", "self.net.extra =") + GOOD,
         "it adds extra.weight to the net, which is tested, averaged and exported without it. Make "
         "heads attributes of the method, as in `self.head = nn.Linear(…)`."),
        (FINAL.replace("RETURNED", "torch.nn.Sequential(self.net)") + GOOD,
         "its final lacks stem.weight, which is exported under this name. Use the net that the "
         "method was given, or a copy of it, or tamatch.modules.Shifted(net, shift), "
         "without another module around it."),
        (FINAL.replace("RETURNED", "torch.nn.Identity()") + GOOD, "its final lacks stem.weight, "),
        (FINAL.replace("RETURNED", "self.net.forward") + GOOD,
         "its final must be a net, not method."),
        (FINAL.replace("RETURNED", "self.nothing") + GOOD, "its final failed (AttributeError: "),
        (STATE.replace("(net, task, **base)\n", "(torch.nn.Sequential(net), task, **base)\n", 1)
         + GOOD, "its net lacks stem.weight, "),
        (STATE.replace("super().after_step()", "pass") + GOOD,
         "its after_step does not move the averaged weights (--ema), which are tested and "
         "exported: call super().after_step()."),
        (STATE.replace("Linear(net.width,", "LazyLinear(") + GOOD,
         "its head.weight has no shape before the first step, but the optimizer needs one. The "
         "width of the net's features is net.width."),
        (FORWARD.replace("RETURNED", "Loss((x.logits.exp() * x.logits.exp().zero_()).mean(), {})"),
         "a first step failed (RuntimeError: one of the variables needed for gradient "),
    ],
    ids=["no forward", "tensor", "vector", "no gradient", "float", "name", "constructor",
         "log's name", "views", "view", "after_step", "number", "buffer", "not persistent",
         "tensor in a list", "loose tensor",
         *(f"filled {empty}" for empty, _ in FILLED), "infinite part", "nan", "no comma",
         "own generator", "numpy", "random", "list of the class", "switch",
         "kept from the first step", "loose weights", "head of the net", "wrapped final",
         "final without weights",
         "function as final", "failing final", "wrapped net", "average", "lazy", "way back"],
)  # fmt: skip
def test_a_mistake_is_told_in_one_line(
    body: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(HEAD + body)
    assert main(["train", "--method", "mine.py:Mine", *TINY, "--out", "run"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(f"tamatch: --method mine.py:Mine: {told}")
    assert not Path("run").exists()


def test_what_harms_nothing_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts with a gradient, buffers by `expand`, what one function leaves for another, and lists
    and arrays that stay as they are.
    """
    monkeypatch.chdir(tmp_path)
    used = FORWARD.replace("(x,) =", "self.rows = len(batch.y)\n        (x,) =")
    used = used.replace("RETURNED", "Loss(sup, {'sup': sup, 'shares': self.shares})")
    written = "        self.shares.add_(self.rows)"
    held = STATE.replace("self.seen = 0", "self.seen = None; self.sizes = {'a': [1, {2}]}")
    held += "        self.seen = [self.shares, self.head]\n"
    Path("mine.py").write_text(HEAD + held + written + used)
    tamatch.train(method="mine.py:Mine", net="wrn_10_1", steps=2, baseline="none", batch=8,
                  log_every=1, quiet=True, out="run")  # fmt: skip
    rows = [row for row in RunFolder(Path("run")).rows() if row["kind"] == "train"]
    assert [row["sup"] for row in rows] == [row["total"] for row in rows]
    assert [row["shares"] for row in rows] == [pytest.approx([0.1 + 8 * i] * 10) for i in (1, 2)]


TEACHER = """
    def __init__(self, net, task, **base):
        super().__init__(net, task, **base)
        import copy
        self.teacher = copy.deepcopy(net).requires_grad_(False)

    @property
    def final(self):
        return self.teacher
"""


def test_a_final_net_of_its_own_is_not_taken_for_the_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(HEAD + TEACHER + GOOD)
    run = configure({"method": "mine.py:Mine", "net": "wrn_10_1", "steps": 2, "ema": 0.5})
    engine = engine_of(run, *digits())
    method = engine.method
    first = [weight.clone() for weight in method.final.parameters()]
    engine.advance()
    assert method.average is not None
    assert all(map(torch.equal, method.final.parameters(), first))
    assert not all(map(torch.equal, method.average.parameters(), first))


def test_a_method_that_waits_for_the_device_is_told_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU its steps are not captured then."""
    monkeypatch.chdir(tmp_path)
    for term, place in (
        ("sup.item()", "(mine.py, line 11)"),
        ("x.logits[batch.y > 3].mean()", "(mine.py, line 11)"),
        ("sum(batch.y.tolist())", "(mine.py, line 11)"),
        ("float(batch.y.numpy().sum())", "(mine.py, line 11)"),
        ("float(__import__('numpy').asarray(batch.y).sum())", "(mine.py, line 11)"),
        ("batch.y.cpu().sum()", "(mine.py, line 11)"),
        ("sup.detach()", None),
    ):
        Path("mine.py").write_text(HEAD + FORWARD.replace("RETURNED", f"Loss(sup + {term}, {{}})"))
        run = configure({"method": "mine.py:Mine", "net": "wrn_10_1", "steps": 2})
        said: list[str] = []
        engine_of(run, *digits(), say=said.append)
        assert [place in text for text in said if "waits for the device" in text] == (
            [True] if place else []
        )


def test_a_file_that_has_changed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for title in ("first", "second"):
        Path("mine.py").write_text(f"{HEAD}    title = '{title}'")
        assert methods.get("mine.py:Mine").title == title  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["examples/own_method.py:Rising", "mine.py:Mine"])
def test_the_trial_leaves_nothing_behind(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(
        HEAD + STATE + "        self.head.weight.data.add_(self.shares.add_(1).mean())" + GOOD
    )
    (tmp_path / "examples").symlink_to(Path(__file__).parents[2] / "examples")
    monkeypatch.chdir(tmp_path)
    run = configure({"method": name, "net": "wrn_10_1", "steps": 2})
    data, split = digits()
    states = []
    for tried in (True, False):
        if not tried:
            monkeypatch.setattr("tamatch.runs.build.try_method", lambda *given: None)
        before = torch.get_rng_state()
        engine = engine_of(run, data, split)
        assert torch.equal(torch.get_rng_state(), before)
        assert all(weight.grad is None for weight in engine.method.parameters())
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
    Path("mine.py").write_text(HEAD + CONSTRUCTOR.replace("tau=0.5", "tau=print"))
    for flag, told in (
        ("--tau", "--tau is not an option: mine.py:Mine fixes tau, or its type is none that"),
        ("--tav", "--tav is not an option."),
        ("--task", "--task is not an option. `tamatch train --help`"),
    ):
        assert main(["train", "--method", "mine.py:Mine", flag, "0.9", *TINY]) == 2
        assert told in capsys.readouterr().err


@pytest.mark.sample(11)
@pytest.mark.parametrize("name", [n for n, row in methods.METHODS.items() if not row.options])
def test_a_subclass_of_any_method_passes_the_trial(name: str) -> None:
    """All of them keep their state where a resumed run finds it."""
    own = type("Own", (methods.get(name),), {})
    with methods.CUSTOM.held([]):
        run = configure({"method": own, "net": "wrn_10_1", "steps": 2, "batch": 8, "ema": 0.9})
        engine_of(run, *digits())
