"""A real web server with archives, which behaves well or badly; and the archives."""

from __future__ import annotations

import io
import ssl
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Item:
    """What is at a path.

    `failures`: the statuses of the first answers. `cuts`: after how many bytes the answers after these end. `stalls`:
    nothing is said. `holds`: a cut answer does not end.
    """

    content: bytes
    kind: str = "application/octet-stream"
    mark: str | None = '"1"'
    ranges: bool = True
    lengths: bool = True
    cuts: list[int] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    stalls: bool = False
    holds: bool = False


@dataclass
class Shelf:
    """The items by path, and the requests that came."""

    items: dict[str, Item] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)  # paths, and the ranges that were asked for
    address: str = ""
    closing: threading.Event = field(default_factory=threading.Event)

    def put(self, path: str, item: Item) -> str:
        """Put an item at a path. Returns its address."""
        self.items[path] = item
        return self.address + path


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, shelf: Shelf, *about: object) -> None:
        self._shelf = shelf
        super().__init__(*about)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._shelf.asked.append((self.path, self.headers.get("Range", "")))
        item = self._shelf.items.get(self.path)
        if item is None or item.failures:
            self.send_error(item.failures.pop(0) if item else 404)
            return
        if item.stalls:
            self._shelf.closing.wait()
            return
        begin = self._begin(item)
        if begin is not None and begin >= len(item.content):
            self.send_error(416)
            return
        content = item.content[begin or 0 :]
        self.send_response(200 if begin is None else 206)
        self.send_header("Content-Type", item.kind)
        if item.lengths:
            self.send_header("Content-Length", str(len(content)))
        if item.mark is not None:
            self.send_header("ETag", item.mark)
        if begin is not None:
            self.send_header("Content-Range", f"bytes {begin}-{len(item.content) - 1}/{len(item.content)}")
        self.end_headers()
        cut = bool(item.cuts)
        self.wfile.write(content[: item.cuts.pop(0)] if cut else content)
        if cut and item.holds:
            self._shelf.closing.wait()

    def _begin(self, item: Item) -> int | None:
        """Where the answer begins, if a part was asked for and the archive is still the one that the client knows."""
        asked = self.headers.get("Range", "")
        known = self.headers.get("If-Range")
        if not asked or not item.ranges or (known is not None and known != item.mark):
            return None
        return int(asked.removeprefix("bytes=").rstrip("-"))

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about clients that go away."""


@contextmanager
def archive_shelf(context: ssl.SSLContext | None = None) -> Iterator[Shelf]:
    """Run the server, with TLS if there is a context for it."""
    shelf = Shelf()
    server = _Server(("127.0.0.1", 0), partial(_Handler, shelf))
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    shelf.address = f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
    yield shelf
    shelf.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


def packed(folder: Path, name: str, kind: str = "bz2") -> bytes:
    """The archive of a folder, as sherpa-onnx packs its models."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{kind}") as tar:  # type: ignore[call-overload]
        tar.add(folder, name)
    return file.getvalue()


class Quiet:
    """An observer that remembers the sentences."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.last: tuple[str, int, int | None] = ("", 0, None)

    def progress(self, what: str, done: int, whole: int | None) -> None:
        """Remember the last progress."""
        self.last = (what, done, whole)

    def say(self, sentence: str) -> None:
        """Remember a sentence."""
        self.said.append(sentence)
