"""Groups, schedule and optimizers against values and formulas written out by hand."""

from __future__ import annotations

import copy
import io
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamatch import nets
from tamatch.step.engine import Pace
from tamatch.step.optim import build_optimizer, parameter_groups, schedule, set_lr_
from tests.contract.nosync import no_sync
from tests.tiny import tiny_engine


class Wrapped(nn.Module):
    """A net, an extra head beside it, and a frozen copy, as methods have them."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.project = nn.Linear(4, 4)
        self.average = nn.Linear(4, 4).requires_grad_(False)


def around(net: nn.Module) -> nn.Module:
    """The net alone, as a method has it."""
    holder = nn.Module()
    holder.net = net
    return holder


def settings(module: nn.Module, groups: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Each parameter's (base_lr, weight_decay)."""
    names = {parameter: name for name, parameter in module.named_parameters()}
    rows = [
        (names[p], (group["base_lr"], group["weight_decay"]))
        for group in groups
        for p in group["params"]
    ]
    assert len(rows) == len(dict(rows)), "a parameter is in two groups"
    return dict(rows)


def test_two_groups_without_layer_decay() -> None:
    net = nets.build("wrn_10_1", 10, 16)
    groups = parameter_groups(around(net), lr=0.03, weight_decay=5e-4)
    assert sorted(group["weight_decay"] for group in groups) == [0.0, 5e-4]
    for name, (lr, decay) in settings(net, groups).items():
        one_dimensional = name.endswith("bias") or "bn" in name or name.startswith("norm")
        assert (lr, decay) == (0.03, 0.0 if one_dimensional else 5e-4), name
    assert len(settings(net, groups)) == len(list(net.parameters()))


def test_wrn_layers() -> None:
    net = nets.build("wrn_16_1", 10, 16)
    got = settings(net, parameter_groups(around(net), lr=1.0, weight_decay=0.1, layer_decay=0.5))
    layer = {
        "stem": 0,
        "stages.0.0": 1,
        "stages.0.1": 2,
        "stages.1.0": 3,
        "stages.1.1": 4,
        "stages.2.0": 5,
        "stages.2.1": 6,
        "norm": 6,
        "head": 7,
    }
    for name, (lr, _) in got.items():
        part = next(part for part in layer if name.startswith(f"{part}."))
        assert lr == 0.5 ** (7 - layer[part]), name


def test_every_parameter_of_vit_small() -> None:
    """Multiplier d^(13 − id) with d = 0.5: stem id 0, block i id i + 1, last norm 12, head 13."""
    with torch.device("meta"):
        net = nets.build("vit_small_p2_32", 100, 32)
    groups = parameter_groups(around(net), lr=5e-4, weight_decay=5e-4, layer_decay=0.5)
    want = {
        "cls_token": (6.103515625e-08, 0.0),
        "pos_embed": (6.103515625e-08, 0.0),
        "patch_embed.proj.weight": (6.103515625e-08, 5e-4),
        "patch_embed.proj.bias": (6.103515625e-08, 0.0),
        "norm.weight": (2.5e-4, 0.0),
        "norm.bias": (2.5e-4, 0.0),
        "head.weight": (5e-4, 5e-4),
        "head.bias": (5e-4, 0.0),
    }
    for i in range(12):
        for part in ("norm1", "norm2", "attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"):
            decay = 0.0 if part.startswith("norm") else 5e-4
            want[f"blocks.{i}.{part}.weight"] = (5e-4 * 0.5 ** (12 - i), decay)
            want[f"blocks.{i}.{part}.bias"] = (5e-4 * 0.5 ** (12 - i), 0.0)
    got = settings(net, groups)
    assert got.keys() == want.keys()
    for name, values in want.items():
        assert got[name] == pytest.approx(values, rel=1e-12), name
    assert got["blocks.11.mlp.fc1.weight"][0] == pytest.approx(2.5e-4)
    assert got["blocks.0.mlp.fc1.weight"][0] == pytest.approx(1.22e-7, rel=1e-2)
    assert len(groups) == 28


