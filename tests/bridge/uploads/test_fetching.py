"""Recordings that a client names by their address: which are fetched, and which are refused, with real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from streamer.bridge.access.quotas import Fetch, UploadLimits
from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.http import outgoing
from streamer.bridge.uploads.fetching import Fetcher
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.wire.dialects.deepgram import PATH
from streamer.wire.errors import WireError
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.uploads.uploading import post, recording, sentences

TALK = recording(sentences(say("hello world")), "FLAC")
LARGEST: Final = 200_000
ANY = UploadLimits(LARGEST, fetch=Fetch.ANY)
PUBLIC = UploadLimits(LARGEST, fetch=Fetch.PUBLIC)


class Site(BaseHTTPRequestHandler):
    """A site with recordings, redirects and faults."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/to":
            self.answer(302, b"", Location=query)
        elif path == "/talk.flac":
            self.answer(200, TALK)
        elif path == "/seen":
            self.answer(200, json.dumps([self.path, *map(list, self.headers.items())]).encode())
        elif path == "/large":
            self.answer(200, bytes(1000), Content_Length=str(LARGEST + 1))
        elif path == "/short":
            self.answer(200, TALK[:1000], Content_Length="2000", Connection="close")
        elif path == "/endless":
            self.answer(200, b"", Transfer_Encoding="chunked")
            try:
                while True:
                    self.wfile.write(b"1000\r\n" + bytes(0x1000) + b"\r\n")
            except OSError:
                self.close_connection = True
        else:
            self.answer(404, b"")

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if "Transfer-Encoding" not in named:
            named.setdefault("Content-Length", str(len(body)))
        for name, value in named.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.close_connection or "Connection" in named

    def log_message(self, *_: Any) -> None:
        """Be silent."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Provide the address of a site, which is encrypted with this context."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=partial(server.serve_forever, 0.05), daemon=True)
        thread.start()
        yield f"http{'' if context is None else 's'}://localhost:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Provide the address of the site."""
    with serving() as address:
        yield address


@contextmanager
def silent(answer: bytes = b"") -> Iterator[tuple[str, Callable[[], None]]]:
    """Provide the address of a site that says this and no more, and a function that waits until its client has gone."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        gone = threading.Event()

        def serve() -> None:
            with closing(listener.accept()[0]) as connected:
                connected.sendall(answer)
                while connected.recv(1000):
                    pass
            gone.set()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", lambda: thread.join(60)
        assert gone.wait(60)


async def fetched(address: str, limits: UploadLimits = ANY, stall_s: float = 30.0) -> bytes:
    return b"".join([piece async for piece in Fetcher(limits, stall_s).fetch(address)])


@pytest.mark.parametrize("path", ["/talk.flac", "/to?/talk.flac", "/to?/to?/talk.flac"])
async def test_a_recording_is_fetched(site: str, path: str) -> None:
    """All of it comes, also after redirects."""
    assert await fetched(site + path) == TALK


async def test_what_the_site_sees(site: str) -> None:
    """The site gets the path as it must be written, and nothing about the client of the service."""
    path, *headers = json.loads(await fetched(f"{site}/seen?a=ä b&c=%20#part"))
    assert path == "/seen?a=%C3%A4%20b&c=%20"
    assert {name.lower() for name, _ in headers} == {"host", "user-agent", "accept", "accept-encoding", "connection"}


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/nothing", "remote_content", "HTTP status 404"),
        ("/large", "too_large", "more than 200000 bytes"),
        ("/endless", "too_large", "more than 200000 bytes"),
        ("/short", "remote_content", "only 1000 of 2000 bytes"),
        ("/to?file:///etc/hostname", "remote_content", "http or https"),
        ("/to?" + "/to?" * 5 + "/talk.flac", "remote_content", "more than 5 times"),
    ],
)
async def test_faults(site: str, path: str, code: str, words: str) -> None:
    """Each is refused with its reason, as soon as it is known."""
    with pytest.raises(WireError, match=words) as refused:
        await fetched(site + path)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "address",
    [
        "",
        "talk.wav",
        "file:///etc/hostname",
        "ftp://example.org/",
        "http://",
        "http://user:word@example.org/",
        "http://[::1",
        "http://example.org:99999/",
        "//example.org/",
    ],
)
async def test_what_is_no_address(address: str) -> None:
    """Only addresses of the web are fetched, and none with a password."""
    with pytest.raises(WireError, match="must be an address with http"):
        await fetched(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "127.1",
        "2130706433",
        "10.0.0.1",
        "no.invalid",
    ],
)
async def test_only_public_addresses(host: str, site: str) -> None:
    """Without the operator's permission, nothing within this network is asked, however its address is written."""
    with pytest.raises(WireError, match="no public address"):
        await fetched(f"http://{host}:{site.rpartition(':')[2]}/talk.flac", PUBLIC)


