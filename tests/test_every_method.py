"""Every method, and the compositions that the docs promise, from the command line to the report."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tamatch.cli import main
from tamatch.methods import BY_THEMSELVES

COMPOSED = [
    ["tamatch", "--select", "freematch"],
    ["tamatch", "--select", "flexmatch"],
    ["tamatch", "--weigh", "class*gaussian"],
    ["fixmatch", "--generate", "rescale"],
    ["adamatch", "--weigh", "class"],
]


@pytest.mark.slow
@pytest.mark.parametrize("words", [*([name] for name in BY_THEMSELVES), *COMPOSED], ids="-".join)
def test_fifty_steps_and_a_report(words: list[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    steps = ["--steps", "50", "--log-every", "10", "--test-every", "25"]
    assert main(["train", "--out", str(out), "--method", *words, *steps]) == 0
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = [row["total"] for row in rows if row["kind"] == "train"]
    assert len(losses) == 5 and all(map(math.isfinite, losses))
    assert losses[-1] < losses[0]
    assert json.loads((out / "result.json").read_text())["error_last"] <= 90
    assert "<html" in (out / "report.html").read_text()
