"""The server: what it shows, whom it refuses, and that nothing upsets it."""

from __future__ import annotations

import http.client
import io
import json
import socket
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tamatch.errors import UsageError
from tamatch.review.server import Server
from tamatch.review.session import Refused
from tests.processes import wait_for

HTML = '<img src=x onerror="boom()">'


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    server: Server,
    path: str,
    body: Any = None,
    *,
    method: str | None = None,
    entered: bool = True,
    **headers: str | None,
) -> Answer:
    """A request as our own page makes it, unless a header is given otherwise; None leaves it."""
    place = server.gate.places[0]
    own: dict[str, str | None] = {"Host": place, "Origin": None}
    if body is not None:
        own |= {"Origin": f"http://{place}", "Content-Type": "application/json"}
    if entered:
        own["Cookie"] = f"{server.gate.cookie}={server.gate.token}"
    own |= {k.replace("_", "-"): v for k, v in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    kind = method or ("GET" if body is None else "POST")
    connection.putrequest(kind, path, skip_host=True, skip_accept_encoding=True)
    content = (
        b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    )
    for name, value in {"Content-Length": str(len(content)), **own}.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(content or None)
    answer = connection.getresponse()
    found = Answer(answer.status, dict(answer.headers), answer.read())
    connection.close()
    return found


def test_it_listens_on_the_loopback_alone(either: Server) -> None:
    assert either.server_address[0] == "127.0.0.1"
    with pytest.raises(UsageError, match=r"--port \d+ cannot be used: .* Leave out --port"):
        Server(either.server_port)


def test_the_token_lets_in_and_the_cookie_stays(either: Server) -> None:
    assert ask(either, "/", entered=False).status == 403
    found = ask(either, f"/?token={either.gate.token}", entered=False)
    assert found.status == 200 and b"<!doctype html>" in found.body
    cookie = found.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert ask(either, "/", entered=False, Cookie=cookie.partition(";")[0]).status == 200


def test_the_ticket_works_once(either: Server) -> None:
    address = f"/?token={either.gate.ticket}"
    assert either.gate.ticket != either.gate.token
    assert ask(either, address, entered=False).status == 200
    assert ask(either, address, entered=False).status == 403
    assert ask(either, "/?token=", entered=False).status == 403


PLACES = ["/", "/state", "/answer/0", "/image/0", "/grid.js", "/style.css", "/report", "/nothing"]


@pytest.mark.parametrize("path", PLACES)
def test_without_the_cookie_nothing_is_shown(either: Server, path: str) -> None:
    wrong = f"{either.gate.cookie}={'x' * len(either.gate.token)}"
    for cookie in (None, "", wrong, f"{either.gate.cookie}=", "ünknown=1"):
        assert ask(either, path, entered=False, Cookie=cookie).status == 403
    assert ask(either, f"/?token={'x' * 32}", entered=False).status == 403
    assert ask(either, f"{path}?token={either.gate.token}x", entered=False).status == 403


@pytest.mark.parametrize("path", PLACES)
def test_another_host_is_refused(either: Server, path: str) -> None:
    """A name that someone points at 127.0.0.1 gets nothing, even with the cookie."""
    for host in ("evil.example", f"evil.example:{either.server_port}", "127.0.0.1", "", None):
        assert ask(either, path, Host=host).status in (400, 403)
    assert ask(either, "/state", Host=f"localhost:{either.server_port}").status == 200


def test_another_origin_is_refused(server: Server) -> None:
    body = {"image": 0, "label": 0}
    other = f"http://127.0.0.1:{server.server_port + 1}"
    for origin in ("http://evil.example", "null", other, "https://" + server.gate.places[0], None):
        assert ask(server, "/label", body, Origin=origin).status == 403
        assert ask(server, "/undo", {}, Origin=origin).status == 403
    assert ask(server, "/state", Origin="http://evil.example").status == 403
    assert not server.session.store.path.exists()
    assert ask(server, "/label", body).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/image/../../etc/passwd", "/image/%2e%2e/%2e%2e/etc/passwd", "/image/4", "/image/-1",
        "/image/99999999999", "/image/0/", "/image/0.png", "/image/", "/image/٣", "//etc/passwd",
        "/../tamatch/review/store.py", "/grid.js/../server.py", "/page/grid.js", "/index.html.j2",
        "/labels.csv", "/run.json", "/%00", "/state/", "/image/0%00", "/answer/",
        "/answer/-1", "/answer/1/", "/answer/9999999999", "/..\\..\\etc\\passwd",
    ],
)  # fmt: skip
def test_tricks_with_paths_find_nothing(either: Server, path: str) -> None:
    raw = path.encode().decode("latin-1")
    if path == "/image/٣":
        raw = "/image/%D9%A3"
    assert ask(either, raw).status == 404


