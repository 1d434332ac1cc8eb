"""CIFAR in the publisher's formats: what is read, what is refused, and that nothing is run."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from tamatch.data import cifar, load
from tamatch.data.archives import md5
from tamatch.data.cifar import CIFAR10, CIFAR100, load_dict
from tamatch.errors import DataError
from tests.data.publisher_files import MadeCifar, old_dict


def made(name: str) -> MadeCifar:
    return MadeCifar(CIFAR10, 10, 5) if name == "cifar10" else MadeCifar(CIFAR100, 20, 3)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("version", ["python", "binary"])
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_reads_the_same(name: str, version: str, packed: bool, tmp_path: Path) -> None:
    source = made(name)
    folder = source.write_python(tmp_path) if version == "python" else source.write_binary(tmp_path)
    if packed:
        source.archive(folder)
        shutil.rmtree(folder)
    data = cifar.read(source.kind, tmp_path, None)
    assert data.name == name
    assert (data.images == source.images).all()
    assert (data.labels == source.labels).all()
    assert data.classes == tuple(source.names)
    assert data.part("train").tolist() == list(range(source.train))
    assert data.part("test").tolist() == list(range(source.train, len(source.labels)))
    assert len(set(data.files)) == len(data.images)
    assert data.images.flags.c_contiguous


def test_another_size(tmp_path: Path) -> None:
    source = made("cifar10")
    source.write_python(tmp_path)
    assert cifar.read(source.kind, tmp_path, 16).images.shape[1:] == (16, 16, 3)


def test_found_in_a_folder_of_its_name_or_as_the_root_itself(tmp_path: Path) -> None:
    source = made("cifar10")
    folder = source.write_python(tmp_path / "cifar10")
    assert len(cifar.read(source.kind, tmp_path, None).images) == 60
    assert len(cifar.read(source.kind, folder, None).images) == 60


def test_a_changed_byte_names_the_file_both_sums_and_the_address(tmp_path: Path) -> None:
    source = made("cifar10")
    file = source.write_python(tmp_path) / "data_batch_3"
    expected = md5(file)
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError) as error:
        cifar.read(source.kind, tmp_path, None)
    for part in ("data_batch_3", expected, md5(file), "https://www.cs.toronto.edu/~kriz/cifar-10"):
        assert part in str(error.value)


def test_a_changed_archive_is_not_opened(tmp_path: Path) -> None:
    source = made("cifar100")
    folder = source.write_python(tmp_path)
    archive = source.archive(folder)
    shutil.rmtree(folder)
    archive.write_bytes(b"not a tar at all")
    with pytest.raises(DataError, match="not the published file"):
        cifar.read(source.kind, tmp_path, None)


@pytest.mark.parametrize("version", ["python", "binary"])
def test_a_missing_file_is_named(version: str, tmp_path: Path) -> None:
    source = made("cifar100")
    folder = source.write_python(tmp_path) if version == "python" else source.write_binary(tmp_path)
    next(folder.glob("test*")).unlink()
    with pytest.raises(DataError, match=r"test.* is missing. Download https"):
        cifar.read(source.kind, tmp_path, None)


def test_nothing_there_says_what_to_get_and_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load("cifar10", tmp_path)
    for part in (str(tmp_path), "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"):
        assert part in str(error.value)


@pytest.mark.parametrize("fault", ["cut", "label"])
def test_unpacked_binary_files_are_checked_by_their_content(fault: str, tmp_path: Path) -> None:
    source = made("cifar10")
    file = source.write_binary(tmp_path) / "data_batch_2.bin"
    content = bytearray(file.read_bytes())
    if fault == "cut":
        del content[-1:]
    else:
        content[0] = (content[0] + 1) % 10
    file.write_bytes(content)
    with pytest.raises(
        DataError, match="truncated" if fault == "cut" else "not the published data"
    ):
        cifar.read(source.kind, tmp_path, None)


class Bomb:
    """Unpickled with full power, it leaves a file behind."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_doctored_pickle_runs_nothing(protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "ran"
    content = pickle.dumps({"data": Bomb(target)}, protocol)
    with pytest.raises(DataError, match="was not read"):
        load_dict(content, "batch")
    assert not target.exists()
    pickle.loads(content)
    assert target.exists(), "the bomb must be a real one"


@pytest.mark.parametrize(
    "payload",
    [
        b"cposix\nsystem\nU\x04true\x85R",
        b"cbuiltins\neval\nU\x011\x85R",
        b"cnumpy\nload\nU\x04file\x85R",
        b"cnumpy.core.multiarray\nscalar\n)R",
        b"(iposix\nsystem\n",
        b"\x82\x01",
    ],
)
def test_no_other_name_is_ever_looked_up(payload: bytes) -> None:
    with pytest.raises(DataError, match="was not read"):
        load_dict(old_dict({"data": payload}), "batch")


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80\x02}.", b"\x80\x02K\x01."])
def test_what_is_no_batch_ends_in_one_sentence(content: bytes) -> None:
    if content == b"\x80\x02}.":
        assert load_dict(content, "batch") == {}
        return
    with pytest.raises(DataError, match="batch is not a CIFAR batch"):
        load_dict(content, "batch")


def test_the_wrong_kind_of_array_is_refused() -> None:
    wide = b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01K\x02\x85cnumpy\ndtype\nU\x02i8\x85R"
    with pytest.raises(DataError, match="not made of bytes"):
        load_dict(old_dict({"data": wide + b"\x89U\x10" + bytes(16) + b"tb"}), "batch")


def test_normalisation_is_the_benchmark_s() -> None:
    assert CIFAR10.mean == (0.485, 0.456, 0.406)
    assert np.allclose(CIFAR100.std, np.array([68.2, 65.4, 70.4]) / 255)
