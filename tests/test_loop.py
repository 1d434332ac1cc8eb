"""Methods in a loop of one's own: any net, any inputs, and mistakes that are one line."""

from __future__ import annotations

import copy
import runpy
import sys
from collections import UserDict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from torch import Tensor, nn
from torch.utils.data import DataLoader

import tamatch
from tamatch.errors import UsageError
from tamatch.methods import METHODS
from tests.methods.miniature import Miniature, batch_of

EXAMPLES = Path(__file__).parents[1] / "examples"
WORDS, CLASSES, LABELLED, POOL = 30, 4, 8, 40
LABELS = torch.arange(LABELLED) % CLASSES


class Words(nn.Module):
    """(N, L) numbers of words, with dropout; returns what `form` makes of logits and features."""

    def __init__(self, form: Any = lambda logits, features: logits) -> None:
        super().__init__()
        self.words, self.layer = nn.Embedding(WORDS, 16), nn.Linear(16, 12)
        self.head, self.form = nn.Linear(12, CLASSES), form

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        mean = (self.words(input_ids) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        features = self.layer(mean).relu()
        return self.form(self.head(features), features)


class Rec(NamedTuple):
    logits: Tensor
    features: Tensor


FORMS = {
    "logits": lambda logits, features: logits,
    "pair": lambda logits, features: (logits, features),
    "named tuple": Rec,
    "record": lambda logits, features: SimpleNamespace(logits=logits),
    "dictionary": lambda logits, features: {"logits": logits, "feat": features},
}


def numbers(count: int, length: int) -> Tensor:
    return torch.randint(WORDS, (count, length))


def named(count: int, length: int) -> Any:
    """As the tokenisers of Hugging Face give them: a mapping, but no dict."""
    return UserDict(input_ids=numbers(count, length), attention_mask=torch.ones(count, length))


def paired(count: int, length: int) -> tuple[Tensor, Tensor]:
    return numbers(count, length), torch.ones(count, length)


INPUTS = {"tensor": numbers, "dictionary": named, "tuple": paired}


def loss_of(method: Any, net: nn.Module, example: Any, **options: Any) -> tamatch.SSLLoss:
    task = {"labels": LABELS, "unlabelled": POOL, "steps": 10, "batch": (LABELLED, 12)}
    return tamatch.SSLLoss(method, net, example, **{**task, **options})


def steps(ssl: tamatch.SSLLoss, inputs: Any, count: int = 3, first: int = 0) -> None:
    """Train by Adam on texts whose lengths differ from view to view."""
    optimizer = torch.optim.Adam(ssl.parameters(), 0.01)
    for step in range(first, first + count):
        torch.manual_seed(step)
        x = [inputs(LABELLED, 5 + i) for i in range(len(ssl.views.x))]
        u = [inputs(12, 6 + i) for i in range(len(ssl.views.u))]
        ids = {"id_x": torch.arange(LABELLED), "id_u": torch.randint(POOL, (12,))}
        optimizer.zero_grad()
        ssl(x, LABELS, u, **ids).backward()
        optimizer.step()
        ssl.after_step()


@pytest.mark.parametrize("inputs", INPUTS.values(), ids=INPUTS.keys())
@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_on_texts(method: str, inputs: Any) -> None:
    torch.manual_seed(0)
    net = Words()
    before = copy.deepcopy(net.state_dict())
    ssl = loss_of(method, net, inputs(2, 7))
    steps(ssl, inputs)
    changed = [name for name, value in net.state_dict().items() if not value.equal(before[name])]
    assert changed == [*before]  # the user's net itself, all of it
    assert all(part.isfinite().all() for part in ssl.parts.values())
    assert ssl.logits(inputs(3, 4)).shape == (3, CLASSES)


@pytest.mark.parametrize("method", ["simmatch", "crmatch", "mixmatch", "vat"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_what_a_net_returns_does_not_matter(method: str, form: Any) -> None:
    torch.manual_seed(0)
    plain, other = Words(), Words(form)
    other.load_state_dict(plain.state_dict())
    results = []
    for net in (plain, other):
        torch.manual_seed(1)
        ssl = loss_of(method, net, named(2, 7))
        steps(ssl, named)
        results.append(net.state_dict())
    assert all(value.equal(results[1][name]) for name, value in results[0].items())


@pytest.mark.parametrize("method", METHODS)
def test_the_loss_is_that_of_the_method(method: str) -> None:
    """With one of our nets, an own loop computes what the engine's step does, to the bit."""
    torch.manual_seed(0)
    net = Miniature(5)
    images = torch.randn(2, 3, 4, 4)
    labels = torch.tensor([0, 1, 2, 3, 4] * 2)
    ssl = tamatch.SSLLoss(
        method, net, images, labels=labels, unlabelled=40, steps=100, batch=(6, 12)
    )
    twin = copy.deepcopy(ssl.method)
    batch = batch_of(ssl.method, step=0, progress=0.0)
    torch.manual_seed(3)
    mine = ssl([*batch.x], batch.y, [*batch.u], id_x=batch.id_x, id_u=batch.id_u)
    torch.manual_seed(3)
    assert mine.equal(twin(batch).total)


@pytest.mark.parametrize("method", ["flexmatch", "comatch", "mean_teacher", "dash", "vat"])
def test_a_saved_state_goes_on_as_if_it_had_not_stopped(method: str) -> None:
    def fresh(seed: int) -> tamatch.SSLLoss:
        torch.manual_seed(seed)
        return loss_of(method, Words(), named(2, 7), ema=0.9)

    whole, stopped, resumed = fresh(0), fresh(0), fresh(1)
    steps(stopped, named, 3)
    resumed.load_state_dict(stopped.state_dict())
    for ssl in (stopped, resumed):
        steps(ssl, named, 2, first=3)
    assert int(resumed.step) == 5 and int(whole.step) == 0
    for name, value in stopped.state_dict().items():
        assert value.equal(resumed.state_dict()[name]), name


def test_a_teacher_of_one_s_own_names_the_classes_of_the_pool() -> None:
    """The net learns what it says, where it counts; without one, nothing but the labels."""
    torch.manual_seed(0)
    pool, told = numbers(POOL, 6), torch.arange(POOL) % CLASSES
    counts = (torch.arange(POOL) % 4 > 0).float()
    right = []
    for amounts in (0 * counts, counts):
        torch.manual_seed(0)
        ssl = loss_of("tamatch_solved", Words(), numbers(2, 7))
        ssl.method.teach(told, amounts)
        optimizer = torch.optim.Adam(ssl.parameters(), 0.02)
        for step in range(150):
            ids = (torch.arange(12) + 12 * step) % POOL
            optimizer.zero_grad()
            ssl(numbers(LABELLED, 5), LABELS, pool[ids], id_u=ids).backward()
            optimizer.step()
            ssl.after_step()
        right.append((ssl.logits(pool).argmax(-1) == told)[counts > 0].float().mean())
    assert right[0] < 0.5 and right[1] > 0.9


def test_the_average_is_tested() -> None:
    ssl = loss_of("fixmatch", net := Words(), named(2, 7), ema=0.9)
    steps(ssl, named)
    inputs = named(3, 5)
    assert ssl.final is not net and type(ssl.final) is Words
    assert ssl.logits(inputs).equal(ssl.final(**inputs).detach())
    assert not ssl.logits(inputs).equal(net(**inputs).detach())


def test_a_pass_of_the_example_leaves_the_net_as_it_was() -> None:
    net = Miniature(5)
    before = copy.deepcopy(net.state_dict())
    loss_of("fixmatch", net, torch.randn(2, 3, 4, 4))
    assert net.training and all(v.equal(before[k]) for k, v in net.state_dict().items())


def call(**changes: Any) -> None:
    """One loss, with changes to what is handed over."""
    built = {"method": "fixmatch", "net": Words(), "example": named(2, 7)}
    batch = {"x": named(3, 5), "y": LABELS[:3], "u": [named(4, 5), named(4, 6)]}
    in_call = {k: changes.pop(k) for k in ("x", "y", "u", "id_x", "id_u") if k in changes}
    loss_of(**{**built, **changes})(**{**batch, **in_call})


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"method": "fixmach"}, "--method fixmach is not a method. Perhaps you meant fix"),
    "option": ({"taux": 0.9}, "--taux is not an option. Perhaps you meant --tau"),
    "range": ({"tau": 2}, "--tau must lie in (0, 1), got 2."),
    "run option": ({"lr": 2}, "--lr is not an option"),
    "net": ({"net": 3}, "net must be a torch module, not a int."),
    "example": ({"example": "text"}, "example must be a tensor, or a dictionary or tuple"),
    "failing net": ({"example": {"ids": LABELS}}, "net: a pass of the example failed (TypeError"),
    "no logits": ({"net": Words(lambda a, b: {"loss": a})}, "net: expected logits (N, classes)"),
    "map": ({"net": Words(lambda a, b: a[..., None])}, "found a tensor of 2 × 4 × 1"),
    "labels": ({"labels": [0, 7]}, "labels must lie in 0 … 3, as the net has 4 classes; got"),
    "no labels": ({"labels": None}, "labels must be whole numbers (N,), not a NoneType."),
    "the pool": ({"unlabelled": torch.ones(9, 2)}, "at least 0, got a tensor of 9 × 2."),
    "steps": ({"steps": 0}, "steps must be a whole number of at least 1, got 0."),
    "kind of steps": ({"steps": "10"}, "steps must be a whole number of at least 1, got '10'."),
    "batch": ({"batch": 64}, "unlabelled inputs in a step, such as (64, 128); got 64."),
    "half a batch": ({"batch": (8, 0)}, "batch[1] must be a whole number of at least 1, got 0."),
    "kind of ids": ({"id_u": torch.rand(4)}, "id_u must be a tensor of whole numbers (N,), not a"),
    "share": ({"method": "tamatch", "prior": "even"}, "prior must be a share for each class, got"),
    "far y": ({"y": LABELS[:3] + 3}, "y must lie in 0 … 3, got 3 … 5."),
    "label kinds": ({"labels": [0.5]}, "labels must be whole numbers (N,), not a tensor of 1."),
    "prior": ({"method": "tamatch", "prior": [1, 2]}, "gives 2 class shares, but the net has 4"),
    "views": ({"u": named(4, 5)}, "fixmatch takes u=[weak, strong], got 1 view."),
    "no pool": ({"method": "supervised"}, "supervised takes no u, got 2 views."),
    "y": ({"y": torch.rand(3)}, "y must be a tensor of whole numbers (N,), not a tensor of 3."),
    "ids": ({"method": "flexmatch"}, "pass id_u, their positions in the pool."),
    "taught ids": (
        {"method": "tamatch_solved", "u": named(4, 5)}, "pass id_u, their positions in the pool.",
    ),
    "ids x": ({"method": "simmatch"}, "pass id_x, their positions among the labelled inputs."),
    "far ids": ({"id_u": torch.arange(37, 41)}, "id_u must lie in 0 … 39, got 37 … 40."),
    "sizes": ({"y": LABELS}, "fixmatch: a first step failed ("),
    "head": (
        {"method": "vat", "net": Words(lambda a, b: a.sigmoid())},
        "vat calculates with its inputs, and these are not numbers.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(**changes)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_forgotten_after_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamatch.loop.FORGOTTEN", 2)
    ssl = loss_of("supervised", Words(), named(2, 7))
    with pytest.raises(UsageError, match="after_step"):
        for _ in range(4):
            ssl(named(3, 5), LABELS[:3])


def example(name: str) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / name)))