def test_every_answer_is_armed(either: Server) -> None:
    for path in ("/", "/grid.js", "/style.css", "/state", "/image/1", "/nothing"):
        headers = ask(either, path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers


def test_the_page_needs_nothing_from_elsewhere(either: Server) -> None:
    scripts = ("/grid.js", "/review.js", "/start.js")
    parts = [ask(either, path).body.decode() for path in ("/", "/style.css", *scripts)]
    for text in parts:
        assert "https://" not in text and "http://" not in text.replace("http://www.w3.org", "")
    assert "<script>" not in parts[0] and " style=" not in parts[0]
    assert not any("innerHTML" in script for script in parts[2:])


def test_names_are_escaped(server: Server, tmp_path: Path) -> None:
    state = ask(server, "/state")
    assert state.headers["Content-Type"].startswith("application/json")
    assert state.json()["classes"][1] == HTML
    server.session.run.joinpath("run.json").write_text(
        json.dumps({"config": {"method": HTML}, "status": HTML, "classes": [HTML]})
    )
    assert HTML.encode() not in ask(server, "/").body


def test_images_come_by_number(either: Server) -> None:
    found = ask(either, "/image/2")
    assert found.headers["Content-Type"] == "image/png"
    assert Image.open(io.BytesIO(found.body)).size == (8, 8)
    assert "immutable" in found.headers["Cache-Control"]


def test_the_report_is_shown_where_there_is_one_and_nowhere_else(server: Server) -> None:
    assert ask(server, "/report").status == 404
    (server.session.run / "report.html").write_text("<p>42 %")
    found = ask(server, "/report")
    assert found.body == b"<p>42 %" and found.headers["Content-Type"].startswith("text/html")
    assert "script-src" not in found.headers["Content-Security-Policy"]
    assert ask(server, "/nothing").status == 404


def test_labels_are_written_and_undone(server: Server) -> None:
    path = server.session.store.path
    assert ask(server, "/label", {"image": 0, "label": 2}).json()["undoable"] == 1
    assert ask(server, "/label", {"image": 1, "label": -1}).status == 200
    assert path.read_text().splitlines()[1:] == [
        "unlabelled/a.png,'=dog,no",
        "<script>alert(1)</script>.png,,no",
    ]
    assert ask(server, "/state").json()["labels"] == {"0": 2, "1": -1}
    assert ask(server, "/undo", {}).json() == {"image": 1, "label": None, "undoable": 1}
    ask(server, "/label", {"image": 0, "label": 1})
    assert ask(server, "/undo", {}).json() == {"image": 0, "label": 2, "undoable": 1}
    assert ask(server, "/undo", {}).json()["image"] == 0
    assert ask(server, "/undo", {}).json() == {"image": None, "label": None, "undoable": 0}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"image": 4, "label": 0}, 404), ({"image": -1, "label": 0}, 404),
        ({"image": 0, "label": 3}, 400), ({"image": 0, "label": -2}, 400),
        ({"image": "0", "label": 0}, 400), ({"image": True, "label": 0}, 400),
        ({"image": 0.0, "label": 0}, 400), ({"image": 0}, 400), ({}, 400), ([], 400), (7, 400),
        (b"{", 400), (b"[" * 900, 400), (b"\xff", 400), (b'{"image": NaN, "label": 1e999}', 400),
        (b" " * 2000, 413), ({"image": 10**300, "label": 0}, 404),
    ],
)  # fmt: skip
def test_wrong_requests_change_nothing(server: Server, body: Any, status: int) -> None:
    assert ask(server, "/label", body).status == status
    assert not server.session.store.path.exists()


