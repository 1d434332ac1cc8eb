"""The table of nets: what is in it, and what a wrong name leads to."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys

import pytest

from tamatch import nets
from tamatch.errors import UsageError


def test_the_table_needs_no_torch() -> None:
    code = "import sys, tamatch.nets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", [n for n in nets.NETS if n != "vit_base_p16_96"])
def test_every_entry_builds_and_tells_its_size(name: str) -> None:
    net = nets.build(name, 10, nets.NETS[name].size)
    amount, unit = nets.NETS[name].parameters.replace(",", "").split()[:2]
    told = float(amount) * {"thousand": 1e3, "million": 1e6}[unit]
    assert sum(p.numel() for p in net.parameters()) == pytest.approx(told, rel=0.01)


def test_families_point_to_code() -> None:
    for _, entry in nets.FAMILIES.values():
        module, function = entry.build.split(":")
        assert callable(getattr(importlib.import_module(f"tamatch.nets.{module}"), function))


def test_wrong_names_get_near_misses() -> None:
    with pytest.raises(UsageError, match=r"wrn_28_2.*`tamatch nets`"):
        nets.build("wrn28_2", 10, 32)
    with pytest.raises(UsageError, match=r"alexnet is not a net.*`tamatch nets`"):
        nets.build("alexnet", 10, 32)


@pytest.mark.skipif(importlib.util.find_spec("timm") is not None, reason="timm is installed")
def test_missing_timm_is_explained() -> None:
    with pytest.raises(UsageError, match="pip install timm"):
        nets.build("timm/resnet18", 10, 32)


@pytest.mark.parametrize("name", ["timm/resnet18", "timm/vit_tiny_patch16_224"])
def test_timm_nets(name: str) -> None:
    pytest.importorskip("timm")
    torch = importlib.import_module("torch")
    net = nets.build(name, 7, 32)
    out = net(torch.randn(2, 3, 32, 32))
    assert out.logits.shape == (2, 7)
    assert out.features.shape == (2, net.width) and out.map.shape == (2, net.map_width)
    layers = {key: net.depth_of(key) for key, _ in net.named_parameters()}
    (head,) = {last for _, last in layers.values()}
    assert layers["head.weight"] == (head, head)
    assert {layer for layer, _ in layers.values()} == set(range(head + 1))
    with pytest.raises(UsageError, match="timm/resnet18"):
        nets.build("timm/resnet_18", 7, 32)
