"""Recordings over plain HTTP, in our format and in OpenAI's, with a real service; and the description of both."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.quotas import QuotaLimits, UploadLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.server import BridgeServer
from streamer.bridge.uploads import decoding, upload
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from streamer.testing.exact_speech import silence
from streamer.wire.dialects.openai_upload import MODELS, TRANSLATIONS
from streamer.wire.dialects.openai_upload import PATH as OPENAI_PATH
from streamer.wire.native_upload import OPTIONS, PATH
from tests.bridge.access.bare_port import listening
from tests.bridge.http.asking import ask
from tests.bridge.uploads.conftest import LARGEST, LONGEST_S
from tests.bridge.uploads.uploading import Wire, decoders, error, form, post, recording, sentences

TALK = sentences(say("hello world"), say("this is an upload"))
TEXT = "hello world this is an upload"
needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")


def eventually(condition: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within some seconds."""
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


def idle(service: ExactService) -> bool:
    """Return whether nothing is left of any upload: no decoder, no session, no connection that is being answered."""
    _status, _, content = post(service.url, "/metrics", method="GET")
    told = dict(line.rsplit(" ", 1) for line in content.decode().splitlines() if not line.startswith("#"))
    return decoders() == 0 and float(told["streamer_sessions"]) == 0 and float(told["streamer_uploads"]) == 0


@pytest.mark.parametrize(
    ("format", "subtype"),
    [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("FLAC", None), ("AIFF", None), ("CAF", None)],
)
def test_a_recording_is_transcribed_in_any_format(uploading: ExactService, format: str, subtype: str | None) -> None:
    """Text, length and segments with words come as JSON."""
    status, headers, content = post(uploading.url, PATH, recording(TALK, format, subtype))
    answer = json.loads(content)
    assert (status, headers["content-type"], answer["text"]) == (200, "application/json", TEXT)
    assert answer["duration_ms"] == len(TALK) // 16
    assert [segment["text"] for segment in answer["segments"]] == ["hello world", "this is an upload"]
    assert answer["segments"][0]["words"][1] == {
        "word": "world",
        "start_ms": 760,
        "end_ms": 1320,
        "confidence": answer["segments"][0]["words"][1]["confidence"],
    }


@needs_ffmpeg
@pytest.mark.parametrize("ending", ["mkv", "mov", "avi"])
def test_a_video_is_heard(uploading: ExactService, tmp_path: Path, ending: str) -> None:
    """The first audio track of a video is recognised, whether its table of contents is at the end or not."""
    (tmp_path / "talk.wav").write_bytes(recording(TALK))
    picture = ("-f", "lavfi", "-i", "testsrc=d=2:s=64x64")
    made = ("ffmpeg", "-v", "error", *picture, "-i", tmp_path / "talk.wav", "-c:a", "pcm_s16le", "-c:v", "mjpeg")
    subprocess.run([*made, tmp_path / f"talk.{ending}"], check=True)
    status, _, content = post(uploading.url, f"{PATH}?format=text", (tmp_path / f"talk.{ending}").read_bytes())
    assert (status, content.decode().split()) == (200, TEXT.split())


def test_bare_samples_need_their_encoding(uploading: ExactService) -> None:
    """With an encoding, a recording needs no header; channels can be recognised separately."""
    both = np.stack([say("left"), say("more")], axis=1).astype("<i2").tobytes()
    query = "encoding=pcm_s16le&channels=2&multichannel=true&format=text"
    status, _, content = post(uploading.url, f"{PATH}?{query}", both)
    assert (status, content) == (200, b"[1] left\n\n[2] more\n")


