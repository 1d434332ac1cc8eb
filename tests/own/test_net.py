"""A net of the user's own behind our interface: its features, its errors, and what it costs."""

from __future__ import annotations

import copy
import functools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tamatch import methods, nets
from tamatch.errors import UsageError
from tamatch.methods import METHODS
from tamatch.nets import CUSTOM
from tamatch.nets.base import recompute
from tamatch.nets.foreign import UserNet, dry_run_net
from tamatch.nets.weights import load_weights
from tamatch.settings.hardware import set_up_torch
from tamatch.step.cost import estimate
from tamatch.step.optim import parameter_groups
from tests.contract.nosync import no_sync
from tests.contract.test_contract import assert_equal
from tests.nets import foreign
from tests.tiny import tiny_engine

FILE = Path(foreign.__file__)
SMALL = f"{Path(__file__).parents[2] / 'examples' / 'own_net.py'}:SmallCNN"
IMAGES = torch.linspace(-1, 1, 4 * 3 * 8 * 8).reshape(4, 3, 8, 8)


def own(name: str, classes: int = 5) -> Any:
    torch.manual_seed(0)
    return nets.build(f"{FILE}:{name}", classes, 8)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("Wrn", 64), ("Dropping", 12), ("TwoHeads", 6), ("Scaled", 6), ("Tied", 9), ("ResNet", 32),
        ("planned", 5), ("Late", 4),
    ],
)  # fmt: skip
def test_features_are_the_input_of_the_last_linear_layer(name: str, width: int) -> None:
    net = own(name).eval()
    out = net(IMAGES)
    assert net.width == net.map_width == width and net.classes == 5
    assert out.features.shape == out.map.shape == (4, width)
    head = net.model.get_submodule(net.head_name)
    logits = head(out.features) / (3 if name == "Scaled" else 1)
    assert torch.equal(logits, out.logits)
    assert torch.equal(out.logits, net.model(IMAGES))


def test_an_expanded_buffer_can_be_averaged_and_saved() -> None:
    engine = tiny_engine("fixmatch", net=f"{FILE}:Late", ema=0.9)
    engine.advance()
    engine.load_state_dict(engine.state_dict())
    assert engine.method.final.model.scale.tolist() == [2.0] * 4  # type: ignore[union-attr, operator]


def test_without_a_linear_layer_the_logits_are_the_features() -> None:
    out = own("Convolutional")(IMAGES)
    assert torch.equal(out.features, out.logits) and torch.equal(out.map, out.logits)


def test_what_returns_out_is_used_as_it_is() -> None:
    net = own("Showing")
    assert (net.width, net.map_width) == (3, 3 * 8 * 8)
    assert torch.equal(net(IMAGES).map, IMAGES)
    assert type(own("Ours")) is not UserNet and own("Ours")(IMAGES).logits.shape == (4, 5)


@pytest.mark.parametrize("method", ["fixmatch", "tamatch"])
def test_the_built_in_net_in_foreign_clothes_trains_to_the_same_bits(method: str) -> None:
    built_in = tiny_engine(method, ema=0.9)
    foreign_one = tiny_engine(method, ema=0.9, net=f"{FILE}:Wrn")
    for _ in range(5):
        built_in.advance()
        foreign_one.advance()
    state = foreign_one.method.state_dict()
    as_ours = {name.replace("model.inner.", ""): value for name, value in state.items()}
    assert_equal(built_in.method.state_dict(), as_ours)
    assert_equal(built_in.meter.state_dict(), foreign_one.meter.state_dict())


@pytest.mark.sample(25)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("net", [SMALL, f"{FILE}:Convolutional"], ids=["cnn", "no linear layer"])
def test_every_method_takes_it(method: str, net: str) -> None:
    engine = tiny_engine(method, net=net, ema=0.9)
    before = copy.deepcopy(engine.method.net.state_dict())
    engine.advance()
    engine.source.prepare(engine.steps_done)
    with no_sync():
        engine.step()
    engine.steps_done += 1
    engine.advance()
    values = engine.meter.read()
    assert all(torch.isfinite(torch.as_tensor(v)).all() for v in values.values())
    after = engine.method.net.state_dict()
    assert all(not torch.equal(before[n], after[n]) for n in before if n.endswith("weight"))


