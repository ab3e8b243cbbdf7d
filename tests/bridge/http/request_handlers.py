"""Handlers of requests, and a port with all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

from streamer.base.codes import ErrorCode
from streamer.bridge.http.request import HttpError, Request, Response, text
from streamer.bridge.http.routes import Route

LARGEST_BODY = 300_000


class Handlers:
    """The handlers behind the paths of these tests."""

    def __init__(self) -> None:
        self.pieces: list[int] = []  # the sizes of pieces that reached `slow`
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.sent = 0
        self.cancelled = asyncio.Event()

    async def echo(self, request: Request) -> Response:
        """Answer with the body and how it came."""
        body = await request.content()
        return text(HTTPStatus.OK, f"{request.method} {request.path} {request.query} {len(body)} {request.peer}")

    async def ignore(self, request: Request) -> Response:
        """Answer without reading the body."""
        return text(HTTPStatus.OK, "ignored")

    async def refuse(self, request: Request) -> Response:
        raise HttpError(HTTPStatus.FORBIDDEN, ErrorCode.BAD_ORIGIN, "You may not do this.")

    async def fail(self, request: Request) -> Response:
        raise RuntimeError("a fault of ours")

    async def slow(self, request: Request) -> Response:
        """Read one piece, then wait."""
        async for piece in request.body:
            self.pieces.append(len(piece))
            self.begun.set()
            await self.go_on.wait()
        return text(HTTPStatus.OK, str(sum(self.pieces)))

    async def hang(self, request: Request) -> Response:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError

    async def stream(self, request: Request) -> Response:
        """Answer with as many pieces as the query says."""

        async def pieces() -> AsyncIterator[bytes]:
            try:
                for _ in range(int(request.query)):
                    self.sent += 1
                    yield bytes(10_000)
            finally:
                self.cancelled.set()

        return Response(HTTPStatus.OK, {"Content-Type": "text/event-stream"}, pieces())

    async def break_off(self, request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"begun"
            raise RuntimeError("a fault of ours")

        return Response(HTTPStatus.OK, {}, pieces())


def routes(handlers: Handlers) -> dict[str, Route]:
    """Return a path for each handler."""
    return {
        "/echo": Route({"GET": handlers.echo, "POST": handlers.echo}, largest_body=LARGEST_BODY, body_pace_s=1.0),
        "/small": Route({"POST": handlers.echo}, largest_body=10),
        "/ignore": Route({"POST": handlers.ignore}, largest_body=10 * LARGEST_BODY),
        "/refuse": Route({"POST": handlers.refuse}, largest_body=LARGEST_BODY),
        "/fail": Route({"GET": handlers.fail}),
        "/slow": Route({"POST": handlers.slow}, largest_body=100 * LARGEST_BODY),
        "/hang": Route({"GET": handlers.hang}),
        "/stream": Route({"GET": handlers.stream}),
        "/break": Route({"GET": handlers.break_off}),
    }
