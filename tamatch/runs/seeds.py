"""One configuration with several seeds: runs that begin, train and go on together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from ..errors import NumericError, Stopped, UsageError
from ..machine import launch
from ..methods import AnyMethod
from ..nets import AnyNet
from ..own import usercode
from ..progress import Progress, Screen
from ..report.comparison import mean_and_spread
from ..report.words import percent
from ..settings.config import RUN_OPTIONS, Run
from ..settings.configure import ask, stored_config, user_settings
from ..settings.options import read_seeds
from ..storage.files import config_path, path_of
from ..storage.folder import RunFolder
from ..storage.seedfolder import SeedFolder, runs_in
from .decide import decide
from .end import Finished
from .jobs import complete_all
from .place import advising_resume, default_folder, refuse_elsewhere, refuse_place, resume_command
from .record import begin
from .start import Job

FIGURES = {"error": "test error", "baseline_error": "supervised", "utilization": "unlabelled used"}


def train_seeds(
    seeds: Sequence[int] | str, *, out: str | Path | None = None, overwrite: bool = False,
    config: str | Path | None = None, time: str | None = None, quiet: bool = False, **options: Any,
) -> list[Finished]:  # fmt: skip
    """Train the same run with several seeds in parallel; each ends as if it were alone.

    Each has its folder: `out`/s0, `out`/s1 and so on, and `out`/seeds.json sums them up; without
    `out`, the one that `train` would give it. If the values of one run become infinite or NaN, the
    others continue, and its `NumericError` is raised when they are finished.
    """
    group = train_group(
        seeds, options, out=out, overwrite=overwrite, config=config, time=time, quiet=quiet
    )
    return group.finished()


def resume_seeds(
    *paths: str | Path, method: AnyMethod | None = None, net: AnyNet | None = None,
    quiet: bool = False,
) -> list[Finished]:  # fmt: skip
    """Continue stopped runs in parallel. A path is that of a run, or the `out` of several seeds."""
    return resume_group(paths, method=method, net=net, quiet=quiet).finished()


def train_group(
    seeds: Sequence[int] | str, options: dict[str, Any], *, out: str | Path | None = None,
    overwrite: bool = False, config: str | Path | None = None, time: str | None = None,
    quiet: bool = False,
) -> SeedGroup:  # fmt: skip
    """Begin a run for each seed, and finish all of them."""
    usercode.refuse_runs_on_import()
    check_alone()
    file = config_path(config)
    options = {name: value for name, value in options.items() if value is not None}
    if "seed" in user_settings(options, file):
        raise UsageError("--seed and --seeds cannot be used together.")
    numbers = [RUN_OPTIONS["seed"].parse(seed) for seed in read_seeds(seeds)]
    asked = ask({**options, "seed": numbers[0]}, file)
    home = None if out is None else SeedFolder(path_of(out, "out takes a folder"))
    folders = home.runs(numbers) if home else [usual_folder(asked.run, n) for n in numbers]
    refuse_place(home.path if home else folders[0].path, asked.run, folders)
    with ExitStack() as held, advising_resume(folders, home):
        if home is not None:
            held.enter_context(home.taken(numbers))
        refuse_begun(home, folders, overwrite=overwrite)
        for folder in folders:
            held.enter_context(folder.taken(overwrite=overwrite))
        decided = decide(asked, time, len(numbers))
        jobs = jobs_of([replace(decided.run, seed=n) for n in numbers], folders, quiet=quiet)
        for job in jobs:
            begin(job.run, job.folder, decided.reasons)
        for job in jobs:
            decided.announce(job.folder, quiet=quiet or job is not jobs[0])
        return completed(home, jobs)


def resume_group(
    paths: Sequence[str | Path], *, method: AnyMethod | None = None, net: AnyNet | None = None,
    quiet: bool = False,
) -> SeedGroup:  # fmt: skip
    """Finish runs, however far they have come."""
    usercode.refuse_runs_on_import()
    check_alone()
    if not paths:
        raise UsageError("resume_seeds takes one or more run folders.")
    named = [
        path_of(path, "resume_seeds takes each run folder as a separate argument") for path in paths
    ]
    home = SeedFolder(named[0]) if len(named) == 1 else None
    home = home if home and home.record.exists() else None
    places = dict.fromkeys(folder.path for path in named for folder in runs_in(path))
    folders = [*map(RunFolder, places)]
    runs = [stored_config(folder, method, net) for folder in folders]  # an error, if one is no run
    for run, folder in zip(runs, folders, strict=True):
        refuse_elsewhere(run, folder)
    with ExitStack() as held, advising_resume(folders, home):
        for folder in folders:
            held.enter_context(folder.held())
        return completed(home, jobs_of(runs, folders, quiet=quiet))


def completed(home: SeedFolder | None, jobs: list[Job]) -> SeedGroup:
    """Finish the runs; if they are stopped, say how to resume all of them."""
    try:
        group = SeedGroup(jobs, complete_all(jobs))
    except Stopped as stopped:
        how = resume_command([job.folder for job in jobs], home)
        raise Stopped(
            stopped.signal, f"stopped; all is saved. {how} continues from there."
        ) from None
    if home is not None:
        home.write(group.summary())
    return group


def jobs_of(runs: Sequence[Run], folders: Sequence[RunFolder], *, quiet: bool) -> list[Job]:
    """The runs share the screen, where each is known by its seed, or else by its folder."""
    screen = Screen(quiet=quiet)
    distinct = len({run.seed for run in runs}) == len(runs)
    jobs = []
    for run, folder in zip(runs, folders, strict=True):
        name = f"seed {run.seed}" if distinct else str(folder.path)
        jobs.append(Job(run, folder, Progress(folder.log, screen=screen, name=name)))
    return jobs


def check_alone() -> None:
    if launch.processes() > 1:
        raise UsageError(
            "several seeds are trained in one process. Start them without torchrun, or run "
            "torchrun once per seed (--seed)."
        )


def usual_folder(run: Run, seed: int) -> RunFolder:
    """Where `train` would put the run; those that start from one and the same get their seed."""
    path = default_folder(replace(run, seed=seed))
    return RunFolder(path if run.from_ is None else path.with_name(f"{path.name}-s{seed}"))


def refuse_begun(home: SeedFolder | None, folders: Sequence[RunFolder], *, overwrite: bool) -> None:
    begun = [folder for folder in folders if folder.record.exists() and folder.begun()]
    if begun and not overwrite:
        command = resume_command(begun, home)
        raise UsageError(
            f"{begun[0].path} already exists. {command} continues the unfinished runs, --overwrite "
            "deletes them."
        )


@dataclass(frozen=True)
class SeedGroup:
    """Runs that were trained together, and what became of each."""

    jobs: list[Job]
    ends: list[Finished | NumericError]

    def finished(self) -> list[Finished]:
        """All of them; the first error, if there is one."""
        for job, end in zip(self.jobs, self.ends, strict=True):
            if isinstance(end, NumericError):
                raise NumericError(f"{job.progress.name}: {end}")
        return [end for end in self.ends if isinstance(end, Finished)]

    def summary(self) -> dict[str, Any]:
        """The figures of each run, and mean and standard deviation over those that ended."""
        runs = [figures(job, end) for job, end in zip(self.jobs, self.ends, strict=True)]
        over = {name: spread([run[name] for run in runs if name in run]) for name in FIGURES}
        return {"seeds": [run["seed"] for run in runs], "runs": runs, **over, "ddof": 1}

    def table(self) -> list[tuple[str, ...]]:
        """The same for people, header first; what no run has is left out."""
        found = self.summary()
        names = [name for name in FIGURES if found[name] is not None]
        rows = [("", *(FIGURES[name] for name in names))]
        columns = [[in_percent(name, run.get(name)) for run in found["runs"]] for name in names]
        for job, run, *cells in zip(self.jobs, found["runs"], *columns, strict=True):
            shown = ("failed",) if "failed" in run else (percent(cell, 2) for cell in cells)
            rows.append((job.progress.name, *shown))
        over = (mean_and_spread([v for v in column if v is not None]) for column in columns)
        return [*rows, ("mean ± std (n − 1)", *over)]


def in_percent(name: str, value: float | None) -> float | None:
    """A figure of a run in percent: errors are, shares of images are shares of one."""
    return 100 * value if name == "utilization" and value is not None else value


def figures(job: Job, end: Finished | NumericError) -> dict[str, Any]:
    row: dict[str, Any] = {"seed": job.run.seed, "run": job.folder.path.name}
    if isinstance(end, NumericError):
        return {**row, "failed": str(end)}
    row |= {"error": end.result["error_last"], "utilization": end.result["utilization"]}
    if end.baseline is not None:
        row["baseline_error"] = end.baseline["error_last"]
    return row


def spread(values: Sequence[float | None]) -> dict[str, float | None] | None:
    """Mean and standard deviation (n − 1) of what was measured."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": mean(known), "std": stdev(known) if len(known) > 1 else None}
