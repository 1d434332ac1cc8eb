"""On a GPU: whole runs as a user starts them, in half precision with every kernel there is."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import tamatch
from tamatch import nets
from tests.faults.runs import DOZEN
from tests.photos import dark_and_light

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "compiled"])
@pytest.mark.parametrize("method", ["tamatch", "vat", "remixmatch"])
@pytest.mark.parametrize("net", ["wrn_10_2", "vit_tiny_p2_32"])
def test_from_the_estimate_to_the_report(
    tmp_path: Path, net: str, method: str, kernels: bool
) -> None:
    """What is done on the default stream before the steps must not get into their graph."""
    made = tamatch.train(
        **{**DOZEN, "net": net, "size": 32, "device": "cuda", "method": method, "steps": 12,
           "kernels": kernels},
        out=tmp_path / "run", quiet=True,
    )  # fmt: skip
    assert made.result["steps"] == 12 and made.report_path.exists()


def test_a_net_that_is_tuned_from_the_first_answer(tmp_path: Path) -> None:
    """TaMatch is solved anew between the replays of its step."""
    torch.manual_seed(1)
    save_file(nets.build("vit_64x2_p8_32", 5, 32).state_dict(), tmp_path / "tiny.safetensors")
    photos = dark_and_light(tmp_path / "photos", 5, 20, (24, 30))
    asked = {"weights": tmp_path / "tiny.safetensors", "steps": 40, "device": "cuda"}
    run = tamatch.train(photos, **asked, out=tmp_path / "run", quiet=True)
    assert run.result["method"] == "tamatch_solved" and run.accuracy == 100
    assert run.tuning is not None and run.report_path.exists()


def test_a_pass_leaves_nothing() -> None:
    """Weights that a pass without a way back has used belong to no graph of torch's any more."""
    kernels = pytest.importorskip("tamatch.nets.kernels")
    made: list[weakref.ref[object]] = []

    class Watched(kernels.Fused):  # type: ignore[name-defined, misc]
        def __init__(self, net: nets.Net) -> None:
            super().__init__(net)
            made.append(weakref.ref(self))

    net = nets.build("wrn_10_2", 10, 32).cuda().to(memory_format=torch.channels_last).train()
    net.accelerate()
    net.parts = Watched
    gc.disable()
    try:
        with torch.autocast("cuda", torch.bfloat16):
            net(torch.zeros(2, 3, 32, 32, device="cuda"))
        assert len(made) == 1 and made[0]() is None
    finally:
        gc.enable()
