"""How large the package is, and how much of it a command loads.

    python benchmarks/house.py

prints the rows of the table in docs/architecture.md: files, lines, modules that only one other
module imports, modules that commands load, and how often the settings of one run (`Run`) are made.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image

PACKAGE = Path(__file__).resolve().parents[1] / "tamatch"

# Files of what the package could not do at 2c40b8d. A file that came since with what an older one
# had, moved or split off, is not among them.
NEW = (
    # pre-trained nets by name, frozen features, the first answer and tuning from it
    "nets/pretrained.py", "nets/features.py", "frozen/*.py", "runs/first_*.py", "runs/tune.py",
    "rules/tails.py", "estimators/features.py", "data/feature_cache.py", "machine/threads.py",
    # choosing what to label, labelling from nothing, a closer look at labels and images
    "runs/pick.py", "review/start.py", "review/answers.py", "runs/closer.py",
    # methods for long tails and of 2023 to 2025
    "methods/abc.py", "methods/acr.py", "methods/ccl.py", "methods/cdmad.py", "methods/daso.py",
    "methods/saw.py", "methods/simpro.py", "methods/tamatch_lt.py",
    "methods/efficientmatch.py", "methods/infomatch.py", "methods/regmixmatch.py",
    "methods/sequencematch.py", "methods/shrinkmatch.py", "methods/taught.py",
    # data sets
    "data/food101.py", "data/imagenet.py", "data/medmnist.py", "data/svhn.py",
    # own loops, a run's history, USB's configurations
    "loop.py", "storage/history.py", "settings/usb.py",
    # the checks of every file of a run folder, and its seal
    "storage/record.py",
    # time to accuracy
    "bench/race.py", "bench/racing.py",
)  # fmt: skip

# What serves nothing but that in older files: functions, classes, methods and tables.
NEW_PARTS = {
    "bench/order.py": "TAU_RULE Agreement agreement tau agreements in_print column ranks",
    "bench/plans.py": (
        "NOT_SET other_pool CLASSIC RACE OTHER_POOLS TAILS TAIL_METHODS option_values with_options "
        "row_name own_setting"
    ),
    "bench/results.py": "clock",
    "bench/rank.py": "order_grid read_errors error_in own_page",
    "bench/sweep.py": "SMOKE SMOKE_PRETRAINED Sweep",
    "cli/parser.py": "add_look",
    "cli/train.py": "add_from_usb run_from_usb",
    "cli/use.py": "add_pick run_pick add_start run_start add_history run_history",
    "data/archives.py": "SVHN FOOD101 MEDMNIST",
    "data/bulk.py": "cached_blocks",
    "data/check.py": "Closer CheckReport._sizes_to_train_on",
    "data/dataset.py": "DataSet.of_no_class",
    "kinds.py": "AgreementWeight MixTarget EnergyBound TestStrength",
    "losses.py": "mean_of",
    "methods/fixmatch.py": "FixMatch.final_strength",
    "methods/mixing.py": "Mixed Box Span",
    "modules.py": "Shifted unshifted",
    "nets/__init__.py": (
        "is_frozen is_tuned begins_anew body_of first_of _made_and_size check_at patch_in_name"
    ),
    "nets/base.py": "Net.frozen_width Net.frozen_upper Net.frozen_features",
    "nets/recognise.py": "STYLE_SIGNS colours_of",
    "nets/vit.py": (
        "STYLES LayerScale ViT.frozen_width ViT.frozen_upper ViT.frozen_features attended"
    ),
    "nets/weights.py": "with_batch",
    "pseudo/parts.py": "Effective",
    "report/folder.py": "RunFiles.first_answer RunFiles.tuning",
    "report/verdict.py": (
        "CAVEAT DRAWN_CAVEAT TUNED_CAVEAT FEW_DRAWN TUNED_ON_CHOSEN LOWER "
        "CrossValidated FirstAnswer _on_tuning outlook_on cross_validated first_answer_of _caveat "
        "_suspects junk_on junk_of tuned_ladder _rungs _between _rung doubling"
    ),
    "review/command.py": "start",
    "rules/choose.py": "looked_at",
    "rules/finetune.py": (
        "TUNED_STEPS TUNED_PASSES RENEWED ENOUGH_PASSES AGAINST HELD_OUT FEWEST_LABELS tuning "
        "tuned_size renewed tuned_steps held_out unjudged_remark keeps by_chance"
    ),
    "runs/build.py": "Start",
    "runs/decide.py": (
        "TUNED_RULE decide_first decide_tuned choose_form hold_out unjudged tuned_in_time "
        "tuned_net looks"
    ),
    "runs/end.py": (
        "PoolPredictions.odd junk_of Finished.method_reason Finished.first_answer Finished.junk "
        "Finished.tuning Finished.history"
    ),
    "runs/jobs.py": "tuning",
    "runs/label.py": "kept_run",
    "runs/training.py": "Training.likeness",
    "settings/configure.py": "check_frozen check_taught",
    "methods/__init__.py": "is_taught BY_THEMSELVES",
    "model/evaluate.py": "expected",
    "settings/recipes.py": (
        "MEDICAL LARGE TUNED TUNED_SETS CLASSIC_SETS MEDICAL_FLIPS OTHER_SETS BESIDES"
    ),
    "stats.py": "Ema.update_share_ effective_weights log_shares FittedStrength",
    "storage/events.py": "Trackers Callbacks WandB MLflow",
    "storage/folder.py": "RunFolder.lends_labels",
}

LOADED = """
import sys
from tamatch.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit:
    pass
