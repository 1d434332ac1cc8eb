"""Fetching from a publisher: whole or not at all, and no waiting without a network."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tamatch.data import DATASETS, archives
from tamatch.data.archives import ARCHIVES, Archive, download
from tamatch.errors import DataError, UsageError

CONTENT = bytes(range(256)) * 10_000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Publisher(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        if self.path.startswith("/missing"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:5000] if self.path.startswith("/cut") else CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def publish(monkeypatch: pytest.MonkeyPatch, url: str, md5: str = MD5) -> None:
    archive = Archive("cifar10", f"{url}/", "set.tar.gz", md5)
    monkeypatch.setitem(ARCHIVES, "cifar10", (archive,))


def test_fetches_once(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, address)
    seen: list[tuple[int, int]] = []
    before = Publisher.asked
    root = tmp_path / "new"
    [path] = download("cifar10", root, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT and [p.name for p in root.iterdir()] == ["set.tar.gz"]
    assert seen[-1] == (len(CONTENT), len(CONTENT)) and len(seen) > 1
    download("cifar10", root)
    assert Publisher.asked == before + 1
    path.write_bytes(b"damaged")
    assert download("cifar10", root)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("page", ["/cut", "/missing", "/wrong"])
def test_nothing_is_left_of_a_bad_download(
    page: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, address + page, MD5 if page != "/wrong" else "0" * 32)
    with pytest.raises(DataError) as error:
        download("cifar10", tmp_path)
    assert address in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_offline_says_address_and_folder_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        publish(monkeypatch, f"http://127.0.0.1:{taken.getsockname()[1]}/x")
        start = time.monotonic()
        with pytest.raises(DataError) as error:
            download("cifar10", tmp_path)
    assert time.monotonic() - start < 2
    for words in ("127.0.0.1", str(tmp_path), MD5, "put it into"):
        assert words in str(error.value)


def test_a_server_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        publish(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}/x")
        with pytest.raises(DataError, match="timed out"):
            download("cifar10", tmp_path)


def test_only_named_sets_are_fetched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot fetch digits: docs/data\.md lists"):
        download("digits", tmp_path)


def test_published_addresses() -> None:
    assert ARCHIVES["cifar10"][0].url.startswith("https://www.cs.toronto.edu/")
    assert ARCHIVES["cifar10-lt"] == ARCHIVES["cifar10"]
    assert ARCHIVES["stl10"][0].md5 == "91f7769df0f17e558f3565bffb0c7dfb"
    files = [archive.file for archive in ARCHIVES["svhn-extra"]]
    assert files == ["train_32x32.mat", "test_32x32.mat", "extra_32x32.mat"]
    unfetched = {"digits", "imagenet-1percent", "imagenet-10percent", "chestmnist"}
    assert ARCHIVES.keys() == DATASETS.keys() - unfetched
