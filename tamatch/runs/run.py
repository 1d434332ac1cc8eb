"""Training, resuming and finishing runs: what `tamatch train` and `tamatch resume` do."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .. import dist, methods, nets, report, usercode
from ..data import DATASETS, Split
from ..data.splitfile import ROLES
from ..errors import DataError, NumericError, StorageError, UsageError
from ..machine import launch
from ..machine.signals import StopSignals
from ..settings.config import Run, configure, resolve
from ..step.engine import Engine
from ..step.subset import Pool
from ..storage import checkpoint
from ..storage.files import read_json, write_bytes
from ..storage.folder import RunFolder
from ..storage.paths import config_path, path_of
from .automatic import Decided, decide
from .build import baseline_config, data_of, engine_of
from .lineage import learnt_by, lineage, split_of
from .loop import Outcome, take_part, train_to_end
from .model import Facts
from .picture import save_views
from .place import default_folder, refuse_elsewhere, refuse_inside, resume_command
from .progress import Progress
from .record import (
    command,
    record_facts,
    record_skipped,
    seen_of,
    tell_of_contradictions,
    tell_of_no_held_out,
    tell_of_no_pool,
    tell_of_seen,
    tell_of_skipped,
)
from .shared_data import SharedData
from .training import Training

if TYPE_CHECKING:
    from ..methods import AnyMethod
    from ..nets import AnyNet


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder and its result."""

    path: Path
    result: dict[str, Any]
    baseline: dict[str, Any] | None = None  # the result of its supervised baseline

    @property
    def accuracy(self) -> float | None:
        """Test accuracy of the last step in percent; None without a test part."""
        return accuracy_of(self.result)

    @property
    def baseline_accuracy(self) -> float | None:
        """The same of the supervised baseline; None also where none was trained."""
        return None if self.baseline is None else accuracy_of(self.baseline)

    @property
    def per_class(self) -> list[float] | None:
        """The same for each class, in the order of the model's classes."""
        return self.result["per_class_accuracy"]  # type: ignore[no-any-return]

    @property
    def report_path(self) -> Path:
        """The page that explains the run."""
        return self.path / "report.html"


def accuracy_of(result: dict[str, Any]) -> float | None:
    error = result["error_last"]
    return None if error is None else round(100 - error, 6)


def train(
    data: str | Path | None = None, *, out: str | Path | None = None, overwrite: bool = False,
    config: str | Path | None = None, time: str | None = None, quiet: bool = False, **options: Any,
) -> Finished:  # fmt: skip
    """Train a run and, where the recipe says so, its supervised baseline; write the report.

    The options are those of `tamatch train`, with underscores: `train("digits", steps=500)`.
    Settings that nobody gives are chosen for the data and the machine; `time="20m"` sets the steps.
    """
    usercode.refuse_runs_on_import()
    code = {name: options.get(name) for name in ("method", "net")}
    if not launch.leads():
        return follow(**code)
    file = config_path(config)
    place = None if out is None else path_of(out, "out takes a run folder")
    options = {n: value for n, value in {"data": data, **options}.items() if value is not None}
    asked = configure(options, file)
    folder = RunFolder(place or default_folder(asked))
    refuse_inside(folder.path, asked.data)
    if began_here(folder) and (launch.restarts() or not overwrite):
        return resume(folder.path, **code, quiet=quiet)
    with advice(folder), folder.taken(overwrite=overwrite):
        decided = decide(options, file, time)
        begin(decided.run, folder)
        tell(decided, folder, quiet=quiet)
        return complete(decided.run, folder, quiet=quiet)


def resume(
    path: str | Path, *, method: AnyMethod | None = None, net: AnyNet | None = None,
    quiet: bool = False,
) -> Finished:  # fmt: skip
    """Go on exactly where a run stopped; a finished one only gets a fresh report.

    `method` and `net` are those of the run, where they are code of your own that has no file to be
    found in.
    """
    usercode.refuse_runs_on_import()
    if not launch.leads():
        return follow(method, net)
    folder = RunFolder(path_of(path, "resume takes a run folder"))
    folder.read()  # an error, if this is no run
    with advice(folder), folder.held():
        run = stored_config(folder, method)
        nets.stand_in(run.net, net)
        refuse_elsewhere(run, folder)
        return complete(run, folder, quiet=quiet)