print("LOADED", sum(name.split(".")[0] == "tamatch" for name in sys.modules), file=sys.stderr)
"""
RESOLVED = """
import sys
from tamatch.settings.config import Run
count, before = 0, Run.__init__
def counting(self, *a, **k):
    global count
    count += 1
    before(self, *a, **k)
Run.__init__ = counting
from tamatch.step import engine
advance, first = engine.Engine.advance, []
def stepping(self):
    first or first.append(count)
    return advance(self)
engine.Engine.advance = stepping
from tamatch.cli import main
main(sys.argv[1:])
print("RESOLVED", first[0], file=sys.stderr)
"""


def name_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(file: Path, modules: set[str]) -> set[str]:
    """The package's own modules that a file imports, anywhere in it."""
    name = name_of(file)
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([node.module] if node.module else [])])
            origin = base if node.level else (node.module or "")
            names = [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
        else:
            continue
        found.update(n for n in names if n in modules)
    return found - {name}


def parts_of(file: Path) -> dict[str, int]:
    """The lines of each function, class, method and table of a file, by its name."""

    def listed(body: list[ast.stmt], inside: str = "") -> dict[str, int]:
        found: dict[str, int] = {}
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                found[inside + node.name] = node.end_lineno - first + 1
                if isinstance(node, ast.ClassDef):
                    found |= listed(node.body, f"{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                found[inside + ast.unparse(target)] = node.end_lineno - node.lineno + 1
        return found

    return listed(ast.parse(file.read_text()).body)


def loaded(program: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    return done.stderr.rsplit(maxsplit=1)[-1]


def photos_in(folder: Path) -> Path:
    """A folder of images of two classes, as a user has one."""
    draw = np.random.default_rng(0)
    for part, count in (("cat", 6), ("dog", 6), ("unlabelled", 40)):
        (folder / "photos" / part).mkdir(parents=True)
        for number in range(count):
            image = Image.fromarray(draw.integers(0, 256, (32, 32, 3), dtype=np.uint8))
            image.save(folder / "photos" / part / f"{number}.png")
    return folder / "photos"


def main() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    lengths = [len(file.read_text().splitlines()) for file in files]
    modules = {name_of(file) for file in files}
    importers: dict[str, set[str]] = defaultdict(set)
    for file in files:
        for module in imported_by(file, modules):
            importers[module].add(name_of(file))
    once = [m for m in modules if len(importers[m]) == 1]
    print(f"files {len(files)}, lines {sum(lengths):,}, median {median(lengths):g}")
    new = {file for pattern in NEW for file in PACKAGE.glob(pattern)}
    old = [n for file, n in zip(files, lengths, strict=True) if file not in new]
    print(f"without what is new: files {len(old)}, lines {sum(old):,}")
    parts = [(PACKAGE / name, words.split()) for name, words in NEW_PARTS.items()]
    apart = sum(parts_of(file)[word] for file, words in parts for word in words)
    print(f"and without its parts of older files: lines {sum(old) - apart:,}")
    print(f"modules that one other imports: {len(once)}")
    print(f"modules loaded by --help: {loaded(LOADED, '--help')}")
    with tempfile.TemporaryDirectory() as folder:
        photos = photos_in(Path(folder))
        words = ("train", "--data", str(photos), "--steps", "12", "--out", f"{folder}/run")
        print(f"modules loaded by train: {loaded(LOADED, *words)}")
        print(f"settings made before the first step: {loaded(RESOLVED, *words, '--overwrite')}")


if __name__ == "__main__":
    main()
