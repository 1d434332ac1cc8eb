"""Published weights by name, and where they are: in a file, in the hub's cache, or on the hub.

Importing this table imports neither torch nor the hub's library.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError, one_line, perhaps

HUB = "hub:"  # before the OWNER/REPO, or OWNER/REPO@REVISION, of weights that are not in the table
REPO = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
WEIGHTS_FILES = ("model.safetensors", "open_clip_model.safetensors")  # never a pickle
FILE_NAME = re.compile(r".*\.\w{2,11}|.*/.*")  # no name of ours has a dot or a slash
SHA256 = re.compile(r"[0-9a-f]{64}")
MEANS = {0.5: "half", 0.485: "imagenet", 0.48145466: "clip"}  # of red, by what they are called here
GELU_TOWER = re.compile(r".*_clip_(?!quickgelu)")  # CLIP with another activation than OpenAI's


@dataclass(frozen=True)
class Published:
    """Weights on the Hugging Face hub that a net of this package can load."""

    summary: str
    repo: str
    size: str  # of the file
    licence: str
    net: str
    revision: str | None = None  # None: the newest, where no commit with the file is known to us
    file: str = WEIGHTS_FILES[0]


AUGREG = "augreg_in21k_ft_in1k"
APACHE = "Apache-2.0"
PRETRAINED: dict[str, Published] = {
    "vit_tiny": Published(
        "ImageNet-21k, then 1k; for a CPU", f"timm/vit_tiny_patch16_224.{AUGREG}", "23 MB",
        APACHE, "vit_tiny_p16_224",
    ),
    "vit_small": Published(
        "ImageNet-21k, then 1k", f"timm/vit_small_patch16_224.{AUGREG}", "88 MB",
        APACHE, "vit_small_p16_224",
    ),
    "vit_base": Published(
        "ImageNet-21k, then 1k", f"timm/vit_base_patch16_224.{AUGREG}", "346 MB",
        APACHE, "vit_base_p16_224", "b5b38b8f7dd93ce67d12e356a8771556b95c8cf9",
    ),
    "dinov2_small": Published(
        "DINOv2, without labels", "timm/vit_small_patch14_dinov2.lvd142m", "88 MB",
        APACHE, "dinov2_small_p14_518", "cace07adb9220de26eb51226ecbef6d04d35defe",
    ),
    "dinov2_base": Published(
        "DINOv2, without labels", "timm/vit_base_patch14_dinov2.lvd142m", "346 MB",
        APACHE, "dinov2_base_p14_518", "1dc7cda4727a9f4baa37f3ef407928dd642d0149",
    ),
    "dinov2reg_small": Published(
        "DINOv2 with registers", "timm/vit_small_patch14_reg4_dinov2.lvd142m", "88 MB",
        APACHE, "dinov2reg_small_p14_518", "788f50961a4cf5d639e54a0f3c30e17476d346fc",
    ),
    "dinov2reg_base": Published(
        "DINOv2 with registers", "timm/vit_base_patch14_reg4_dinov2.lvd142m", "346 MB",
        APACHE, "dinov2reg_base_p14_518",
    ),
    "clip_base": Published(
        "OpenAI's CLIP, its image tower", "timm/vit_base_patch16_clip_224.openai", "599 MB",
        APACHE, "clip_base_p16_224", file=WEIGHTS_FILES[1],
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Located:
    """Weights on this machine."""

    path: Path
    title: str  # what the user calls them
    origin: str = ""  # one line: name, licence, size and source; a file has none but its name
    normalise: str | None = None  # the colours they expect, where the publisher says so


def is_published(weights: str) -> bool:
    """Whether it names weights on the hub, and not a file."""
    return weights in PRETRAINED or weights.startswith(HUB)


def locate(weights: str) -> Located:
    """The file of `--weights`: one of the user's, or one from the hub, fetched on first use."""
    if weights.startswith(HUB):
        return _from_repo(weights)
    if weights in PRETRAINED:
        return _published(weights)
    path = Path(weights)
    if FILE_NAME.fullmatch(weights) or path.exists():
        return Located(path, path.name)
    raise UsageError(
        f"--weights {weights} is neither a file nor the name of pre-trained weights."
        f"{perhaps(weights, PRETRAINED)} `tamatch nets` lists them."
    )


@cache  # a command asks more than once, and a large file takes a second to check
def _published(name: str) -> Located:
    row = PRETRAINED[name]
    path, source = _fetch(row.repo, row.file, row.revision, row.size)
    return Located(path, name, f"{name}: {row.repo}, {row.licence}, {row.size}, {source}.")