@pytest.mark.parametrize("method", sorted({*METHODS} - {"vat"}))
def test_a_frozen_body_is_left_alone(method: str) -> None:
    engine = tiny_engine(method, net=f"{FILE}:Frozen", ema=0.9)
    before = copy.deepcopy(dict(engine.method.net.named_parameters()))
    estimate(engine, [])
    for _ in range(2):
        engine.advance()
    for name, value in engine.method.net.named_parameters():
        assert torch.equal(value, before[name]) == (".body." in name), name


def test_vat_wants_the_gradient_of_the_images() -> None:
    with pytest.raises(UsageError, match=r"not run frozen parts .* torch.no_grad\(\)"):
        tiny_engine("vat", net=f"{FILE}:Frozen").advance()


def test_a_net_that_wants_the_usual_order_gets_it() -> None:
    """Of the numbers of a tensor: on a GPU all others work with channels last."""
    net = own("Viewing")
    assert not net.channels_last and own("ResNet").channels_last and own("Ours").channels_last
    odd = IMAGES.to(memory_format=torch.channels_last)
    assert torch.equal(net(odd).logits, net(IMAGES).logits)


def test_a_net_that_waits_for_the_device_is_found_out() -> None:
    """On a GPU its steps are not captured then."""
    code = FILE.read_text().splitlines()
    for name in ("Reading", "Masking", "Counting"):
        waits = own(name).sync_point
        file, _, line = waits.partition(", line ")
        assert file == "foreign.py"
        assert re.search(r"h.max|h > 0|self.norm\(", code[int(line) - 1]), name
    for name in ("Wrn", "Dropping", "ResNet", "Convolutional", "Scaled", "Ours"):
        assert own(name).sync_point is None
    tiny_engine("fixmatch", net=f"{FILE}:Reading").advance()


def test_it_has_a_dry_run_where_and_how_it_will_train() -> None:
    net, device = own("Rounding"), torch.device("cpu")
    dry_run_net(net, "net.py:Rounding", 8, device)
    half = torch.autocast("cpu", torch.bfloat16)
    with half, pytest.raises(UsageError, match=r"a pass of 2 images on cpu failed \(foreign.py, l"):
        dry_run_net(net, "net.py:Rounding", 8, device)
    state, draw = torch.random.get_rng_state(), own("Dropping")
    torch.random.set_rng_state(state)
    dry_run_net(draw, "net.py:Dropping", 8, device)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not draw.model.norm.running_mean.any()


def test_dropout_and_statistics_of_its_own() -> None:
    engine = tiny_engine("simmatch", net=f"{FILE}:Dropping", ema=0.9)
    for _ in range(3):
        engine.advance()
    net = engine.method.net
    assert int(net.model.norm.num_batches_tracked) == 3  # type: ignore[union-attr]
    assert net.model.still.item() == 1  # type: ignore[union-attr, operator]
    assert torch.equal(engine.method.final.model.norm.running_mean, net.model.norm.running_mean)  # type: ignore[union-attr]


def test_building_leaves_no_trace() -> None:
    """Neither in the generator nor in the statistics: runs depend on both."""
    torch.manual_seed(3)
    alone = foreign.Wrn(5, 8)
    after_alone = torch.rand(1)
    torch.manual_seed(3)
    net = nets.build(f"{FILE}:Wrn", 5, 8)
    assert torch.equal(after_alone, torch.rand(1))
    assert_equal(dict(alone.state_dict()), dict(nets_model(net).state_dict()))
    dropping = own("Dropping")
    assert not dropping.model.norm.running_mean.any() and dropping.training


def nets_model(net: Any) -> nn.Module:
    model = net.model
    assert isinstance(model, nn.Module)
    return model


def test_a_copy_shows_its_own_features() -> None:
    net = own("Tied")
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.model.two.bias.fill_(7)
    first, second = net(IMAGES), other(IMAGES)
    assert not torch.equal(first.features, second.features)
    assert net.model.fc.seen is None and other.model.fc.seen is None
    copy.deepcopy(net)  # also right after a step


def test_logits_are_exact_where_the_net_is_not() -> None:
    net = own("ResNet")
    with torch.autocast("cpu", torch.bfloat16):
        out = net(IMAGES)
        flat = own("Convolutional")(IMAGES)
    assert all(t.dtype == torch.float32 for t in (*out, *flat))
    again = nn.functional.linear(out.features, net.model.fc.weight, net.model.fc.bias)
    assert torch.equal(out.logits, again)


