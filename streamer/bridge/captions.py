"""The paths for an audience: a client shares its session, and whoever has the link reads along.

`POST /v1/captions` with the token of a session, or the number of a call, makes the link, and `DELETE` ends it.
`GET /v1/captions/ID` are the words as server-sent events, for the page `/captions`, and `GET /v1/captions/ID.vtt`
subtitles that grow. Both only read, need no key, and end with the session. `docs/how-to/captions.md` is for people.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from enum import Enum
from http import HTTPStatus
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.broadcast import Broadcast, Form
from streamer.bridge.driver import SessionDriver
from streamer.bridge.http.request import HttpError, Request, Response, as_json
from streamer.bridge.http.routes import Route, denial
from streamer.bridge.session.endings import RETRY_S
from streamer.bridge.sessions import Sessions
from streamer.bridge.workers.neighbours import NeighbourAway, Neighbours, Reply, whole
from streamer.bridge.workers.others import Counted, worker_of

PATH: Final = "/v1/captions"
PAGE: Final = "/captions"
LARGEST_REQUEST: Final = 4096  # bytes
KIND: Final = "captions"  # of questions of other workers
_VTT: Final = ".vtt"


class Captions:
    """The sessions of a port that are shared."""

    def __init__(
        self,
        access: AccessRules,
        sessions: Sessions,
        most: int,
        on_drop: Callable[[str], None],
        neighbours: Neighbours | None = None,
    ) -> None:
        """`most`: the most listeners of all sessions together; with 0, no session can be shared.

        `on_drop` is called with the reason when a listener is dropped. `neighbours`: the other workers, which are asked
        about their own sessions.
        """
        self._neighbours = neighbours
        self._number = 0 if neighbours is None else neighbours.number
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

    async def answer(self, question: JsonObject, gift: socket.socket | None) -> Reply:
        """Answer the question of another worker about a session here."""
        kind = Wish(question["wish"])
        try:
            if kind is Wish.LISTEN:
                response = self._listen_to(str(question["path"]), head=question["head"] is True)
            else:
                response = self._settle_here(kind, question)
        except HttpError as error:
            return Reply({"status": error.status, "headers": error.headers, "code": error.code, "why": error.message})
        return Reply({"status": response.status, "headers": response.headers}, _pieces_of(response))

    async def _share(self, request: Request) -> Response:
        return await self._settle(Wish.SHARE, await self._asked_for(request))

    async def _end(self, request: Request) -> Response:
        return await self._settle(Wish.END, await self._asked_for(request))

    async def _settle(self, wish: Wish, wanted: JsonObject) -> Response:
        """Share a session, or end that, at the worker that has it."""
        question: JsonObject = {"wish": wish.value, **wanted}
        if "call" not in wanted:
            if (number := worker_of(str(wanted["token"]))) and self._is_elsewhere(number):
                return await self._answer_of(number, question)
        elif self._neighbours is not None and self._find(wanted) is None:  # the number of a call does not tell where
            for number in self._neighbours.others:
                try:
                    return await self._answer_of(number, question)
                except HttpError as error:
                    if error.code not in (ErrorCode.UNKNOWN_TOKEN, ErrorCode.NOT_READY):
                        raise
        return self._settle_here(wish, wanted)

    def _settle_here(self, wish: Wish, wanted: JsonObject) -> Response:
        return self._share_session(wanted) if wish is Wish.SHARE else self._end_sharing(wanted)

    def _is_elsewhere(self, number: int) -> bool:
        return self._neighbours is not None and self._neighbours.is_other(number)

    async def _answer_of(self, number: int, question: JsonObject) -> Response:
        """Return the answer of another worker."""
        assert self._neighbours is not None
        lasting = question["wish"] == Wish.LISTEN.value and question["head"] is False
        try:
            reply = await self._neighbours.ask(number, KIND, question)
            if "code" in reply.head or not lasting:
                body = await whole(reply)
        except NeighbourAway as away:
            if away.gone:
                raise _nothing_shared() if question["wish"] == Wish.LISTEN.value else _no_session() from None
            why = "The process that has this session does not answer; try again in a few seconds."
            retry = {"Retry-After": str(RETRY_S)}
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ErrorCode.NOT_READY, why, retry) from None
        headers = reply.head["headers"]
        assert isinstance(headers, dict)
        status = HTTPStatus(int(str(reply.head["status"])))
        if "code" in reply.head:
            raise HttpError(status, ErrorCode(str(reply.head["code"])), str(reply.head["why"]), headers)
        return Response(status, headers, _until_cut(reply) if lasting else body, lasting=lasting)

    def _share_session(self, wanted: JsonObject) -> Response:
        driver = self._driver(wanted)
        if not self._most:
            why = "Sessions cannot be shared here; the operator of the service can allow it with --share."
            raise HttpError(HTTPStatus.FORBIDDEN, ErrorCode.UNSUPPORTED, why)
        if driver.broadcast is None:
            driver.broadcast = Broadcast(
                self._forget, self._on_drop, lambda: driver.session.start.names_of_speakers, self._number
            )
            self._broadcasts[driver.broadcast.name] = driver.broadcast
        name = driver.broadcast.name
        paths = {"page": f"{PAGE}?id={name}", "events": f"{PATH}/{name}", "vtt": f"{PATH}/{name}{_VTT}"}
        return as_json(HTTPStatus.OK, {"id": name, **paths, "listeners": len(driver.broadcast)})

    def _end_sharing(self, wanted: JsonObject) -> Response:
        driver = self._driver(wanted)
        if driver.broadcast is not None:
            driver.broadcast.close()
            driver.broadcast = None
        return Response(HTTPStatus.NO_CONTENT)

    def _forget(self, broadcast: Broadcast) -> None:
        self._broadcasts.pop(broadcast.name, None)
        self._note()

    def _note(self) -> None:
        self._access.others.note(Counted.LISTENERS, "", sum(map(len, self._broadcasts.values())))

    async def _asked_for(self, request: Request) -> JsonObject:
        """Return the token or the call in the request, and the key of its caller. Raise HttpError if it may not ask."""
        try:
            caller = self._access.admit(request)
        except Denied as denied:
            raise denial(denied) from None
        try:
            content = json.loads(await request.content())
            name = "token" if "token" in content else "call"
            named = content[name]
        except (ValueError, KeyError, TypeError, RecursionError):
            named = None
        if not isinstance(named, str) or not named:
            why = 'The body must be JSON such as {"token":"…"}, with the token that `ready` has, or {"call":"CA…"}.'
            raise HttpError(HTTPStatus.BAD_REQUEST, ErrorCode.BAD_JSON, why)
        return {name: named, "key": caller.key}

    def _driver(self, wanted: JsonObject) -> SessionDriver:
        """Return the session that is asked for. Raise HttpError if there is none here that this key may share."""
        driver = self._find(wanted)
        if driver is None:
            raise _no_session()
        return driver

    def _find(self, wanted: JsonObject) -> SessionDriver | None:
        key = str(wanted["key"])
        if "call" in wanted:
            return self._sessions.call(str(wanted["call"]), key)
        return self._sessions.find(str(wanted["token"]), key)

    async def _listen(self, request: Request) -> Response:
        """Answer a listener, as long as the session lasts."""
        if (number := worker_of(request.path.removeprefix(f"{PATH}/"))) and self._is_elsewhere(number):
            head = request.method == "HEAD"
            return await self._answer_of(number, {"wish": Wish.LISTEN.value, "path": request.path, "head": head})
        return self._listen_to(request.path, head=request.method == "HEAD")

    def _listen_to(self, path: str, *, head: bool) -> Response:
        name = path.removeprefix(f"{PATH}/")
        form = Form.CUES if name.endswith(_VTT) else Form.EVENTS
        broadcast = self._broadcasts.get(name.removesuffix(_VTT))
        if broadcast is None:
            raise _nothing_shared()
        others = self._access.others.count(Counted.LISTENERS, "", self._most)
        if sum(map(len, self._broadcasts.values())) + others >= self._most:
            why = "There are as many listeners as the service allows; try again later."
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ErrorCode.FULL, why, {"Retry-After": str(RETRY_S)})
        # A player on a page of another site may have the link, too. The last field is for nginx.
        headers = {"Cache-Control": "no-store", "Access-Control-Allow-Origin": "*", "X-Accel-Buffering": "no"}
        headers["Content-Type"] = form.value
        if head:
            return Response(HTTPStatus.OK, headers)
        listener = broadcast.listen(form)
        self._note()

        async def leave() -> None:
            await listener.leave()
            self._note()

        return Response(HTTPStatus.OK, headers, listener.pieces(), leave, lasting=True)


class Wish(Enum):
    """What another worker asks about a session that is shared."""

    SHARE = "share"
    END = "end"
    LISTEN = "listen"


def _no_session() -> HttpError:
    why = "No session with this token, or of this call, exists any more."
    return HttpError(HTTPStatus.NOT_FOUND, ErrorCode.UNKNOWN_TOKEN, why)


def _nothing_shared() -> HttpError:
    return HttpError(HTTPStatus.NOT_FOUND, ErrorCode.NOT_FOUND, "No session is shared here now.")


async def _pieces_of(response: Response) -> AsyncGenerator[bytes, None]:
    try:
        if isinstance(response.body, bytes):
            yield response.body
        else:
            async for piece in response.body:
                yield piece
    finally:
        if response.release is not None:
            await response.release()


async def _until_cut(reply: Reply) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of another worker's answer. If it is cut off, this one is, too."""
    assert reply.pieces is not None
    try:
        async with aclosing(reply.pieces) as pieces:
            async for piece in pieces:
                yield piece
    except NeighbourAway as away:
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ErrorCode.TOO_SLOW, str(away)) from None
