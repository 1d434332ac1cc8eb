"""`tamatch bench speed` and benchmarks/augment.py: that they measure what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import augment
from tamatch.augment import Augment, Policy
from tamatch.bench import speed
from tamatch.cli import main
from tests.bench.made import strict_json

POLICY = Policy(16, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def test_the_table_and_the_file_hold_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "speed.json"
    words = "--sizes 32 --batches 8,16 --seconds 0.01 --device cpu --out"
    assert augment.main([*words.split(), str(out)]) == 0
    shown = capsys.readouterr().out
    found = strict_json(out)
    assert found["threads"] >= 1 and found["gpu"] is None
    batches = [s for s in found["speeds"] if s["work"] != "step"]
    assert {(s["work"], s["images"], s["how"]) for s in batches} == {
        (view, batch, how)
        for view in ("weak", "strong") for batch in (8, 16) for how in ("Pillow", "cpu")
    }  # fmt: skip
    for one in batches:
        assert one["us_per_image"] > 0 and f"{one['us_per_image']:.2f}" in shown
    (step,) = (s for s in found["speeds"] if s["work"] == "step")
    assert step["images"] == 64 + 2 * 128
    assert f"{step['us_per_image'] * 320 / 1000:.3f} ms" in shown


@pytest.mark.parametrize("words", ["--sizes 4", "--batches many", "--sizes 32,", "--device tpu9"])
def test_mistakes(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert augment.main(words.split()) == 2
    assert words.split()[0] in capsys.readouterr().err


@pytest.mark.parametrize("view", ["weak", "strong"])
def test_the_loop_does_the_same_work_as_the_batched_way(view: str) -> None:
    """The same kind of views: shapes, range of values, and about as far from the original."""
    smooth = torch.linspace(40, 200, 16).expand(256, 3, 16, 16).to(torch.uint8)
    loop = torch.stack(augment.pillow_loop(view, smooth, POLICY))
    batched = Augment(POLICY, 0)(view, smooth, torch.tensor(0), torch.arange(256), 0)
    assert loop.shape == batched.shape and loop.dtype == batched.dtype
    assert loop.mean().item() == pytest.approx(batched.mean().item(), abs=0.15)
    assert loop.std().item() == pytest.approx(batched.std().item(), abs=0.15)
    assert len(loop.flatten(1).unique(dim=0)) >= 10  # five places, mirrored or not


@pytest.mark.parametrize("images", ["device", "stream"])
def test_speed_of_a_step(
    images: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny = speed.Work({"data": "digits", "batch": 4, "unlabelled": 4}, classes=10, size=8)
    monkeypatch.setitem(speed.WORKS, "tiny", tiny)
    out = tmp_path / "speed.json"
    words = f"bench speed --works tiny --steps 20 --device cpu --images {images} --out {out}"
    assert main(words.split()) == 0
    (found,) = strict_json(out)["speeds"]
    # which of the two is longer, a busy machine may turn round for so short a step
    assert found["ms_per_step"] > 0 and found["ms_augment"] > 0
    assert found["images_per_second"] == pytest.approx(1000 * 12 / found["ms_per_step"])
    shown = capsys.readouterr().out
    assert found["peak_gib"] is found["busy"] is None and "nan" not in shown
    assert f"{found['ms_per_step']:.3f}" in shown


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20))
def test_the_length_of_a_union(spans: list[tuple[int, int]]) -> None:
    pieces = {second for start, length in spans for second in range(start, start + length)}
    assert speed.covered((start, start + length) for start, length in spans) == len(pieces)


@pytest.mark.gpu
def test_augmentation_captured(tmp_path: Path) -> None:
    out = tmp_path / "speed.json"
    words = "--sizes 32 --batches 64 --seconds 0.05 --out"
    assert augment.main([*words.split(), str(out)]) == 0
    found = strict_json(out)
    assert found["gpu"] and {s["how"] for s in found["speeds"]} > {"cuda", "cuda graph"}
