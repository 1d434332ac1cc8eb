"""A bench takes the options of `train`, sweeps them, and ranks tables of other people."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tamatch.bench.plans import PLANS, option_values, with_options
from tamatch.cli import main
from tests.bench.made import small_recipes
from tests.photos import dark_and_light

NET = Path(__file__).parents[2] / "examples" / "own_net.py"


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    small_recipes(monkeypatch)


def bench(capsys: pytest.CaptureFixture[str], words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["bench", *words.split()])
    return (status, *capsys.readouterr())


def test_a_sweep_makes_a_row_for_each_value(capsys: pytest.CaptureFixture[str]) -> None:
    words = "digits --methods supervised,fixmatch,uda --seeds 0 --steps 2 --set tau=0.6,0.9"
    status, out, _ = bench(capsys, f"{words} --set lambda_u=1,2")
    assert status == 0 and "9 of 9 cells done" in out
    for method in ("FixMatch", "UDA"):
        for tau in ("0.6", "0.9"):
            assert re.search(rf"{method}, tau {tau}, lambda_u 2\.0 .*1/1", out)
    assert re.search(r"Supervised +\d", out)  # which has no such options
    assert len([*Path("results").rglob("*.json")]) == 9
    _, out, _ = bench(capsys, f"{words} --set lambda_u=2 --list")
    assert "5 runs, 5 of them done." in out  # the same rows have the same results
    assert "--tau 0.6 --lambda-u 2.0" in out


def test_options_of_train_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"digits --methods fixmatch --seeds 0 --steps 2 --test-every 2 --net {NET}:SmallCNN"
    status, out, _ = bench(capsys, f"{words} --tau 0.7 --deterministic")
    assert status == 0 and "tau 0.7, deterministic yes" in out and "1 of 1 cells done" in out
    shutil.copy(NET, "changed.py")
    with Path("changed.py").open("a") as file:
        file.write("\n# other code, so other results\n")
    _, out, _ = bench(capsys, words.replace(str(NET), "changed.py") + " --list")
    assert "1 runs, 0 of them done" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--tua 0.7", "--tua is not an option. Perhaps you meant --tau"),
        ("--tau 7", "--tau must lie in (0, 1), got 7."),
        ("--set tau", "--set takes NAME=VALUE or NAME=V1,V2, got 'tau'."),
        (
            "--tau 0.9 --set tau=0.8,0.7",
            "--tau is given twice. For a row each: --set tau=0.9,0.8,0.7.",
        ),
        ("--set tau=0.9,0.90", "--set gives the row FixMatch, tau 0.9 twice."),
        ("--set net=wrn_10_1_clean,wrn_1", "--net wrn_1 is not a net."),
        ("--net no.py:Net", "--net no.py:Net: file no.py not found."),
        ("--set steps=3", "--steps is set by --steps here."),
        ("--set data=x", "--data is set by --settings here."),
        ("0.7", "0.7 is not an option."),
    ],
)
def test_a_wrong_option_is_one_line(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = bench(capsys, f"digits --methods fixmatch {words}")
    assert status == 2 and message in err and err.count("\n") == 1


def test_other_benches_take_no_such_options(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = bench(capsys, "rank --tau 0.7")
    assert status == 2 and "--tau is not an option" in err


def test_variants_keep_what_they_are() -> None:
    plan = with_options(PLANS["causes"], option_values(["--ema=0.5"], []))
    row = next(v for v in plan.variants if "eps" in v.options and v.options["eps"] == 1e-4)
    assert row.options == {"eps": 1e-4, "ema": 0.5} and len(plan.rows) == len(PLANS["causes"].rows)


def test_own_images(capsys: pytest.CaptureFixture[str]) -> None:
    dark_and_light(Path("photos"), 4, 8, (12, 12))
    words = "own --data photos --methods supervised,fixmatch --seeds 0 --steps 3 --size 8"
    words += " --net wrn_10_1_clean --batch 4 --unlabelled 4 --device cpu"
    status, out, err = bench(capsys, words)
    assert status == 0, err
    assert "2 of 2 cells done" in out and "photos, 3 steps" in out
    assert "bench own needs --steps" in bench(capsys, words.replace("--steps 3", ""))[2]
    assert "--data nowhere does not exist." in bench(capsys, words.replace("photos", "nowhere"))[2]


def test_smoke(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = bench(capsys, "digits --methods fixmatch,tamatch --smoke")
    assert status == 0 and "2 of 2 cells done" in out


def test_a_table_of_ones_own_is_ranked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.csv").write_text("method,a,b,c\nMine,1.0,2.0,3.0\nTheirs,2,1,4\nOther,3,3,\n")
    status, out, _ = bench(capsys, "rank --table mine.csv")
    rows = [line.split() for line in out.splitlines()]
    assert status == 0 and ["Mine", "1.33", "2.00", "3"] in rows
    assert ["Theirs", "1.67", "2.33", "3"] in rows and ["Other", "3.00", "3.00", "2"] in rows
    assert "Without a value in some setting: Other." in out
    Path("mine.csv").write_text("method,a\nMine,x\n")
    for text, message in {
        "method,a\nMine,x\n": ", line 2: 'x' under a is not a number.",
        "method,a\nMine,nan\n": ", line 2: 'nan' under a is not a number.",
        "method,a,b\n\nMine,1\n": ", line 3: the number of cells is 2, that of the first line 3",
        "method,a\nMine,1\nMine,2\n": ", line 3: there is a line of Mine already.",
        "method,a\n": " has no errors.",
        "": " has no errors.",
    }.items():
        Path("mine.csv").write_text(text)
        status, _, err = bench(capsys, "rank --table mine.csv")
        assert status == 2 and err.startswith("tamatch: --table mine.csv") and message in err
        assert err.count("\n") == 1
    assert "--table no.csv cannot be read: No such" in bench(capsys, "rank --table no.csv")[2]
    Path("mine.csv").write_bytes(b"\xff\xfe")
    assert "--table mine.csv cannot be read: 'utf-8'" in bench(capsys, "rank --table mine.csv")[2]
