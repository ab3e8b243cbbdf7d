"""Reading pipes, named pipes and addresses: raw samples, files of all formats, and what may go wrong."""

from __future__ import annotations

import fcntl
import io
import os
import resource
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import trustme
from numpy.typing import NDArray

from streamer.audio import incoming
from streamer.audio.audio_file import SAMPLE_RATE, read_audio
from streamer.audio.incoming import PipedAudio, TemporaryRecording, fetch
from streamer.audio.recordings import AudioError, must_be_fetched
from streamer.base.machine import REMEDY
from streamer.base.web_address import MOST_REDIRECTS
from tests.file_size_limit import most_bytes

Pipe = tuple[io.FileIO, io.FileIO]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Both ends of a pipe."""
    reading, writing = os.pipe()
    with io.FileIO(reading) as source, io.FileIO(writing, "w") as sink:
        yield source, sink


def heard(pipe: Pipe, data: bytes, **options: Any) -> NDArray[Any]:
    """The audio from these bytes, written in pieces."""
    source, sink = pipe

    def write() -> None:
        with suppress(BrokenPipeError):  # the reader may notice the mistake before the end
            for place in range(0, len(data), 4001):
                sink.write(data[place : place + 4001])
        sink.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return np.concatenate([chunk for chunk in PipedAudio(source.fileno(), **options).chunks() if len(chunk)])
    finally:
        source.close()  # so the writer is not blocked
        writer.join()


def test_a_pipe_is_read_as_it_comes(pipe: Pipe) -> None:
    """Bytes that are divided anywhere, even within a sample, give samples while the pipe is open."""
    source, sink = pipe
    samples = np.arange(-10, 10, dtype="<i2").tobytes()
    chunks = PipedAudio(source.fileno()).chunks()
    sink.write(samples[:15])
    assert next(chunks).tolist() == [-10, -9, -8, -7, -6, -5, -4]
    sink.write(samples[15:])
    sink.close()
    assert np.concatenate(list(chunks)).tolist() == list(range(-3, 10))


def test_any_descriptor_can_be_read(pipe: Pipe) -> None:
    """A program with thousands of open files has descriptors of 1024 and more."""
    source, sink = pipe
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with io.FileIO(fcntl.fcntl(source, fcntl.F_DUPFD, 1024)) as high:
            sink.write(b"\1\0" * 10)
            sink.close()
            assert np.concatenate(list(PipedAudio(high.fileno()).chunks())).tolist() == [1] * 10
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_silent_pipe_gives_empty_chunks(pipe: Pipe) -> None:
    """Reading an empty pipe does not block."""
    source, sink = pipe
    chunks = PipedAudio(source.fileno()).chunks()
    assert len(next(chunks)) == 0
    threading.Timer(0.1, lambda: sink.write(b"\1\0" * 10)).start()
    assert next(chunk for chunk in chunks if len(chunk)).tolist() == [1] * 10


@pytest.mark.parametrize(
    ("sent", "options", "words"),
    [
        (b"", {}, "is empty"),
        (b"\1\2\3", {}, "3 bytes do not divide by 2"),
        (b"RIFF" + bytes(60), {"encoding": "mulaw"}, "leave out --encoding and --sample-rate"),
        (b"RIFF" + bytes(60), {}, "cannot be read as audio"),
    ],
)
def test_what_is_wrong_with_a_pipe_is_said(pipe: Pipe, sent: bytes, options: dict[str, Any], words: str) -> None:
    """No bytes, half a sample and broken files are each refused with one sentence."""
    with pytest.raises(AudioError, match=words) as caught:
        heard(pipe, sent, **options)
    assert str(caught.value).startswith("standard input ")


def test_standard_input_that_cannot_be_read(tmp_path: Path) -> None:
    """A shell connects a folder without a word: `streamer - < folder`. The reason is that of the system."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(AudioError, match=r"^standard input cannot be read: Is a directory\.$"):
            list(PipedAudio(folder).chunks())
    finally:
        os.close(folder)


@pytest.mark.parametrize(
    ("name", "subtype", "rate", "channels"),
    [
        ("a.wav", "PCM_16", 16_000, 1),
        ("a.wav", "PCM_16", 44_100, 2),
        ("a.wav", "PCM_24", 48_000, 2),
        ("a.wav", "FLOAT", 22_050, 1),
        ("a.wav", "ULAW", 8_000, 1),
        ("a.wav", "ALAW", 8_000, 2),
        ("a.flac", "PCM_16", 16_000, 1),
        ("a.ogg", "OPUS", 48_000, 1),
        ("a.mp3", None, 44_100, 2),
        ("a.mp3", None, 16_000, 1),
    ],
)
def test_files_in_a_pipe(
    pipe: Pipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    subtype: str | None,
    rate: int,
    channels: int,
) -> None:
    """For every format the samples are those of the file, and no temporary file is left."""
    sound = np.random.default_rng(1).normal(0, 0.1, (rate * 2, channels))
    soundfile.write(tmp_path / name, sound, rate, subtype=subtype)
    expected = read_audio(tmp_path / name)
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    assert np.array_equal(heard(pipe, (tmp_path / name).read_bytes()), expected)
    assert not list(own.iterdir())


