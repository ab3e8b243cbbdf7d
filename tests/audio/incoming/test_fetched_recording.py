"""Recordings from addresses and named pipes, and what may go wrong."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from streamer.audio.incoming import fetched_recording, temporary_recording
from streamer.audio.incoming.fetched_recording import fetch
from streamer.audio.incoming.temporary_recording import TemporaryRecording
from streamer.audio.recording_check import AudioError, must_be_fetched
from streamer.fetching.web_address import MOST_REDIRECTS
from streamer.machine.temporary_folder import REMEDY
from tests.file_size_limit import most_bytes

CONTENT = bytes(range(256)) * 1000


class Shelf(BaseHTTPRequestHandler):
    """Serves the content for each address."""

    def do_GET(self) -> None:
        if self.path.startswith("/again/"):
            left = int(self.path.rpartition("/")[2])
            self.send_response(302)
            self.send_header("Location", f"/again/{left - 1}" if left else "/talk.mp3")
            self.end_headers()
        elif self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
        elif self.path.startswith("/talk.mp3") or self.path == "/cut.mp3":
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT) + 7 * (self.path == "/cut.mp3")))
            self.end_headers()
            self.wfile.write(CONTENT)
        elif self.path == "/empty.mp3":
            self.send_response(200)
            self.end_headers()
        elif self.path == "/huge.mp3":
            self.send_response(200)
            self.send_header("Content-Length", str(1 << 40))
            self.end_headers()
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def addresses(authority: trustme.CA) -> Iterator[tuple[str, str]]:
    """The same server with and without encryption."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Shelf) for _ in range(2)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    servers[0].socket = context.wrap_socket(servers[0].socket, server_side=True, do_handshake_on_connect=False)
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for thread in threads:
        thread.start()
    yield f"https://127.0.0.1:{servers[0].server_port}", f"http://127.0.0.1:{servers[1].server_port}"
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this machine trust the authority."""
    authority.cert_pem.write_to_path(str(tmp_path / "roots.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))


def content(name: str, stop: threading.Event | None = None) -> bytes:
    """Everything that is fetched from an address."""
    recording = TemporaryRecording(name)
    try:
        fetch(name, recording, stop or threading.Event())
        return Path(recording.path).read_bytes()
    finally:
        recording.close()
        assert not Path(recording.path).exists()


@pytest.mark.usefixtures("trusted")
def test_what_is_at_an_address(addresses: tuple[str, str]) -> None:
    """A recording is fetched with and without encryption, with a query, and after a redirect."""
    secure, bare = addresses
    for name in (f"{secure}/talk.mp3", f"{bare}/talk.mp3?key=1", f"{bare}/again/3", f"{bare}/to/{secure}/talk.mp3"):
        assert must_be_fetched(name)
        assert content(name) == CONTENT


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/missing.mp3", r"cannot be fetched: HTTP status 404 \(Not Found\)"),
        ("/empty.mp3", "is empty"),
        ("/huge.mp3", r"is too large: 1024.0 GiB, and the limit is 4 GiB"),
        ("/cut.mp3", "is incomplete: 256000 of 256007 bytes came"),
        (f"/again/{MOST_REDIRECTS + 1}", r"HTTP status 302 \(it redirects more than 5 times\)"),
        ("/to/file:///etc/passwd", "Redirection to url 'file:///etc/passwd' is not allowed"),
        ("/to/http://127.0.0.1:1/talk.mp3", "it redirects to http://127.0.0.1:1/talk.mp3, which is not followed"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(addresses: tuple[str, str], path: str, words: str) -> None:
    """One sentence names the address and says what is wrong."""
    with pytest.raises(AudioError, match=words) as caught:
        content(addresses[0] + path)
    assert str(caught.value).startswith(addresses[0] + path)
    assert "\n" not in str(caught.value)


def test_a_service_that_cannot_be_trusted_or_reached(addresses: tuple[str, str]) -> None:
    """The message names the service, and says what to do about an untrusted certificate."""
    with pytest.raises(AudioError, match=r"its certificate is not trusted \(.*\); set SSL_CERT_FILE"):
        content(f"{addresses[0]}/talk.mp3")
    with pytest.raises(AudioError, match=r"/talk\.mp3 cannot be fetched: Connection refused\."):
        content("https://127.0.0.1:1/talk.mp3")
    with pytest.raises(AudioError, match="cannot be fetched"):
        content("http://[/talk.mp3")


def test_what_is_too_large_or_takes_too_long(addresses: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Size and time are limited, even if the length is not announced."""
    monkeypatch.setattr(temporary_recording, "MOST_BYTES", 1000)
    with pytest.raises(AudioError, match="is too large"):
        content(f"{addresses[1]}/talk.mp3")
    monkeypatch.setattr(temporary_recording, "MOST_BYTES", 1 << 30)
    monkeypatch.setattr(fetched_recording, "MOST_S", -1.0)
    with pytest.raises(AudioError, match="took too long"):
        content(f"{addresses[1]}/talk.mp3")


def test_a_pipe_with_a_name(tmp_path: Path) -> None:
    """The writer of a pipe may come later, and the wait can be cancelled."""
    os.mkfifo(tmp_path / "talk.wav")
    assert must_be_fetched(f"{tmp_path}/talk.wav")
    writer = threading.Timer(0.2, (tmp_path / "talk.wav").write_bytes, [CONTENT])
    writer.start()
    assert content(f"{tmp_path}/talk.wav") == CONTENT
    writer.join()
    stop = threading.Event()
    stop.set()
    with pytest.raises(AudioError, match="was not read to its end"):
        content(f"{tmp_path}/talk.wav", stop)


def test_what_is_neither_a_file_nor_a_pipe() -> None:
    """A device is refused, because it would never end."""
    assert not must_be_fetched("/dev/zero")
    with pytest.raises(AudioError, match="/dev/zero is neither a file nor a pipe"):
        content("/dev/zero")


def test_a_full_temporary_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to do, and no file is left."""
    monkeypatch.setattr(fetched_recording, "_from_pipe", lambda name: iter([b"x" * 100_000] * 10))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with most_bytes(150_000), pytest.raises(AudioError) as caught:
        content("talk.wav")
    assert str(caught.value) == f"talk.wav cannot be stored: the temporary folder {tmp_path} is full: {REMEDY}."
    assert list(tmp_path.iterdir()) == []
