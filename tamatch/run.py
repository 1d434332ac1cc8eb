"""From a configuration to a finished run: the one place where names become objects."""

from __future__ import annotations

import dataclasses
import datetime
import platform
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import __version__, methods, nets, optim, report
from .augment import Augment, Policy
from .config import RUN_OPTIONS, Run, configure, method_options
from .data import DataSet, Split, SplitPlan, load, make_split, shares, write_split
from .engine import Engine, Pace
from .errors import DataError, UsageError
from .exam import Exam
from .files import read_json
from .folder import RunFolder
from .hardware import pick_device, pick_precision, prepare
from .model import Facts, Model
from .picture import save_views
from .progress import Progress
from .sampler import keyed
from .source import Source
from .training import Training
from .types import Task

SEEDS = {"init": 1, "steps": 2, "views": 3, "batches": 4}  # independent streams of one seed


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder and its result."""

    path: Path
    result: dict[str, Any]

    @property
    def accuracy(self) -> float | None:
        """Test accuracy of the last step in percent; None without a test part."""
        error = self.result["error_last"]
        return None if error is None else 100 - error

    @property
    def per_class(self) -> list[float] | None:
        return self.result["per_class_accuracy"]  # type: ignore[no-any-return]

    @property
    def report_path(self) -> Path:
        return self.path / "report.html"


def train(
    *, out: str | Path | None = None, overwrite: bool = False, config: str | Path | None = None,
    quiet: bool = False, **options: Any,
) -> Finished:  # fmt: skip
    """Train a run and, where the recipe says so, its supervised baseline; write the report.

    The options are those of `tamatch train`, with underscores: `train(data="digits", steps=500)`.
    """
    run = configure(options, Path(config) if config else None)
    folder = RunFolder(Path(out) if out else default_folder(run))
    folder.claim(overwrite=overwrite)
    folder.update(
        status="new", step=0, config=dataclasses.asdict(run), command=command(run, folder.path)
    )
    return complete(run, folder, quiet=quiet)


def resume(path: str | Path, *, quiet: bool = False) -> Finished:
    """Go on exactly where a run stopped; a finished one only gets a fresh report."""
    folder = RunFolder(Path(path))
    return complete(stored_config(folder), folder, quiet=quiet)


def stored_config(folder: RunFolder) -> Run:
    """The resolved configuration in run.json, checked like any other input."""
    config = folder.read()["config"]
    own = config.pop("options", {})
    return configure({k: v for k, v in {**config, **own}.items() if v is not None})


def complete(run: Run, folder: RunFolder, *, quiet: bool = False) -> Finished:
    """Bring the run and its baseline to their ends, from wherever they are."""
    progress = Progress(folder.log, quiet=quiet)
    result = one_run(run, folder, progress)
    if run.baseline == "supervised":
        base = baseline_config(run)
        below = folder.baseline
        if not below.record.exists():
            below.claim(overwrite=False)
            below.update(
                status="new",
                step=0,
                config=dataclasses.asdict(base),
                command=command(base, below.path),
            )
        progress.say("The supervised baseline, on the same labels:")
        one_run(base, below, progress)
    report.write_report(folder.path)
    return Finished(folder.path, result)


def one_run(run: Run, folder: RunFolder, progress: Progress) -> dict[str, Any]:
    """Train what is left of one run."""
    if folder.read().get("status") == "finished" and folder.result.exists():
        result: dict[str, Any] = read_json(folder.result)
        return result
    training = build(run, folder, progress)
    training.resume()
    return training.go()


def baseline_config(run: Run) -> Run:
    """The same labels, net, steps and average, without the unlabelled images."""
    options = {k: o.default for k, o in method_options("supervised").items()}
    return dataclasses.replace(run, method="supervised", baseline="none", options=options)


def build(run: Run, folder: RunFolder, progress: Progress) -> Training:
    """Data, net, method, optimizer and engine of a run, and its record in run.json."""
    device = pick_device(run.device)
    if run.threads is not None:
        torch.set_num_threads(run.threads)
    precision = pick_precision(run, device)
    autocast = prepare(precision)
    data = load(run.data, Path(run.root) if run.root else None, run.size)
    split = make_split(data, split_plan(run))
    record_facts(run, folder, data, split, device, precision)

    torch.manual_seed(keyed(run.seed, SEEDS["init"]) >> 1)
    net = nets.build(str(run.net), len(data.classes), data.size)
    method = methods.get(run.method)(net, task_of(run, data, split), ema=run.ema, **run.options)
    method.to(device)
    if device.type == "cuda":
        method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    groups = optim.parameter_groups(
        method, lr=run.lr, weight_decay=run.weight_decay, layer_decay=run.layer_decay,
        depth_of=net.depth_of,
    )  # fmt: skip
    policy = Policy(
        data.size, data.mean, data.std,
        horizontal_flip="horizontal" in data.flips, vertical_flip="vertical" in data.flips,
    )  # fmt: skip
    folder.update(parameters=sum(p.numel() for p in net.parameters()))
    engine = Engine(
        method,
        optim.build_optimizer(str(run.optimizer), groups),
        Source(data, split, run.batch, run.unlabelled, keyed(run.seed, SEEDS["batches"]), device),
        Augment(policy, keyed(run.seed, SEEDS["views"])).to(device),
        Pace(run.steps, run.warmup, keyed(run.seed, SEEDS["steps"])),
        autocast=autocast,
        graph=run.graph and device.type == "cuda",
    )
    if not folder.views.exists():
        save_views(engine, folder.views)
    if run.compile and device.type == "cuda":
        net.compile()
    parts = {"validation": split.validation, "test": split.test}
    exams = {k: Exam(data, part, device) for k, part in parts.items() if len(part)}
    facts = Facts(str(run.net), data.classes, data.size, data.mean, data.std)
    return Training(run, engine, folder, exams, Model(facts), progress)


def split_plan(run: Run) -> SplitPlan:
    """What to draw from the data; a fully supervised run draws every label."""
    everything = methods.entry(run.method).all_labels
    return SplitPlan(
        labels_per_class=None if everything else run.labels_per_class,
        head_labelled=None if everything else run.head_labelled,
        head_unlabelled=run.head_unlabelled,
        gamma=1.0 if everything else run.gamma,
        gamma_unlabelled=run.gamma_unlabelled,
        validation_per_class=run.validation_per_class,
        labelled_in_pool=run.labelled_in_pool == "yes",
        seed=run.seed,
    )


def task_of(run: Run, data: DataSet, split: Split) -> Task:
    if run.prior is not None and len(run.prior) != len(data.classes):
        raise UsageError(
            f"--target gives {len(run.prior)} class shares, but {data.name} has "
            f"{len(data.classes)} classes."
        )
    return Task(
        classes=len(data.classes),
        labelled=len(split.labelled),
        unlabelled=len(split.unlabelled),
        labelled_shares=shares(data.labels[split.labelled], len(data.classes)),
        prior=run.prior,
        steps=run.steps,
        batch_labelled=run.batch,
        batch_unlabelled=run.unlabelled,
    )


def record_facts(
    run: Run, folder: RunFolder, data: DataSet, split: Split, device: torch.device, precision: str
) -> None:
    """Write what the run stands on; on resume, refuse to go on if it has changed."""
    hidden = data.labels[split.unlabelled]
    known = bool(len(hidden)) and bool((hidden >= 0).all())
    facts = {
        "name": data.name,
        "sha256": data.sha256(),
        "labelled": len(split.labelled),
        "unlabelled": len(split.unlabelled),
        "validation": len(split.validation),
        "test": len(split.test),
        "labelled_in_pool": run.labelled_in_pool == "yes",
        "labelled_shares": shares(data.labels[split.labelled], len(data.classes)),
        "true_shares": shares(hidden, len(data.classes)) if known else None,
    }
    before = folder.read()
    if "data" in before:
        check_unchanged(before, {**before, "data": json_like(facts)}, folder)
        torch.set_num_threads(before["threads"])
        return
    write_split(folder.split, data, split)
    folder.update(
        versions={
            "tamatch": __version__, "torch": torch.__version__, "python": platform.python_version(),
        },
        device=str(device), threads=torch.get_num_threads(), precision=precision,
        classes=list(data.classes), data=facts,
        times={"started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")},
    )  # fmt: skip


def check_unchanged(before: dict[str, Any], now: dict[str, Any], folder: RunFolder) -> None:
    for name, old in before["data"].items():
        if now["data"][name] != old:
            raise DataError(
                f"resume of {folder.path} refused: the data's {name} was {old}, now it is "
                f"{now['data'][name]}. Start a new run, or bring the old data back."
            )


def json_like(facts: dict[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()}


def default_folder(run: Run) -> Path:
    name = Path(run.method.replace(":", "-")).name
    return Path("runs") / f"{Path(run.data).name}-{name}-s{run.seed}"


def command(run: Run, out: Path) -> str:
    """The exact command that repeats a run, every setting spelt out."""
    words = ["tamatch", "train", "--out", str(out)]
    flags = {**RUN_OPTIONS, **method_options(run.method)}
    for name, value in run.flat().items():
        if value is None:
            continue
        flag = flags[name].flag
        if flags[name].type is bool:
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, ",".join(map(repr, value)) if isinstance(value, tuple) else str(value)]
    return shlex.join(words)
