"""Access control of the review page: the person at this machine, and nobody else."""

from __future__ import annotations

import hmac
import secrets
from email.message import Message

HOSTS = ("127.0.0.1", "localhost")


class Gate:
    """A secret that the address carries once, and a cookie from then on.

    `ticket` works for one visit: it is what the browser is started with, and other users of the
    machine can see how programs are started. `token` is for the person to copy. Host and Origin
    are compared as well: a page from elsewhere must not get in, nor a foreign name that leads to
    this machine.
    """

    def __init__(self, port: int) -> None:
        self.places = tuple(f"{host}:{port}" for host in HOSTS)
        self.cookie = f"tamatch_{port}"  # cookies know no ports, and two pages may be open
        self.token = secrets.token_urlsafe(24)
        self.ticket = secrets.token_urlsafe(24)

    def address(self, secret: str) -> str:
        return f"http://{self.places[0]}/?token={secret}"

    def local(self, headers: Message, *, writes: bool) -> bool:
        """Whether the request was meant for us, and sent by a page of ours."""
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
    """Compare in a time that tells nothing."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())
