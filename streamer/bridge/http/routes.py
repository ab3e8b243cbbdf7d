"""What is at which path: handlers by method, a websocket, and how large what comes there may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from streamer.bridge.http.request import Request
from streamer.bridge.http.response import HttpError, Response
from streamer.bridge.http.websocket import WebSocket

Handler = Callable[[Request], Awaitable[Response]]
# For each kibibyte of a body: who sends more slowly is answered 408. A recording that is sent while it is spoken has
# that every second, also when it is compressed well.
BODY_PACE_S = 20.0


@dataclass(frozen=True)
class Endpoint:
    """A websocket at a path. It is closed as done when the handler returns."""

    handler: Callable[[WebSocket], Awaitable[None]]
    largest_message: int  # bytes
    subprotocols: tuple[str, ...] = ()  # the first one that a client offers is agreed on; none is an agreement, too


@dataclass(frozen=True)
class Route:
    """What is at one path. Who may GET it may also ask for its head."""

    methods: Mapping[str, Handler] = field(default_factory=dict)
    websocket: Endpoint | None = None
    largest_body: int = 0  # bytes
    body_pace_s: float = BODY_PACE_S

    def handler(self, request: Request) -> Handler:
        """Who answers this request; HttpError if nobody does."""
        method = "GET" if request.method == "HEAD" else request.method
        if (found := self.methods.get(method)) is not None:
            return found
        allowed = ", ".join(dict.fromkeys([*self.methods, *(["HEAD"] if "GET" in self.methods else [])]))
        raise HttpError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "method_not_allowed",
            f"{request.path} takes {allowed or 'websockets only'}.",
            {"Allow": allowed},
        )


class Routes:
    """All paths of a port, each exactly as it is written."""

    def __init__(self, hint: str = "") -> None:
        """`hint` is added to what those are told who ask for what is not there."""
        self._hint = hint
        self._routes: dict[str, Route] = {}

    def add(self, routes: Iterable[tuple[str, Route]]) -> None:
        """More of them; a path that is there already is an error of ours."""
        for path, route in routes:
            if path in self._routes:
                raise ValueError(f"{path} has a route already")
            self._routes[path] = route

    def find(self, request: Request) -> Route:
        """What is at the request's path; HttpError if nothing is."""
        route = self._routes.get(request.path)
        if route is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "not_found", " ".join(["Nothing is here.", self._hint]).strip())
        return route