def begin(run: Run, folder: RunFolder) -> None:
    """Write down what is to be trained, in place of what an older run has left there."""
    folder.clear()
    config = dataclasses.asdict(run)
    # where the paths among the settings begin; of the machine, so that no report shows it
    started = {"command": command(run, folder.path), "started_in": os.getcwd()}
    if (name := launch.name()) is not None:
        started["torchrun"] = name
    folder.update(status="new", step=0, config=config, **started)


def began_here(folder: RunFolder) -> bool:
    """Did this torchrun command begin the run itself, before it restarted its processes?"""
    name = launch.name() if folder.record.exists() else None
    return name is not None and folder.read().get("torchrun") == name


def tell(decided: Decided, folder: RunFolder, *, quiet: bool) -> None:
    """Say what was chosen and why, here and in run.json."""
    if lines := decided.lines():
        folder.update(chosen=decided.reasons)
        Progress(folder.log, quiet=quiet).say("\n".join(lines))


@contextmanager
def advice(folder: RunFolder) -> Iterator[None]:
    """Where a file cannot be written, say what is safe and how to go on."""
    try:
        yield
    except StorageError as error:
        saved = checkpoint.found(folder.checkpoints)
        kept = f"The checkpoint {saved[-1].name} is intact. " if saved else ""
        again = f"{resume_command([folder])} continues" if folder.record.exists() else "try again"
        raise StorageError(f"{error} {kept}When there is space again, {again}.") from error


def stored_config(folder: RunFolder, method: AnyMethod | None = None) -> Run:
    """The resolved configuration in run.json, checked like any other input.

    `method` is the run's, where it is code of the user's own that may not be where it was.
    """
    config = folder.read()["config"]
    own = config.pop("options", {})
    name = str(config.get("method"))
    methods.stand_in(name, method)
    if methods.is_own(name):
        try:
            methods.get(name)
        except UsageError as error:
            path = str(folder.path)
            raise UsageError(
                f"{error} For this run: tamatch.resume({path!r}, method=…), or `tamatch resume "
                f"{shlex.quote(path)} --method FILE.py:CLASS`."
            ) from error
    return resolve({**{k: v for k, v in config.items() if v is not None}, **own})


@dataclass(frozen=True)
class Job:
    """A run that is to be brought to its end, where it lies, and how it is spoken of."""

    run: Run
    folder: RunFolder
    progress: Progress
    is_baseline: bool = False  # of a run that has told of the data, which are the same

    @property
    def baseline(self) -> Job:
        run, folder = baseline_config(self.run), self.folder.baseline
        return Job(run, folder, self.progress, is_baseline=True)


def complete(run: Run, folder: RunFolder, *, quiet: bool = False) -> Finished:
    """Bring the run and its baseline to their ends, from wherever they are."""
    [finished] = complete_all([Job(run, folder, Progress(folder.log, quiet=quiet))])
    assert isinstance(finished, Finished)  # the error of a single run is raised
    return finished


def complete_all(jobs: Sequence[Job]) -> list[Finished | NumericError]:
    """The same for several runs, trained abreast; one without a result has its error instead."""
    with dist.joined():
        ends = train_all(jobs)
        good = [i for i, end in enumerate(ends) if not isinstance(end, NumericError)]
        based = [i for i in good if jobs[i].run.baseline == "supervised"]
        baselines: dict[int, dict[str, Any]] = {}
        for i, base in zip(based, train_baselines([jobs[i] for i in based]), strict=True):
            if isinstance(base, NumericError):
                ends[i] = base  # without its baseline a run is not at its end
            else:
                baselines[i] = base
        first = {"path": str(jobs[0].folder.path), "result": ends[0], "baseline": baselines.get(0)}
        dist.from_first(first)
    finished: list[Finished | NumericError] = []
    for i, (job, end) in enumerate(zip(jobs, ends, strict=True)):
        if isinstance(end, NumericError):
            finished.append(end)
        else:
            report.write_report(job.folder.path)
            finished.append(Finished(job.folder.path, end, baselines.get(i)))
    return finished


def train_baselines(jobs: Sequence[Job]) -> list[Outcome]:
    """The supervised baselines of these runs, abreast as well."""
    with ExitStack() as held:
        for job in jobs:
            base = job.baseline
            held.enter_context(base.folder.held())
            if not base.folder.record.exists():
                begin(base.run, base.folder)
            if job.folder.split.exists() and not base.folder.split.exists():
                write_bytes(base.folder.split, job.folder.split.read_bytes())
            if result_in(base.folder) is None:
                job.progress.say("Supervised baseline on the same labels:")
        return train_all([job.baseline for job in jobs])


