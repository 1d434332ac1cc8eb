"""Weights by name: fetched once, whole or not at all, and a line on what to do where that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from tamatch import nets
from tamatch.errors import UsageError
from tamatch.nets.pretrained import PRETRAINED, Located, is_published, locate
from tests.data.pictures import put
from tests.nets import hub

NET = "dinov2_64x2_p14_42"
CONFIG = {
    "architecture": "vit_small_patch14_dinov2",
    "pretrained_cfg": {"license": "apache-2.0", "mean": [0.485, 0.456, 0.406]},
}
LOCATE = """
import json, sys
from tamatch.errors import TamatchError
from tamatch.nets.pretrained import locate
try:
    found = locate(sys.argv[1])
    print(json.dumps([str(found.path), found.origin, found.normalise]))
except TamatchError as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


@pytest.fixture(scope="module")
def weights() -> bytes:
    """A net with the names of a published one, but small."""
    torch.manual_seed(0)
    state = nets.build(NET, 1, 42).state_dict()
    return save({k: v for k, v in state.items() if not k.startswith("head.")})


@pytest.fixture
def server(weights: bytes) -> Iterator[hub.Hub]:
    config = json.dumps(CONFIG).encode()
    with hub.serving({"model.safetensors": weights, "config.json": config}) as found:
        yield found


def environment(server: hub.Hub | None, cache: Path, **more: str) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    address = server.address if server else "http://127.0.0.1:9"  # where nobody answers
    here = {"HF_ENDPOINT": address, "HF_HOME": str(cache), "PYTHONPATH": str(Path.cwd())}
    return own | here | {"HF_HUB_DISABLE_TELEMETRY": "1"} | more


def begun(weights: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LOCATE, weights],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ,
    )  # fmt: skip