def test_other_kinds_of_requests(either: Server) -> None:
    good = {"image": 0, "label": 0}
    assert ask(either, "/label", good, Content_Type="text/plain").status == 415
    assert ask(either, "/label", good, Content_Length="-1").status in (400, 413)
    assert ask(either, "/label", good, Content_Length="x").status == 413
    assert ask(either, "/nothing", good).status == 404
    for method in ("PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW"):
        assert ask(either, "/", method=method).status == 405
    assert not either.session.store.path.exists()


def test_what_cannot_be_saved_is_told(server: Server) -> None:
    ask(server, "/label", {"image": 0, "label": 0})
    server.session.store.path.write_text("file_name,label\n")
    found = ask(server, "/label", {"image": 1, "label": 0})
    assert found.status == 409 and b"was changed by another program" in found.body


def test_another_origin_changes_nothing_in_a_new_folder(start_server: Server) -> None:
    bodies = {
        "/label": {"images": [0], "label": "cat"}, "/rename": {"before": "cat", "after": "dog"},
        "/undo": {}, "/train": {},
    }  # fmt: skip
    for origin in ("http://evil.example", "null", None):
        for path, body in bodies.items():
            assert ask(start_server, path, body, Origin=origin).status == 403
            assert ask(start_server, path, body, entered=False).status == 403
    assert not start_server.session.store.path.exists() and not start_server.session.over
    assert ask(start_server, "/label", bodies["/label"]).status == 200


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/label", {"images": [4], "label": "a"}, 404), ("/label", {"images": [-1]}, 404),
        ("/label", {"images": [], "label": "a"}, 400), ("/label", {"images": 0}, 400),
        ("/label", {"images": [0, True], "label": "a"}, 400), ("/label", {"label": "a"}, 400),
        ("/label", {"images": [0], "label": 7}, 400), ("/label", {"images": [0]}, 400),
        ("/label", {"images": [0], "label": "x" * 81}, 422), ("/label", {"images": ["0"]}, 400),
        ("/label", {"images": [0], "label": "unlabelled"}, 422),
        ("/label", {"images": [0] * 900, "label": "a"}, 413), ("/label", [], 400),
        ("/label", {"images": [[0]], "label": "a"}, 400), ("/label", b"{", 400),
        ("/rename", {"before": "a", "after": "b"}, 400), ("/rename", {}, 400),
        ("/rename", {"before": ["a"], "after": "b"}, 400), ("/train", {}, 422),
        ("/answer/0", {}, 404), ("/state", {}, 404), ("/nothing", {}, 404),
    ],
)  # fmt: skip
def test_wrong_requests_change_nothing_in_a_new_folder(
    start_server: Server, path: str, body: Any, status: int
) -> None:
    assert ask(start_server, path, body).status == status
    assert not start_server.session.store.path.exists() and not start_server.session.over


def test_names_that_are_typed_stay_text(start_server: Server) -> None:
    for image, name in enumerate((HTML, "=1+1", "a\nb\ud800", "🐈")):
        found = ask(start_server, "/label", {"images": [image], "label": name})
        assert found.status == 200
    assert found.json()["classes"] == [HTML, "=1+1", "a\\x0ab\\ud800", "🐈"]
    rows = start_server.session.store.path.read_text().splitlines()[1:]
    assert rows[1].endswith(",'=1+1,no") and HTML.encode() not in ask(start_server, "/").body


def test_training_ends_the_page_once_it_can(start_server: Server) -> None:
    ask(start_server, "/label", {"images": [0], "label": "cat"})
    assert ask(start_server, "/train", {}).status == 422
    ask(start_server, "/label", {"images": [1], "label": "dog"})
    assert ask(start_server, "/train", {}).status == 200 and start_server.session.over
    with pytest.raises(Refused, match="training has begun"):  # by a connection that is still open
        start_server.session.post("/label", {"images": [2], "label": "cow"})
    wait_for(lambda: start_server._BaseServer__is_shut_down.is_set())  # type: ignore[attr-defined]