def follow(method: AnyMethod | None = None, net: AnyNet | None = None) -> Finished:
    """What every process but the first does: take part in the runs that the first one leads.

    It never looks at the run folder, which may be on another machine.
    """
    with dist.joined(), StopSignals() as stop:
        while "state" in (order := dist.from_first()):
            run = Run(**order["run"])
            if methods.is_own(run.method):  # that of a baseline is not
                methods.stand_in(run.method, method)
            if nets.is_own(run.net):
                nets.stand_in(run.net, net)
            data = data_of(run, run.size)
            if data.sha256() != order["data"]:
                raise DataError(
                    f"{data.name} has different images or labels here than in process 0."
                )
            split = Split(**{role: order["split"][role].numpy() for role in ROLES})
            engine = engine_of(run, data, split)
            engine.load_state_dict(order["state"])
            take_part(engine, stop)
    return Finished(Path(order["path"]), order["result"], order["baseline"])


def order_of(run: Run, folder: RunFolder, split: Split, engine: Engine) -> dict[str, Any]:
    """What the other processes must know to take part in a run; the weights are in the state."""
    return {
        "run": dataclasses.asdict(dataclasses.replace(run, weights=None, from_=None)),
        "data": folder.read()["data"]["sha256"],
        "split": {role: torch.from_numpy(getattr(split, role)) for role in ROLES},
        "state": engine.state_dict(),
    }


def one_run(run: Run, folder: RunFolder, progress: Progress) -> dict[str, Any]:
    """Train what is left of one run."""
    [result] = train_all([Job(run, folder, progress)])
    assert not isinstance(result, NumericError)  # the error of a single run is raised
    return result


def train_all(jobs: Sequence[Job]) -> list[Outcome]:
    """Train what is left of these runs; of one that is finished, the result is read."""
    shared = SharedData()
    there = [result_in(job.folder) for job in jobs]
    left = [prepared(job, shared) for job, end in zip(jobs, there, strict=True) if end is None]
    made = iter(train_to_end(left) if left else [])
    return [next(made) if end is None else end for end in there]


def result_in(folder: RunFolder) -> dict[str, Any] | None:
    if folder.read().get("status") != "finished" or not folder.result.exists():
        return None
    result: dict[str, Any] = read_json(folder.result)
    return result


def prepared(job: Job, shared: SharedData) -> Training:
    """A run at its newest checkpoint; other processes, where there are some, are told of it."""
    state, messages = checkpoint.newest(job.folder.checkpoints)
    for message in messages:
        job.progress.say(message)
    training, split = prepare(job, shared, started=state is not None)
    training.resume(state)
    dist.from_first(order_of(job.run, job.folder, split, training.engine))
    return training


def prepare(job: Job, shared: SharedData, *, started: bool) -> tuple[Training, Split]:
    """Read the data, build the engine, and write down what the run stands on."""
    run, folder, progress = job.run, job.folder, job.progress
    data = shared.data(run)
    record_skipped(folder, data)
    if not job.is_baseline:
        tell_of_skipped(data, progress)
    split = split_of(run, data, folder.split)
    # a checkpoint has the weights
    start = dataclasses.replace(run, weights=None, from_=None) if started else run
    engine = engine_of(start, data, split, progress.say)
    seen = seen_of(data, split, learnt_by(lineage(run.from_), data, run.size))
    record_facts(run, folder, data, split, engine, seen)
    if not folder.views.exists():
        save_views(engine, folder.views)
    parts = {"validation": split.validation, "test": split.test}
    device = engine.device if engine.source.place == "device" else None
    held_out = {k: shared.subset(data, part, device) for k, part in parts.items() if len(part)}
    facts = Facts(nets.title(run.net), data.classes, data.size, data.mean, data.std)
    pool = Pool(data, split) if engine.method.views.u else None
    if pool is not None and not started:
        tell_of_no_pool(pool, len(split.labelled), progress)
    if not started and not job.is_baseline:
        if not held_out:
            tell_of_no_held_out(progress)
        if run.data not in DATASETS:
            tell_of_seen(run, split, seen, progress)
            tell_of_contradictions(run, data, split, progress)
    return Training(run, engine, folder, held_out, facts, progress, pool), split