def test_it_compiles_in_one_piece() -> None:
    net = own("Wrn")
    plain = copy.deepcopy(net)
    net.compile(backend="aot_eager", fullgraph=True)
    for images in (IMAGES, IMAGES.flip(0)):
        out, expected = net(images), plain(images)
        assert all(map(torch.equal, out, expected))
        out.logits.sum().backward()
    assert net.model.inner.head.seen is None


def test_modules_and_what_makes_them_can_be_handed_over() -> None:
    class Local(foreign.Showing):
        pass

    module = foreign.Convolutional(5).eval()
    for given, name in (
        (module, "python:Convolutional"),
        (Local, "python:Local"),
        (lambda classes: foreign.Showing(classes), "python:<lambda>"),
        (functools.partial(foreign.Wrn, size=8), "python:partial"),
        (foreign.Wrn, f"{FILE}:Wrn"),
        (foreign.planned, f"{FILE}:planned"),
        (SMALL, SMALL),
    ):
        assert CUSTOM.register(given) == name
        assert nets.build(name, 5, 8)(IMAGES).logits.shape == (4, 5)
    copied = nets.build("python:Convolutional", 5, 8)
    assert copied.training and not module.training
    assert nets_model(copied) is not module
    assert torch.equal(nets_model(copied).conv.weight, module.conv.weight)  # type: ignore[arg-type, union-attr]
    with pytest.raises(UsageError, match="got int"):
        CUSTOM.register(7)  # type: ignore[arg-type]


def test_names_are_told_apart() -> None:
    assert nets.is_user_code("models/net.py:Net") and nets.is_user_code("python:Net")
    assert not any(map(nets.is_user_code, (*nets.NETS, "timm/x", "net.py", "wrn_10_1:x")))
    assert nets.title("/home/me/net.py:Net") == "net.py:Net"
    assert nets.title("timm/resnet18") == "timm/resnet18"


