"""Finishing runs, with their baselines: one run, or several in parallel."""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import compress, product
from typing import Any

import torch

from .. import dist, nets, report
from ..data import Split
from ..errors import NumericError, Stopped, UsageError
from ..machine.launch import StopSignals
from ..machine.precision import restoring_threads
from ..progress import Progress
from ..settings.config import RUN_OPTIONS, Run
from ..settings.hardware import pick_device, pick_precision
from ..settings.options import as_text
from ..storage import checkpoint
from ..storage.events import Callbacks
from ..storage.files import write_bytes
from ..storage.folder import RunFolder
from .end import Finished
from .loop import Outcome, send_end, send_run, train_to_end
from .place import resumable_after_ctrl_c, resume_command
from .record import begin
from .start import Job, SharedData, prepare
from .training import Training

SWITCHES = ("precision", "deterministic", "threads")  # options that set them


def refuse_mixed(jobs: Sequence[Job]) -> None:
    """Refuse runs that need different switches of torch: a process has only one set."""
    found = [switches(job.run, job.folder) for job in jobs]
    for name, (i, other) in product(SWITCHES, enumerate(found)):
        if other[name] != found[0][name]:
            one, two = (as_text(each[name]) for each in (found[0], other))
            raise UsageError(
                f"{jobs[0].folder.path} trains with {RUN_OPTIONS[name].flag} {one} and "
                f"{jobs[i].folder.path} with {two}, but runs in one process have the same. Train "
                "them one after the other."
            )


def switches(run: Run, folder: RunFolder) -> dict[str, Any]:
    """The switches of a run; on a CPU, the number of threads is the one it began with."""
    device = pick_device(run.device)
    threads = folder.read().get("threads") or run.threads or torch.get_num_threads()
    return {
        "precision": pick_precision(run, device),
        "deterministic": run.deterministic,
        "threads": threads if device.type == "cpu" else None,
    }


def complete(
    run: Run, folder: RunFolder, *, quiet: bool = False, callbacks: Callbacks | None = None
) -> Finished:
    """Finish the run and its baseline, however far they have come."""
    progress = Progress(folder.log, quiet=quiet)
    [finished] = complete_all([Job(run, folder, progress, callbacks=callbacks)])
    assert isinstance(finished, Finished)  # the error of a single run is raised
    return finished


def complete_all(
    jobs: Sequence[Job], stop: StopSignals | None = None
) -> list[Finished | NumericError]:
    """The same for several runs; for one that failed, its error. A late signal stays in `stop`."""
    stop = stop or StopSignals()
    with resumable_after_ctrl_c([job.folder for job in jobs]):
        with dist.joined():
            outcomes = train_all(jobs, stop)
            baselines = train_baselines(jobs, outcomes, stop)
            ends = [*map(end_of, jobs, outcomes, baselines)]
            if not dist.alone():
                send_end(ends[0])  # several processes train one run
        for job, end in zip(jobs, ends, strict=True):
            if job.kept and isinstance(end, Finished):
                report.write_report(end.path)
    return ends


def end_of(job: Job, outcome: Outcome, baseline: Outcome | None) -> Finished | NumericError:
    """What came of a run: if its baseline failed, the run counts as failed, too."""
    if isinstance(outcome, NumericError):
        return outcome
    if isinstance(baseline, NumericError):
        return baseline
    return Finished(job.folder.path, outcome, baseline)


def train_baselines(
    jobs: Sequence[Job], outcomes: Sequence[Outcome], stop: StopSignals
) -> list[Outcome | None]:
    """The supervised baselines of these runs, in parallel as well; None for a run without one."""
    wanted = [
        job.run.baseline == "supervised" and not isinstance(outcome, NumericError)
        for job, outcome in zip(jobs, outcomes, strict=True)
    ]
    with ExitStack() as held:
        baselines = [begin_baseline(job, held) for job in compress(jobs, wanted)]
        made = iter(train_all(baselines, stop))
    return [next(made) if own else None for own in wanted]


def begin_baseline(job: Job, held: ExitStack) -> Job:
    """The baseline of a run, on the same split; its folder is locked until `held` ends."""
    baseline, split = job.baseline, job.folder.split
    folder = baseline.folder
    held.enter_context(folder.held())
    if not folder.record.exists():
        begin(baseline.run, folder)
    if split.exists() and not folder.split.exists():
        write_bytes(folder.split, split.read_bytes())
    if result_in(folder) is None:
        job.progress.say("Supervised baseline on the same labels:")
    return baseline


@restoring_threads()
def train_all(jobs: Sequence[Job], stop: StopSignals) -> list[Outcome]:
    """Train what is left of these runs and read the results of finished ones; heed `stop`."""
    results = [result_in(job.folder) for job in jobs]
    left = [job for job, result in zip(jobs, results, strict=True) if result is None]
    refuse_mixed(left)
    if left and stop.received and dist.alone():  # several processes agree on it in their next step
        how = resume_command([RunFolder(job.folder.to_resume) for job in left])
        raise Stopped(stop.received, f"stopped; all is saved. {how} continues from there.")
    made = iter(train_left(left, stop))
    return [next(made) if result is None else result for result in results]


def train_left(jobs: Sequence[Job], stop: StopSignals) -> list[Outcome]:
    """Bring these runs to their ends: all of them are solved, or all are trained."""
    shared = SharedData()
    if jobs and nets.is_frozen(jobs[0].run.net):
        from .first_answer import solve_run  # with what only these runs need

        return [solve_run(job, shared) for job in jobs]
    return train_to_end([at_checkpoint(job, shared, stop) for job in jobs], stop) if jobs else []


def result_in(folder: RunFolder) -> dict[str, Any] | None:
    if folder.read().get("status") != "finished" or not folder.result.exists():
        return None
    return folder.read_result()


def at_checkpoint(job: Job, shared: SharedData, stop: StopSignals) -> Training:
    """A run at its newest checkpoint, which is sent to the other processes, if there are any."""
    state, messages = checkpoint.newest(job.folder.checkpoints)
    for message in messages:
        job.progress.say(message)
    started = state is not None
    if nets.is_tuned(job.run.net):
        training, split = tuning(job, shared, stop, started=started)
    else:
        training, split = prepare(job, shared, started=started)
    training.resume(state)
    if not dist.alone():
        send_run(job.run, job.folder, split, training.engine)
    return training


def tuning(
    job: Job, shared: SharedData, stop: StopSignals, *, started: bool
) -> tuple[Training, Split]:
    """A run whose net is tuned, after its first answer and the baseline of that are there."""
    from .tune import Tuning, first_job, start_of  # with what only these runs need

    first = first_job(job)
    job.folder.update(status="running")
    with first.folder.held():
        if not first.folder.record.exists():
            begin(first.run, first.folder)
        train_baselines([first], train_all([first], stop), stop)
    job.progress.say("Tuning the net from the first answer on:")
    found = start_of(job, shared)
    training, split = prepare(job, shared, started=started, start=found.start, kind=Tuning)
    assert isinstance(training, Tuning)
    training.first = found
    return training, split
