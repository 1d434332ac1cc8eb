"""A small run on a folder of digits, and a page that serves it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import tamatch
from tamatch import nets
from tamatch.data import load
from tamatch.review.answers import Answers
from tamatch.review.picking import Survey
from tamatch.review.server import Server
from tamatch.review.session import Page, Pictures, Session
from tamatch.review.start import Labelling
from tamatch.review.store import LabelFile

POOL = 240
IN_GROUPS = 3
HARMFUL = ("unlabelled/a.png", "<script>alert(1)</script>.png", "=1+1.png", "ü\\udcff.png")


class Project(NamedTuple):
    """A folder, a run on it, and what the unlabelled images really show."""

    run: Path
    truth: dict[str, str]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    place = tmp_path_factory.mktemp("review")
    digits, photos, truth = load("digits"), place / "photos", {}
    for c in range(10):
        own = np.flatnonzero(digits.labels == c)
        for part, some in ((f"train/{c}", own[:3]), (f"test/{c}", own[3:5])):
            (photos / part).mkdir(parents=True)
            for i in some:
                Image.fromarray(digits.images[i]).save(photos / part / f"{i}.png")
        (photos / "unlabelled").mkdir(exist_ok=True)
        for i in own[5 : 5 + POOL // 10]:
            Image.fromarray(digits.images[i]).save(photos / f"unlabelled/{i}.png")
            truth[f"unlabelled/{i}.png"] = str(c)
    tamatch.train(
        out=place / "run", data=str(photos), net="wrn_10_1_clean", size=8, steps=30, batch=16,
        unlabelled=16, lr=0.1, ema=0.0, warmup=0, baseline="none", test_every=30, log_every=30,
        save_every=30, threads=1, device="cpu", quiet=True,
    )  # fmt: skip
    return Project(place / "run", truth)


def small_session(place: Path, names: tuple[str, ...], classes: tuple[str, ...]) -> Session:
    """A session without a model: the guesses are made up."""
    (place / "run").mkdir(parents=True, exist_ok=True)
    (place / "run" / "run.json").write_text(json.dumps({"config": {}, "classes": classes}))
    data = load_arrays(len(names))
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(len(classes)), len(names)).astype(np.float32)
    images = np.arange(len(names))
    return Session(
        run=place / "run",
        data="photos",
        classes=classes,
        given=(1,) * len(classes),
        files=names,
        survey=Survey(images, p),
        pictures=Pictures(data, images, place),
        store=LabelFile(place / "labels.csv"),
    )


def small_labelling(place: Path, images: int, names: tuple[str, ...] | None = None) -> Labelling:
    """Labelling from nothing, without a net: the features are three groups in turn."""
    files = names or tuple(f"{i}.png" for i in range(images))
    data = replace(load_arrays(images), files=files)
    draw = np.random.default_rng(0)
    groups = 4 * np.eye(IN_GROUPS, 8)[np.arange(images) % IN_GROUPS]
    features = (groups + draw.normal(0, 0.3, groups.shape)).astype(np.float32)
    found = Answers(torch.from_numpy(features))
    store = LabelFile(place / "labels.csv")
    return Labelling(place, data, np.arange(images), store, found)


def load_arrays(count: int) -> tamatch.data.DataSet:
    from tamatch.data.arrays import from_arrays

    images = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3)).astype(np.uint8)
    return from_arrays(images, np.zeros(count, np.int64))


@contextmanager
def served(session: Page) -> Iterator[Server]:
    """A page for this session, in a thread."""
    server = Server(0)
    server.session = session
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A page with four images whose names are meant to harm."""
    classes = ("cat", '<img src=x onerror="boom()">', "=dog")
    with served(small_session(tmp_path, HARMFUL, classes)) as server:
        yield server


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Server]:
    """A page of `tamatch start` with the same images."""
    page = small_labelling(tmp_path, 4, HARMFUL)
    with page.answers.computed(), served(page) as server:
        yield server


@pytest.fixture(params=["server", "start_server"])
def either(request: pytest.FixtureRequest) -> Server:
    """The page of either command."""
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Weights of a small net that knows nothing."""
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(nets.build("vit_64x2_p8_32", 5, 32).state_dict(), file)
    return str(file)