async def test_a_redirect_is_checked(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public site cannot lead to this network. The name of the public one is looked up once."""
    asked = []
    look_up = socket.getaddrinfo

    def answer(host: str, *rest: Any, **options: Any) -> list[Any]:
        if options:  # the question is of the service, and not of the connection
            asked.append(host)
        return look_up("127.0.0.1" if host == "public.example" else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(outgoing, "is_public", lambda _: asked[-1] == "public.example")
    port = site.rpartition(":")[2]
    with pytest.raises(WireError, match="no public address"):
        await fetched(f"http://public.example:{port}/to?http://127.0.0.1:{port}/talk.flac", PUBLIC)
    assert asked == ["public.example", "127.0.0.1"]


async def test_an_encrypted_site(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its certificate must be trusted and have its name, and it cannot lead to a site that is not encrypted."""
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.chain, authority.key)
    with serving(context) as encrypted:
        with pytest.raises(WireError, match="not trusted"):
            await fetched(f"{encrypted}/talk.flac")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.root))
        assert await fetched(f"{encrypted}/talk.flac") == TALK
        with pytest.raises(WireError, match="not encrypted"):
            await fetched(f"{encrypted}/to?{site}/talk.flac")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n\r\nbeginning"])
async def test_a_site_that_says_nothing_more(answer: bytes) -> None:
    """After a while without data the fetch ends with a sentence."""
    with silent(answer) as (address, _), pytest.raises(WireError, match=r"no data came for 0\.2 s"):
        await fetched(address, stall_s=0.2)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n\r\nbeginning"])
async def test_a_client_that_goes_away_ends_the_fetch(answer: bytes) -> None:
    """The connection to the site is closed at once, although its thread waits for data."""
    with silent(answer) as (address, wait):
        fetch = asyncio.create_task(fetched(address))
        await asyncio.sleep(0.3)
        fetch.cancel()
        await asyncio.gather(fetch, return_exceptions=True)
        await asyncio.to_thread(wait)


@pytest.fixture(scope="module")
def service() -> Iterator[ExactService]:
    """Provide a service that fetches from anywhere."""
    with ExactService(slots=3, policy=PortPolicy(uploads=ANY)) as exact:
        yield exact


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", ""])
def test_an_address_for_deepgram(service: ExactService, site: str, kind: str) -> None:
    """A recording is fetched and transcribed, whatever the content type of the request is."""
    body = json.dumps({"url": f"{site}/talk.flac"})
    status, _, content = post(service.url, f"{PATH}?punctuate=true", body, Content_Type=kind)
    told = json.loads(content)
    assert (status, told["results"]["channels"][0]["alternatives"][0]["transcript"]) == (200, "Hello world")


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        ('{"url": "SITE/nothing"}', 400, "REMOTE_CONTENT_ERROR", "HTTP status 404"),
        ('{"url": "SITE/large"}', 413, "TOO_LARGE", "more than"),
        ('{"url": "SITE/seen"}', 400, "Bad Request", "cannot be read as audio"),
        ('{"url": 1}', 400, "Bad Request", "has no 'url'"),
        ("{", 400, "Bad Request", "not valid JSON"),
    ],
)
def test_refused_addresses(service: ExactService, site: str, body: str, status: int, code: str, words: str) -> None:
    """The refusal has Deepgram's form, with the reason."""
    answered, _, content = post(service.url, PATH, body.replace("SITE", site), Content_Type="application/json")
    told = json.loads(content)
    assert (answered, told["err_code"], words in told["err_msg"]) == (status, code, True)


def test_a_file_is_never_read(service: ExactService, tmp_path: Path) -> None:
    """An address that is a file of the service's machine is refused."""
    (tmp_path / "talk.flac").write_bytes(TALK)
    body = json.dumps({"url": (tmp_path / "talk.flac").as_uri()})
    assert post(service.url, PATH, body, Content_Type="application/json")[0] == 400
