"""What a labelling page has to offer; and one review: a run, what its model says, the labels."""

from __future__ import annotations

import io
import os
import shlex
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from ..data import DataSet
from ..data.check import counted
from ..data.dataset import Indices
from ..data.decode import Unreadable, decode
from ..report.folder import Figures, read_folder
from ..report.page import error_charts, error_lines
from ..report.words import environment, percent, share
from ..storage.spreadsheet import original
from .picking import Survey
from .store import SKIPPED, LabelFile

SIDE = 256  # pixels; more is not shown
KEPT = 1024  # images that stay in memory


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def not_found() -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, "not found")


class Page(Protocol):
    """What the server shows. Images are numbers; every request is checked before it has effect."""

    @property
    def pictures(self) -> Pictures: ...
    @property
    def store(self) -> LabelFile: ...
    @property
    def report(self) -> Path | None: ...
    @property
    def over(self) -> bool: ...
    def page(self) -> str: ...
    def get(self, path: str) -> dict[str, Any]: ...
    def post(self, path: str, wanted: dict[str, Any]) -> dict[str, Any]: ...
    def told_first(self) -> str: ...
    def next_command(self) -> str: ...


class Pictures:
    """The images of a page, by their position in it: no request ever names a file."""

    def __init__(self, data: DataSet, images: Indices, place: Path) -> None:
        self.data, self.images, self.place = data, images, place
        self.encoded = lru_cache(KEPT)(self._encoded)

    def of(self, position: Any) -> tuple[str, bytes]:
        """Media type and content."""
        return self.encoded(self.position(position))

    def position(self, wanted: Any) -> int:
        """A number from elsewhere, checked."""
        if type(wanted) is not int:
            raise Refused(HTTPStatus.BAD_REQUEST, "an image is a number")
        if not 0 <= wanted < len(self.images):
            raise Refused(HTTPStatus.NOT_FOUND, "no such image")
        return wanted

    def _encoded(self, position: int) -> tuple[str, bytes]:
        i = int(self.images[position])
        pixels = self._from_file(i)
        return encoded(self.data.images[i] if pixels is None else pixels)

    def _from_file(self, i: int) -> np.ndarray | None:
        """The central square of the file, or None where it shows no more than the net sees."""
        sizes = self.data.original_sizes
        side = 0 if sizes is None else min(SIDE, int(sizes[i].min()))
        if side <= self.data.size:
            return None
        try:
            return decode(self.place / original(self.data.files[i]), side)[0]
        except Unreadable:
            return None


def encoded(pixels: np.ndarray) -> tuple[str, bytes]:
    """Media type and content: small images exactly, larger ones as JPEG."""
    kind = "png" if len(pixels) <= 64 else "jpeg"
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, kind, quality=88)
    return f"image/{kind}", file.getvalue()


@dataclass(frozen=True)
class Session:
    """What the page shows and what it may do. Images and classes are numbers here."""

    run: Path
    data: str  # as `--data` names it
    classes: tuple[str, ...]
    given: tuple[int, ...]  # labelled images of each class before
    files: tuple[str, ...]  # of the survey's images
    survey: Survey
    pictures: Pictures
    store: LabelFile
    net: str | None = None  # as `--net` names it, where it is code of the user's own
    over = False

    @property
    def report(self) -> Path:
        return self.run / "report.html"

    def page(self) -> str:
        """The HTML, with the headline and the curves of the run."""
        folder = read_folder(self.run)
        template = environment("tamatch.review", "page").get_template("index.html.j2")
        return template.render(
            run=self.run.name,
            headline=headline(folder.figures, folder.baseline_figures),
            charts=error_charts(error_lines(folder), folder.figures.measured_on),
            has_report=self.report.is_file(),
            command=self.next_command(),
            labels=str(self.store.path),
            pool=len(self.files),
        )

    def next_command(self) -> str:
        words = ["tamatch", "train", "--data", self.data, "--labels", short(self.store.path)]
        own = ["--net", self.net] if self.net else []
        return shlex.join([*words, "--from", str(self.run), *own])

    def told_first(self) -> str:
        return counted(len(self.files), "unlabelled image", "unlabelled images")

    def get(self, path: str) -> dict[str, Any]:
        if path == "/state":
            return self.state()
        raise not_found()

    def post(self, path: str, wanted: dict[str, Any]) -> dict[str, Any]:
        if path == "/label":
            image, label = self.pictures.position(wanted.get("image")), wanted.get("label")
            if type(label) is not int or not -1 <= label < len(self.classes):
                raise Refused(HTTPStatus.BAD_REQUEST, "no such class")
            return self.decide(image, label)
        if path == "/undo":
            return self.undo()
        raise not_found()

    def state(self) -> dict[str, Any]:
        """What the script of the page needs."""
        p = self.survey.probabilities
        three = np.argsort(-p, axis=1, kind="stable")[:, :3]
        shown = np.take_along_axis(p, three, axis=1)
        return {
            "classes": self.classes,
            "given": self.given,
            "files": self.files,
            "guesses": three.tolist(),
            "shares": np.round(shown, 4).tolist(),
            "labels": self.labels(),
            "undoable": len(self.store.history),
        }

    def labels(self) -> dict[int, int]:
        """The class of every image that was decided on; -1 for a skipped one."""
        numbers = {name: c for c, name in enumerate(self.classes)}
        known = self.store.labels
        return {
            i: numbers.get(known[file], -1) for i, file in enumerate(self.files) if file in known
        }

    def decide(self, image: int, label: int) -> dict[str, Any]:
        """Store a label; -1 skips the image."""
        self.store.set({self.files[image]: self.classes[label] if label >= 0 else SKIPPED})
        return {"image": image, "label": label, "undoable": len(self.store.history)}

    def undo(self) -> dict[str, Any]:
        """Take back the last decision; image is null where there is none, -1 if not of the pool."""
        undone = self.store.undo()
        if undone is None:
            return {"image": None, "label": None, "undoable": 0}
        [(file, before)] = undone.items()
        position = {name: i for i, name in enumerate(self.files)}.get(file, -1)
        label = None if before is None else -1
        if before:
            label = self.classes.index(before)
        return {"image": position, "label": label, "undoable": len(self.store.history)}


def headline(run: Figures, baseline: Figures | None) -> list[tuple[str, str]]:
    """What a person wants to know of the run before labelling, the first two in the title."""
    if run.error_last is None:
        return [("error", "not measured")]
    facts = [(f"{run.measured_on} error", percent(run.error_last))]
    if baseline is not None and baseline.error_last is not None:
        facts.append(("without the unlabelled images", percent(baseline.error_last)))
    if run.worst is not None:
        name, accuracy = run.worst
        facts.append((f"accuracy of the worst class, {name}", percent(accuracy)))
    if run.utilization is not None:
        facts.append(("unlabelled images used", share(run.utilization)))
    return facts


def short(path: Path) -> str:
    """A path relative to the working directory if it lies inside, else as it is."""
    here = os.path.relpath(path)
    return str(path) if here.startswith(os.pardir) else here