HEADER = "import torch\nfrom torch import nn\n"
LINEAR = """class Net(nn.Linear):
    def __init__(self, classes):
        super().__init__(192, classes)
"""
WRONG = {  # the file, and the message
    "def Net(classes):\n    return 1 / 0": (
        r"building it failed \(net.py, line 4: ZeroDivisionError: division by zero\)\."
    ),
    "def Net(classes) return 1": (
        r"importing the file failed \(net.py, line 3: SyntaxError: expected ':' \(net.py, line "
        r"3\)\)\."
    ),
    "import not_there": (
        r"importing the file failed \(net.py, line 3: ModuleNotFoundError: No module named "
        r"'not_there'\)\."
    ),
    "raise SystemExit(3)": r"importing the file failed \(net.py, line 3: SystemExit: 3\)\.",
    "class Other(nn.Module): ...": r"net.py has no class or function Net\.",
    "Net = 5": r"net.py has no class or function Net\.",
    "def Net(classes): return 'net'": r"Net must return an nn.Module, but returned a str\.",
    "def Net(): return nn.Flatten()": (
        r"has no argument for the number of classes: it must be the first argument, or be named "
        r"classes or num_classes\."
    ),
    "def Net(**options): return nn.Flatten()": r"has no argument for the number of classes",
    "def Net(classes, depth): return nn.Flatten()": (
        r"building it failed \(TypeError: Net\(\) missing 1 required positional argument: 'depth'\)"
    ),
    "def Net(classes): return nn.Sequential(nn.Flatten(), nn.Linear(99, classes))": (
        r"a pass of 2 images of 3 × 8 × 8 failed \(RuntimeError: mat1 and mat2 shapes cannot be "
        r"multiplied \(2x192 and 99x5\)\)\."
    ),
    "class Net(nn.Module):\n    def __init__(self, classes):\n        super().__init__()\n"
    "    def forward(self, x):\n        return self.fc(x)": (
        r"failed \(net.py, line 7: AttributeError: 'Net' object has no attribute 'fc'\)\."
    ),
    "from tamatch.types import Out\nclass Net(nn.Flatten):\n    def __init__(self, classes):\n"
    "        super().__init__()\n    def forward(self, x):\n"
    "        return Out(super().forward(x)[:, :5], x, x)": (
        r"returns a tensor of 2 × 5 and a tensor of 2 × 3 × 8 × 8 and a tensor of 2 × 3 × 8 × 8 for"
    ),
    "def Net(classes): return nn.Flatten()": (
        r"returns a tensor of 2 × 192 for 2 images of 3 × 8 × 8; expected logits, a tensor of "
        r"2 × 5 floats\."
    ),
    "def Net(classes): return nn.Conv2d(3, classes, 1)": r"returns a tensor of 2 × 5 × 8 × 8 for",
    f"{LINEAR.replace('Linear', 'LSTM')}"
    "    def forward(self, x):\n        return super().forward(x.flatten(1))": (
        r"returns a tuple for 2 images"
    ),
    f"{LINEAR}    def forward(self, x):\n        return super().forward(x.flatten(1)).argmax(-1)": (
        r"returns a tensor of 2 \(int64\) for"
    ),
    f"{LINEAR}"
    "    def forward(self, x):\n        y = super().forward(x.flatten(1))\n"
    "        return (y, y) if self.training else y": (
        r"returns a tuple for 2 images of 3 × 8 × 8 in training; expected"
    ),
    "def Net(classes):\n"
    "    return nn.Sequential(nn.Flatten(), nn.Linear(192, classes), nn.Softmax(-1))": (
        r"returns probabilities: its rows sum to 1\. Expected logits: remove"
    ),
    "def Net(classes):\n"
    "    return nn.Sequential(nn.Flatten(), nn.Linear(192, classes)).requires_grad_(False)": (
        r"its output has no gradient, so nothing in it can be trained\."
    ),
    f"{LINEAR}"
    "    def forward(self, x): return super().forward(x.flatten(1))\n"
    "    def get_extra_state(self): return {'seen': 3}": (
        r"_extra_state in its state_dict is a dict, but only tensors can be saved"
    ),
    f"{LINEAR}"
    "    def forward(self, x): return super().forward(x.flatten(1))\n"
    "    def __deepcopy__(self, memo): raise ValueError('one of a kind')": (
        r"copying the module failed \(net.py, line 7: ValueError: one of a kind\)"
    ),
    f"{LINEAR}        self.register_buffer('mean', torch.zeros(192))\n"
    "    def forward(self, x):\n"
    "        if self.training: self.mean = 0.9 * self.mean + 0.1 * x.detach().flatten(1).mean(0)\n"
    "        return super().forward(x.flatten(1) - self.mean)": (
        r"its buffer mean is replaced in a step\. Weight averages, checkpoints and CUDA graphs use"
    ),
    f"{LINEAR}        self.passes = 0\n"
    "    def forward(self, x):\n        self.passes += 1\n"
    "        return super().forward(x.flatten(1))": (
        r"its number passes changes in a step\. It is not saved"
    ),
    f"{LINEAR}        self.register_buffer('passes', torch.zeros(()), persistent=False)\n"
    "    def forward(self, x):\n        self.passes.add_(1)\n"
    "        return super().forward(x.flatten(1))": (
        r"its buffer passes changes in a step, but is not saved"
    ),
    f"{LINEAR}"
    "    def forward(self, x):\n"
    "        import random\n"
    "        return super().forward(x.flatten(1) * (1 + self.training * random.random()))": (
        r"a step draws from Python's random\."
    ),
}


@pytest.mark.parametrize(("code", "message"), WRONG.items())
def test_a_mistake_is_told_with_its_place(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(f"{HEADER}{code}\n")
    with pytest.raises(UsageError, match=message) as caught:
        nets.build("net.py:Net", 5, 8)
    assert str(caught.value).startswith("--net net.py:Net") and "\n" not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"--net gone.py:Net: file gone.py not found\."):
        nets.build("gone.py:Net", 5, 8)
    with pytest.raises(UsageError, match=r"Perhaps you meant net.py:NAME, a class or function"):
        nets.build("net.py", 5, 8)
    with pytest.raises(UsageError, match="passed as a Python object, which is not available here"):
        nets.build("python:Unheard", 5, 8)