@pytest.mark.parametrize("method", ["fixmatch", "mixmatch"])
def test_the_loop_on_texts_learns(method: str) -> None:
    torch.manual_seed(0)
    assert example("own_loop_text.py").train(method, steps=60) > 0.35  # of four classes


def test_the_plain_loop_learns_from_the_pool() -> None:
    torch.manual_seed(0)
    here = example("own_loop.py")
    x, y, pool, test, truth = here.digits()
    net = here.SmallCNN(10)
    ssl = here.train(
        "fixmatch", net, x, y, pool, {"weak": here.weak, "strong": here.strong}, steps=40
    )
    assert (ssl.logits(test).argmax(-1) == truth).float().mean() > 0.5
    assert "used" in ssl.parts


class Hooks(nn.Module):
    """What Lightning calls of a module, in the order that its documentation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, Any] = {}

    def log(self, name: str, value: Any) -> None:
        self.logged[name] = value

    def log_dict(self, values: dict[str, Any]) -> None:
        self.logged |= values

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer, closure: Any = None
    ) -> None:
        optimizer.step(closure=closure)


@pytest.mark.filterwarnings("ignore")  # of Lightning itself
def test_the_lightning_module_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Lightning itself where it is installed; else its hooks are called as it would."""
    try:
        import lightning
    except ImportError:
        lightning = ModuleType("lightning")
        lightning.LightningModule = Hooks  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "lightning", lightning)
    module = example("own_loop_lightning.py").SSLModule(
        "flexmatch", net := Words(), numbers(2, 7), labels=LABELS, unlabelled=POOL, steps=10
    )
    before = copy.deepcopy(net.state_dict())
    x, u = numbers(LABELLED, 5), [numbers(12, 6), numbers(12, 6)]
    parts: dict[str, Any] = {"x": ([x], LABELS, torch.arange(LABELLED)), "u": (u, torch.arange(12))}
    if lightning.LightningModule is Hooks:
        optimizer = module.configure_optimizers()

        def closure() -> Tensor:
            loss: Tensor = module.training_step(parts, 0)
            optimizer.zero_grad()
            loss.backward()
            return loss

        for step in range(3):
            module.optimizer_step(0, step, optimizer, closure)
        module.validation_step((x, LABELS), 0)
        assert {"accuracy", "sup", "unsup"} <= module.logged.keys()
    else:
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = lightning.Trainer(max_steps=3, accelerator="cpu", **quiet)
        loaders = {name: DataLoader([part] * 2, batch_size=None) for name, part in parts.items()}
        joined = lightning.pytorch.utilities.CombinedLoader(loaders, "max_size_cycle")
        trainer.fit(module, joined, DataLoader([(x, LABELS)], batch_size=None))
        assert {"accuracy", "sup", "unsup"} <= trainer.callback_metrics.keys()
    assert int(module.ssl.step) == 3
    assert not any(value.equal(before[name]) for name, value in net.state_dict().items())


