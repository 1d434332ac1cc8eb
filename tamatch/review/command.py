"""What `tamatch review RUN` and `tamatch start DIR` do, up to the last label."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

import numpy as np

from ..data import DATASETS, own_path
from ..data.check import counted
from ..data.dataset import UNKNOWN
from ..data.labels import TABLES
from ..data.layout import list_images, table_of
from ..errors import DataError, UsageError
from ..model.load import load, own_data, own_split
from ..progress import counting
from ..runs.pick import folders_as_classes, looked_at, own_images
from ..settings.config import Run
from ..settings.configure import stored_config
from ..settings.hardware import pick_device
from ..storage.files import locked
from ..storage.folder import RunFolder
from .answers import Answers
from .picking import survey
from .server import Server
from .session import Pictures, Session
from .start import Labelling, take_over
from .store import SKIPPED, LabelFile, lock_of, opened

LABELS = Path("labels.csv")
LEAST = 3  # images that can be like each other or not


def review(
    path: Path,
    *,
    labels: Path | None = None,
    port: int = 0,
    browser: bool = True,
    net: str | None = None,
    data: str | None = None,
) -> None:
    """Serve the page of a finished run until Ctrl-C; every label is in the file at once.

    `data` is where the run's images lie now, if they were moved.
    """
    folder = RunFolder(path)
    named = stored_config(folder).data
    if named in DATASETS:
        raise UsageError(
            f"{named} is already fully labelled: `tamatch review` is for your own images."
        )
    model = load(path, net)
    with counting("reading images") as progress:
        run, images = own_data(folder, model, data=data, progress=progress)
    current = own_split(folder, run, images)
    split = current.split
    if not len(split.unknown):
        raise DataError(
            f"all training images of {path} are already labelled: there are none to review. Put "
            f"unlabelled images into {Path(run.data) / 'unlabelled'}."
        )
    place = Path(run.data)
    server = Server(port)
    with opened(label_file(labels, run), images, place) as store:
        with counting("looking at the pool") as progress:
            found = survey(model, images, split, progress)
        given = np.bincount(images.labels[split.labelled], minlength=len(images.classes))
        server.session = Session(
            run=path,
            data=run.data,
            classes=images.classes,
            given=tuple(given.tolist()),
            files=tuple(images.files[i] for i in found.images),
            survey=found,
            pictures=Pictures(images, found.images, place if place.is_dir() else place.parent),
            store=store,
            net=net,
        )
        for line in current.lines():
            print(line)
        serve(server, browser=browser)


def start(
    path: Path,
    *,
    weights: str | None = None,
    device: str = "auto",
    port: int = 0,
    browser: bool = True,
) -> dict[str, Any] | None:
    """Serve the page of a folder of images, or of a run's, until Ctrl-C or until it is enough.

    The labels are in the folder's own table. Where the person wants to train, the options that do
    so are returned.
    """
    name, added = own_images(path, "start")
    place = Path(name)
    if not place.is_dir():
        raise UsageError(f"start takes a folder of images, and {place} is none.")
    if len(list_images(place.absolute(), loose=True).images) < LEAST:
        raise DataError(f"{place} contains fewer than {LEAST} images: there is nothing to label.")
    table = table_of(place) or place / TABLES[0]
    with Server(port) as server, locked(lock_of(table), str(table)):
        store = LabelFile(table)
        data, features, upper = looked_at(own_path(place), added, weights, pick_device(device))
        for remark in folders_as_classes(place, data):
            print(remark)
        take_over(store, data)
        apart = np.concatenate([data.part("validation"), data.part("test")])
        images = np.setdiff1d(np.arange(len(data.images)), apart)
        if (data.labels[images] != UNKNOWN).all():
            raise DataError(
                f"all images in {place} already have a label, by its folders or tables. Put those "
                f"without one into {place / 'unlabelled'}; or, if its folders are no classes, "
                f"write {place / TABLES[0]} with the line file_name,label."
            )
        found = Answers(features[images], upper)
        options = {"weights": weights} if weights else {}
        options |= {"device": device} if device != "auto" else {}
        page = Labelling(place, data, images, store, found, options)
        server.session = page
        with found.computed():
            serve(server, browser=browser)
    return page.training() if page.over else None


def label_file(wanted: Path | None, run: Run) -> Path:
    """The file for the labels: as given, else the run's own, else labels.csv here."""
    return wanted or Path(run.labels or LABELS)


def serve(server: Server, *, browser: bool) -> None:
    """Print the address, open a browser, serve until Ctrl-C, and print what was labelled."""
    gate, session = server.gate, server.session
    try:
        print(f"{session.told_first()}. {describe(session.store)}")
        print(f"Open {gate.address(gate.token)}")
        print("The address works on this machine only. Every label is saved at once; Ctrl-C quits.")
        sys.stdout.flush()  # a pipe would hold the address back until the end
        show(gate.address(gate.ticket), browser=browser)
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    print(f"\n{describe(session.store)}")
    if any(session.store.labels.values()) and not session.over:
        print(f"Train on them: {session.next_command()}")


def describe(store: LabelFile) -> str:
    """The labels so far, in words."""
    labels = list(store.labels.values())
    skipped = labels.count(SKIPPED)
    passed = f", {counted(skipped, 'image', 'images')} skipped" if skipped else ""
    return f"{store.path}: {counted(len(labels) - skipped, 'label', 'labels')}{passed}."


def show(address: str, *, browser: bool) -> None:
    """Open a page in the person's browser, if that is wanted and there is a screen."""
    screens = os.environ.get("DISPLAY"), os.environ.get("WAYLAND_DISPLAY")
    if browser and (sys.platform in ("darwin", "win32") or any(screens)):
        webbrowser.open(address)
