"""The wide residual nets against a functional re-implementation and known counts."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tamatch import nets
from tamatch.errors import UsageError
from tamatch.nets.base import Net

QUIRKS = {f"stages.{s}.0.bn1.{p}" for s in (1, 2) for p in ("weight", "bias")}


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def randomised(name: str, size: int = 12) -> Net:
    """A net whose normalisations are not the identity, so that none can be left out unseen."""
    net = nets.build(name, 5, size)
    with torch.no_grad():
        for key, value in net.state_dict().items():
            if value.ndim == 1:
                value.copy_(torch.rand_like(value) + (0.5 if "var" in key else 0))
    return net


def slow_forward(net: Net, x: Tensor, *, clean: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The definition, one stage and block at a time, in evaluation mode."""
    w = net.state_dict()
    stages, blocks = (
        1 + max(int(key.split(".")[i]) for key in w if key.startswith("stages.")) for i in (1, 2)
    )
    four = stages == 4
    usual_eps = 1e-3 if four and not clean else 1e-5

    def norm_act(x: Tensor, name: str, eps: float = usual_eps) -> Tensor:
        mean, var = w[f"{name}.running_mean"], w[f"{name}.running_var"]
        shape = (1, -1, 1, 1)
        x = (x - mean.view(shape)) / (var.view(shape) + eps).sqrt()
        x = x * w[f"{name}.weight"].view(shape) + w[f"{name}.bias"].view(shape)
        return torch.where(x > 0, x, 0.1 * x)

    x = F.conv2d(x, w["stem.weight"], w["stem.bias"], padding=1)
    for stage in range(stages):
        for block in range(blocks):
            at = f"stages.{stage}.{block}"
            stride = 2 if (stage > 0 or four) and block == 0 else 1
            biases = {c: w.get(f"{at}.{c}.bias") for c in ("conv1", "conv2", "shortcut")}
            widens = f"{at}.shortcut.weight" in w
            if not widens:
                inside, skip = norm_act(x, f"{at}.bn1"), x
            else:
                inside = norm_act(x, f"{at}.bn1") if stage == 0 or clean or four else x
                weight = w[f"{at}.shortcut.weight"]
                skip = F.conv2d(inside, weight, biases["shortcut"], stride=stride)
            weight = w[f"{at}.conv1.weight"]
            inside = F.conv2d(inside, weight, biases["conv1"], stride=stride, padding=1)
            inside = norm_act(inside, f"{at}.bn2")
            x = F.conv2d(inside, w[f"{at}.conv2.weight"], biases["conv2"], padding=1) + skip
    x = norm_act(x, "norm", 1e-5 if clean else 1e-3)
    features = x.sum((2, 3)) / (x.shape[2] * x.shape[3])
    return features @ w["head.weight"].T + w["head.bias"], features, x


@pytest.mark.parametrize(
    "name", ["wrn_10_1", "wrn_16_2", "wrn_10_2_clean", "wrn_21_2", "wrn_13_1", "wrn_13_2_clean"]
)
def test_equals_the_definition(name: str) -> None:
    net = randomised(name).double().eval()
    x = torch.randn(3, 3, 12, 12, dtype=torch.float64)
    for got, want in zip(net(x), slow_forward(net, x, clean="clean" in name), strict=True):
        torch.testing.assert_close(got, want)


def test_parameter_counts() -> None:
    assert count(nets.build("wrn_28_2", 10, 32)) == 1_467_626
    assert count(nets.build("wrn_28_2_clean", 10, 32)) == 1_467_626
    assert count(nets.build("wrn_10_1", 10, 32)) == 77_866
    assert count(nets.build("wrn_28_8", 100, 32)) == 23_401_028


@pytest.mark.parametrize("width", [1, 2])
def test_parameters_of_the_net_with_four_stages(width: int) -> None:
    """Each convolution has a bias, each normalisation two vectors; counted layer by layer."""
    channels = [16, *(16 * width * 2**stage for stage in range(4))]
    total = 16 * 27 + 16  # stem
    for inner, outer in itertools.pairwise(channels):
        convs = [(inner, outer, 9), (outer, outer, 9), (inner, outer, 1)] + 6 * [(outer, outer, 9)]
        norms = [inner, outer] + 6 * [outer]  # four blocks
        total += sum(i * o * k + o for i, o, k in convs) + sum(2 * n for n in norms)
    total += 2 * channels[-1] + channels[-1] * 10 + 10
    assert count(nets.build(f"wrn_37_{width}", 10, 96)) == total
    assert width != 2 or total == 5_933_770


