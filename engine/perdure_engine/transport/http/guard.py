"""Who is served at all, before it is looked at what he wants (reliability §4, B46).

A browser will carry any page's request to a port of this machine. Two things tell such a request from one that was
meant: the name by which the page reached us (DNS rebinding makes any name lead here), and the origin that browsers
send along.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from perdure_engine.transport.http.rest.problems import Refused, problem_response

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))


class Guard:
    """Passes on what is for one of our names, with its path as it was sent.

    `hosts` empty: any name. Paths are matched before they are decoded: an id may hold what parts a path.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await problem_response(refusal)(scope, receive, send)
            return
        await self._app({**scope, "path": scope["raw_path"].decode("ascii")}, receive, send)

    def _refusal(self, scope: Scope) -> Refused | None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts and _name(host) not in self._hosts:
            return Refused(400, "HOST_NOT_ALLOWED", "this server does not answer to that name")
        origin = headers.get(b"origin")
        if origin is None or scope["method"] in SAFE_METHODS:
            return None
        if origin.decode("latin-1").lower().partition("://")[2] != host:
            return Refused(403, "CROSS_ORIGIN", "pages of other origins change nothing here")
        return None


def _name(host: str) -> str:
    """Without the port. An address of IPv6 stands in brackets."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
