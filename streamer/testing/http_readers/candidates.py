"""The readers that are compared. Each serves the same small application with one library.

/ws answers every message with a short text. /small does the same, but takes no message above 1000 bytes. /plain answers
a GET. /refuse answers 403 without reading the body. /deaf reads nothing for a while.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

REPLY = '{"type":"heard","n":12345,"audio_ms":123456}' * 2
LARGEST = 1024 * 1024
DEAF_S = 30.0

Files = tuple[str, str] | None  # a certificate and its key
Server = Callable[[int, Files], Coroutine[Any, Any, None]]


def context(files: Files) -> ssl.SSLContext | None:
    """Make a context for TLS with this certificate."""
    if files is None:
        return None
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*files)
    return made


async def asgi(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Run the application under uvicorn or hypercorn."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        if scope["path"] == "/deaf":
            await asyncio.sleep(DEAF_S)
        while (await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": REPLY})
        return
    if scope["path"] == "/deaf":
        await asyncio.sleep(DEAF_S)
    status = 403 if scope["path"] == "/refuse" else 200
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"6")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"alive\n"})


async def serve_streamer(port: int, files: Files) -> None:
    """Serve with our own reader."""
    from http import HTTPStatus

    from streamer.bridge.access.certificate import Certificate
    from streamer.bridge.http.connection import Terms
    from streamer.bridge.http.counts import ConnectionCounts
    from streamer.bridge.http.listener import Listener
    from streamer.bridge.http.request import Request
    from streamer.bridge.http.response import Response, text
    from streamer.bridge.http.routes import Endpoint, Route, Routes
    from streamer.bridge.http.static_files import protection
    from streamer.bridge.http.websocket import WebSocket
    from streamer.bridge.telemetry.failures import Failures

    async def echo(websocket: WebSocket) -> None:
        while True:
            await websocket.receive()
            await websocket.say(REPLY)

    async def deaf(_: WebSocket) -> None:
        await asyncio.sleep(DEAF_S)

    async def plain(_: Request) -> Response:
        return text(HTTPStatus.OK, "alive")

    async def refuse(_: Request) -> Response:
        return text(HTTPStatus.FORBIDDEN, "no key")

    async def silent(_: Request) -> Response:
        await asyncio.sleep(DEAF_S)
        return text(HTTPStatus.OK, "alive")

    routes = Routes()
    routes.add(
        {
            "/ws": Route(websocket=Endpoint(echo, LARGEST)),
            "/small": Route(websocket=Endpoint(echo, 1000)),
            "/plain": Route({"GET": plain}),
            "/refuse": Route({"POST": refuse}, largest_body=2**40),
            "/deaf": Route({"POST": silent}, Endpoint(deaf, LARGEST), largest_body=2**40),
        }.items()
    )
    terms = Terms(routes, ConnectionCounts(), Failures(lambda: None), lambda _: None, protection, 10.0)
    certificate = Certificate(Path(files[0]), Path(files[1])) if files else None
    await Listener(terms, certificate).open("127.0.0.1", port)
    await asyncio.Event().wait()


async def serve_websockets(port: int, files: Files) -> None:
    """Serve with the server of the library `websockets`, which the bridge used before."""
    from websockets.asyncio.server import ServerConnection, serve
    from websockets.datastructures import Headers
    from websockets.http11 import Request, Response

    async def converse(websocket: ServerConnection) -> None:
        if websocket.request is not None and websocket.request.path == "/deaf":
            await asyncio.sleep(DEAF_S)
        async for _ in websocket:
            await websocket.send(REPLY)

    def answer(_: ServerConnection, request: Request) -> Response | None:
        if request.path not in ("/plain", "/refuse"):
            return None
        headers = Headers({"Content-Type": "text/plain", "Content-Length": "6", "Connection": "close"})
        return Response(200 if request.path == "/plain" else 403, "OK", headers, b"alive\n")

    settings: dict[str, Any] = {"compression": None, "max_size": LARGEST, "max_queue": (4, 1), "ping_timeout": None}
    async with serve(converse, "127.0.0.1", port, process_request=answer, ssl=context(files), **settings):
        await asyncio.Event().wait()


async def serve_aiohttp(port: int, files: Files) -> None:
    """Serve with aiohttp, with its parser in C if it was built with that."""
    from aiohttp import web

    async def converse(request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse(compress=False, max_msg_size=1000 if request.path == "/small" else LARGEST)
        await websocket.prepare(request)
        if request.path == "/deaf":
            await asyncio.sleep(DEAF_S)
        async for _ in websocket:
            await websocket.send_str(REPLY)
        return websocket

    async def plain(request: web.Request) -> web.Response:
        if request.path == "/deaf":
            await asyncio.sleep(DEAF_S)
        return web.Response(status=403 if request.path == "/refuse" else 200, text="alive\n")

    application = web.Application(client_max_size=2**40)
    for path in ("/ws", "/small", "/deaf"):
        application.router.add_get(path, converse)
    application.router.add_get("/plain", plain)
    for path in ("/refuse", "/deaf"):
        application.router.add_post(path, plain)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context(files)).start()
    await asyncio.Event().wait()


def serve_uvicorn(http: str, websockets: str) -> Callable[[int, Files], Coroutine[Any, Any, None]]:
    """Serve with uvicorn, and these two of its parsers."""

    async def serve(port: int, files: Files) -> None:
        import uvicorn

        settings: dict[str, Any] = {"http": http, "ws": websockets, "ws_max_size": LARGEST, "ws_ping_timeout": None}
        if files is not None:
            settings |= {"ssl_certfile": files[0], "ssl_keyfile": files[1]}
        config = uvicorn.Config(
            asgi, "127.0.0.1", port, log_level="critical", ws_per_message_deflate=False, loop="asyncio", **settings
        )
        await uvicorn.Server(config).serve()

    return serve


async def serve_hypercorn(port: int, files: Files) -> None:
    """Serve with hypercorn, which uses h11 and wsproto."""
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.websocket_max_message_size = LARGEST
    config.loglevel = "CRITICAL"
    if files is not None:
        config.certfile, config.keyfile = files
    application: Any = asgi  # hypercorn's types for ASGI are narrower
    await serve(application, config)


CANDIDATES: dict[str, Server] = {
    "streamer": serve_streamer,
    "websockets": serve_websockets,
    "aiohttp": serve_aiohttp,
    "uvicorn h11 websockets": serve_uvicorn("h11", "websockets-sansio"),
    "uvicorn httptools wsproto": serve_uvicorn("httptools", "wsproto"),
    "hypercorn": serve_hypercorn,
}


def main() -> None:
    """Serve with the candidate of this name at this port; with TLS if a certificate and its key follow."""
    name, port, *files = sys.argv[1:]
    asyncio.run(CANDIDATES[name](int(port), (files[0], files[1]) if files else None))


if __name__ == "__main__":
    main()
