"""A net of a few hundred weights, batches for it, and what every method must fulfil."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from tamatch.methods.base import Method
from tamatch.types import Batch, Out, Task
from tests.contract.nosync import no_sync

LABELLED, UNLABELLED = 6, 12  # batch sizes


class Miniature(nn.Module):
    """(N, 3, 4, 4) images, one convolution; logits stay within ±reach."""

    def __init__(self, classes: int = 5, *, norm: bool = True, reach: float = 12.0) -> None:
        super().__init__()
        self.width, self.map_width, self.reach = 8, 8 * 4 * 4, reach
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8, momentum=0.1) if norm else nn.Identity()
        self.head = nn.Linear(8, classes)

    def forward(self, images: Tensor) -> Out:
        feature_map = self.norm(self.conv(images)).tanh()
        with torch.autocast(images.device.type, enabled=False):
            feature_map = feature_map.to(self.head.weight.dtype)
            features = feature_map.mean((2, 3))
            logits = self.reach * (4 * self.head(features)).tanh()
        return Out(logits, features, feature_map.flatten(1))


def task(classes: int = 5) -> Task:
    shares = torch.arange(1, classes + 1, dtype=torch.float64)
    return Task(
        classes=classes,
        labelled=10,
        unlabelled=40,
        labelled_shares=tuple((shares / shares.sum()).tolist()),
        steps=100,
        batch_labelled=LABELLED,
        batch_unlabelled=UNLABELLED,
    )


def build(
    cls: type[Method],
    classes: int = 5,
    *,
    norm: bool = True,
    reach: float = 12.0,
    double: bool = False,
    **options: Any,
) -> Any:
    """The method on a fresh net, always the same one."""
    torch.manual_seed(0)
    net = Miniature(classes, norm=norm, reach=reach)
    return cls(net.double() if double else net, task(classes), **options)


def batch_of(
    method: Method, seed: int = 1, *, step: int = 50, progress: float = 0.5, loud: float = 2.0
) -> Batch:
    """Random images; ids repeat, and two views of an image differ."""
    random = torch.Generator().manual_seed(seed)
    dtype = next(method.net.parameters()).dtype

    def views(count: int, number: int) -> tuple[Tensor, ...]:
        mean = loud * torch.randn(count, 3, 4, 4, generator=random)
        noise = torch.randn(number, count, 3, 4, 4, generator=random)
        return tuple((mean + noise).to(dtype))

    facts = method.task
    x, u = views(LABELLED, len(method.views.x)), views(UNLABELLED, len(method.views.u))
    y = torch.randint(facts.classes, (LABELLED,), generator=random)
    id_x = torch.randint(facts.labelled, (LABELLED,), generator=random)
    id_u = torch.randint(facts.unlabelled, (UNLABELLED,), generator=random)
    id_x[-1], id_u[-1] = id_x[0], id_u[0]
    return Batch(x, y, u, id_x, id_u, torch.tensor(step), torch.tensor(progress))


def train(method: Method, steps: range, lr: float = 0.05) -> None:
    """Plain gradient descent as the engine does it: seeded by step, gradients kept as zeros."""
    for step in steps:
        torch.manual_seed(step)
        batch = batch_of(method, step, step=step, progress=step / 100)
        method.zero_grad()
        method(batch).total.backward()
        with torch.no_grad():
            for parameter in method.parameters():
                if parameter.grad is not None:
                    parameter.sub_(lr * parameter.grad)
        method.after_step()


def check_contract(method: Method) -> None:
    """No wait for the device; a gradient for every weight; a resume that nobody can tell."""
    batch = batch_of(method)
    method(batch)  # what is made once may wait
    with no_sync():
        loss = method(batch)
        loss.total.backward()
    assert all(not part.requires_grad and part.isfinite().all() for part in loss.parts.values())
    assert {"sup", "unsup"} <= loss.parts.keys()
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name

    train(method, range(4))
    resumed = copy.deepcopy(method)
    for tensor in resumed.state_dict().values():
        tensor.zero_()
    resumed.load_state_dict(method.state_dict())
    train(method, range(4, 8))
    train(resumed, range(4, 8))
    for name, value in method.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def check_finite(cls: type[Method], classes: int, reach: float, **options: Any) -> None:
    """Loss and gradients are numbers, however sure the net is, however many classes there are."""
    method = build(cls, classes, reach=reach, **options)
    for seed in range(2):
        loss = method(batch_of(method, seed))
        assert loss.total.isfinite()
        loss.total.backward()
    assert all(p.grad.isfinite().all() for p in method.parameters() if p.grad is not None)


def check_order_does_not_matter(method: Method) -> None:
    """The same images in another order give the same loss."""
    batch = batch_of(method)
    order_x, order_u = torch.arange(LABELLED).flip(0), torch.arange(UNLABELLED).roll(5)
    shuffled = batch._replace(
        x=tuple(v[order_x] for v in batch.x),
        y=batch.y[order_x],
        u=tuple(v[order_u] for v in batch.u),
        id_x=batch.id_x[order_x],
        id_u=batch.id_u[order_u],
    )
    here, there = copy.deepcopy(method), copy.deepcopy(method)
    torch.testing.assert_close(here(batch).total, there(shuffled).total)


def statistics(net: nn.Module) -> list[Tensor]:
    """BatchNorm's running statistics, copied."""
    return [
        b.clone() for n, b in net.named_buffers() if n.endswith(("running_mean", "running_var"))
    ]