@pytest.mark.parametrize(("name", "quirks"), [("wrn_28_2", QUIRKS), ("wrn_28_2_clean", set())])
def test_only_the_named_parameters_get_no_gradient(name: str, quirks: set[str]) -> None:
    net = nets.build(name, 10, 8)
    net(torch.randn(4, 3, 8, 8)).logits.square().sum().backward()
    without = {key for key, p in net.named_parameters() if p.grad is None or not p.grad.any()}
    assert without == quirks


def test_unused_normalisation_is_not_computed() -> None:
    net = nets.build("wrn_10_1", 10, 8)
    net(torch.randn(4, 3, 8, 8))
    still = {key for key, v in net.state_dict().items() if key.endswith("tracked") and v == 0}
    assert still == {"stages.1.0.bn1.num_batches_tracked", "stages.2.0.bn1.num_batches_tracked"}


@pytest.mark.parametrize(
    ("name", "momentum", "final_eps", "eps"),
    [
        ("wrn_10_1", 0.001, 1e-3, 1e-5), ("wrn_10_1_clean", 0.1, 1e-5, 1e-5),
        ("wrn_13_1", 0.001, 1e-3, 1e-3), ("wrn_13_1_clean", 0.1, 1e-5, 1e-5),
    ],
)  # fmt: skip
def test_normalisation_constants(name: str, momentum: float, final_eps: float, eps: float) -> None:
    norms = {
        k: m for k, m in nets.build(name, 10, 8).named_modules() if isinstance(m, nn.BatchNorm2d)
    }
    assert {m.momentum for m in norms.values()} == {momentum}
    assert norms.pop("norm").eps == final_eps
    assert {m.eps for m in norms.values()} == {eps}


def test_initial_weights() -> None:
    torch.manual_seed(0)
    w = nets.build("wrn_16_4", 100, 32).state_dict()
    for key, fan_out in [
        ("stages.2.1.conv1.weight", 9 * 256),
        ("stages.1.0.shortcut.weight", 128),
        ("stem.weight", 9 * 16),
    ]:
        assert w[key].std().item() == pytest.approx(math.sqrt(2 / fan_out), rel=0.1), key
    assert w["head.weight"].std().item() == pytest.approx(math.sqrt(2 / (256 + 100)), rel=0.05)
    assert not w["head.bias"].any() and w["stem.bias"].any()


@pytest.mark.parametrize("size", [8, 9, 30, 32, 96])
@pytest.mark.parametrize(("name", "width"), [("wrn_10_1", 64), ("wrn_13_1", 128)])
def test_output_shapes(name: str, width: int, size: int) -> None:
    net = nets.build(name, 7, size)
    out = net(torch.randn(2, 3, size, size))
    assert out.logits.shape == (2, 7)
    assert out.features.shape == (2, net.width) == (2, width)
    assert out.map.flatten(1).shape == (2, net.map_width)
    assert net.classes == 7
    torch.testing.assert_close(out.map.mean((2, 3)), out.features)


def test_float32_outputs_under_autocast() -> None:
    net = nets.build("wrn_10_1", 7, 8)
    x = torch.randn(2, 3, 8, 8)
    want = net(x)
    with torch.autocast("cpu", torch.bfloat16):
        out = net(x)
    assert out.logits.dtype == out.features.dtype == torch.float32 != out.map.dtype
    assert not torch.equal(out.features, want.features), "autocast had no effect"
    torch.testing.assert_close(out.logits, want.logits, rtol=0.1, atol=0.1)
    torch.testing.assert_close(out.logits, net.head(out.features))


@pytest.mark.parametrize("name", ["wrn_27_2", "wrn_5_1", "wrn_4_1", "wrn_28_0"])
def test_impossible_shapes(name: str) -> None:
    with pytest.raises(UsageError, match="10, 16, 22, 28"):
        nets.build(name, 10, 32)