@pytest.mark.slow
def test_the_plain_loop_gets_as_far_as_the_engine() -> None:
    """FixMatch on vectors of texts, with the net, the views and the optimizer of the estimator."""
    here, random = example("own_loop.py"), np.random.default_rng(0)
    common, own = random.dirichlet(np.full(400, 0.5)), random.dirichlet(np.full(400, 0.05), 4)
    topics = 0.7 * common + 0.3 * own
    truth = random.integers(4, size=2500)
    counts = np.stack([random.multinomial(60, topics[c]) for c in truth])
    tfidf = TfidfTransformer().fit_transform(counts)
    rows = TruncatedSVD(32, random_state=0).fit_transform(tfidf)
    rows = ((rows - rows.mean(0)) / rows.std(0)).astype("float32")
    known = np.concatenate([np.flatnonzero(truth[:2000] == c)[:5] for c in range(4)])
    partly = np.full(2000, -1)
    partly[known] = truth[known]
    views = {
        "weak": lambda r: r + 0.1 * torch.randn_like(r),
        "strong": lambda r: (r + 0.3 * torch.randn_like(r)) * (torch.rand_like(r) >= 0.2),
    }

    def error(found: Any) -> float:
        return float(100 * (found != truth[2000:]).mean())

    for method, most in (("supervised", 6), ("fixmatch", 2)):
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4)
        )
        ssl = here.train(
            method, net, torch.tensor(rows[known]), torch.tensor(truth[known]),
            torch.tensor(rows[:2000]), views, steps=400, optimizer_of=here.sgd, ema=0.99,
        )  # fmt: skip
        engine = tamatch.SSLClassifier(method, steps=400, batch=32, unlabelled=128, ema=0.99)
        engine.fit(rows[:2000], partly)
        own = error(ssl.logits(torch.tensor(rows[2000:])).argmax(-1).numpy())
        assert abs(own - error(engine.predict(rows[2000:]))) <= most


