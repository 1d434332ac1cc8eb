"""Labelling a folder from nothing: a class is what the person types, and the answer is live."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any

import torch

from ..data import UNKNOWN, DataSet
from ..data.check import counted
from ..data.dataset import Indices
from ..data.labels import NONE_OF_THESE, UNLABELLED, class_name, known_class
from ..frozen.live import NONE
from ..report.words import environment
from ..runs.pick import left_out
from . import answers
from .answers import Answers, Given
from .session import Pictures, Refused, not_found, short
from .store import SKIPPED, LabelFile

LONGEST = 80  # characters of a class's name
NEWER = re.compile(r"/answer/([0-9]{1,9})")  # than the version that the page has


class Labelling:
    """What the page shows and what it may do; every change is on disk before it is confirmed."""

    report = None

    def __init__(
        self, place: Path, data: DataSet, images: Indices, store: LabelFile, found: Answers,
        options: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.place, self.store, self.answers = place, store, found
        self.options = options or {}  # of the command that trains
        self.files = tuple(data.files[i] for i in images)
        self.numbers = {file: i for i, file in enumerate(self.files)}
        self.left_out = len(data.skipped)
        self.pictures = Pictures(data, images, place)
        self.classes: tuple[str, ...] = ()  # the key of a class stays while the page is open
        self.change = self.unasked = 0
        self.over = False  # the person wants to train
        self.guard = threading.Lock()
        self.changed()

    def page(self) -> str:
        template = environment("tamatch.review", "page").get_template("start.html.j2")
        return template.render(
            folder=self.place.resolve().name, images=len(self.files),
            command=self.next_command(), labels=short(self.store.path),
        )  # fmt: skip

    def told_first(self) -> str:
        said = counted(len(self.files), "image", "images")
        if not self.left_out:
            return said
        return f"{said}; {left_out(short(self.place), self.left_out)}"

    def training(self) -> dict[str, Any]:
        """The options that train on the labels, in a run folder of its own."""
        return {"data": short(self.place), **self.options, "out": str(fresh_run(self.place))}

    def next_command(self) -> str:
        options = (word for name, value in self.training().items() for word in (f"--{name}", value))
        return shlex.join(["tamatch", "train", *options])

    def get(self, path: str) -> dict[str, Any]:
        if path == "/state":
            return {"files": self.files, "none": NONE_OF_THESE, **self.state()}
        if found := NEWER.fullmatch(path):
            shown = self.answers.shown
            return shown if shown["version"] > int(found[1]) else {"version": shown["version"]}
        raise not_found()

    def state(self) -> dict[str, Any]:
        """The labels, by the number of the image."""
        known = self.store.labels
        numbered = {
            self.numbers[file]: label for file, label in known.items() if file in self.numbers
        }
        return {
            "classes": self.classes, "labels": numbered, "undoable": len(self.store.history),
            "change": self.change,
        }  # fmt: skip

    def post(self, path: str, wanted: dict[str, Any]) -> dict[str, Any]:
        with self.guard:
            if self.over:
                raise Refused(HTTPStatus.CONFLICT, "training has begun")
            if path == "/label":
                self.label(wanted)
            elif path == "/rename":
                self.rename(wanted)
            elif path == "/undo":
                self.store.undo()
            elif path == "/train":
                self.begin_training()
            else:
                raise not_found()
            self.unasked += wanted.get("asked") is not True
            self.changed()
            return self.state()

    def label(self, wanted: dict[str, Any]) -> None:
        """Label images alike; the name of a class may be new, a mark, or empty to skip them.

        An image is part of the fair sample if it was `drawn`: the page has shown it because of
        the lot. An answer since then may ask for it in doubt, or one before may have listed it.
        """
        images, name = wanted.get("images"), wanted.get("label")
        if not isinstance(images, list) or not images:
            raise Refused(HTTPStatus.BAD_REQUEST, "images must be a list of numbers")
        chosen = [self.pictures.position(image) for image in images]
        label = (
            SKIPPED if name == SKIPPED else NONE_OF_THESE if name == NONE_OF_THESE else named(name)
        )
        new = {self.files[i]: label for i in chosen}
        self.store.set(new, new if wanted.get("drawn") is True else ())

    def rename(self, wanted: dict[str, Any]) -> None:
        """Give a class another name; if another class has it, the two become one."""
        before, after = wanted.get("before"), named(wanted.get("after"))
        if before not in self.classes:
            raise Refused(HTTPStatus.BAD_REQUEST, "no such class")
        if before == after:
            return
        merged = after in self.classes
        of_it = {file: after for file, label in self.store.labels.items() if label == before}
        if of_it:
            self.store.set(of_it)
        kept = (after if c == before else c for c in self.classes if not (merged and c == before))
        self.classes = (*kept,)

    def begin_training(self) -> None:
        if len({*self.class_labels()}) < 2:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "label images of two classes first")
        self.over = True

    def class_labels(self) -> Iterable[str]:
        """The labels that are classes."""
        return (
            label for label in self.store.labels.values() if label not in (SKIPPED, NONE_OF_THESE)
        )

    def changed(self) -> None:
        """Number new classes, and ask for an answer to the labels."""
        self.classes = (*dict.fromkeys([*self.classes, *self.class_labels()]),)
        self.change += 1
        number = {name: c for c, name in enumerate(self.classes)}
        number |= {NONE_OF_THESE: NONE, SKIPPED: answers.SKIPPED}
        labels = [number.get(self.store.labels.get(file, "\0"), UNKNOWN) for file in self.files]
        drawn = [self.store.drawn.get(file, False) for file in self.files]
        given = torch.tensor(labels), torch.tensor(drawn)
        self.answers.tell(Given(self.change, self.unasked, self.classes, *given))


def named(name: Any) -> str:
    """A name that a person has typed for a class."""
    if not isinstance(name, str):
        raise Refused(HTTPStatus.BAD_REQUEST, "a class needs a name")
    clean = class_name(name.strip())
    if not clean:
        wrong = "a class needs a name"
    elif len(clean) > LONGEST:
        wrong = f"a name has at most {LONGEST} characters"
    elif not known_class(clean) or clean.lower() in UNLABELLED:
        wrong = f'"{clean}" stands for no label in a table; take another name'
    else:
        return clean
    raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, wrong)


def fresh_run(place: Path) -> Path:
    """runs/photos, or the first of runs/photos-2, -3, … that is not there; never in the images."""
    images = place.resolve()
    inside = Path.cwd().is_relative_to(images)
    first = (images.parent if inside else Path()) / "runs" / images.name
    names = (first if k == 1 else first.with_name(f"{first.name}-{k}") for k in count(1))
    return next(path for path in names if not path.exists())


def take_over(store: LabelFile, data: DataSet) -> None:
    """What class folders or other tables say becomes part of the table, which replaces them."""
    said = {
        file: label
        for file, label in store.labels.items()
        if known_class(label) or label == NONE_OF_THESE
    }
    known = (i for i in data.part("train").tolist() if data.labels[i] != UNKNOWN)
    store.labels = said | {data.files[i]: data.classes[data.labels[i]] for i in known}
    store.history = [step for step in store.history if step.keys() <= store.labels.keys()]