def test_a_browser_that_goes_away_is_no_news_but_a_fault_is(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (ConnectionResetError("gone"), ZeroDivisionError("ours")):
        try:
            raise error
        except Exception:
            server.handle_error(None, ("127.0.0.1", 1))
    shown = capsys.readouterr().err
    assert "ours" in shown and "gone" not in shown


WRITES = ("/label", "/rename", "/undo", "/train")
METHODS = st.sampled_from(["GET", "POST", "PUT", "HEAD", "get", "", "G\tT"])
PATHS = st.one_of(
    st.sampled_from([*PLACES, *WRITES, "*", "", "/?token=", "http://[", "/image/1?x=1"]),
    st.text(max_size=30).map(lambda t: "/" + t),
)
ODD = st.one_of(st.text(max_size=30), st.sampled_from(["0", "5", "-1", "1e3", "chunked", "null"]))
NAMES = st.sampled_from(
    ["Host", "Origin", "Cookie", "Content-Length", "Content-Type", "Transfer-Encoding", "Expect",
     "Range", "Connection", "X", ""]
)  # fmt: skip
KEYS = ["image", "images", "label", "asked", "before", "after", "x"]
BODIES = st.one_of(
    st.binary(max_size=60),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
        ),
        max_leaves=6,
    ).map(lambda value: json.dumps(value).encode()),
)


@settings(
    max_examples=250,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(METHODS, PATHS, st.lists(st.tuples(NAMES, ODD), max_size=4), BODIES, st.booleans())
def test_nothing_upsets_it(
    either: Server, method: str, path: str, odd: list[tuple[str, str]], body: bytes, entered: bool
) -> None:
    """Requests of any shape: an answer that is no 500, and the next request works."""
    faults: list[Any] = []
    either.handle_error = lambda *a: faults.append(a)  # type: ignore[method-assign]
    place = either.gate.places[0]
    headers = [("Host", place), ("Content-Length", str(len(body)))]
    if entered:
        headers += [("Cookie", f"{either.gate.cookie}={either.gate.token}")]
        headers += [("Origin", f"http://{place}"), ("Content-Type", "application/json")]
    replaced = {name for name, _ in odd}
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [f"{k}: {v}" for k, v in [*[h for h in headers if h[0] not in replaced], *odd]]
    raw = "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + body
    with socket.create_connection(("127.0.0.1", either.server_port), timeout=10) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while piece := connection.recv(65_536):
                answer += piece
        except ConnectionResetError:
            pass
    assert b" 500 " not in answer.split(b"\r\n", 1)[0]
    assert b"Internal Server Error" not in answer and not faults
    assert ask(either, "/style.css").status == 200


def test_a_fault_of_ours_would_be_seen(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: an error inside is a 500, and the server goes on."""
    monkeypatch.setattr("traceback.print_exc", lambda: None)
    monkeypatch.setattr(type(server.session), "state", lambda self: 1 / 0)
    assert ask(server, "/state").status == 500
    assert ask(server, "/grid.js").status == 200
    assert isinstance(server, ThreadingHTTPServer)


def test_a_request_that_comes_byte_by_byte_is_ended(
    either: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamatch.review.server.LIMIT", 0.3)
    with socket.create_connection(("127.0.0.1", either.server_port), timeout=10) as connection:
        began = time.monotonic()
        with pytest.raises(OSError, match=r"pipe|reset"):
            while time.monotonic() - began < 10:
                connection.sendall(b"G")
                time.sleep(0.02)
        assert time.monotonic() - began < 5
    assert ask(either, "/state").status == 200


def test_connections_have_a_cap_and_come_free_again(
    either: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamatch.review.server.CONNECTIONS", 4)
    place = ("127.0.0.1", either.server_port)
    held = [socket.create_connection(place, timeout=10) for _ in range(4)]
    for _ in range(20):  # each is closed without a word
        with socket.create_connection(place, timeout=10) as another:
            assert another.recv(1) == b""
    assert len(either.waiting) == 4
    monkeypatch.setattr("tamatch.review.server.LIMIT", 0.1)
    for connection in held:
        assert connection.recv(1) == b""
        connection.close()
    monkeypatch.setattr("tamatch.review.server.LIMIT", 30)
    wait_for(lambda: not either.waiting)
    assert ask(either, "/state").status == 200
