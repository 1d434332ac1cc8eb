"""The CUDA kernels compile for every kind of GPU they are for; that needs NVRTC, and no GPU.

Without torch for CUDA: `pip install triton cuda-bindings nvidia-cuda-nvrtc`.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")
nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
cuda = importlib.import_module("tamatch.nets.kernels.cuda")

try:
    nvrtc.nvrtcVersion()
except RuntimeError:
    pytest.skip("needs NVRTC", allow_module_level=True)


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("architecture", ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_all_kernels_compile(architecture: str) -> None:
    binary, symbols = cuda.compiled(architecture)
    assert binary[:4] == b"\x7fELF" and len(symbols) == len(set(symbols)) == len(cuda.NAMES)


def test_what_was_compiled_is_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cuda.compiled("sm_90")
    assert [path.suffix for path in sorted(kept.rglob("conv3.*"))] == [".cubin", ".names"]
    monkeypatch.setattr(nvrtc, "nvrtcCompileProgram", None)  # would fail
    assert cuda.compiled("sm_90") == first


def test_a_mistake_in_the_source_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    source.write_text("__global__ void add_up() { nothing_known; }")
    monkeypatch.setattr(cuda, "SOURCES", [source])
    with pytest.raises(RuntimeError, match='identifier "nothing_known" is undefined'):
        cuda.compiled("sm_90")


def test_kernels_that_do_not_work_are_done_without_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(device: torch.device) -> None:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(cuda, "loaded", broken)
    cuda.compiles.cache_clear()
    with pytest.warns(UserWarning, match="steps take longer: no kernel image"):
        assert not cuda.usable(torch.device("cuda", 0))
    cuda.compiles.cache_clear()
