"""MedMNIST's flat images with one label each, from the publisher's .npz files of any size."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..storage.untrusted import read_npz
from .archives import MEDMNIST, locate, verify
from .bulk import cached_blocks, fingerprint
from .dataset import NONE, DataSet, OnProgress, Pixels, part_by_part

SIDE, SMALLEST = 32, 28  # the benchmark's, scaled from these
SPLITS = ("train", "val", "test")
ORGANS = (
    "bladder", "femur-left", "femur-right", "heart", "kidney-left", "kidney-right", "liver",
    "lung-left", "lung-right", "pancreas", "spleen",
)  # fmt: skip
CLASSES = {
    "pathmnist": (
        "adipose", "background", "debris", "lymphocytes", "mucus", "smooth muscle",
        "normal colon mucosa", "cancer-associated stroma", "colorectal adenocarcinoma epithelium",
    ),
    "dermamnist": (
        "actinic keratoses and intraepithelial carcinoma", "basal cell carcinoma",
        "benign keratosis-like lesions", "dermatofibroma", "melanoma", "melanocytic nevi",
        "vascular lesions",
    ),
    "octmnist": ("choroidal neovascularization", "diabetic macular edema", "drusen", "normal"),
    "pneumoniamnist": ("normal", "pneumonia"),
    "retinamnist": tuple("01234"),
    "breastmnist": ("malignant", "normal, benign"),
    "bloodmnist": (
        "basophil", "eosinophil", "erythroblast", "immature granulocytes", "lymphocyte",
        "monocyte", "neutrophil", "platelet",
    ),
    "tissuemnist": (
        "Collecting Duct, Connecting Tubule", "Distal Convoluted Tubule",
        "Glomerular endothelial cells", "Interstitial endothelial cells", "Leukocytes",
        "Podocytes", "Proximal Tubule Segments", "Thick Ascending Limb",
    ),
    "organamnist": ORGANS, "organcmnist": ORGANS, "organsmnist": ORGANS,
}  # fmt: skip


def read(name: str, root: Path | None, size: int | None, progress: OnProgress | None) -> DataSet:
    """Training, validation and test images; a side that is published has a file of its own."""
    side = size or SIDE
    archive = MEDMNIST.get((name, side), MEDMNIST[name, SMALLEST])
    # the second is where the benchmark puts it
    file = locate(root, [archive.file, f"medmnist/{name}/{archive.file}"], archive)
    verify(file, [archive.md5], archive)
    labels = [array(file, f"{split}_labels").reshape(-1).astype(np.int64) for split in SPLITS]

    def blocks() -> Iterator[Pixels]:
        for split in SPLITS:
            images = array(file, f"{split}_images")
            yield images if images.ndim == 4 else images[..., None]

    counts = dict(zip(SPLITS, map(len, labels), strict=True))
    files, (train, validation, test) = part_by_part(counts)
    decoded = cached_blocks(fingerprint([file], f"{side}"), len(files), side, blocks, progress)
    return DataSet(
        name=name,
        classes=CLASSES[name],
        images=decoded.images,
        labels=np.concatenate(labels),
        parts=(train, NONE, validation, test),
        files=files,
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        shuffled_first=True,
        digests=decoded.digests,
        checksums="the file has the published MD5",
    )


def refuse(name: str, *_: object) -> NoReturn:
    raise DataError(
        f"{name} has several labels for each image, but a class is needed here. MedMNIST's sets "
        f"with one label are {', '.join(CLASSES)}."
    )


def array(file: Path, name: str) -> npt.NDArray[Any]:
    """One of the arrays of a file."""
    try:
        return read_npz(file, [name])[name]
    except (ValueError, KeyError) as error:
        raise DataError(f"{file} has no array {name} that can be read: {error}.") from None