def test_heads_beside_the_net_are_not_slowed_and_frozen_parameters_left_out() -> None:
    net = nets.build("wrn_10_1", 10, 16)
    method = Wrapped(net)
    got = settings(
        method,
        parameter_groups(method, lr=1.0, weight_decay=0.1, layer_decay=0.5),
    )
    assert got["project.weight"] == (1.0, 0.1)
    assert got["project.bias"] == (1.0, 0.0)
    assert got["net.head.weight"] == (1.0, 0.1)
    assert got["net.stem.weight"] == (0.5**4, 0.1)
    assert not any(name.startswith("average") for name in got)


@pytest.mark.parametrize(
    ("step", "steps", "warmup", "want"),
    [
        (0, 204_800, 5_120, 0.0),
        (2_560, 204_800, 5_120, 0.5),
        (5_120, 204_800, 5_120, 1.0),
        (204_799, 204_800, 5_120, 0.1951),
        (0, 262_144, 0, 1.0),
        (131_072, 262_144, 0, math.cos(7 * math.pi / 32)),
        (262_144, 262_144, 0, math.cos(7 * math.pi / 16)),
        (3_000, 1_000, 0, 0.0),
        (10, 10, 10, 1.0),
    ],
)
def test_schedule(step: int, steps: int, warmup: int, want: float) -> None:
    got = schedule(torch.tensor(step), steps, warmup)
    assert got.shape == ()
    assert got.item() == pytest.approx(want, abs=5e-5)


def test_an_engine_takes_the_rate_of_the_step_it_does() -> None:
    engine = tiny_engine("supervised")
    engine.pace = Pace(40, warmup=4)
    first, rates = [p.detach().clone() for p in engine.method.parameters()], []
    for step in range(6):
        engine.advance()
        rates.append(float(engine.optimizer.param_groups[0]["lr"]) / 0.03)
        if step == 0:  # whose rate is 0
            assert all(map(torch.equal, first, engine.method.parameters()))
    later = math.cos(7 * math.pi / 16 / 36)
    assert rates == pytest.approx([0, 0.25, 0.5, 0.75, 1, later])


def sgd_by_hand(p: Tensor, grads: list[Tensor], lrs: list[float], decay: float) -> Tensor:
    velocity = torch.zeros_like(p)
    for grad, lr in zip(grads, lrs, strict=True):
        g = grad + decay * p
        velocity = 0.9 * velocity + g
        p = p - lr * (g + 0.9 * velocity)
    return p


def adamw_by_hand(p: Tensor, grads: list[Tensor], lrs: list[float], decay: float) -> Tensor:
    first, second = torch.zeros_like(p), torch.zeros_like(p)
    for t, (grad, lr) in enumerate(zip(grads, lrs, strict=True), start=1):
        p = p * (1 - lr * decay)
        first = 0.9 * first + 0.1 * grad
        second = 0.999 * second + 0.001 * grad**2
        p = p - lr * (first / (1 - 0.9**t)) / ((second / (1 - 0.999**t)).sqrt() + 1e-8)
    return p


@pytest.mark.parametrize(("name", "by_hand"), [("sgd", sgd_by_hand), ("adamw", adamw_by_hand)])
def test_step_follows_the_lr_tensor_without_host_sync(name: str, by_hand: Any) -> None:
    parameter = nn.Parameter(torch.randn(3, 5))
    start = parameter.detach().clone()
    optimizer = build_optimizer(
        name, [{"params": [parameter], "base_lr": 0.1, "weight_decay": 0.01}]
    )
    (lr,) = (group["lr"] for group in optimizer.param_groups)
    grads = [torch.randn(3, 5) for _ in range(6)]
    with no_sync():
        for step, grad in enumerate(grads):
            set_lr_(optimizer, schedule(torch.tensor(step), 6, 2))
            parameter.grad = grad.clone()
            optimizer.step()
    lrs = [0.1 * schedule(torch.tensor(step), 6, 2).item() for step in range(6)]
    assert lr is optimizer.param_groups[0]["lr"] and lr.dtype == torch.float32 and lr.shape == ()
    assert lr.item() == pytest.approx(lrs[-1])
    want = by_hand(start.double(), [g.double() for g in grads], lrs, 0.01)
    torch.testing.assert_close(parameter.detach().double(), want, rtol=1e-5, atol=1e-6)