def test_wav_is_heard_while_it_is_recorded(pipe: Pipe, tmp_path: Path) -> None:
    """A WAV header without a length is accepted, and audio is recognised before the end."""
    samples = np.arange(4000, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, SAMPLE_RATE)
    whole = (tmp_path / "a.wav").read_bytes().replace((8000).to_bytes(4, "little"), b"\xff\xff\xff\x7f")
    source, sink = pipe
    chunks = PipedAudio(source.fileno()).chunks()
    sink.write(whole[:2044])
    first = next(chunk for chunk in chunks if len(chunk))
    assert np.array_equal(first, samples[:1000])
    sink.write(whole[2044:])
    sink.close()
    assert np.array_equal(np.concatenate(list(chunks)), samples[1000:])


def test_what_follows_the_samples_is_not_heard(pipe: Pipe, tmp_path: Path) -> None:
    """Other chunks after the samples of a WAV file are ignored."""
    samples = np.arange(4000, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, SAMPLE_RATE)
    notes = b"LIST" + (4000).to_bytes(4, "little") + b"x" * 4000
    assert np.array_equal(heard(pipe, (tmp_path / "a.wav").read_bytes() + notes), samples)


def test_a_wav_that_breaks_off(pipe: Pipe, tmp_path: Path) -> None:
    """Audio before the break is recognised; then one sentence says how much is missing, as for a file."""
    soundfile.write(tmp_path / "a.wav", np.zeros(SAMPLE_RATE), SAMPLE_RATE)
    with pytest.raises(AudioError, match=r"standard input is damaged: only 0\.5 of 1\.0 s can be read"):
        heard(pipe, (tmp_path / "a.wav").read_bytes()[:16_044])


def test_channels_that_were_not_told(pipe: Pipe, tmp_path: Path) -> None:
    """If the number of channels is wrong, the message says which argument to give."""
    soundfile.write(tmp_path / "a.wav", np.zeros((1000, 2)), SAMPLE_RATE)
    with pytest.raises(AudioError, match="has 2 channels: give --input-channels 2"):
        heard(pipe, (tmp_path / "a.wav").read_bytes(), separate=True)


def test_channels_that_were_told(pipe: Pipe, tmp_path: Path) -> None:
    """Each channel is a column."""
    both = np.stack([np.arange(1000), -np.arange(1000)], axis=1).astype(np.int16)
    soundfile.write(tmp_path / "a.wav", both, SAMPLE_RATE)
    assert np.array_equal(heard(pipe, (tmp_path / "a.wav").read_bytes(), separate=True, channels=2), both)


def test_an_end_that_was_asked_for(pipe: Pipe, tmp_path: Path) -> None:
    """An early end is like the end of the pipe, also for formats that are decoded as a whole."""
    sound = np.random.default_rng(1).normal(0, 0.1, 2 * SAMPLE_RATE)
    soundfile.write(tmp_path / "a.flac", sound, SAMPLE_RATE)
    source, sink = pipe
    ended = threading.Event()
    chunks = PipedAudio(source.fileno(), end=ended).chunks()
    sink.write((tmp_path / "a.flac").read_bytes()[:60_000])
    assert len(next(chunks)) == 0
    ended.set()
    assert np.array_equal(np.concatenate(list(chunks)), read_audio(tmp_path / "a.flac"))


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
    monkeypatch.setattr(incoming, "MOST_BYTES", 1000)
    with pytest.raises(AudioError, match="is too large"):
        content(f"{addresses[1]}/talk.mp3")
    monkeypatch.setattr(incoming, "MOST_BYTES", 1 << 30)
    monkeypatch.setattr(incoming, "MOST_S", -1.0)
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
    monkeypatch.setattr(incoming, "_from_pipe", lambda name: iter([b"x" * 100_000] * 10))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with most_bytes(150_000), pytest.raises(AudioError) as caught:
        content("talk.wav")
    assert str(caught.value) == f"talk.wav cannot be stored: the temporary folder {tmp_path} is full: {REMEDY}."
    assert list(tmp_path.iterdir()) == []
