"""Files made to do harm, one for every reader: none is executed, none holds the program up."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tamatch
from tamatch import cli, nets
from tamatch.data import load
from tamatch.data.cache import MANIFEST
from tamatch.data.cifar import load_dict
from tamatch.errors import TamatchError
from tamatch.nets.weights import read_tensors
from tamatch.report import write_report
from tamatch.settings.configure import configure
from tamatch.storage import checkpoint
from tests.data.pictures import png_header, put
from tests.faults.runs import DOZEN

SECONDS = 2.0  # of the processor: other programs may keep the machine busy

Make = Callable[[Path], Any]


class Evil:
    """Unpickled with full power, it leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return (Path.touch, (self.trace,))


def evil(place: Path, protocol: int = 2) -> bytes:
    return pickle.dumps({"data": Evil(place / "executed")}, protocol)


def zipped(path: Path, members: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def npy_header(shape: tuple[int, ...], kind: str = "|u1") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


def bomb(path: Path, name: str, mebibytes: int = 100) -> Path:
    """A small archive of a great many zeros."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as file,
    ):
        file.write(npy_header((mebibytes, 1024, 1024)))
        for _ in range(mebibytes):
            file.write(ZEROS)
    return path


ZEROS = bytes(2**20)


def cifar_pickle(place: Path) -> None:
    load_dict(evil(place), "data_batch_1")


def cifar_pickle_of_globals(place: Path) -> None:
    load_dict(b"cos\nsystem\n(S'touch %s'\ntR." % str(place / "executed").encode(), "batch")


def cifar_pickle_that_claims_gigabytes(place: Path) -> None:
    load_dict(b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x", "batch")


def cifar_pickle_nested_deep(place: Path) -> None:
    load_dict(b"\x80\x02" + b"(" * 100_000 + b"l" * 100_000 + b".", "batch")


def weights_legacy_pickle(place: Path) -> None:
    (place / "w.pth").write_bytes(evil(place))
    read_tensors(place / "w.pth")


def weights_zipped_pickle(place: Path) -> None:
    read_tensors(zipped(place / "w.pt", {"w/data.pkl": evil(place), "w/version": b"3\n"}))


def weights_saved_by_torch(place: Path) -> None:
    torch.save({"model": Evil(place / "executed")}, place / "w.pth")
    read_tensors(place / "w.pth")


def weights_npz_of_objects(place: Path) -> None:
    np.savez(place / "w.npz", head=np.array([Evil(place / "executed")], object))
    read_tensors(place / "w.npz")


def weights_npz_bomb(place: Path) -> None:
    read_tensors(bomb(place / "w.npz", "head"))


def weights_npz_that_claims_terabytes(place: Path) -> None:
    read_tensors(zipped(place / "w.npz", {"head.npy": npy_header((2**45,)) + b"x"}))


def weights_safetensors_with_a_huge_header(place: Path) -> None:
    (place / "w.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    read_tensors(place / "w.safetensors")


def weights_safetensors_out_of_bounds(place: Path) -> None:
    header = json.dumps(
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}
    ).encode()
    (place / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    read_tensors(place / "w.safetensors")


def weights_safetensors_nested_deep(place: Path) -> None:
    header = b'{"a":' * 200_000
    (place / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    read_tensors(place / "w.safetensors")


def weights_pickle_under_another_name(place: Path) -> None:
    (place / "w.safetensors").write_bytes(evil(place))
    read_tensors(place / "w.safetensors")


def sealed(place: Path, content: bytes) -> Path:
    """A checkpoint whose checksum is right."""
    folder = place / "step_00000001"
    folder.mkdir()
    (folder / "state.pt").write_bytes(content)
    seal = {"sha256": hashlib.sha256(content).hexdigest(), "step": 1, "bytes": len(content)}
    (folder / "manifest.json").write_text(json.dumps(seal))
    return folder


def checkpoint_of_a_pickle(place: Path) -> None:
    checkpoint.load(sealed(place, evil(place)))


def checkpoint_saved_by_torch(place: Path) -> None:
    file = io.BytesIO()
    torch.save({"engine": Evil(place / "executed")}, file)
    checkpoint.load(sealed(place, file.getvalue()))


def checkpoint_that_claims_gigabytes(place: Path) -> None:
    checkpoint.load(sealed(place, b"\x80\x02" + b"c__builtin__\nbytearray\n(I9999999999999\ntR."))


def checkpoint_with_a_nested_manifest(place: Path) -> None:
    folder = sealed(place, b"x")
    (folder / "manifest.json").write_text("[" * 100_000)
    checkpoint.load(folder)


def data_npz_of_objects(place: Path) -> None:
    things = np.array([Evil(place / "executed")] * 4, object)
    np.savez(place / "d.npz", images=things, labels=np.arange(4))
    load(place / "d.npz")


def data_npz_bomb(place: Path) -> None:
    load(bomb(place / "d.npz", "images"))


def data_npz_that_claims_terabytes(place: Path) -> None:
    members = {"images.npy": npy_header((2**35, 32, 32)) + b"x", "labels.npy": npy_header((3,))}
    load(zipped(place / "d.npz", members))


def data_pickle_under_another_name(place: Path) -> None:
    (place / "d.npz").write_bytes(evil(place))
    load(place / "d.npz")


def table_of_labels_that_leads_out(place: Path) -> None:
    put(place / "photos" / "a.png")
    secret = put(place / "secret.png")
    names = ["../secret.png", str(secret), "x/../../secret.png"]
    text = "file_name,label\na.png,dark\n" + "".join(f"{name},light\n" for name in names)
    (place / "photos" / "labels.csv").write_text(text)
    found = load(place / "photos")
    assert found.files == ["a.png"]
    assert {name for name, _ in found.skipped} == {"../secret.png", str(secret)}


def table_of_labels_that_is_a_pickle(place: Path) -> None:
    put(place / "photos" / "a.png")
    (place / "photos" / "labels.csv").write_bytes(evil(place))
    load(place / "photos")


def images_that_are_bombs(place: Path) -> None:
    put(place / "photos" / "a" / "fine.png")
    (place / "photos" / "a" / "bomb.png").write_bytes(png_header(60_000, 60_000))
    (place / "photos" / "a" / "evil.png").write_bytes(evil(place))
    assert load(place / "photos").files == ["a/fine.png"]


def cache_entry_of_objects(place: Path) -> None:
    """Whoever can write into the cache can at most make it be built again."""
    put(place / "photos" / "a" / "fine.png")
    load(place / "photos")
    (entry,) = (p.parent for p in (place / "cache").glob(f"*/{MANIFEST}"))
    manifest = json.loads((entry / MANIFEST).read_text())
    for name in manifest["files"]:
        np.save(entry / name, np.array([Evil(place / "executed")], object))
        manifest["files"][name] = hashlib.sha256((entry / name).read_bytes()).hexdigest()
    (entry / MANIFEST).write_text(json.dumps(manifest))
    assert load(place / "photos").files == ["a/fine.png"]


def cache_manifest_nested_deep(place: Path) -> None:
    put(place / "photos" / "a" / "fine.png")
    load(place / "photos")
    (manifest,) = (place / "cache").glob(f"*/{MANIFEST}")
    manifest.write_text("[" * 100_000)
    assert load(place / "photos").files == ["a/fine.png"]


def configuration_with_an_object(place: Path) -> None:
    text = f'!!python/object/apply:os.system ["touch {place / "executed"}"]'
    (place / "c.yaml").write_text(f"lr: {text}\n")
    configure({}, place / "c.yaml")


def configuration_of_a_billion_laughs(place: Path) -> None:
    lines = ["a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    for one, two in zip("abcdefghijk", "bcdefghijkl", strict=True):
        lines.append(f"{two}: &{two} [{', '.join([f'*{one}'] * 9)}]")
    (place / "c.yaml").write_text("\n".join([*lines, "lr: *l", ""]))
    configure({}, place / "c.yaml")


def configuration_nested_deep(place: Path) -> None:
    (place / "c.yaml").write_text("lr: " + "[" * 20_000)
    configure({}, place / "c.yaml")


def target_nested_deep(place: Path) -> None:
    (place / "t.json").write_text("[" * 20_000)
    configure({"target": str(place / "t.json")})


def a_run(place: Path, **record: Any) -> Path:
    """A run folder as a stranger may send it."""
    run = place / "run"
    run.mkdir()
    config = {**DOZEN, "data": "digits", "method": "fixmatch", **record.pop("config", {})}
    (run / "run.json").write_text(json.dumps({"status": "finished", "config": config, **record}))
    return run


OWN = "from pathlib import Path\nPath({!r}).touch()\n"


def run_with_code_is_reported(place: Path) -> None:
    """`report`, `predict` and `export` never look at the method's file."""
    (place / "own.py").write_text(OWN.format(str(place / "executed")))
    run = a_run(place, config={"method": f"{place / 'own.py'}:Own"})
    write_report(run)
    for words in (["predict", str(run), str(put(place / "a.png"))], ["report", str(run)]):
        cli.main(words)
    tamatch.load(run)


def run_record_nested_deep(place: Path) -> None:
    run = a_run(place)
    (run / "run.json").write_text('{"config":' + "[" * 100_000)
    write_report(run)
    assert cli.main(["resume", str(run)]) == 3
    raise TamatchError


def run_result_nested_deep(place: Path) -> None:
    run = a_run(place)
    for name in ("result.json", "metrics.jsonl", "trust.json"):
        (run / name).write_text('{"per_class":' + "[" * 100_000 + "\n")
    write_report(run)


def run_that_lies_elsewhere(place: Path) -> None:
    """Paths in a record lead nowhere: all that is written stays in the folder."""
    run = a_run(place, config={"out": "../../elsewhere", "data": "../../../etc"}, name="../../x")
    before = set(place.rglob("*"))
    write_report(run)
    assert {p.parent for p in set(place.rglob("*")) - before} <= {run}


def model(place: Path, tensors: bytes, **facts: Any) -> Path:
    folder = place / "model"
    folder.mkdir()
    own = {"net": "wrn_10_1_clean", "classes": ["a", "b"], "size": 8, "mean": [0.5] * 3}
    (folder / "model.json").write_text(json.dumps({**own, "std": [0.5] * 3, **facts}))
    (folder / "model.safetensors").write_bytes(tensors)
    return folder


def model_of_a_pickle(place: Path) -> None:
    tamatch.load(model(place, evil(place)))


def model_of_a_monstrous_net(place: Path) -> None:
    tamatch.load(model(place, b"", net="wrn_10_4000"))


def model_of_an_endless_net(place: Path) -> None:
    tamatch.load(model(place, b"", net="wrn_1000000_1"))


def model_for_monstrous_images(place: Path) -> None:
    tamatch.load(model(place, b"", net="vit_base_p1_32", size=100_000))


def model_with_a_path_for_a_net(place: Path) -> None:
    (place / "own.py").write_text(OWN.format(str(place / "executed")))
    tamatch.load(model(place, b"", net=f"{place}/own.py:Own"))


def model_with_nested_facts(place: Path) -> None:
    folder = model(place, b"")
    (folder / "model.json").write_text("[" * 100_000)
    tamatch.load(folder)


REFUSED: list[Make] = [
    cifar_pickle, cifar_pickle_of_globals, cifar_pickle_that_claims_gigabytes,
    cifar_pickle_nested_deep, weights_legacy_pickle, weights_zipped_pickle, weights_saved_by_torch,
    weights_npz_of_objects, weights_npz_bomb, weights_npz_that_claims_terabytes,
    weights_safetensors_with_a_huge_header, weights_safetensors_out_of_bounds,
    weights_safetensors_nested_deep, weights_pickle_under_another_name, checkpoint_of_a_pickle,
    checkpoint_saved_by_torch, checkpoint_that_claims_gigabytes, checkpoint_with_a_nested_manifest,
    data_npz_of_objects, data_npz_bomb, data_npz_that_claims_terabytes,
    data_pickle_under_another_name, table_of_labels_that_is_a_pickle, configuration_with_an_object,
    configuration_of_a_billion_laughs, configuration_nested_deep, target_nested_deep,
    run_with_code_is_reported, run_record_nested_deep, model_of_a_pickle, model_of_a_monstrous_net,
    model_of_an_endless_net, model_for_monstrous_images, model_with_a_path_for_a_net,
    model_with_nested_facts,
]  # fmt: skip
SURVIVED: list[Make] = [
    table_of_labels_that_leads_out, images_that_are_bombs, cache_entry_of_objects,
    cache_manifest_nested_deep, run_result_nested_deep, run_that_lies_elsewhere,
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What every reader imports once is not the file's fault."""
    nets.build("wrn_10_1_clean", 2, 8)
    configure({})


@pytest.mark.parametrize("doctored", [*REFUSED, *SURVIVED], ids=lambda make: make.__name__)
def test_no_file_executes_or_holds_up(tmp_path: Path, doctored: Make) -> None:
    prepare = time.process_time()
    refused = False
    try:
        doctored(tmp_path)
    except TamatchError:
        refused = True
    spent = time.process_time() - prepare
    assert not (tmp_path / "executed").exists()
    assert refused == (doctored in REFUSED)
    assert spent < SECONDS


def test_the_evil_one_works(tmp_path: Path) -> None:
    pickle.loads(evil(tmp_path))
    assert (tmp_path / "executed").exists()