def train(net: nn.Module, optimizer: Optimizer, steps: range) -> None:
    for step in steps:
        images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(step))
        net(images).logits.square().sum().backward()
        set_lr_(optimizer, schedule(torch.tensor(step), 8, 2))
        optimizer.step()
        optimizer.zero_grad()


def small(name: str) -> tuple[nn.Module, Optimizer]:
    torch.manual_seed(0)
    net = nets.build("wrn_10_1", 3, 8)
    groups = parameter_groups(around(net), lr=0.01, weight_decay=5e-4, layer_decay=0.9)
    return net, build_optimizer(name, groups)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_saved_and_resumed_equals_uninterrupted(name: str) -> None:
    net, optimizer = small(name)
    train(net, optimizer, range(4))
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(net, optimizer, range(4, 8))

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed, resumed_optimizer = small(name)
    lrs = [group["lr"] for group in resumed_optimizer.param_groups]
    resumed.load_state_dict(saved["net"])
    resumed_optimizer.load_state_dict(saved["optimizer"])
    kept = [group["lr"] for group in resumed_optimizer.param_groups]
    assert all(a is b for a, b in zip(lrs, kept, strict=True))
    train(resumed, resumed_optimizer, range(4, 8))
    for key, value in net.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_moments_of_another_layout_are_laid_out_as_the_weights(name: str) -> None:
    """A run goes on where weights lie otherwise in memory: channels-last on a GPU."""
    net, optimizer = small(name)
    train(net, optimizer, range(4))
    other, going_on = small(name)
    other.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    other.load_state_dict(net.state_dict())
    going_on.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for stepping in (optimizer, going_on):
        for group in stepping.param_groups:
            for parameter in group["params"]:
                parameter.grad = parameter.detach().clone()
        stepping.step()
    for key, value in net.state_dict().items():
        torch.testing.assert_close(other.state_dict()[key], value, msg=key)


def test_settings_of_another_device_are_not_taken_over() -> None:
    _, optimizer = small("adamw")
    state = optimizer.state_dict()
    for group in state["param_groups"]:
        group.update(capturable=True, fused=None, lr=0.5)
    _, other = small("adamw")
    other.load_state_dict(state)
    for group in other.param_groups:
        assert (group["capturable"], group["fused"]) == (False, True)
        assert isinstance(group["lr"], Tensor) and group["lr"].item() == 0.5


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_parameters_without_gradient_stay_as_they_are(name: str) -> None:
    net, optimizer = small(name)
    unused = {f"stages.{stage}.0.bn1.{p}" for stage in (1, 2) for p in ("weight", "bias")}
    before = {key: value.clone() for key, value in net.named_parameters()}
    train(net, optimizer, range(3))
    for key, value in net.named_parameters():
        assert torch.equal(value, before[key]) == (key in unused), key


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_captured_steps_follow_the_lr_tensor(name: str) -> None:
    """A graph of step, schedule and update, replayed, equals the same calls made one by one."""
    results = []
    for captured in (False, True):
        torch.manual_seed(0)
        parameter = nn.Parameter(torch.randn(7, 5, device="cuda"))
        parameter.grad = torch.randn(7, 5, device="cuda")
        group = {"params": [parameter], "base_lr": 0.1, "weight_decay": 0.01}
        optimizer = build_optimizer(name, [group])
        at = torch.zeros((), dtype=torch.int64, device="cuda")

        def step(optimizer: Optimizer = optimizer, at: Tensor = at) -> None:
            set_lr_(optimizer, schedule(at, 10, 2))
            optimizer.step()
            at.add_(1)

        for _ in range(3):
            step()
        graph = torch.cuda.CUDAGraph()
        if captured:
            with torch.cuda.graph(graph):
                step()
        for _ in range(5):
            graph.replay() if captured else step()
        results.append(parameter.detach().clone())
    assert torch.equal(*results)
