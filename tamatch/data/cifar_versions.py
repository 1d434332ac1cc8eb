"""What the publisher of CIFAR-10 and CIFAR-100 says about their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .archives import Archive

HOME = "https://www.cs.toronto.edu/~kriz/"


@dataclass(frozen=True)
class Version:
    """One of the publisher's two forms of a data set."""

    folder: str
    archive: Archive
    train: tuple[str, ...]
    test: str
    names: str  # the file with the class names
    md5: Mapping[str, str]  # of the unpacked files, where they are published


@dataclass(frozen=True)
class Cifar:
    """What tells CIFAR-10 and CIFAR-100 apart."""

    name: str
    label_key: str  # in the python version
    names_key: str
    label_bytes: int  # before each image of the binary version; the last one is the label
    train_per_class: int
    test_per_class: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    python: Version
    binary: Version


def _archive(name: str, file: str, md5: str) -> Archive:
    return Archive(name, file, md5, HOME + file)


CIFAR10 = Cifar(
    name="cifar10",
    label_key="labels",
    names_key="label_names",
    label_bytes=1,
    train_per_class=5000,
    test_per_class=1000,
    mean=(0.485, 0.456, 0.406),  # ImageNet's: the benchmark normalises so
    std=(0.229, 0.224, 0.225),
    python=Version(
        folder="cifar-10-batches-py",
        archive=_archive("cifar10", "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
        train=tuple(f"data_batch_{k}" for k in range(1, 6)),
        test="test_batch",
        names="batches.meta",
        md5={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        },
    ),
    binary=Version(
        folder="cifar-10-batches-bin",
        archive=_archive("cifar10", "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
        train=tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
        test="test_batch.bin",
        names="batches.meta.txt",
        md5={},
    ),
)

CIFAR100 = Cifar(
    name="cifar100",
    label_key="fine_labels",
    names_key="fine_label_names",
    label_bytes=2,
    train_per_class=500,
    test_per_class=100,
    mean=(129.3 / 255, 124.1 / 255, 112.4 / 255),
    std=(68.2 / 255, 65.4 / 255, 70.4 / 255),
    python=Version(
        folder="cifar-100-python",
        archive=_archive("cifar100", "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
        train=("train",),
        test="test",
        names="meta",
        md5={
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "7973b15100ade9c7d40fb424638fde48",
        },
    ),
    binary=Version(
        folder="cifar-100-binary",
        archive=_archive("cifar100", "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
        train=("train.bin",),
        test="test.bin",
        names="fine_label_names.txt",
        md5={},
    ),
)
