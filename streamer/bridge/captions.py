"""The paths for an audience: a client shares its session, and whoever has the link reads along.

`POST /v1/captions` with the token of a session makes the link, `DELETE` ends it. `GET /v1/captions/ID` are the words as
server-sent events, for the page `/captions`, and `GET /v1/captions/ID.vtt` subtitles that grow. Both only read, need no
key, and end with the session. `docs/how-to/captions.md` is for people.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.broadcast import Broadcast, Form
from streamer.bridge.driver import SessionDriver
from streamer.bridge.http.request import HttpError, Request, Response, as_json
from streamer.bridge.http.routes import Route, denial
from streamer.bridge.session.endings import RETRY_S
from streamer.bridge.sessions import Sessions

PATH: Final = "/v1/captions"
PAGE: Final = "/captions"
LARGEST_REQUEST: Final = 4096  # bytes
_VTT: Final = ".vtt"


class Captions:
    """The sessions of a port that are shared."""

    def __init__(self, access: AccessRules, sessions: Sessions, most: int, on_drop: Callable[[str], None]) -> None:
        """`most`: the most listeners of all sessions together; with 0, no session can be shared.

        `on_drop` is called with the reason when a listener is dropped.
        """
        self._access = access
        self._sessions = sessions
        self._most = most
        self._on_drop = on_drop
        self._broadcasts: dict[str, Broadcast] = {}

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        methods = {"POST": self._share, "DELETE": self._end}
        yield PATH, Route(methods, largest_body=LARGEST_REQUEST, shared=self._access.admits_page)
        yield f"{PATH}/{{name}}", Route({"GET": self._listen})

    async def _share(self, request: Request) -> Response:
        driver = await self._driver(request)
        if not self._most:
            why = "Sessions cannot be shared here; the operator of the service can allow it with --share."
            raise HttpError(HTTPStatus.FORBIDDEN, ErrorCode.UNSUPPORTED, why)
        if driver.broadcast is None:
            driver.broadcast = Broadcast(self._forget, self._on_drop, lambda: driver.session.start.speaker_names)
            self._broadcasts[driver.broadcast.name] = driver.broadcast
        name = driver.broadcast.name
        paths = {"page": f"{PAGE}?id={name}", "events": f"{PATH}/{name}", "vtt": f"{PATH}/{name}{_VTT}"}
        return as_json(HTTPStatus.OK, {"id": name, **paths, "listeners": len(driver.broadcast)})

    async def _end(self, request: Request) -> Response:
        driver = await self._driver(request)
        if driver.broadcast is not None:
            driver.broadcast.close()
            driver.broadcast = None
        return Response(HTTPStatus.NO_CONTENT)

    def _forget(self, broadcast: Broadcast) -> None:
        self._broadcasts.pop(broadcast.name, None)

    async def _driver(self, request: Request) -> SessionDriver:
        """Return the session whose token the request has. Raise HttpError if its caller may not share it."""
        try:
            caller = self._access.admit(request)
        except Denied as denied:
            raise denial(denied) from None
        try:
            token = json.loads(await request.content())["token"]
        except (ValueError, KeyError, TypeError, RecursionError):
            token = None
        if not isinstance(token, str):
            why = 'The body must be JSON such as {"token":"…"}, with the token that `ready` has.'
            raise HttpError(HTTPStatus.BAD_REQUEST, ErrorCode.BAD_JSON, why)
        driver = self._sessions.find(token, caller.key)
        if driver is None:
            why = "No session with this token exists any more."
            raise HttpError(HTTPStatus.NOT_FOUND, ErrorCode.UNKNOWN_TOKEN, why)
        return driver

    async def _listen(self, request: Request) -> Response:
        """Answer a listener, as long as the session lasts."""
        name = request.path.removeprefix(f"{PATH}/")
        form = Form.CUES if name.endswith(_VTT) else Form.EVENTS
        broadcast = self._broadcasts.get(name.removesuffix(_VTT))
        if broadcast is None:
            raise HttpError(HTTPStatus.NOT_FOUND, ErrorCode.NOT_FOUND, "No session is shared here now.")
        if sum(map(len, self._broadcasts.values())) >= self._most:
            why = "There are as many listeners as the service allows; try again later."
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ErrorCode.FULL, why, {"Retry-After": str(RETRY_S)})
        # A player on a page of another site may have the link, too. The last field is for nginx.
        headers = {"Cache-Control": "no-store", "Access-Control-Allow-Origin": "*", "X-Accel-Buffering": "no"}
        headers["Content-Type"] = form.value
        if request.method == "HEAD":
            return Response(HTTPStatus.OK, headers)
        listener = broadcast.listen(form)
        return Response(HTTPStatus.OK, headers, listener.pieces(), listener.leave, lasting=True)