def test_a_changed_file_is_read_again_and_may_use_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("neighbour_of_net.py").write_text("WIDTH = 7\n")
    code = f"{HEADER}from neighbour_of_net import WIDTH\nprint('read')\n"
    code += "def Net(classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, WIDTH),"
    Path("net.py").write_text(f"{code} nn.ReLU(), nn.Linear(WIDTH, classes))\n")
    assert nets.build("net.py:Net", 5, 8).width == nets.build("net.py:Net", 5, 8).width == 7
    Path("net.py").write_text(f"{code} nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, classes))\n")
    assert nets.build("net.py:Net", 5, 8).width == 9
    assert capsys.readouterr().out == "read\nread\n"


def test_a_method_may_come_from_a_file_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("1 / 0\n")
    with pytest.raises(
        UsageError, match=r"--method mine.py:Mine: importing the file failed \(mine"
    ):
        methods.get("mine.py:Mine")


def test_the_layers_are_as_deep_as_it_says() -> None:
    method = nn.Module()
    method.net = own("ResNet")
    groups = {"lr": 1.0, "weight_decay": 0.0, "layer_decay": 0.5}
    with pytest.raises(UsageError, match=r"depth_of\(name\).*or use --layer-decay 1"):
        parameter_groups(method, **groups)
    method.net.model.depth_of = lambda name: (0 if name.startswith("conv1.") else 1, 1)
    rates = {g["base_lr"] for g in parameter_groups(method, **groups)}
    assert rates == {0.5, 1.0}


def test_weights_come_with_the_users_own_names(tmp_path: Path) -> None:
    net, other = own("ResNet"), foreign.ResNet(7)
    save_file(other.state_dict(), tmp_path / "w.safetensors")
    report = load_weights(net, tmp_path / "w.safetensors")
    assert report.dropped == ("fc.bias", "fc.weight") and report.missing == ("fc.weight", "fc.bias")
    assert not report.extra and not report.misfits
    assert torch.equal(net.model.layer1.conv1.weight, other.layer1.conv1.weight)
    # as a run saves them, and where a part of the net bears a wrapper's name
    save_file(own("ResNet", 7).state_dict(), tmp_path / "again.safetensors")
    assert load_weights(net, tmp_path / "again.safetensors").loaded == report.loaded

    class Backbone(nn.Module):
        def __init__(self, classes: int) -> None:
            super().__init__()
            self.backbone, self.mlp = nn.Conv2d(3, 4, 8), nn.Linear(4, 4)
            self.last = nn.Linear(4, classes)

        def forward(self, images: Tensor) -> Tensor:
            out: Tensor = self.last(self.mlp(self.backbone(images).flatten(1)))
            return out

    net = nets.build(CUSTOM.register(Backbone), 5, 8)
    save_file(Backbone(9).state_dict(), tmp_path / "b.safetensors")
    report = load_weights(net, tmp_path / "b.safetensors")
    assert len(report.loaded) == 4 and {*report.dropped} == {"last.weight", "last.bias"}


def test_it_cannot_recompute() -> None:
    assert not recompute(own("ResNet"))


def test_what_was_handed_over_stands_in_for_the_name_of_a_run() -> None:
    CUSTOM.register_as("models.py:Gone", foreign.planned)
    assert nets.build("models.py:Gone", 5, 8).width == 5
    CUSTOM.register_as("python:Gone", SMALL)
    assert nets.build("python:Gone", 5, 8).width == 64
    with pytest.raises(UsageError, match="; this one uses wrn_10_1"):
        CUSTOM.register_as("wrn_10_1", SMALL)
    with pytest.raises(UsageError, match="--net wrn_10_1: this run uses your own net"):
        CUSTOM.register_as("python:Gone", "wrn_10_1")
    for name in ("models.py:Gone", "python:Gone"):
        del CUSTOM.things[name]


@pytest.mark.gpu
@pytest.mark.parametrize("net", [SMALL, f"{FILE}:Wrn", f"{FILE}:Dropping", f"{FILE}:Frozen"])
@pytest.mark.parametrize("method", ["tamatch", "simmatch", "mean_teacher"])
def test_on_a_gpu_captured_equals_eager(method: str, net: str) -> None:
    set_up_torch("fp32", deterministic=True)
    states = []
    for graph in (False, True):
        engine = tiny_engine(method, net=net, device="cuda", graph=graph, ema=0.9)
        with engine.running():
            for _ in range(12):
                engine.advance()
        assert (engine.graph is not None) == graph
        states.append(engine.state_dict())
    assert_equal(*states)
