"""A folder with everything that can be wrong, and some that is right: for the table of errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file

import tamatch
from tests.faults.runs import unseal

QUICK = {
    "net": "wrn_10_1_clean", "steps": 2, "batch": 2, "unlabelled": 2, "size": 8,
    "baseline": "none", "quiet": True,
}  # fmt: skip
FOLDERS = {  # images in each folder; a class without images is an empty folder
    "photos": {"cat": 3, "dog": 2, "unlabelled": 3},
    "changing": {"cat": 1, "dog": 1, "unlabelled": 1},
    "labelled": {"cat": 2, "dog": 2},
    "one-class": {"cat": 2, "unlabelled": 2},
    "no-labels": {"unlabelled": 2},
    "lacking": {"cat": 2, "dog": 0, "unlabelled": 2},
    "others": {"owl": 2, "fox": 2},
    "taken-folder": {"cat": 1},
    "too-high/inner/photos": {"cat": 1, "dog": 1, "unlabelled": 1},
    "scattered/labelled": {"cat": 1, "dog": 1},
    "scattered": {"unlabelled": 1},
    "mixed": {"train": 1, "test": 1, "raw": 1},
}
TABLES = {
    "columns.csv": "name,class\na.png,cat\n",
    "twice.csv": "file_name,label\nphotos/cat/0.png,cat\nphotos/cat/0.png,dog\n",
    "astray.csv": "file_name,label\ncat/0.png,cat\n",
    "unlabelled.csv": "file_name,label\nphotos/cat/0.png,\n",
}
FILES = {
    "taken-file": "something",
    "notes.txt": "no weights",
    "broken.yaml": "steps: [1",
    "endless.yaml": "steps: " + "1" + 2000 * ":59",
    "list.yaml": "- a\n- b\n",
    "negative.yaml": "[-1, 2]",
    "words.yaml": "cat: many\ndog: few\n",
    "three.yaml": "[1, 2, 3]",
    "named.yaml": "ten: 1\n" + "".join(f"{i}: 1\n" for i in range(9)),
    "unknown.yaml": "stpes: 5\n",
    "pool.csv": "file_name,label,confidence,second,accepted\n",
    "place.yaml": "out: runs/new\n",
    "own.py": "class Nothing:\n    pass\n",
    "broken.safetensors": "no tensors",
    "images/note.txt": "no image",
    "images/broken.png": "no image",
    "bad/cat/a.png": "no image",
    "bad/dog/a.png": "no image",
    "broken.npz": "no arrays",
    "empty/note.txt": "nothing here",
    "my holiday photos/note.txt": "nothing here",
    "seeds/seeds.json": '{"seeds": [4, 5]}',
    "no-seeds/seeds.json": "{}",
    "one-seed/seeds.json": '{"seeds": [3]}',
    "one-seed/s3/run.json": "{}",
    "of usb.yaml": "algorithm: fixmatch\ndataset: cifar10\nnum_labels: 40\noverwrite: True\n",
    "photos.zip": "no archive",
}
ARRAYS = {
    "lacking.npz": {"images": np.zeros((2, 8, 8))},
    "shape.npz": {"images": np.zeros((2, 8, 8, 5), np.uint8), "labels": np.array([0, 1])},
    "type.npz": {"images": np.zeros((2, 8, 8), int), "labels": np.array([0, 1])},
    "range.npz": {"images": np.full((2, 8, 8), 255.0), "labels": np.array([0, 1])},
    "count.npz": {"images": np.zeros((2, 8, 8), np.uint8), "labels": np.array([0, 1, 1])},
    "minus.npz": {"images": np.zeros((2, 8, 8), np.uint8), "labels": np.array([0, -2])},
    "test.npz": {
        "images": np.zeros((2, 8, 8), np.uint8), "labels": np.array([0, 1]),
        "test_images": np.zeros((2, 9, 9), np.uint8), "test_labels": np.array([0, 1]),
    },
    "half.npz": {
        "images": np.zeros((2, 8, 8), np.uint8), "labels": np.array([0, 1]),
        "test_images": np.zeros((2, 8, 8), np.uint8),
    },
}  # fmt: skip


def furnish(shop: Path) -> None:
    """Put everything into an empty folder, which must be the current one."""
    for folder, classes in FOLDERS.items():
        for number, (name, count) in enumerate(classes.items()):
            (shop / folder / name).mkdir(parents=True)
            for i in range(count):
                image = np.full((12, 12, 3), 40 * number + 10 * i, np.uint8)
                Image.fromarray(image).save(shop / folder / name / f"{i}.png")
    for file, text in {**TABLES, **FILES}.items():
        (shop / file).parent.mkdir(parents=True, exist_ok=True)
        (shop / file).write_text(text)
    (shop / "latin.csv").write_bytes("file_name,label\nä.png,cat\n".encode("latin-1"))
    for file, arrays in ARRAYS.items():
        np.savez(shop / file, **arrays)
    save_file({"other": torch.zeros(3)}, shop / "other.safetensors")
    runs(shop)


def runs(shop: Path) -> None:
    """Some finished runs, and what may have happened to a run since."""
    tamatch.train(out="runs/digits", data="digits", **{**QUICK, "size": None})
    tamatch.train(out="runs/photos", data="photos", **QUICK)
    tamatch.train(out="runs/labelled", data="labelled", **QUICK)
    tamatch.train(out="runs/changed", data="changing", **QUICK)
    (shop / "changing/dog").rename(shop / "changing/wolf")
    for name in (
        "half", "no-json", "no-run", "no-model", "bad-model", "no-baseline", "other-settings",
        "moved",
        "no-table",
    ):  # fmt: skip
        shutil.copytree(shop / "runs/photos", shop / "runs" / name)
    unseal(shop / "runs/half/run.json")
    record = json.loads((shop / "runs/half/run.json").read_text())
    record["config"]["baseline"] = "supervised"
    (shop / "runs/no-baseline/run.json").write_text(json.dumps(record))
    record["config"]["baseline"] = "none"
    (shop / "runs/half/run.json").write_text(json.dumps({**record, "status": "stopped", "step": 1}))
    (shop / "runs/no-json/run.json").write_text("{")
    (shop / "runs/no-run/run.json").write_text("[]")
    shutil.rmtree(shop / "runs/no-model/model")
    (shop / "runs/bad-model/model/model.safetensors").write_bytes(b"no tensors")
    moved = json.dumps({**record, "config": {**record["config"], "data": "gone"}})
    (shop / "runs/moved/run.json").write_text(moved)
    no_table = json.dumps({**record, "config": {**record["config"], "labels": "gone.csv"}})
    (shop / "runs/no-table/run.json").write_text(no_table)
    record["config"]["lr"] = 0.5
    changed = json.dumps({**record, "status": "stopped"})
    (shop / "runs/other-settings/run.json").write_text(changed)
    (shop / "config.yaml").write_text(yaml.safe_dump({"steps": 5}))
