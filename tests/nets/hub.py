"""A server on the loopback address that speaks the Hugging Face hub's protocol.

Large files are elsewhere, as on the real hub: under another host name, by a redirect. What goes
wrong with a repository is in its name.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


class Hub(ThreadingHTTPServer):
    """`files` are those of every repository; `asked` is all that anybody has asked for."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.asked: list[tuple[str, str, str | None, str | None]] = []  # with range and token
        self.cut = 0  # how often a download was cut off

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        given = (self.headers.get("Range"), self.headers.get("Authorization"))
        self.server.asked.append((self.command, self.path, *given))
        if self.path.startswith("/storage/"):
            self.send_content(self.path)
        elif found := RESOLVE.fullmatch(self.path):
            self.resolve(**found.groupdict())
        else:
            self.refuse(404, "RepoNotFound")

    def resolve(self, repo: str, revision: str, file: str) -> None:
        if "absent" in repo:
            return self.refuse(404, "RepoNotFound")
        if "gated" in repo and self.headers.get("Authorization") != "Bearer open-sesame":
            return self.refuse(401, "GatedRepo")
        if revision not in ("main", COMMIT):
            return self.refuse(404, "RevisionNotFound")
        content = self.server.files.get(file)
        if content is None or ("pickle" in repo and file.endswith(".safetensors")):
            return self.refuse(404, "EntryNotFound")
        large = file.endswith(".safetensors")
        digest = hashlib.sha256(content).hexdigest() if large else hashlib.sha1(content).hexdigest()
        self.send_response(302 if large else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Linked-Etag" if large else "ETag", f'"{digest}"')
        if large:
            self.send_header("X-Linked-Size", str(len(content)))
            elsewhere = f"http://localhost:{self.server.server_port}/storage/{repo}/{file}"
            self.send_header("Location", elsewhere)
        self.send_header("Content-Length", "0" if large else str(len(content)))
        self.end_headers()
        if self.command == "GET" and not large:
            self.wfile.write(content)

    def send_content(self, path: str) -> None:
        content = self.server.files[path.rpartition("/")[2]]
        if "corrupt" in path:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if "short" in path:
            content = content[: len(content) // 2]
        given = self.headers.get("Range")
        first = int(given.removeprefix("bytes=").partition("-")[0]) if given else 0
        self.send_response(206 if given else 200)
        if given:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        if self.command == "HEAD":
            return
        if "cut" in path and self.server.cut == 0:
            self.server.cut += 1
            self.wfile.write(content[first : first + len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content[first:])

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Hub]:
    hub = Hub(files)
    thread = threading.Thread(target=hub.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()
