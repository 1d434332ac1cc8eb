"""Where a run is put by default, where it must not be, and what resumes it."""

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .. import nets
from ..data import DATASETS
from ..data.feature_cache import PART
from ..data.labels import TABLES
from ..errors import DeviceError, Stopped, StorageError, UsageError
from ..machine.gpu import gpu_failure
from ..machine.memory import OutOfMemory
from ..own import usercode
from ..settings.config import Run
from ..storage import checkpoint
from ..storage.folder import RunFolder
from ..storage.seedfolder import SeedFolder

FEATURES_KEPT = (
    f"The features of each {PART:,} images that the net has looked at are kept: the same command "
    "goes on from there."
)


def default_folder(run: Run) -> Path:
    """Named after what is trained; a run that goes on from RUN is RUN-2, the next one RUN-3."""
    if run.from_ is not None:
        earlier = Path(run.from_)
        name, _, number = earlier.name.rpartition("-")
        again = name and number.isdecimal()
        return earlier.with_name(f"{name}-{int(number) + 1}" if again else f"{earlier.name}-2")
    name = Path(run.method.replace(":", "-")).name
    data = os.path.basename(os.path.abspath(run.data))  # also of "." and ".."
    return Path("runs") / f"{data}-{name}-s{run.seed}"


def resume_command(folders: Sequence[RunFolder], home: SeedFolder | None = None) -> str:
    """The command that resumes these runs, or all in the folder `home`.

    It is a Python call where they need objects that were given in Python and are in no file.
    """
    paths = [str(folder.path) for folder in folders] if home is None else [str(home.path)]
    configs = [folder.read()["config"] for folder in folders]
    names = {what: [str(config.get(what)) for config in configs] for what in ("method", "net")}
    handed = [what for what, found in names.items() if any(map(usercode.is_object, found))]
    if not handed:
        return f"`{shlex.join(['tamatch', 'resume', *paths])}`"
    call = "resume" if home is None and len(folders) == 1 else "resume_seeds"
    return f"`tamatch.{call}({', '.join([*map(repr, paths), *(f'{w}=…' for w in handed)])})`"


@contextmanager
def advising_resume(folders: Sequence[RunFolder], home: SeedFolder | None = None) -> Iterator[None]:
    """To errors of the disk, the GPU and its memory, add what is saved and how to resume."""

    def advice(when: str) -> str:
        saved = checkpoint.saved_in(folders[0].checkpoints) if len(folders) == 1 else []
        kept = f"The checkpoint {saved[-1].name} is intact. " if saved else ""
        begun = all(folder.record.exists() for folder in folders)
        then = f"{resume_command(folders, home)} continues" if begun else "try again"
        return kept + (f"{when}, {then}." if when else f"{then[0].upper()}{then[1:]}.")

    try:
        yield
    except StorageError as error:
        raise StorageError(f"{error} {advice('When there is space again')}") from error
    except OutOfMemory as error:
        if not any(checkpoint.saved_in(folder.checkpoints) for folder in folders):
            raise  # the batch was too large from the start
        raise OutOfMemory(f"{error} {advice('When there is more memory')}") from error
    except RuntimeError as error:
        failure = gpu_failure(error)
        if failure is None:
            raise
        raise DeviceError(f"{failure} {advice('')}") from error


@contextmanager
def resumable_after_ctrl_c(folders: Sequence[RunFolder]) -> Iterator[None]:
    """Turn Ctrl-C outside of the training loop into a `Stopped` that names the resume command."""
    try:
        yield
    except Stopped:
        raise
    except KeyboardInterrupt:
        if all(folder.begun() for folder in folders):
            what = f"{resume_command(folders)} continues."
        elif len(folders) == 1 and nets.begins_anew(folders[0].read()["config"]["net"]):
            what = FEATURES_KEPT
        else:
            raise
        raise Stopped(signal.SIGINT, f"stopped. {what}") from None


def refuse_place(out: Path, run: Run, folders: Sequence[RunFolder]) -> None:
    """Refuse a run where it would do harm: in the images, or in place of the one it starts from."""
    if run.data not in DATASETS and os.path.isdir(run.data):
        place, target = (Path(os.path.realpath(path)) for path in (run.data, out))
        listed = any((place / table).is_file() for table in TABLES)
        if target.is_relative_to(place) and not listed:  # it would be read as a class
            other = os.path.relpath(place.parent / "runs" / target.name)
            raise UsageError(
                f"--out {out} is inside the image folder, where every folder is a class. Choose a "
                f"folder elsewhere, such as --out {shlex.quote(other)}."
            )
    for folder in folders if run.from_ is not None else ():
        start = Path(os.path.realpath(str(run.from_)))
        if start.is_relative_to(os.path.realpath(folder.path)):
            raise UsageError(
                f"--out {folder.path} holds the run to start from (--from {run.from_}). Choose a "
                "different --out, or give none."
            )


def refuse_elsewhere(run: Run, folder: RunFolder) -> None:
    """Refuse to resume where the run's data, named by relative paths, are not found."""
    unfinished = not folder.finished() or (
        run.baseline == "supervised" and not folder.baseline.finished()
    )
    needed = [None if run.data in DATASETS else run.data, run.labels] if unfinished else []
    for path in needed:
        if path is None or os.path.exists(path):
            continue
        there = folder.path_now(path)
        if os.path.exists(there):
            raise UsageError(
                f"{folder.path} reads {path}, which is not found from here. Resume it where it was "
                f"started: `cd {shlex.quote(folder.started_in)}`."
            )
        raise UsageError(f"{folder.path} reads {there}, which no longer exists. Restore it.")
