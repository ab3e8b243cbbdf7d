"""Compares readers of HTTP and websockets by the same measurements; docs/decisions/http-reader.md has the results.

    pip install aiohttp uvicorn httptools wsproto hypercorn     # candidates; none of them is a dependency
    python scripts/service/http_readers.py [--runs 5] [--only streamer,aiohttp] [--seconds 4]

Each candidate runs in its own process with the same small application: /ws answers every message with a short text,
/plain answers a GET, /refuse answers 403 without reading the body, /deaf reads nothing for a while.
The numbers are medians, followed by their ratios to those of `streamer`, because the machine may be busy.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

REPLY = '{"type":"heard","n":12345,"audio_ms":123456}' * 2
LARGEST = 1024 * 1024
DEAF_S = 30.0
CONNECTIONS, EVERY_S, SIZE = 50, 0.1, 10_240
IDLE_SOCKETS = 300
SILENT = 500
FLOOD_MB, FLOOD_S = 64, 8.0
MOST = 50_000_000  # bytes that are offered to a reader that should not take them

Files = tuple[str, str] | None  # a certificate and its key

# The application, for each kind of server


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


CANDIDATES: dict[str, Callable[[int, Files], Coroutine[Any, Any, None]]] = {
    "streamer": serve_streamer,
    "websockets": serve_websockets,
    "aiohttp": serve_aiohttp,
    "uvicorn h11 websockets": serve_uvicorn("h11", "websockets-sansio"),
    "uvicorn httptools wsproto": serve_uvicorn("httptools", "wsproto"),
    "hypercorn": serve_hypercorn,
}


class Running:
    """A candidate in its own process."""

    def __init__(self, name: str, files: Files = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        command = [sys.executable, __file__, "--serve", name, "--port", str(self.port), *(files or ())]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def __enter__(self) -> Running:
        for _ in range(200):
            with suppress(OSError):
                self.connect().close()
                return self
            time.sleep(0.05)
        raise SystemExit("a candidate did not start")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def connect(self, data: bytes = b"") -> socket.socket:
        """Open a connection with a small send buffer, and send data."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
        made.sendall(data)
        return made

    @property
    def cpu_s(self) -> float:
        """The CPU time that it has used so far."""
        # In nanoseconds; psutil counts in hundredths of a second.
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    @property
    def megabytes(self) -> float:
        """Its memory."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize() / 1e6


def upgrade(path: str) -> bytes:
    """Write a request for a websocket."""
    fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n{fields}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()


def frame(opcode: int, size: int) -> bytes:
    """Write a masked frame."""
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65_536:
        length = b"\xfe" + size.to_bytes(2, "big")
    else:
        length = b"\xff" + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + length + bytes(4) + bytes(size)


# Measurements


async def paced(running: Running, seconds: float) -> float:
    """Measure the microseconds of CPU for a message of 10 KiB, with 50 connections that send ten a second each."""
    message, number = frame(2, SIZE), 0

    async def talk(place: int) -> None:
        nonlocal number
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(upgrade("/ws"))
        await reader.readuntil(b"\r\n\r\n")
        await begin.wait()
        await asyncio.sleep(place * EVERY_S / CONNECTIONS)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            writer.write(message)
            await reader.readexactly(2 + len(REPLY))
            number += 1
            await asyncio.sleep(EVERY_S)
        writer.close()

    begin = asyncio.Event()
    talking = [asyncio.create_task(talk(place)) for place in range(CONNECTIONS)]
    await asyncio.sleep(0.5)
    before = running.cpu_s
    begin.set()
    await asyncio.gather(*talking)
    return (running.cpu_s - before) / number * 1e6


def gets(running: Running, seconds: float) -> float:
    """Measure the GETs a second on one connection, or on new ones if the server closes it."""
    request, number, until = b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n", 0, time.monotonic() + seconds
    connection = running.connect()
    while time.monotonic() < until:
        connection.sendall(request)
        answer = connection.recv(4096)
        while not answer.endswith(b"alive\n"):
            answer += connection.recv(4096)
        number += 1
        if b"onnection: close" in answer:
            connection.close()
            connection = running.connect()
    connection.close()
    return number / seconds


def idle(running: Running) -> float:
    """Measure the kilobytes of each idle websocket."""
    before = running.megabytes
    opened = [running.connect(upgrade("/ws")) for _ in range(IDLE_SOCKETS)]
    for one in opened:
        one.recv(4096)
    time.sleep(0.5)
    kilobytes = (running.megabytes - before) * 1000 / IDLE_SOCKETS
    for one in opened:
        one.close()
    return kilobytes


def pushed(connection: socket.socket, data: bytes, most: int, quiet_s: float = 0.5) -> int:
    """Send until the other side stops taking data, or `most` bytes or FLOOD_S are reached. Returns how many bytes."""
    connection.settimeout(quiet_s)
    sent, until = 0, time.monotonic() + FLOOD_S
    with suppress(OSError):
        while sent < most and time.monotonic() < until:
            sent += connection.send(memoryview(data)[sent % len(data) :])
    return sent


def flood(running: Running) -> float:
    """Measure the megabytes that pings cost if the client does not read the pongs."""
    before = running.megabytes
    connection = running.connect(upgrade("/ws"))
    connection.recv(4096)
    pushed(connection, frame(9, 125) * 1000, FLOOD_MB * 1_000_000)
    grown = running.megabytes - before
    connection.close()
    return grown


MEASURES: dict[str, tuple[str, Callable[[Running, float], float]]] = {
    "cpu": ("µs of CPU a message", lambda running, seconds: asyncio.run(paced(running, seconds))),
    "gets": ("GETs a second", gets),
    "idle": ("KB an idle websocket", lambda running, _: idle(running)),
    "flood": (f"MB more after at most {FLOOD_MB} MB of pings", lambda running, _: flood(running)),
}


# Behaviours


def told(running: Running, data: bytes, quiet_s: float = 0.7) -> bytes:
    """Send data, and return all answers until none comes for `quiet_s`."""
    connection, answer = running.connect(data), b""
    connection.settimeout(quiet_s)
    with suppress(OSError):
        while piece := connection.recv(65_536):
            answer += piece
    connection.close()
    return answer


def status(answer: bytes) -> str:
    """Return the status of an answer, or "cut off"."""
    return answer[9:12].decode() if answer.startswith(b"HTTP/1.1 ") else "cut off"


def behaviours(running: Running, secure: Running) -> dict[str, str]:
    """Examine what a candidate does in unusual situations."""
    post = "POST {} HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n".format
    endless = post("/deaf", "Content-Length: 1000000000").encode()
    deaf = running.connect(upgrade("/deaf"))
    small = running.connect(upgrade("/small"))
    for one in (deaf, small):
        one.recv(4096)
    silent = []
    with suppress(OSError):
        for _ in range(SILENT):
            silent.append(secure.connect())
    time.sleep(0.5)
    held = 0
    for one in silent:
        one.settimeout(0.001)
        try:
            held += bool(one.recv(1))
        except TimeoutError:
            held += 1
        except OSError:
            pass
        one.close()
    get = b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n"
    found = {}
    taken = pushed(running.connect(endless), bytes(65_536), MOST)
    found["MB of a body taken while the handler does not read"] = f"{taken / 1e6:.1f}"
    taken = pushed(deaf, frame(2, 1000), MOST)
    found["MB of messages taken while the handler does not read"] = f"{taken / 1e6:.1f}"
    pushed(small, frame(2, LARGEST), LARGEST)
    try:
        closed = small.recv(4)[:1] in (b"\x88", b"")
    except OSError as error:
        closed = isinstance(error, ConnectionError)
    found["a message of 1 MiB at a path that takes 1000 bytes"] = "refused" if closed else "taken"
    taken = pushed(running.connect(post("/refuse", "Content-Length: 1000000000").encode()), bytes(65_536), MOST)
    found["MB taken of an upload that is refused"] = f"{taken / 1e6:.1f}"
    consent = told(running, post("/refuse", "Expect: 100-continue\r\nContent-Length: 9").encode())
    found["Expect, and a handler that reads no body"] = status(consent)
    found["three requests at once"] = f"{told(running, get * 3).count(b'HTTP/1.1 200')} answers"
    found["GET //["] = status(told(running, b"GET //[ HTTP/1.1\r\nHost: a\r\n\r\n"))
    found["a head that is not HTTP"] = status(told(running, b"hello\r\n\r\n"))
    found[f"silent TLS connections held, of {SILENT}"] = str(held)
    return found


def main() -> int:
    """Measure the candidates by turns, so that other work on the machine affects all of them alike."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs for the medians (5); 0: only behaviours")
    parser.add_argument("--seconds", type=float, default=4.0, help="the length of each measurement (4)")
    parser.add_argument("--only", help="candidates to compare, with commas between them: " + ", ".join(CANDIDATES))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        files = (options.files[0], options.files[1]) if options.files else None
        asyncio.run(CANDIDATES[options.serve](options.port, files))
        return 0
    import trustme

    names = options.only.split(",") if options.only else list(CANDIDATES)
    found: dict[str, dict[str, list[float]]] = {name: {measure: [] for measure in MEASURES} for name in names}
    for _ in range(options.runs):
        for name in names:
            for measure, (_, figure) in MEASURES.items():
                with Running(name) as running:
                    found[name][measure].append(figure(running, options.seconds))
                print(name, measure, found[name][measure][-1], file=sys.stderr, flush=True)
    print("| |", " | ".join(names), "|\n|---|" + "---:|" * len(names))
    for measure, (what, _) in MEASURES.items() if options.runs else ():
        medians = [statistics.median(found[name][measure]) for name in names]
        cells = [f"{value:.{0 if value >= 100 else 1}f} ({value / max(medians[0], 1e-9):.2f})" for value in medians]
        print(f"| {what} |", " | ".join(cells), "|")
    with tempfile.TemporaryDirectory() as folder:
        issued = trustme.CA().issue_cert("localhost")
        chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        done = {}
        for name in names:
            with Running(name) as running, Running(name, (str(chain), str(key))) as secure:
                done[name] = behaviours(running, secure)
    for what in next(iter(done.values())):
        print(f"| {what} |", " | ".join(done[name][what] for name in names), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
