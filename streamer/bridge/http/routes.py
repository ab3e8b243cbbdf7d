"""The paths of the port with their handlers and largest bodies, and those for probes and for the files of the page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypedDict
from urllib.parse import unquote

from streamer.base.codes import ErrorCode
from streamer.base.package import PACKAGE
from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.http.messages import upgrade_required
from streamer.bridge.http.request import Headers, HttpError, Request, Response, as_json, content, text
from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.session.endings import RETRY_S
from streamer.bridge.telemetry.metrics import Metrics

Handler = Callable[[Request], Awaitable[Response]]
# How long each kibibyte of a body may take; a slower client is answered with 408. Live audio, even well compressed,
# fills a kibibyte about every second.
BODY_PACE_S = 20.0
# How long a browser may remember which requests a page of another site may send.
PERMISSION_S = 600
_PLACE = re.compile(r"\{(\w+)(\*?)\}")  # in the pattern of a path
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
            ErrorCode.METHOD_NOT_ALLOWED,
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


# A path whose route depends on the request, because the clients of two services use it.
Choice = Callable[[Request], Route]


class PathPattern:
    """A path with `{names}` in it. Each stands for one part between slashes, and `{name*}` for all that is left."""

    def __init__(self, text: str) -> None:
        self.exact = _PLACE.search(text) is None
        self._shape = re.compile(_PLACE.sub(lambda place: f"(?P<{place[1]}>{'.+' if place[2] else '[^/]+'})", text))

    def values(self, path: str) -> Mapping[str, str] | None:
        """Return what stands for each name, with percent-encoding decoded; None if the path does not match."""
        match = self._shape.fullmatch(path)
        return None if match is None else {name: unquote(value) for name, value in match.groupdict().items()}


class Routes:
    """All paths of a port. A request's path must match exactly, or a pattern; of several patterns the first counts."""

    def __init__(self, hint: str = "") -> None:
        """`hint` is added to the answer for a path that does not exist."""
        self._hint = hint
        self._exact: dict[str, Route | Choice] = {}
        self._patterns: dict[str, tuple[PathPattern, Route | Choice]] = {}

    def add(self, routes: Iterable[tuple[str, Route | Choice]]) -> None:
        """Add routes. Raise ValueError if a path already has one."""
        for path, route in routes:
            if path in self._exact or path in self._patterns:
                raise ValueError(f"{path} already has a route")
            pattern = PathPattern(path)
            if pattern.exact:
                self._exact[path] = route
            else:
                self._patterns[path] = pattern, route

    def __contains__(self, path: str) -> bool:
        return path in self._exact or path in self._patterns

    def find(self, request: Request) -> Route:
        """Return the route of the request's path. Raise HttpError if there is none."""
        route = self._exact.get(request.path) or self._match(request.path)
        if route is None:
            why = " ".join(["This path does not exist.", self._hint]).strip()
            raise HttpError(HTTPStatus.NOT_FOUND, ErrorCode.NOT_FOUND, why)
        return route if isinstance(route, Route) else route(request)

    def _match(self, path: str) -> Route | Choice | None:
        return next((route for pattern, route in self._patterns.values() if pattern.values(path) is not None), None)


def refusal(error: HttpError, request: Request | None, route: Route | None) -> Response:
    """Return the answer for this error, in the path's own format if it has one."""
    if route is None or route.complain is None:
        return error.response(request)
    response = route.complain(error)
    response.headers.update(error.headers)
    return response


# Answers questions about the service: whether it is alive and ready, its metrics, and whether a key is valid.


ALIVE: Final = ("/healthz", "/health")  # the second is the one of other services for OpenAI's clients


class _Present(TypedDict, total=False):
    store: Mapping[str, object]  # with `--store`


class ServiceState(_Present):
    """What /readyz reports."""

    service: str
    version: str
    ready: bool
    models: Mapping[str, object]
    sessions: int
    sequences: int
    sessions_limit: int


