"""Mistakes in Python: a call and its message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tamatch
from tamatch.data.layout import list_images
from tamatch.machine import launch
from tamatch.model import export
from tamatch.runs.label import label
from tamatch.settings import hardware
from tamatch.storage.folder import RunFolder


def one_gpu(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "processes", lambda: 2)
        patch.setattr(launch, "local_processes", lambda: 2)
        patch.setattr(torch.cuda, "device_count", lambda: 1)
        hardware.own_gpu(torch.device(name))


def two_gpus(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 2)
        assert hardware.pick_device("cuda:1").index == 1
        hardware.pick_device(name)


def with_torchrun(call: Callable[[], object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "processes", lambda: 2)
        call()


def image(*shape: int, kind: Any = np.uint8) -> np.ndarray:
    return np.full(shape, 2, kind)


def predict(images: Any) -> Callable[[], object]:
    return lambda: tamatch.load("runs/photos").predict(images)


CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: tamatch.train(data=image(2, 8, 8)),
     "data takes a name or a path. Pass arrays to TaMatchClassifier().fit(X, y), or save them "
     "as an .npz file with `images` and `labels`."),
    (lambda: tamatch.train(method=Path),
     "method takes a name, FILE.py:CLASS, or a subclass of tamatch.Method; got Path."),
    (lambda: tamatch.resume("runs/half", method=tamatch.Method),
     "--method works only for runs with your own method; this one uses tamatch."),
    (lambda: tamatch.train(out=5),  # type: ignore[arg-type]
     "out takes a run folder, as a str or Path; got int."),
    (lambda: tamatch.train(out=""), "out takes a run folder, as a str or Path; got ''."),
    (lambda: tamatch.train(out="runs/digits", overwrite="no"),  # type: ignore[arg-type]
     "overwrite takes True or False, got 'no'."),
    (lambda: tamatch.train(config={}),  # type: ignore[arg-type]
     "config takes a YAML file. Pass options in a dict as keywords: train(**options)."),
    (lambda: tamatch.train(config=["a.yaml"]),  # type: ignore[arg-type]
     "config takes a YAML file, as a str or Path; got list."),
    (lambda: tamatch.train_seeds(3),  # type: ignore[arg-type]
     "seeds takes a list of whole numbers, such as [0, 1, 2]; got 3. For one seed, use "
     "train(seed=0)."),
    (lambda: tamatch.train_seeds([0], out=5),  # type: ignore[arg-type]
     "out takes a folder, as a str or Path; got int."),
    (lambda: tamatch.resume(None),  # type: ignore[arg-type]
     "resume takes a run folder, as a str or Path; got None."),
    (lambda: tamatch.resume_seeds(["runs/half"]),  # type: ignore[arg-type]
     "resume_seeds takes each run folder as a separate argument, as a str or Path; got list."),
    (lambda: tamatch.load(None),  # type: ignore[arg-type]
     "load takes a run or model folder, as a str or Path; got None."),
    (lambda: tamatch.load(tamatch.resume("runs/photos", quiet=True)),  # type: ignore[arg-type]
     "load takes a run or model folder, as a str or Path; got Finished. Perhaps you "
     "meant its path."),
    (lambda: tamatch.data.load(5),  # type: ignore[arg-type]
     "data takes a name, a folder or a file, as a str or Path; got int."),
    (lambda: export.export(None, "onnx"),  # type: ignore[arg-type]
     "export takes a run folder, as a str or Path; got None."),
    (lambda: label("runs/photos", None),  # type: ignore[arg-type]
     "out takes a CSV file to write, as a str or Path; got None."),
    (lambda: tamatch.train(time=20),  # type: ignore[arg-type]
     "--time takes a duration such as 90s, 20m, 2h or 1h30m, got 20."),
    (lambda: tamatch.train(graph="maybe"), "--graph takes yes or no, got 'maybe'."),
    (predict(7),
     "a model takes file names, Pillow images, and arrays or tensors of pixels, or a list of them; "
     "got int."),
    (predict([None]),
     "a model takes file names, Pillow images, and arrays or tensors of pixels; got NoneType."),
    (predict(torch.zeros(8, 8, 3)),
     "a tensor to predict must be (1, H, W), (3, H, W) or (4, H, W), or a batch of these; got "
     "(8, 8, 3)."),
    (predict(image(2, 4, 4, 5)),
     "an array to predict must be (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), or a batch of "
     "these; got (4, 4, 5)."),
    (predict(image(4, 4, 3, kind=np.int64)),
     "an array to predict must be bytes (uint8), or floats in 0 … 1; got int64."),
    (predict("images/broken.png"),
     "images/broken.png cannot be read: not an image in the formats JPEG, PNG, WEBP, BMP, TIFF, "
     "GIF."),
    (lambda: export.export("runs/photos", "tflite"),  # type: ignore[arg-type]
     "--format takes onnx, pt2, safetensors; got 'tflite'."),
    (lambda: export.export("runs/photos", "ONNX"),
     "--format takes onnx, pt2, safetensors; got 'ONNX'. Perhaps you meant onnx."),
    (lambda: RunFolder(Path("runs/half")).cut_metrics({"bytes": 10**6}),
     "runs/half/metrics.jsonl is shorter than its checkpoint says: lines are missing. Restore "
     "the file, or restart the run."),
    (lambda: list_images(Path("gone")),
     "the folder gone cannot be read: No such file or directory."),
    (lambda: tamatch.SSLClassifier(lr=1e39, steps=5).fit(np.eye(8), np.arange(8) % 2),
     "<any> steps gave non-finite values near step <any>. The learning rate "
     "is probably too high: try a smaller lr."),
    (lambda: with_torchrun(lambda: tamatch.train_seeds([0, 1])),
     "several seeds are trained in one process. Start them without torchrun, or run torchrun "
     "once per seed (--seed)."),
    (lambda: two_gpus("cuda:2"), "--device cuda:2: this machine has 2 GPUs, numbered from cuda:0."),
    (lambda: one_gpu("cuda:0"),
     "--device cuda:0 is one GPU, but each process needs its own: use --device cuda."),
    (lambda: one_gpu("cuda"),
     "2 processes need 2 GPUs, but this machine has 1: use torchrun --nproc-per-node gpu, or "
     "--device cpu."),
    (lambda: tamatch.train("digits", on_log=3), "on_log takes a function of one argument, got 3."),
]  # fmt: skip