@pytest.mark.parametrize(
    ("format", "begins"),
    [
        ("text", "hello world this is an upload\n"),
        ("srt", "1\n00:00:00,040 --> 00:00:01,320\nhello world\n\n2\n"),
        ("vtt", "WEBVTT\n\n00:00:00.040 --> 00:00:01.320\nhello world\n\n"),
        ("jsonl", '{"type":"speech","state":"start","at_ms":40}\n{"type":"final","segment":0,"text":"hello world"'),
    ],
)
def test_the_answer_comes_in_the_format_that_was_asked_for(uploading: ExactService, format: str, begins: str) -> None:
    """The answer has the format that the request names; in a form the name may even come behind the file."""
    wav = recording(TALK)
    in_query = post(uploading.url, f"{PATH}?format={format}", wav)
    body, kind = form(("words", "true"), ("file", wav), ("format", format))
    in_form = post(uploading.url, PATH, body, Content_Type=kind)
    assert in_query[0] == in_form[0] == 200
    assert in_query[2].decode().startswith(begins)
    assert in_form[2] == in_query[2]


def test_words_come_while_the_recording_is_being_sent(uploading: ExactService) -> None:
    """Events of the first half are read before the second half is sent."""
    wav = recording(TALK)
    wire = Wire(uploading.url)
    wire.send(f"POST {PATH}?stream=true HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    wire.chunk(wav[: len(wav) * 2 // 3])
    assert b"text/event-stream" in wire.until(b"\r\n\r\n")
    first = wire.until(b'"cut_ms"')
    assert b'event: partial\ndata: {"type":"partial","segment":0,"text":"hel"' in first
    assert b'"text":"hello world"' in first
    assert b"token" not in first
    wire.chunk(wav[len(wav) * 2 // 3 :])
    wire.send(b"0\r\n\r\n")
    rest = wire.rest()
    assert b'"text":"this is an upload"' in rest
    assert rest.endswith(b'data: {"type":"done","audio_ms":6600}\n\n\r\n0\r\n\r\n')


def test_an_upload_survives_a_killed_recogniser(uploading: ExactService) -> None:
    """Triton is killed while the recording is being sent; no word is lost or doubled."""
    wav = recording(sentences(*map(say, ("before it dies", "while it is dead", "after it is back"))))
    wire = Wire(uploading.url)
    wire.send(f"POST {PATH}?stream=true HTTP/1.1\r\nHost: a\r\nContent-Length: {len(wav)}\r\n\r\n".encode())
    wire.send(wav[: len(wav) // 2])
    heard = wire.until(b'"before it dies"')
    uploading.kill_recogniser()
    wire.send(wav[len(wav) // 2 :])
    heard += wire.rest()
    finals = [json.loads(line[6:]) for line in heard.split(b"\n") if line.startswith(b'data: {"type":"final"')]
    assert [each["text"] for each in finals if each] == ["before it dies", "while it is dead", "after it is back"]
    assert b'"type":"recovered"' in heard


def test_a_client_that_goes_away_cancels(uploading: ExactService) -> None:
    """If a client goes away, neither its decoder nor its session stays, at whatever point it goes."""
    wav = recording(sentences(*[say("still talking")] * 12))
    head = f"POST {PATH}?stream=true HTTP/1.1\r\nHost: a\r\nContent-Length: {len(wav)}\r\n\r\n".encode()
    for sent in (head, head + wav[:20], head + wav[:100_000], head + wav):
        wire = Wire(uploading.url)
        wire.send(sent)
        if len(sent) > 50_000:
            wire.until(b"event: ready")
        wire.close()
    assert eventually(lambda: idle(uploading))


def test_silence_has_no_words(uploading: ExactService) -> None:
    """The answer to a silent recording is empty."""
    status, _, content = post(uploading.url, PATH, recording(silence(2000)))
    assert (status, json.loads(content)) == (200, {"text": "", "duration_ms": 2000, "complete": True, "segments": []})


WAV = recording(TALK)


def quiet(seconds: int, format: str) -> Callable[[], bytes]:
    """Makes a long recording when it is first needed, because each process of the tests reads this file."""
    return lambda: recording(np.zeros(seconds * 16_000, np.int16), format)


@pytest.mark.parametrize(
    ("query", "body", "status", "code"),
    [
        ("", b"", 422, "no_audio"),
        ("", b"just some text " * 1000, 415, "unknown_format"),
        ("", bytes(range(255, 0, -1)) * 100, 415, "unknown_format"),
        ("", WAV[:20], 422, "no_audio"),
        ("", WAV[:44], 422, "no_audio"),
        ("", WAV[:100_000], 422, "damaged_audio"),
        ("", b"fLaC" + WAV, 415, "unknown_format"),
        ("", b"OggS" + WAV, 415, "unknown_format"),
        ("", b"\x1aE\xdf\xa3" + WAV, 415, "unknown_format"),
        ("", b"#EXTM3U\nfile:///etc/passwd\n", 415, "unknown_format"),
        ("", quiet(3600, "FLAC"), 413, "too_long"),
        ("", quiet(61, "OGG"), 413, "too_long"),
        ("encoding=pcm_s16le", WAV, 415, "unknown_format"),
        ("encoding=pcm_s16le", bytes(1001), 422, "damaged_audio"),
        ("encoding=mp3", WAV, 400, "unsupported_audio"),
        ("model=none", WAV, 400, "unknown_model"),
        ("colour=red", WAV, 400, "unknown_option"),
        ("words=perhaps", WAV, 400, "bad_option"),
        ("step_ms=1", WAV, 400, "bad_option"),
        ("format=docx", WAV, 400, "bad_option"),
        ("format=srt&stream=true", WAV, 400, "bad_option"),
        ("hotwords=%5B", WAV, 400, "bad_option"),
        ("endpoint=%7B%22a%22:" + "[" * 500, WAV, 400, "bad_option"),
        ("live=true", WAV, 400, "unknown_option"),
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else None,
)
def test_each_refusal_has_its_status_and_reason(
    uploading: ExactService, query: str, body: bytes | Callable[[], bytes], status: int, code: str
) -> None:
    """Each refusal has its status and a sentence, and nothing of the upload stays."""
    body = body() if callable(body) else body
    assert len(body) < LARGEST
    found, _, content = post(uploading.url, f"{PATH}?{query}", body)
    assert (found, error(content)) == (status, code)
    assert len(json.loads(content)["error"]["message"]) > 20


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (*form(("words", "true")), "bad_form"),
        (*form(("file", WAV), ("words", "true")), "late_option"),
        (*form(("file", WAV), ("file", WAV)), "bad_form"),
        (form(("file", WAV))[0][:-10], form()[1], "bad_form"),
        (b"no form at all", form()[1], "bad_form"),
        (WAV, "multipart/form-data", "bad_form"),
    ],
)
def test_a_form_that_is_not_valid_is_refused(uploading: ExactService, body: bytes, kind: str, code: str) -> None:
    """An invalid form is refused, whether its file was already being recognised or not."""
    status, _, content = post(uploading.url, PATH, body, Content_Type=kind)
    assert (status, error(content)) == (400, code)


def test_a_body_that_is_too_large_is_refused(uploading: ExactService) -> None:
    """A body that is too large is refused at once if its length is known, and otherwise at the limit."""
    large = b"\0" * (LARGEST + 1)
    assert post(uploading.url, PATH, large)[0] == 413

    def pieces() -> Iterator[bytes]:
        yield from [bytes(100_000)] * (LARGEST // 100_000 + 2)

    status, _, content = post(uploading.url, f"{PATH}?encoding=pcm_s16le&sample_rate=192000", pieces())
    assert (status, error(content)) == (413, "too_large")


def test_only_so_many_recordings_are_taken_at_a_time(uploading: ExactService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording above the limit is refused with the time to try again, before its body is sent."""
    monkeypatch.setattr(upload, "SLOW_AFTER_S", 600.0)
    wires = [Wire(uploading.url) for _ in range(3)]
    for wire in wires:
        wire.send(f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nRIFF".encode())
    assert eventually(lambda: b"streamer_uploads 3.0" in post(uploading.url, "/metrics", method="GET")[2])
    late = Wire(uploading.url)
    late.send(f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n".encode())
    told = late.rest()
    assert told.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 5\r\n" in told
    for wire in wires:
        wire.close()
    late.close()
    assert eventually(lambda: idle(uploading))


@pytest.mark.parametrize("stream", [False, True])
def test_slow_recordings_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stream: bool) -> None:
    """If clients of one key hold all places and let their decoders wait, another key still gets one.

    One of them ends with `busy`, and the others go on to their ends.
    """
    monkeypatch.setattr(upload, "SLOW_AFTER_S", 0.2)
    monkeypatch.setattr(decoding, "SLOW_BYTES_PER_S", 0.0)
    alice, mallory = make_key("alice"), make_key("mallory")
    (tmp_path / "keys").write_text(f"{alice.line}\n{mallory.line}\n")
    policy = PortPolicy(AccessRules(KeyFile(tmp_path / "keys")), uploads=UploadLimits(most=3))
    with ExactService(slots=6, policy=policy) as service:

        def upload_all(key: str) -> int:
            return post(service.url, f"{PATH}?format=text", WAV, Authorization=f"Bearer {key}")[0]

        head = f"POST {PATH}?stream={'true' if stream else 'false'} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {mallory.secret}\r\nContent-Length: {len(WAV)}\r\n\r\n"
        slow = [Wire(service.url) for _ in range(3)]
        for place, wire in enumerate(slow):
            wire.send(head.encode() + WAV[: 20_000 - 5000 * place])  # the last one is the slowest
        for wire in slow if stream else ():
            wire.until(b"event: ready")
        assert eventually(lambda: decoders() == 3)
        assert upload_all(mallory.secret) == 503  # its own recordings are not slower than it allows
        assert eventually(lambda: upload_all(alice.secret) == 200)
        answer = slow[2].rest()
        assert b"busy" in answer
        assert answer.startswith(b"HTTP/1.1 503 ") is not stream
        for wire, sent in ((slow[0], 20_000), (slow[1], 15_000)):
            wire.send(WAV[sent:])
            answer = wire.rest()
            assert b"this is an upload" in answer
            assert b"busy" not in answer


def test_requests_on_one_connection_do_not_mix(uploading: ExactService) -> None:
    """The service asks for an expected body; what follows a body is the next request, and nothing within it is."""
    hidden = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    wav = recording(say("one"))[:-1000] + hidden + bytes(1000 - len(hidden))
    wire = Wire(uploading.url)
    wire.send(f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(wav)}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert wire.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.send(wav + b"GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    told = wire.rest()
    assert re.findall(rb"HTTP/1.1 (\d+)", told) == [b"200", b"404"]
    assert b'"text": "one"' in told


def test_a_key_is_needed_and_counts(tmp_path: Path) -> None:
    """A stranger gets 401; a caller with all of its sessions 429; a full service 503. Other methods get 405."""
    alice, bob = make_key("alice"), make_key("bob")
    (tmp_path / "keys").write_text(f"{alice.line}\n{bob.line}\n")
    access = AccessRules(KeyFile(tmp_path / "keys"), quotas=QuotaLimits(per_key=1))
    with ExactService(slots=2, policy=PortPolicy(access)) as service:
        status, headers, content = post(service.url, PATH, WAV)
        assert (status, headers["www-authenticate"], error(content)) == (401, "Bearer", "unauthorized")
        assert post(service.url, f"{PATH}?key={alice.secret}&format=text", WAV)[0] == 200
        assert post(service.url, PATH, method="GET")[0] == 405
        busy = Wire(service.url)
        head = f"POST {PATH}?stream=true HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {alice.secret}"
        busy.send(f"{head}\r\nContent-Length: {len(WAV)}\r\n\r\n".encode() + WAV[:100_000])
        busy.until(b"event: ready")
        status, headers, content = post(service.url, PATH, WAV, Authorization=f"Bearer {alice.secret}")
        assert (status, headers["retry-after"], error(content)) == (429, "5", "too_many_sessions")
        status, headers, content = post(service.url, PATH, WAV, Authorization=f"Bearer {bob.secret}")
        assert (status, headers["retry-after"], error(content)) == (503, "5", "full")
        busy.close()


def test_the_longest_recording_is_taken(uploading: ExactService) -> None:
    """The limit of the length is exact."""
    body = recording(silence(int(LONGEST_S * 1000)), "FLAC")
    assert json.loads(post(uploading.url, PATH, body)[2])["duration_ms"] == LONGEST_S * 1000


TWO_SENTENCES = recording(sentences(say("hello world"), say("goodbye")), "FLAC")
VERBOSE = (
    '{"task": "transcribe", "language": "english", "duration": 5.4, "text": "Hello world Goodbye", "segments": '
    '[{"id": 0, "seek": 0, "start": 0.04, "end": 1.32, "text": " Hello world", "tokens": [], "temperature": 0.0, '
    '"avg_logprob": -0.0101, "compression_ratio": 1.0, "no_speech_prob": 0.0}, {"id": 1, "seek": 0, "start": 3.0, '
    '"end": 3.76, "text": " Goodbye", "tokens": [], "temperature": 0.0, "avg_logprob": -0.0101, '
    '"compression_ratio": 1.0, "no_speech_prob": 0.0}], "usage": {"type": "duration", "seconds": 6}}\n'
)
WORDS = (
    '"words": [{"word": "Hello", "start": 0.04, "end": 0.6}, {"word": "world", "start": 0.76, "end": 1.32}, '
    '{"word": "Goodbye", "start": 3.0, "end": 3.76}]'
)


def transcribed(service: ExactService, *fields: tuple[str, str], file_first: bool = False) -> tuple[int, str, str]:
    """Return the status, type and content of an answer."""
    parts: list[tuple[str, str | bytes]] = [("model", "whisper-1"), *fields]
    body, kind = form(*([("file", TWO_SENTENCES), *parts] if file_first else [*parts, ("file", TWO_SENTENCES)]))
    status, headers, content = post(service.url, OPENAI_PATH, body, Content_Type=kind)
    return status, headers["content-type"], content.decode()


@pytest.mark.parametrize("file_first", [False, True])
@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("json", '{"text": "Hello world Goodbye", "usage": {"type": "duration", "seconds": 6}}\n'),
        ("text", "Hello world Goodbye\n"),
        ("srt", "1\n00:00:00,040 --> 00:00:01,320\nHello world\n\n2\n00:00:03,000 --> 00:00:04,000\nGoodbye\n"),
        ("verbose_json", VERBOSE),
    ],
)
def test_each_format_is_as_openai_writes_it(
    uploading: ExactService, format: str, content: str, file_first: bool
) -> None:
    """Each format is as OpenAI writes it, wherever in the form the file is. Only JSON is called JSON."""
    status, kind, found = transcribed(uploading, ("response_format", format), file_first=file_first)
    assert (status, found) == (200, content)
    assert kind == ("application/json" if "json" in format else "text/plain; charset=utf-8")


def test_words_alone_leave_segments_out(uploading: ExactService) -> None:
    """Words without segments come if only words are asked for, and both if both are."""
    asked = ("response_format", "verbose_json"), ("timestamp_granularities[]", "word")
    words = transcribed(uploading, *asked)[2]
    assert WORDS in words
    assert "segments" not in words
    both = transcribed(uploading, *asked, ("timestamp_granularities[]", "segment"))[2]
    assert WORDS in both
    assert '"segments": [{"id": 0' in both


@pytest.mark.parametrize("file_first", [False, True])
def test_deltas_join_to_the_text(uploading: ExactService, file_first: bool) -> None:
    """Deltas join to the text, also if `stream` comes behind the file."""
    status, kind, content = transcribed(uploading, ("stream", "true"), ("language", "en"), file_first=file_first)
    assert (status, kind) == (200, "text/event-stream; charset=utf-8")
    *events, last, empty = content.split("\n\n")
    assert (last, empty) == ("data: [DONE]", "")
    told = [json.loads(event.removeprefix("data: ")) for event in events]
    assert told.pop() == {"type": "transcript.text.done", "text": "Hello world Goodbye"}
    assert {event["type"] for event in told} == {"transcript.text.delta"}
    assert "".join(event["delta"] for event in told) == "Hello world Goodbye"


DIARIZED = [
    {
        "type": "transcript.text.segment",
        "id": "seg_0",
        "start": 0.04,
        "end": 1.32,
        "text": "Hello world",
        "speaker": "A",
    },
    {"type": "transcript.text.segment", "id": "seg_1", "start": 3.0, "end": 3.76, "text": "Goodbye", "speaker": "A"},
]


def test_segments_have_the_one_speaker_that_is_known(uploading: ExactService) -> None:
    """A client that asks who speaks gets the same speaker for each segment, also in a stream."""
    wanted = ("response_format", "diarized_json"), ("chunking_strategy", "auto"), ("known_speaker_names[]", "Ada")
    assert json.loads(transcribed(uploading, *wanted)[2]) == {
        "task": "transcribe",
        "duration": 5.4,
        "text": "Hello world Goodbye",
        "segments": DIARIZED,
        "usage": {"type": "duration", "seconds": 6},
    }
    *events, _, _ = transcribed(uploading, *wanted, ("stream", "true"))[2].split("\n\n")
    told = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [event for event in told if event["type"] == "transcript.text.segment"] == DIARIZED


@pytest.mark.parametrize("stream", ["true", "false"])
def test_probabilities_of_words(uploading: ExactService, stream: str) -> None:
    """Words come with the logarithms of their confidences, if the client asks for them."""
    content = transcribed(uploading, ("include[]", "logprobs"), ("stream", stream))[2]
    last = content.split("\n\n")[-3].removeprefix("data: ") if stream == "true" else content
    logprobs = json.loads(last)["logprobs"]
    assert [each["token"] for each in logprobs] == ["Hello", " world", " Goodbye"]
    assert all(bytes(each["bytes"]).decode() == each["token"] and -1 < each["logprob"] <= 0 for each in logprobs)


def test_options_that_mean_nothing_here_are_ignored(uploading: ExactService) -> None:
    """Options of OpenAI that mean nothing here are ignored, because clients send many of them."""
    ignored = (
        ("prompt", "x"),
        ("temperature", "0"),
        ("include[]", "colours"),
        ("chunking_strategy[type]", "server_vad"),
    )
    assert transcribed(uploading, *ignored, ("stream", "false"))[0] == 200


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ([("response_format", "xml")], "bad_option", "'response_format' must be json, text"),
        ([("language", "de")], "bad_option", "the recogniser knows only English"),
        ([("timestamp_granularities[]", "letter")], "bad_option", "must be word or segment"),
    ],
)
def test_refusals_have_the_form_of_openai(
    uploading: ExactService, fields: list[tuple[str, str]], code: str, words: str
) -> None:
    """Refusals have OpenAI's form: its client raises BadRequestError with the sentence."""
    status, _, content = transcribed(uploading, *fields)
    told = json.loads(content)["error"]
    assert (status, told["type"], told["param"], told["code"]) == (400, "invalid_request_error", None, code)
    assert words in told["message"]


def test_what_is_no_recording_is_a_bad_request(uploading: ExactService) -> None:
    """Data that is no recording gets 400, as at OpenAI."""
    for file in (b"", b"a text", TWO_SENTENCES[:100]):
        body, kind = form(("model", "x"), ("file", file))
        status, _, content = post(uploading.url, OPENAI_PATH, body, Content_Type=kind)
        assert (status, json.loads(content)["error"]["type"]) == (400, "invalid_request_error")
    assert post(uploading.url, OPENAI_PATH, method="GET")[0] == 405


def test_translations_are_refused(uploading: ExactService) -> None:
    """A request for a translation is refused, and the answer names the path for transcriptions."""
    body, kind = form(("model", "whisper-1"), ("file", TWO_SENTENCES))
    status, _, content = post(uploading.url, TRANSLATIONS, body, Content_Type=kind)
    assert status == 400
    assert OPENAI_PATH in json.loads(content)["error"]["message"]


def test_models_are_listed(uploading: ExactService) -> None:
    """The list of models has their public names."""
    default = {"id": "default", "object": "model", "created": 0, "owned_by": "streamer"}
    assert json.loads(post(uploading.url, MODELS, method="GET")[2]) == {"object": "list", "data": [default]}
    assert json.loads(post(uploading.url, f"{MODELS}/default", method="GET")[2]) == default


@pytest.mark.parametrize(
    ("path", "name"), [("whisper-1", "whisper-1"), ("some/large-one", "some/large-one"), ("a%2Fb%20c", "a/b c")]
)
def test_a_model_of_any_name_is_there(uploading: ExactService, path: str, name: str) -> None:
    """A client that asks for the model before it uses it gets any that a recording may name."""
    status, _, content = post(uploading.url, f"{MODELS}/{path}", method="GET")
    assert (status, json.loads(content)["id"]) == (200, name)


@pytest.mark.parametrize("base", ["", "/openai/v1", "/openai"])
def test_other_bases(uploading: ExactService, base: str) -> None:
    """Clients that leave out `/v1`, and those of Azure, find everything at their paths."""
    body, kind = form(("model", "whisper-1"), ("file", TWO_SENTENCES))
    status, _, content = post(uploading.url, f"{base}/audio/transcriptions", body, Content_Type=kind)
    assert (status, json.loads(content)["text"]) == (200, "Hello world Goodbye")
    assert post(uploading.url, f"{base}/audio/translations", body, Content_Type=kind)[0] == 400
    assert post(uploading.url, f"{base}/models", method="GET")[0] == 200
    assert post(uploading.url, f"{base}/models/whisper-1", method="GET")[0] == 200


@pytest.mark.parametrize("name", ["default", "my-whisper"])
def test_a_deployment_of_azure(uploading: ExactService, name: str) -> None:
    """A deployment is a model: one of the service, or else the default one."""
    deployment = f"/openai/deployments/{name}/audio"
    body, kind = form(("file", TWO_SENTENCES), ("response_format", "text"))
    path = f"{deployment}/transcriptions?api-version=2025-03-01-preview"
    assert post(uploading.url, path, body, Content_Type=kind, api_key="any")[0::2] == (200, b"Hello world Goodbye\n")
    status, _, content = post(uploading.url, f"{deployment}/translations", body, Content_Type=kind)
    assert (status, json.loads(content)["error"]["code"]) == (400, "unsupported")


@pytest.mark.parametrize("late", [False, True])
def test_a_recording_in_json(uploading: ExactService, late: bool) -> None:
    """A recording may come in base64, as OpenRouter's clients send it, with its options before and after it."""
    options = {"model": "openai/whisper-1", "language": "en", "temperature": 0, "response_format": "verbose_json"}
    recording = {"input_audio": {"data": base64.b64encode(TWO_SENTENCES).decode(), "format": "flac"}}
    body = json.dumps({**recording, **options} if late else {**options, **recording}).encode()
    status, _, content = post(uploading.url, OPENAI_PATH, body, Content_Type="application/json; charset=utf-8")
    told = json.loads(content)
    assert (status, told["text"], len(told["segments"])) == (200, "Hello world Goodbye", 2)


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"{}", "has no recording"), (b'{"input_audio": {"data": "#"}}', "base64"), (b'{"model": ', "not valid JSON")],
)
def test_json_without_a_recording(uploading: ExactService, body: bytes, words: str) -> None:
    """The refusal has OpenAI's form, and says how a recording is sent."""
    status, _, content = post(uploading.url, OPENAI_PATH, body, Content_Type="application/json")
    assert (status, words in json.loads(content)["error"]["message"]) == (400, True)


async def test_every_option_is_described() -> None:
    """The description has every option that the service accepts, and every reference leads somewhere."""
    async with listening() as server:
        status, headers, text = await ask(server, "/openapi.json")
    described = json.loads(text)
    assert (status, headers["Content-Type"], described["openapi"]) == (200, "application/json", "3.1.0")
    operation = described["paths"]["/v1/transcribe"]["post"]
    assert {each["name"] for each in operation["parameters"]} == set(OPTIONS)
    assert all(each["description"] for each in operation["parameters"])
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert referred == set(described["components"]["schemas"])


async def test_the_page_needs_no_other_network() -> None:
    """The page loads one style sheet of the service itself, and no script."""
    async with listening() as server:
        status, headers, page = await ask(server, "/docs")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert loaded
        assert all([await _is_served(server, path) for path in loaded])
    assert "<script" not in page
    assert "<code>POST /v1/transcribe</code>" in page


async def _is_served(server: BridgeServer, path: str) -> bool:
    return path.startswith("/") and (await ask(server, path))[0] == 200