@pytest.mark.slow
@pytest.mark.parametrize(("method", "most"), [("supervised", 4), ("fixmatch", 3)])
def test_the_plain_loop_gets_as_far_on_images(method: str, most: float) -> None:
    """Its own CNN, views and AdamW on the digits, beside the engine with its own of all three."""
    here = example("own_loop.py")
    torch.manual_seed(0)
    x, y, pool, test, truth = here.digits()
    views = {"weak": here.weak, "strong": here.strong}
    ssl = here.train(method, here.SmallCNN(10), x, y, pool, views, ema=0.99)
    partly = torch.cat([y, torch.full((len(pool),), -1)])
    images, others = ((part[:, 0] / 2 + 0.5).numpy() for part in (torch.cat([x, pool]), test))
    engine = tamatch.SSLClassifier(
        method, net="wrn_10_1_clean", flips="none", steps=600, batch=32, unlabelled=128, ema=0.99
    ).fit(images, partly.numpy())
    wrong = [
        ssl.logits(test).argmax(-1).numpy() != truth.numpy(),
        engine.predict(others) != truth.numpy(),
    ]
    own, theirs = (100 * float(each.mean()) for each in wrong)
    assert abs(own - theirs) <= most
    if method == "fixmatch":
        assert max(own, theirs) < 10  # the labels alone: 13.6 to 15.6
