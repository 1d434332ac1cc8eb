"""What must stay light: no torch for what only reads tables and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "code",
    [
        "import tamatch",
        "import tamatch; tamatch.errors.Stopped",
        "from tamatch.cli import main; main([])",
        "from tamatch.cli import main; main(['methods'])",
        "from tamatch.cli import main; main(['methods', '--json'])",
        "from tamatch.cli import main; main(['nets'])",
        "from tamatch.cli import main; main(['export', 'no-such-run'])",
        "from tamatch.cli import main; main(['label', 'no-such-run'])",
        "from tamatch.cli import main; main(['review'])",
        "import tamatch.report",
        "import tamatch.data",
        "from tamatch.cli import main; main(['train', '--method', 'fixmach'])",
        "from tamatch.cli import main; main(['train', '--net', 'wrn'])",
        "from tamatch.cli import main; main(['report', 'no-such-run'])",
        "from tamatch.cli import main\ntry: main(['train', '--help'])\nexcept SystemExit: pass",
    ],
)
def test_torch_is_not_imported(code: str) -> None:
    check = "import sys; assert 'torch' not in sys.modules, 'torch was imported'"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_help_is_there_at_once() -> None:
    """Without NumPy, whose import takes as long as all the rest."""
    code = "from tamatch.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    check = "import sys; assert 'numpy' not in sys.modules, 'numpy was imported'"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("net", ["wrn_10_1", "vit_64x1_p8_8"], ids=["sgd", "adamw"])
def test_training_on_a_cpu_does_not_load_the_compiler(net: str, tmp_path: Path) -> None:
    """Torch's own optimizers and dispatch modes do, which takes as long as all other imports."""
    optimizer = "adamw" if net.startswith("vit") else "sgd"
    code = (
        "import sys, tamatch; tamatch.train('digits', quiet=True, steps=1, baseline='none', "
        f"net={net!r}, optimizer={optimizer!r}, out={str(tmp_path / 'run')!r}); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_windows_is_told_what_to_do() -> None:
    code = "import sys; sys.platform = 'win32'; import tamatch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: tamatch runs on Linux and macOS. On Windows, install it in" in done.stderr


def test_names_are_offered_before_they_are_imported() -> None:
    code = "import tamatch; print(*{*dir(tamatch)} - {*vars(tamatch)})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert {"train", "load", "TaMatchClassifier"} <= {*done.stdout.split()}, done.stderr
