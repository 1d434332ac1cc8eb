"""Images on the device or streamed: the same batches, to the bit, and no thread left behind."""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tamatch
from tamatch.bench.speed import mapped
from tamatch.data import DataSet
from tamatch.data.dataset import Indices, Pixels
from tamatch.settings import hardware
from tamatch.settings.configure import configure
from tamatch.step.engine import Engine
from tamatch.step.source import (
    BLOCK,
    LABELLED,
    UNLABELLED,
    Draw,
    OnHost,
    Resident,
    Source,
    Streamed,
    Subset,
    to_device,
)
from tests.contract.test_contract import assert_equal
from tests.processes import fingerprint
from tests.tiny import digits, tiny_engine

CPU = torch.device("cpu")
DRAW = Draw(8, 12, seed=3)


class Spied:
    """Pixels that remember which images were read, and by which thread."""

    def __init__(self, images: Pixels) -> None:
        self.images, self.shape, self.dtype = images, images.shape, images.dtype
        self.rows: set[int] = set()
        self.threads: set[str] = set()
        self.broken = False

    def __getitem__(self, rows: Indices) -> Pixels:
        if self.broken:
            raise OSError("the disc is gone")
        self.rows |= set(rows.tolist())
        self.threads.add(threading.current_thread().name)
        return self.images[rows]


def spied() -> tuple[DataSet, Spied]:
    data, _ = digits()
    spy = Spied(data.images)
    return replace(data, images=spy), spy  # type: ignore[arg-type]


def source(kind: Callable[..., Source] = Streamed, data: DataSet | None = None) -> Source:
    own, split = digits()
    return kind(data or own, split, DRAW, CPU)


def trained(engine: Engine, steps: int) -> Engine:
    with engine.running():
        for _ in range(steps):
            engine.advance()
    return engine


def batch_of(source: Source, step: int) -> list[torch.Tensor]:
    source.prepare(step)
    ids = source.ids(torch.tensor(step))
    return [source.images(kind, ids[kind]) for kind in (LABELLED, UNLABELLED)]


def assert_same_batches(one: Source, other: Source, steps: list[int]) -> None:
    for step in steps:
        for a, b in zip(batch_of(one, step), batch_of(other, step), strict=True):
            assert a.stride() == b.stride() and torch.equal(a, b), step


def image_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("images")]


@pytest.mark.parametrize("buffers", [1, 2, 5])
def test_a_streamed_run_is_the_resident_run(buffers: int) -> None:
    resident = trained(tiny_engine("tamatch"), 12)
    streamed = trained(tiny_engine("tamatch", source=partial(Streamed, buffers=buffers)), 12)
    assert_equal(resident.state_dict(), streamed.state_dict())


@pytest.mark.parametrize(("first", "then"), [(Streamed, Streamed), (Resident, Streamed)])
def test_resume_in_the_middle(first: type[Source], then: type[Source]) -> None:
    whole = trained(tiny_engine("fixmatch"), 12)
    begun = trained(tiny_engine("fixmatch", source=first), 5)
    ended = tiny_engine("fixmatch", source=then)
    ended.load_state_dict(begun.state_dict())
    assert_equal(whole.state_dict(), trained(ended, 7).state_dict())


@pytest.mark.parametrize("buffers", [1, 2, 3, 5])
def test_batches_from_a_memory_map_in_any_order_of_steps(tmp_path: Path, buffers: int) -> None:
    data, _ = digits()
    np.save(tmp_path / "pixels.npy", data.images)
    on_disc = replace(data, images=np.load(tmp_path / "pixels.npy", mmap_mode="r"))
    steps = [*range(BLOCK - 4, BLOCK + 4), 0, 0, 1, 4, 2, 3, 4, 500, 501, 1, 2]
    streamed = source(partial(Streamed, buffers=buffers), on_disc)
    assert_same_batches(source(Resident), streamed, steps)


def test_the_thread_reads_ahead_and_it_alone_reads() -> None:
    data, spy = spied()
    stream = Streamed(data, digits()[1], DRAW, CPU, buffers=3)
    stream.prepare(0)
    for read in stream.reads.values():
        read.result()
    coming = [i[s.ids(0, 3)] for i, s in zip(stream.indices, stream.samplers, strict=True)]
    assert spy.rows == {int(i) for ids in coming for i in ids.flat}
    assert spy.threads == {"images_0"}


def test_a_failed_read_is_an_error_of_the_run_which_can_go_on_later() -> None:
    data, spy = spied()
    engine = tiny_engine("fixmatch", source=lambda _, *rest: Streamed(data, *rest))
    with pytest.raises(OSError, match="disc is gone"), engine.running():
        engine.advance()
        spy.broken = True
        for _ in range(3):  # what was read ahead is still good
            engine.advance()
    assert engine.steps_done in (1, 2)
    spy.broken = False
    trained(engine, 12 - engine.steps_done)
    assert_equal(trained(tiny_engine("fixmatch"), 12).state_dict(), engine.state_dict())