def told(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Retrying" not in err, "it waits where there is no network"
    answer: list[str] = json.loads(out.splitlines()[-1])
    return answer


def files_in(cache: Path) -> list[Path]:
    return [p for p in cache.rglob("*") if p.is_file() and p.stat().st_size > 1000]


def test_downloads_once_and_then_asks_nobody(
    server: hub.Hub, tmp_path: Path, weights: bytes
) -> None:
    env = environment(server, tmp_path, HF_TOKEN="secret")
    path, origin, normalise = told(begun("hub:some/net", **env))
    assert Path(path).read_bytes() == weights and normalise == "imagenet"
    assert origin == "hub:some/net: apache-2.0, 1 MB, downloaded from the hub."
    tokens = {place.startswith("/storage/"): token for _, place, _, token in server.asked}
    assert tokens == {False: "Bearer secret", True: None}, "the token went to another host"
    asked = len(server.asked)
    again, origin, _ = told(begun("hub:some/net", **env))
    assert again == path and f"from the hub's cache ({path})" in origin
    assert len(server.asked) == asked
    offline = environment(None, tmp_path, HF_HUB_OFFLINE="1")
    assert told(begun("hub:some/net", **offline))[0] == path


def test_a_revision_can_be_given(server: hub.Hub, tmp_path: Path) -> None:
    env = environment(server, tmp_path)
    assert hub.COMMIT in told(begun(f"hub:some/net@{hub.COMMIT}", **env))[0]
    kind, text = told(begun("hub:some/net@other", **env))
    assert kind == "DataError" and "not at that revision" in text


def test_a_connection_that_breaks_is_resumed(tmp_path: Path) -> None:
    content = os.urandom(24 << 20)  # the hub's library keeps 10 MiB at a time
    with hub.serving({"model.safetensors": content}) as server:
        path, *_ = told(begun("hub:some/cut", **environment(server, tmp_path)))
    assert server.cut == 1 and Path(path).read_bytes() == content
    ranges = [r for _, place, r, _ in server.asked if "/storage/" in place and r]
    assert ranges == [f"bytes={10 << 20}-"]


def test_content_of_another_digest_is_refused(server: hub.Hub, tmp_path: Path) -> None:
    env = environment(server, tmp_path)
    kind, text = told(begun("hub:some/corrupt", **env))
    assert kind == "DataError" and "SHA-256 is not the one that the hub states" in text
    assert text.endswith("It was deleted: try again.") and not files_in(tmp_path)


def test_content_of_another_size_is_refused(server: hub.Hub, tmp_path: Path) -> None:
    kind, text = told(begun("hub:some/short", **environment(server, tmp_path)))
    assert kind == "DataError" and "cannot be downloaded (" in text and "--weights FILE" in text
    assert not files_in(tmp_path)


def test_a_file_that_is_damaged_later_is_noticed(server: hub.Hub, tmp_path: Path) -> None:
    env = environment(server, tmp_path)
    blob = Path(told(begun("hub:some/net", **env))[0]).resolve()
    content = blob.read_bytes()
    blob.write_bytes(content[:-1] + b"?")
    assert "SHA-256" in told(begun("hub:some/net", **env))[1]
    assert Path(told(begun("hub:some/net", **env))[0]).read_bytes() == content


@pytest.mark.parametrize(
    ("repo", "words"),
    [
        ("some/absent", "there is no such repository, or it is private"),
        ("some/gated", "accept its conditions there and set HF_TOKEN"),
        ("some/pickle", "Only safetensors files are loaded"),
    ],
)
def test_what_the_hub_refuses(server: hub.Hub, tmp_path: Path, repo: str, words: str) -> None:
    kind, text = told(begun(f"hub:{repo}", **environment(server, tmp_path)))
    assert kind == "DataError" and words in text and f"{server.address}/{repo}" in text
    assert "\n" not in text


def test_a_token_opens_what_is_gated(server: hub.Hub, tmp_path: Path) -> None:
    env = environment(server, tmp_path, HF_TOKEN="open-sesame")
    assert told(begun("hub:some/gated", **env))[0].endswith("model.safetensors")


@pytest.mark.parametrize("more", [{}, {"HF_HUB_OFFLINE": "1"}])
def test_without_a_network_it_says_how_to_get_them(tmp_path: Path, more: dict[str, str]) -> None:
    kind, text = told(begun("vit_tiny", **environment(None, tmp_path, **more)))
    assert kind == "DataError" and "\n" not in text
    assert "not on this machine, and the hub cannot be reached" in text
    assert "Download model.safetensors (23 MB) from http" in text
    assert text.endswith("use --weights FILE.")
    assert ("HF_HUB_OFFLINE is set" in text) == bool(more)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_must_not_be_written(server: hub.Hub, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    kind, text = told(begun("hub:some/net", **environment(server, tmp_path)))
    tmp_path.chmod(0o700)
    assert kind == "DataError" and "Set HF_HUB_CACHE to another folder" in text


def test_a_cache_that_cannot_be_written(server: hub.Hub, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    kind, text = told(begun("hub:some/net", **environment(server, blocked / "cache")))
    assert kind == "DataError" and str(blocked) in text and "\n" not in text


def test_a_full_read_only_cache_is_used(server: hub.Hub, tmp_path: Path) -> None:
    """As of an administrator: nothing is written, and nobody is asked."""
    path = told(begun("hub:some/net", **environment(server, tmp_path)))[0]
    folders = [tmp_path, *(p for p in tmp_path.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    asked = len(server.asked)
    assert told(begun("hub:some/net", **environment(server, tmp_path)))[0] == path
    assert len(server.asked) == asked
    for folder in folders:
        folder.chmod(0o700)


def test_two_processes_at_once(server: hub.Hub, tmp_path: Path, weights: bytes) -> None:
    both = [begun("hub:some/net", **environment(server, tmp_path)) for _ in range(2)]
    (one, *_), (other, *_) = map(told, both)
    assert one == other and Path(one).read_bytes() == weights
    assert len(files_in(tmp_path)) == 2, "the file, and the link to it"


def test_another_activation_is_not_taken_for_openai_s(tmp_path: Path) -> None:
    config = {"architecture": "vit_base_patch16_clip_224", "pretrained_cfg": {"tag": "laion2b"}}
    with hub.serving({"config.json": json.dumps(config).encode()}) as server:
        kind, text = told(begun("hub:some/net", **environment(server, tmp_path)))
    assert kind == "UsageError" and "--net timm/vit_base_patch16_clip_224" in text


def test_a_run_says_where_its_weights_come_from(server: hub.Hub, tmp_path: Path) -> None:
    for place in ("a/1", "a/2", "b/1", "b/2", "unlabelled/1", "unlabelled/2"):
        put(tmp_path / "photos" / f"{place}.png")
    words = ["train", "--data", str(tmp_path / "photos"), "--weights", "hub:some/net"]
    words += ["--steps", "2", "--baseline", "none", "--out", str(tmp_path / "run")]
    words += ["--validation-per-class", "0", "--device", "cpu"]
    env = environment(server, tmp_path / "cache", TAMATCH_CACHE=str(tmp_path / "images"))
    done = subprocess.run(
        [sys.executable, "-m", "tamatch", *words], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    shown = " ".join((done.stdout + done.stderr).split())
    assert "Weights hub:some/net: apache-2.0, 1 MB, downloaded from the hub." in shown
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert config["weights"] == "hub:some/net" and config["normalise"] == "imagenet"
    assert config["net"].startswith("tuned/dinov2_64x2_p")


def test_files_and_names_are_told_apart(tmp_path: Path) -> None:
    assert locate("some/w.pth") == Located(Path("some/w.pth"), "w.pth")
    assert is_published("vit_tiny") and is_published("hub:a/b") and not is_published("a.npz")
    with pytest.raises(UsageError, match=r"Perhaps you meant vit_tiny.*`tamatch nets`"):
        locate("vit_tny")
    with pytest.raises(UsageError, match="expected hub:OWNER/REPO"):
        locate("hub:net")


@pytest.mark.parametrize("name", PRETRAINED)
def test_the_table_names_nets_that_exist(name: str) -> None:
    row = PRETRAINED[name]
    assert row.net.startswith(f"{name}_p") and nets.is_transformer(row.net)
    assert row.file.endswith(".safetensors") and row.licence and row.size.endswith(" MB")
    assert row.revision is None or len(row.revision) == 40
