"""The files of the page and of the JavaScript client: read once, and served with their types and a strict policy."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from streamer.bridge.http.request import Headers, Request
from streamer.bridge.http.response import Response
from streamer.bridge.http.routes import Handler, Route
from streamer.shipped import PACKAGE

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

    def __init__(self, folder: Path = WEB) -> None:
        self._files: dict[str, File] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in TYPES:
                content = path.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
                self._files[f"/{path.relative_to(folder).as_posix()}"] = File(TYPES[path.suffix], content, tag)
        self._files["/"] = self._files.pop("/index.html")

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        for path, file in self._files.items():
            yield path, Route({"GET": _handler(path, file)})


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
