"""Training and resuming one run: what `tamatch train` and `tamatch resume` do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..machine import launch
from ..methods import AnyMethod
from ..nets import AnyNet
from ..own import usercode
from ..settings.configure import ask, stored_config
from ..storage.events import Callback, Callbacks
from ..storage.files import config_path, path_of
from ..storage.folder import RunFolder
from .decide import decide
from .end import Finished
from .jobs import complete
from .loop import follow
from .place import advising_resume, default_folder, refuse_elsewhere, refuse_place
from .record import began_here, begin


def train(
    data: str | Path | None = None, *, out: str | Path | None = None, overwrite: bool = False,
    config: str | Path | None = None, time: str | None = None, quiet: bool = False,
    on_log: Callback | None = None, on_test: Callback | None = None, **options: Any,
) -> Finished:  # fmt: skip
    """Train a run and, where the recipe says so, its supervised baseline; write the report.

    The options are those of `tamatch train`, with underscores: `train("digits", steps=500)`.
    Settings that nobody gives are chosen for the data and the machine; `time="20m"` sets the steps.
    `on_log` and `on_test` are called with each line of training and each test of the run.
    """
    usercode.refuse_runs_on_import()
    code = {name: options.get(name) for name in ("method", "net")}
    if not launch.leads():
        return follow(**code)
    callbacks = Callbacks(on_log, on_test)
    place = None if out is None else path_of(out, "out takes a run folder")
    options = {n: value for n, value in {"data": data, **options}.items() if value is not None}
    asked = ask(options, config_path(config))
    folder = RunFolder(place or default_folder(asked.run))
    refuse_place(folder.path, asked.run, [folder])
    if began_here(folder) and (launch.restarts() or not overwrite):
        return resume(folder.path, **code, quiet=quiet, on_log=on_log, on_test=on_test)
    with advising_resume([folder]), folder.taken(overwrite=overwrite):
        decided = decide(asked, time)
        begin(decided.run, folder, decided.reasons)
        decided.announce(folder, quiet=quiet)
        return complete(decided.run, folder, quiet=quiet, callbacks=callbacks)


def resume(
    path: str | Path, *, method: AnyMethod | None = None, net: AnyNet | None = None,
    quiet: bool = False, on_log: Callback | None = None, on_test: Callback | None = None,
) -> Finished:  # fmt: skip
    """Go on exactly where a run stopped; a finished one only gets a fresh report.

    `method` and `net` are those of the run, if they are your own code and in no file.
    """
    usercode.refuse_runs_on_import()
    if not launch.leads():
        return follow(method, net)
    callbacks = Callbacks(on_log, on_test)
    folder = RunFolder(path_of(path, "resume takes a run folder"))
    folder.read()  # an error, if this is no run
    with advising_resume([folder]), folder.held():
        run = stored_config(folder, method, net)
        refuse_elsewhere(run, folder)
        return complete(run, folder, quiet=quiet, callbacks=callbacks)
