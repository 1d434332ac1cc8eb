"""Tuning by two processes: the first one makes the first answer, both train."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tamatch import nets
from tests.dist.torchrun import torchrun
from tests.photos import dark_and_light


@pytest.mark.slow
def test_two_processes_tune_a_net(tmp_path: Path) -> None:
    torch.manual_seed(0)
    save_file(nets.build("vit_64x2_p8_32", 5, 32).state_dict(), tmp_path / "tiny.safetensors")
    photos, out = dark_and_light(tmp_path / "photos", 5, 20, (24, 30)), tmp_path / "run"
    code, said = torchrun(
        "train", "--data", str(photos), "--weights", str(tmp_path / "tiny.safetensors"),
        "--steps", "20", "--threads", "1", "--device", "cpu", "--out", str(out),
        TAMATCH_CACHE=str(tmp_path / "cache"),
    )  # fmt: skip
    assert code == 0, said
    result = json.loads((out / "result.json").read_text())
    assert result["tuning"]["kept"] and result["error_last"] == 0