class Probes:
    """The paths for probes. `state` returns the content of /readyz, including `ready`."""

    def __init__(
        self, exposition: Callable[[str], Awaitable[bytes]], state: Callable[[], ServiceState], access: AccessRules
    ) -> None:
        """`exposition` returns the text of /metrics for the query of a request."""
        self._exposition = exposition
        self._state = state
        self._access = access

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        for path in ALIVE:
            yield path, Route({"GET": self._alive})
        yield "/readyz", Route({"GET": self._ready})
        yield "/metrics", Route({"GET": self._figures})

    async def key_check(self, request: Request) -> Response:
        """Answer a plain request at the websocket's path: say whether a websocket with this key would get a session."""
        try:
            self._access.check(request)
        except Denied as denied:
            raise denial(denied) from None
        state = self._state()
        if state["ready"] and state["sequences"] >= state["sessions_limit"]:
            why = "All sessions are taken; try again when one has ended."
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ErrorCode.FULL, why, {"Retry-After": str(RETRY_S)})
        raise upgrade_required()

    async def _alive(self, _: Request) -> Response:
        return text(HTTPStatus.OK, "alive")

    async def _ready(self, request: Request) -> Response:
        try:
            self._access.check_host(request)
        except Denied as denied:
            raise denial(denied) from None
        state = self._state()
        response = as_json(HTTPStatus.OK if state["ready"] else HTTPStatus.SERVICE_UNAVAILABLE, state)
        if not state["ready"]:
            response.headers["Retry-After"] = str(RETRY_S)
        return response

    async def _figures(self, request: Request) -> Response:
        try:
            self._access.check_metrics(request)
        except Denied as denied:
            raise denial(denied) from None
        return content(HTTPStatus.OK, Metrics.content_type, await self._exposition(request.query))


def denial(denied: Denied) -> HttpError:
    """Make the HTTP answer for a refusal."""
    headers = {}
    if denied.retry_s:
        headers["Retry-After"] = str(denied.retry_s)
    elif denied.status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return HttpError(denied.status, denied.code, denied.message, headers)


# The files of the page and of the JavaScript client: read once, and served with their types and a strict policy.

WEB: Final = PACKAGE / "web"
# Not from `mimetypes`: its type for JavaScript depends on the machine, and browsers require the right one for modules.
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}
# Nothing inline, and nothing from other sites. The audio of a recording is played from memory (blob:).
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; worker-src 'self'; img-src 'self'; media-src blob:; "
    "connect-src 'self'{sockets}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
}
_HOST: Final = re.compile(r"[\w.-]+(:\d+)?|\[[\da-fA-F:.]+\](:\d+)?", re.ASCII)


@dataclass(frozen=True)
class File:
    """One file of the page. `tag` changes with its content."""

    type: str
    content: bytes
    tag: str


class StaticFiles:
    """All files in the folder that are for browsers, by path. The page is at `/`."""

    def __init__(self, folder: Path = WEB, root: Callable[[Route], Route] = lambda page: page) -> None:
        """`root` makes the route of `/` from that of the page."""
        self._root = root
        self._files: dict[str, File] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in TYPES:
                content = path.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
                self._files[f"/{path.relative_to(folder).as_posix()}"] = File(TYPES[path.suffix], content, tag)
        self._files["/"] = self._files.pop("/index.html")
        if "/captions.html" in self._files:
            self._files["/captions"] = self._files.pop("/captions.html")

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        for path, file in self._files.items():
            route = Route({"GET": _handler(path, file)})
            yield path, self._root(route) if path == "/" else route


def _handler(path: str, file: File) -> Handler:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if path.endswith(".js"):
        # Pages of other sites may import the client. The websocket decides whether they may use the service.
        headers["Access-Control-Allow-Origin"] = "*"

    async def serve(request: Request) -> Response:
        """Answer with the file, or that the browser has it already."""
        if any(file.tag in tags for tags in request.headers.all("If-None-Match")):
            return Response(HTTPStatus.NOT_MODIFIED, headers)
        return Response(HTTPStatus.OK, {**headers, "Content-Type": file.type}, file.content)

    return serve


def protection(headers: Headers) -> Mapping[str, str]:
    """Return header fields that restrict what a browser does with the answer to a request with these headers."""
    hosts = headers.all("Host")
    # For some browsers, 'self' does not include the websockets of the same host.
    valid = len(hosts) == 1 and _HOST.fullmatch(hosts[0])
    sockets = f" ws://{hosts[0]} wss://{hosts[0]}" if valid else ""
    return {"Content-Security-Policy": POLICY.format(sockets=sockets), **SECURITY}