@pytest.mark.parametrize("kind", [Resident, Streamed])
def test_supervised_training_never_reads_the_unlabelled_pool(kind: type[Source]) -> None:
    data, spy = spied()
    engine = tiny_engine("supervised", source=lambda _, *rest: kind(data, *rest))
    trained(engine, 4)
    assert spy.rows and spy.rows <= set(digits()[1].labelled.tolist())


def test_the_thread_ends_with_the_run() -> None:
    engine = tiny_engine("supervised", source=Streamed)
    with engine.running():
        engine.advance()
        assert image_threads()
    assert not image_threads()
    with pytest.raises(KeyError), engine.running():
        engine.advance()
        raise KeyError
    assert not image_threads()


def test_the_thread_ends_when_nobody_needs_the_source() -> None:
    stream: Source | None = source(Streamed)
    assert stream is not None
    stream.prepare(0)
    (thread,) = image_threads()
    stream = None
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_a_slow_disc_delays_a_step_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Streamed.read

    def slow(self: Streamed, step: int) -> None:
        time.sleep(0.003)
        read(self, step)

    monkeypatch.setattr(Streamed, "read", slow)
    assert_same_batches(source(Resident), source(Streamed), list(range(20)))


def test_scores_are_in_percent_and_a_class_without_images_has_none() -> None:
    data, _ = digits()
    images = np.flatnonzero(np.isin(data.labels, (0, 1)))[:8]
    tested = Subset(data, images)
    guessed = tested.labels.clone()
    guessed[tested.labels.argmax()] = 9  # one image of class 1 is missed
    ones = int((tested.labels == 1).sum())
    found = tested.score(torch.nn.functional.one_hot(guessed, 10).double())
    assert found.error == pytest.approx(100 / 8)
    assert found.per_class == [100.0, pytest.approx(100 * (1 - 1 / ones)), *[None] * 8]


def test_a_subset_on_the_host_has_the_scores_of_one_on_the_device() -> None:
    data, _ = digits()
    engine = trained(tiny_engine("supervised"), 2)
    test = np.resize(data.part("test"), 1100)  # three batches
    there, here = Subset(data, test, CPU), Subset(data, test)
    assert isinstance(there.images, torch.Tensor) and not isinstance(here.images, torch.Tensor)
    assert torch.equal(engine.probabilities(there.images), engine.probabilities(here.images))


def test_images_on_the_host_lie_as_on_the_device_or_as_they_are_stored() -> None:
    """The last bits of what a net says depend on it."""
    data, split = digits()
    there = to_device(data.images, split.test, CPU)[3:9]
    for layout, stored in {torch.contiguous_format: False, torch.channels_last: True}.items():
        rows = OnHost(data.images, split.test, channels_last=stored)
        assert len(rows) == len(split.test) and torch.equal(rows[3:9], there)
        assert rows[3:9].is_contiguous(memory_format=layout)


def test_images_are_sent_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = digits()
    some = np.array([5, 1, 1, 900, 17, 3, 2])
    monkeypatch.setattr("tamatch.step.source.CHUNK", 3)
    want = torch.from_numpy(data.images[some]).permute(0, 3, 1, 2)
    assert torch.equal(to_device(data.images, some, CPU), want)
    assert len(to_device(data.images, some[:0], CPU)) == 0


def test_images_that_need_more_than_half_of_the_memory_are_streamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda device: 1000)
    auto, device, stream = (configure({"images": w}) for w in ("auto", "device", "stream"))
    assert hardware.pick_images(auto, 500, CPU) == "device"
    assert hardware.pick_images(auto, 501, CPU) == "stream"
    assert hardware.pick_images(device, 10**15, CPU) == "device"
    assert hardware.pick_images(stream, 1, CPU) == "stream"


def test_memory_is_that_of_the_machine() -> None:
    assert 2**28 < hardware.available_memory(CPU) < 2**45


def test_whole_runs_are_equal_and_say_where_their_images_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "IMAGES_SHARE", 0.0)
    small: dict[str, Any] = {
        "net": "wrn_10_1_clean", "batch": 8, "unlabelled": 12, "steps": 10, "log_every": 5,
        "test_every": 5, "save_every": 5, "baseline": "none", "quiet": True,
    }  # fmt: skip
    for images in ("device", "auto"):
        tamatch.train(out=tmp_path / images, images=images, **small)
    assert fingerprint(tmp_path / "device") == fingerprint(tmp_path / "auto")
    assert not image_threads()
    records = {w: json.loads((tmp_path / w / "run.json").read_text()) for w in ("device", "auto")}
    assert [records[w]["images"] for w in ("device", "auto")] == ["device", "stream"]
    assert "Streaming 0.3 MiB of images" in (tmp_path / "auto" / "log.txt").read_text()
    one, other = ((tmp_path / w / "batch.png").read_bytes() for w in ("device", "auto"))
    assert one == other


def test_the_speed_of_streaming_is_measured_on_a_memory_map() -> None:
    data, _ = digits()
    assert isinstance(mapped(data.images), np.memmap)
    assert (mapped(data.images) == data.images).all()