@cache
def _from_repo(weights: str) -> Located:
    """Weights that are not in the table; timm's `config.json`, if there is one, tells of them."""
    place = weights.removeprefix(HUB)
    if REPO.fullmatch(place) is None:
        raise UsageError(
            f"--weights {weights}: expected {HUB}OWNER/REPO or {HUB}OWNER/REPO@REVISION."
        )
    repo, _, revision = place.partition("@")
    about = _config(repo, revision or None)
    published = about.get("pretrained_cfg", about)
    net = str(about.get("architecture", ""))
    if GELU_TOWER.match(net) and published.get("tag") != "openai":
        raise UsageError(
            f"--weights {weights}: {net} computes another activation than OpenAI's CLIP. Install "
            f"timm and use --net timm/{net} with --weights FILE."
        )
    path, source = _fetch(repo, None, revision or None, "")
    licence = str(published.get("license", "licence: see its page on the hub"))
    size = f"{path.stat().st_size / 1e6:.0f} MB"
    mean = published.get("mean")
    normalise = MEANS.get(mean[0]) if isinstance(mean, list) and mean else None
    return Located(path, weights, f"{weights}: {licence}, {size}, {source}.", normalise)


def _config(repo: str, revision: str | None) -> dict[str, Any]:
    from huggingface_hub.errors import RemoteEntryNotFoundError

    with _one_line_errors(repo, "config.json", ""):
        try:
            path, _ = _download(repo, "config.json", revision)
            found = json.loads(path.read_text(encoding="utf-8"))
        except (RemoteEntryNotFoundError, ValueError):
            return {}
    return found if isinstance(found, dict) else {}


def _fetch(repo: str, file: str | None, revision: str | None, size: str) -> tuple[Path, str]:
    """The file, whole, and where it was found; without a name, the first of the usual ones."""
    from huggingface_hub.errors import RemoteEntryNotFoundError

    names = (file,) if file else WEIGHTS_FILES
    with _one_line_errors(repo, names[0], size):
        for name in names:
            try:
                path, source = _download(repo, name, revision)
            except RemoteEntryNotFoundError:
                if name == names[-1]:
                    raise
            else:
                _check(path, repo)
                break
    return path, source


def _download(repo: str, file: str, revision: str | None) -> tuple[Path, str]:
    """The file from the hub's cache, without a request, or else from the hub."""
    from huggingface_hub import (
        get_hf_file_metadata,
        hf_hub_download,
        hf_hub_url,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    cached = try_to_load_from_cache(repo, file, revision=revision)
    if isinstance(cached, str):
        return Path(cached), f"from the hub's cache ({cached})"
    try:  # once: without a network, the download would try for half a minute
        get_hf_file_metadata(hf_hub_url(repo, file, revision=revision))
    except HfHubHTTPError:
        raise
    except Exception as error:
        raise LocalEntryNotFoundError(one_line(error)) from error
    return Path(hf_hub_download(repo, file, revision=revision)), "downloaded from the hub"


def _check(path: Path, repo: str) -> None:
    """Compare a large file with its SHA-256, which is its name in the hub's cache."""
    content = path.resolve()
    if SHA256.fullmatch(content.name) is None:
        return
    with content.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() == content.name:
            return
    for damaged in (path, content):
        with suppress(OSError):
            damaged.unlink()
    kept = f"Delete {content}" if content.exists() else "It was deleted: try"
    raise DataError(
        f"the weights of {repo} are damaged: their SHA-256 is not the one that the hub states. "
        f"{kept}{' and try' if content.exists() else ''} again."
    )


@contextmanager
def _one_line_errors(repo: str, file: str, size: str) -> Iterator[None]:
    """Say what is wrong with the hub, the network or the cache, and what to do."""
    from huggingface_hub import constants, errors

    much = f" ({size})" if size else ""
    page = f"{constants.ENDPOINT}/{repo}"
    by_hand = f"Download {file}{much} from {page} by other means and use --weights FILE"
    try:
        yield
    except errors.GatedRepoError:
        reason = "access is restricted: accept its conditions there and set HF_TOKEN"
        raise DataError(f"the weights at {page} cannot be downloaded: {reason}.") from None
    except errors.RepositoryNotFoundError:
        reason = "there is no such repository, or it is private: check the name, or set HF_TOKEN"
        raise DataError(f"the weights at {page} cannot be downloaded: {reason}.") from None
    except (errors.RemoteEntryNotFoundError, errors.RevisionNotFoundError):
        raise DataError(
            f"{page} has no {file}, or not at that revision. Only safetensors files are loaded."
        ) from None
    except errors.LocalEntryNotFoundError as error:
        offline = os.environ.get("HF_HUB_OFFLINE") and "HF_HUB_OFFLINE is set"
        cause = offline or one_line(error.__cause__ or error, 120)
        raise DataError(
            f"the weights {repo} are not on this machine, and the hub cannot be reached ({cause}). "
            f"{by_hand}."
        ) from None
    except PermissionError as error:
        raise DataError(
            f"the hub's cache {constants.HF_HUB_CACHE} cannot be written ({error.strerror}). Set "
            "HF_HUB_CACHE to another folder."
        ) from None
    except DataError:
        raise
    except Exception as error:  # of the HTTP library, or a full disk: any may come through
        raise DataError(
            f"the weights {repo} cannot be downloaded ({one_line(error, 200)}). Try again. "
            f"Or: {by_hand[0].lower()}{by_hand[1:]}."
        ) from None
