"""The paths of the port: for each the handlers by method, a websocket, and the largest body and message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from streamer.bridge.http.request import Request
from streamer.bridge.http.response import HttpError, Response
from streamer.bridge.http.websocket import WebSocket

Handler = Callable[[Request], Awaitable[Response]]
# How long each kibibyte of a body may take; a slower client is answered with 408. Live audio, even well compressed,
# fills a kibibyte about every second.
BODY_PACE_S = 20.0


@dataclass(frozen=True)
class Endpoint:
    """A websocket at a path. It is closed normally when the handler returns."""

    handler: Callable[[WebSocket], Awaitable[None]]
    largest_message: int  # bytes
    subprotocols: tuple[str, ...] = ()  # the first one that the client offers is used; without one it works as well


@dataclass(frozen=True)
class Route:
    """What is at one path. A path that allows GET also allows HEAD."""

    methods: Mapping[str, Handler] = field(default_factory=dict)
    websocket: Endpoint | None = None
    largest_body: int = 0  # bytes
    complain: Callable[[HttpError], Response] | None = None  # writes errors of this path in the form of its protocol
    body_pace_s: float = BODY_PACE_S

    def handler(self, request: Request) -> Handler:
        """Return the handler for this request. HttpError if its method is not allowed."""
        method = "GET" if request.method == "HEAD" else request.method
        if (found := self.methods.get(method)) is not None:
            return found
        allowed = ", ".join(dict.fromkeys([*self.methods, *(["HEAD"] if "GET" in self.methods else [])]))
        raise HttpError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "method_not_allowed",
            f"{request.path} accepts only {allowed or 'websockets'}.",
            {"Allow": allowed},
        )


class Routes:
    """All paths of a port. A request's path must match exactly."""

    def __init__(self, hint: str = "") -> None:
        """`hint` is added to the answer for a path that does not exist."""
        self._hint = hint
        self._routes: dict[str, Route] = {}

    def add(self, routes: Iterable[tuple[str, Route]]) -> None:
        """Add routes. ValueError if a path already has one."""
        for path, route in routes:
            if path in self._routes:
                raise ValueError(f"{path} already has a route")
            self._routes[path] = route

    def find(self, request: Request) -> Route:
        """Return the route of the request's path. HttpError if there is none."""
        route = self._routes.get(request.path)
        if route is None:
            why = " ".join(["This path does not exist.", self._hint]).strip()
            raise HttpError(HTTPStatus.NOT_FOUND, "not_found", why)
        return route
