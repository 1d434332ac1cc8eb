"""One configuration with several seeds: runs that begin, train and go on together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import usercode
from ..errors import Stopped, UsageError
from ..machine import launch
from ..progress import Progress, Screen
from ..settings.config import Run
from ..settings.configure import configure, stored_config, user_settings
from ..settings.options import read_seeds
from ..storage.folder import RunFolder
from ..storage.paths import config_path, path_of
from ..storage.seedfolder import SeedFolder, runs_in
from .automatic import decide
from .group import SeedGroup
from .jobs import Job, complete_all
from .place import (
    advising_resume,
    default_folder,
    refuse_elsewhere,
    refuse_inside,
    refuse_replacing_start,
    resume_command,
)
from .record import begin
from .result import Finished

if TYPE_CHECKING:
    from ..methods import AnyMethod
    from ..nets import AnyNet


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
    runs = [configure({**options, "seed": seed}, file) for seed in read_seeds(seeds)]
    numbers = [run.seed for run in runs]
    if "seed" in user_settings(options, file):
        raise UsageError("--seed and --seeds cannot be used together.")
    home = None if out is None else SeedFolder(path_of(out, "out takes a folder"))
    folders = home.runs(numbers) if home else [*map(usual_folder, runs)]
    refuse_inside(home.path if home else folders[0].path, runs[0].data)
    refuse_replacing_start(runs[0], folders)
    with ExitStack() as held, advising_resume(folders, home):
        if home is not None:
            held.enter_context(home.taken(numbers))
        refuse_begun(home, folders, overwrite=overwrite)
        for folder in folders:
            held.enter_context(folder.taken(overwrite=overwrite))
        decided = decide({**options, "seed": numbers[0]}, file, time, len(numbers))
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
    home = home if home and home.exists() else None
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
    names = [
        f"seed {r.seed}" if distinct else str(f.path) for r, f in zip(runs, folders, strict=True)
    ]
    return [
        Job(run, folder, Progress(folder.log, screen=screen, name=name))
        for run, folder, name in zip(runs, folders, names, strict=True)
    ]


def check_alone() -> None:
    if launch.processes() > 1:
        raise UsageError(
            "several seeds are trained in one process. Start them without torchrun, or run "
            "torchrun once per seed (--seed)."
        )


def usual_folder(run: Run) -> RunFolder:
    """Where `train` would put the run; those that start from one and the same get their seed."""
    path = default_folder(run)
    return RunFolder(path if run.from_ is None else path.with_name(f"{path.name}-s{run.seed}"))


def refuse_begun(home: SeedFolder | None, folders: Sequence[RunFolder], *, overwrite: bool) -> None:
    begun = [folder for folder in folders if folder.record.exists() and folder.begun()]
    if begun and not overwrite:
        command = resume_command(begun, home)
        raise UsageError(
            f"{begun[0].path} already exists. {command} continues the unfinished runs, --overwrite "
            "deletes them."
        )
