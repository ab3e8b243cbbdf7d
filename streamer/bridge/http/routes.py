"""The paths of the port: for each the handlers by method, a websocket, and the largest body and message."""

from __future__ import annotations

import re
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
# How long a browser may remember which requests a page of another site may send.
PERMISSION_S = 600
_HEADER_NAMES = re.compile(r"[A-Za-z0-9-]+(\s*,\s*[A-Za-z0-9-]+)*")


@dataclass(frozen=True)
class Endpoint:
    """A websocket at a path. It is closed normally when the handler returns."""

    handler: Callable[[WebSocket], Awaitable[None]]
    largest_message: int  # bytes
    subprotocols: tuple[str, ...] = ()  # the first one that the client offers is used; without one it works as well
    headers: Mapping[str, str] = field(default_factory=dict)  # further fields of the answer to the handshake


# Chooses the endpoint for a request, or raises HttpError before the upgrade. The handler of a chosen endpoint is always
# called.
Admission = Callable[[Request], Endpoint]


@dataclass(frozen=True)
class Route:
    """The handlers of one path. A path that allows GET also allows HEAD."""

    methods: Mapping[str, Handler] = field(default_factory=dict)
    websocket: Endpoint | Admission | None = None
    largest_body: int = 0  # bytes
    complain: Callable[[HttpError], Response] | None = None  # makes the answer for an error in the path's own format
    body_pace_s: float = BODY_PACE_S
    shared: Callable[[Request], bool] | None = None  # tells whether the page that sent a request may read the answer

    def handler(self, request: Request) -> Handler:
        """Return the handler for this request. Raise HttpError if its method is not allowed."""
        if request.method == "OPTIONS" and self.shared is not None:
            return self._permit
        method = "GET" if request.method == "HEAD" else request.method
        if (handler := self.methods.get(method)) is not None:
            return handler
        methods = [*self.methods, "HEAD"] if "GET" in self.methods else [*self.methods]
        allowed = ", ".join(dict.fromkeys(methods))
        raise HttpError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "method_not_allowed",
            f"{request.path} accepts only {allowed or 'websockets'}.",
            {"Allow": allowed},
        )

    def permission(self, request: Request) -> dict[str, str]:
        """Return the header fields that let a page of another site read the answer."""
        if self.shared is None:
            return {}
        fields = {"Vary": "Origin"}
        if (origins := request.headers.all("Origin")) and self.shared(request):
            fields["Access-Control-Allow-Origin"] = origins[0]
            fields["Access-Control-Expose-Headers"] = "Retry-After"
        return fields

    async def _permit(self, request: Request) -> Response:
        """Answer the question of a browser which requests it may send for a page of another site."""
        if "Access-Control-Allow-Origin" not in self.permission(request):
            return Response(HTTPStatus.NO_CONTENT)
        fields = {"Access-Control-Allow-Methods": ", ".join(self.methods), "Access-Control-Max-Age": str(PERMISSION_S)}
        # The clients of other services send header fields of their own, which mean nothing here.
        names = ",".join(request.headers.all("Access-Control-Request-Headers"))
        if _HEADER_NAMES.fullmatch(names):
            fields["Access-Control-Allow-Headers"] = names
        return Response(HTTPStatus.NO_CONTENT, fields)


class Routes:
    """All paths of a port. A request's path must match exactly."""

    def __init__(self, hint: str = "") -> None:
        """`hint` is added to the answer for a path that does not exist."""
        self._hint = hint
        self._routes: dict[str, Route] = {}

    def add(self, routes: Iterable[tuple[str, Route]]) -> None:
        """Add routes. Raise ValueError if a path already has one."""
        for path, route in routes:
            if path in self._routes:
                raise ValueError(f"{path} already has a route")
            self._routes[path] = route

    def find(self, request: Request) -> Route:
        """Return the route of the request's path. Raise HttpError if there is none."""
        route = self._routes.get(request.path)
        if route is None:
            why = " ".join(["This path does not exist.", self._hint]).strip()
            raise HttpError(HTTPStatus.NOT_FOUND, "not_found", why)
        return route


def refusal(error: HttpError, request: Request | None, route: Route | None) -> Response:
    """Return the answer for this error, in the path's own format if it has one."""
    if route is None or route.complain is None:
        return error.response(request)
    response = route.complain(error)
    response.headers.update(error.headers)
    return response
