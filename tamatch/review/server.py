"""The server of a labelling page: on this machine only, with a secret in its address."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from socket import SHUT_RDWR, socket
from typing import Any

from ..errors import TamatchError, UsageError
from .session import Page, Refused

HOSTS = ("127.0.0.1", "localhost")
BODY = 1024  # bytes; no request of ours has more
LIMIT = 30  # seconds for a whole request, from the wait for its first byte to its answer's end
CONNECTIONS = 64  # at a time; a browser has six
IMAGE = re.compile(r"/image/([0-9]{1,7})")
ASSETS = {
    "/grid.js": "text/javascript", "/review.js": "text/javascript", "/start.js": "text/javascript",
    "/style.css": "text/css", "/icon.svg": "image/svg+xml",
}  # fmt: skip
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
REPORT = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class Gate:
    """A secret that the address carries once, and a cookie from then on.

    `ticket` works once: other users of the machine can see how the browser is started. `token` is
    for the person to copy. Host and Origin are compared as well, against pages from elsewhere and
    foreign names of this machine.
    """

    def __init__(self, port: int) -> None:
        self.places = tuple(f"{host}:{port}" for host in HOSTS)
        self.cookie = f"tamatch_{port}"  # cookies know no ports, and two pages may be open
        self.token = secrets.token_urlsafe(24)
        self.ticket = secrets.token_urlsafe(24)

    def address(self, secret: str) -> str:
        return f"http://{self.places[0]}/?token={secret}"

    def local(self, headers: Message, *, writes: bool) -> bool:
        """Whether the request names this server and comes from its own page."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if host not in self.places:
            return False
        return not writes if origin is None else origin == f"http://{host}"

    def known(self, headers: Message) -> bool:
        """Whether the request has the cookie."""
        pairs = headers.get("Cookie", "").split(";")
        return any(same(pair.strip(), f"{self.cookie}={self.token}") for pair in pairs)

    def opens(self, query: str) -> bool:
        """Whether the query of an address holds the token, or the ticket for the first time."""
        if self.ticket and same(query, f"token={self.ticket}"):
            self.ticket = ""
            return True
        return same(query, f"token={self.token}")

    def set_cookie(self) -> str:
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"


def same(given: str, secret: str) -> bool:
    """Compare in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


class Server(ThreadingHTTPServer):
    """Serves one page on 127.0.0.1."""

    daemon_threads = True
    request_queue_size = CONNECTIONS
    session: Page

    def __init__(self, port: int) -> None:
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError as error:
            raise UsageError(
                f"--port {port} cannot be used: {error.strerror}. Leave out --port to use a free "
                "one."
            ) from None
        self.gate = Gate(self.server_port)
        self.waiting: dict[socket, float] = {}  # open connections, and since when each has its turn
        self.waiting_guard = threading.Lock()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Refuse a connection while `CONNECTIONS` others are open."""
        with self.waiting_guard:
            room = len(self.waiting) < CONNECTIONS
            if room:
                self.waiting[request] = time.monotonic()
        return room

    def service_actions(self) -> None:
        """Close connections that have taken longer than `LIMIT`; called twice a second."""
        with self.waiting_guard:
            for connection, since in self.waiting.items():
                if time.monotonic() - since > LIMIT:
                    with suppress(OSError):  # it has gone
                        connection.shutdown(SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self.waiting_guard:
            self.waiting.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print errors, except those of a connection that the browser has closed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tamatch", ""
    wbufsize = -1  # an answer is sent as one packet
    disable_nagle_algorithm = True  # without waiting for another

    def handle_one_request(self) -> None:
        with self.server.waiting_guard:
            self.server.waiting[self.connection] = time.monotonic()
        super().handle_one_request()

    def do_GET(self) -> None:
        self.answer(self.get)

    def do_POST(self) -> None:
        self.answer(self.post)

    def answer(self, make: Callable[[], None]) -> None:
        try:
            make()
        except Refused as refused:
            self.send_error(refused.status, str(refused))
        except TamatchError as error:  # the disk is full, or the file was changed
            self.send_error(HTTPStatus.CONFLICT, str(error))
        except OSError:
            self.close_connection = True  # the browser has gone
        except Exception:
            traceback.print_exc()
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, "an error of tamatch")

    def get(self) -> None:
        path, _, query = self.path.partition("?")
        entering = path == "/" and bool(query)
        self.admit(query if entering else None)
        session = self.server.session
        if path == "/":
            cookie = {"Set-Cookie": self.server.gate.set_cookie()} if entering else {}
            self.reply("text/html", session.page().encode("utf-8", "replace"), cookie)
        elif path in ASSETS:
            content = (files("tamatch.review") / "page" / path[1:]).read_bytes()
            self.reply(ASSETS[path], content)
        elif found := IMAGE.fullmatch(path):
            kind, content = session.pictures.of(int(found[1]))
            self.reply(kind, content, {"Cache-Control": "private, max-age=86400, immutable"})
        elif path == "/report" and session.report is not None and session.report.is_file():
            content = session.report.read_bytes()
            self.reply("text/html", content, {"Content-Security-Policy": REPORT})
        else:
            self.reply_json(session.get(path))

    def post(self) -> None:
        self.admit(None, writes=True)
        self.reply_json(self.server.session.post(self.path, self.body()))
        if self.server.session.over:  # its answer has been sent
            threading.Thread(target=self.server.shutdown).start()

    def admit(self, query: str | None, *, writes: bool = False) -> None:
        """Refuse a request that has no secret or comes from the page of another site."""
        gate = self.server.gate
        if not gate.local(self.headers, writes=writes):
            raise Refused(
                HTTPStatus.FORBIDDEN, "this page can only be opened on the machine that serves it"
            )
        if not (gate.known(self.headers) if query is None else gate.opens(query)):
            raise Refused(
                HTTPStatus.FORBIDDEN, "open the address that `tamatch` printed: it has a key"
            )

    def body(self) -> dict[str, Any]:
        """The JSON object of a request."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Content-Type") != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected JSON")
        if not re.fullmatch(r"[0-9]{1,6}", length) or int(length) > BODY:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too long, or of unknown length")
        try:
            content = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise Refused(HTTPStatus.BAD_REQUEST, "not valid JSON") from None
        if not isinstance(content, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, "expected a JSON object")
        return content

    def reply_json(self, content: dict[str, Any]) -> None:
        self.reply("application/json", json.dumps(content).encode())

    def reply(
        self,
        kind: str,
        content: bytes,
        headers: Mapping[str, str] | None = None,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> None:
        charset = "" if kind.startswith("image/") else "; charset=utf-8"
        self.send_response(status)
        own = {"Content-Type": kind + charset, "Content-Length": str(len(content))}
        common = {**SECURITY, "Cache-Control": "no-store"}
        for name, value in {**common, **own, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer in plain text and close the connection: the rest of the request is not read."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == 501 else HTTPStatus(code)
        text = f"{message or status.phrase}\n".encode("utf-8", "replace")
        self.reply("text/plain", text, {"Connection": "close"}, status)

    def log_message(self, format: str, *args: Any) -> None:
        """Print no line for each request."""
