"""The format of Twilio's media streams: a whole log, both directions, and chunks that are late, lost or wrong."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from streamer.wire.dialects.dialect import STOP, Aside, Hangup, Step
from streamer.wire.dialects.twilio import LEAD_MS, LONGEST_GAP_MS, MOST_EARLY, REORDER_MS, Track, Twilio
from tests.wire.dialects.dialect_steps import final, opened, started, take, told

CHUNK = 160  # samples of 20 ms
# A log in the form of Twilio's documentation.
LOG = """
{"event":"connected","protocol":"Call","version":"1.0.0"}
{"event":"start","sequenceNumber":"1","start":{"accountSid":"AC01","streamSid":"MZ02","callSid":"CA03",\
"tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000,"channels":1},\
"customParameters":{"FirstName":"Jane","streamer_language":"en"}},"streamSid":"MZ02"}
{"event":"media","sequenceNumber":"2","media":{"track":"inbound","chunk":"1","timestamp":"5","payload":"FIRST"},\
"streamSid":"MZ02"}
{"event":"media","sequenceNumber":"3","media":{"track":"inbound","chunk":"2","timestamp":"25","payload":"SECOND"},\
"streamSid":"MZ02"}
{"event":"dtmf","streamSid":"MZ02","sequenceNumber":"4","dtmf":{"track":"inbound_track","digit":"1"}}
{"event":"mark","sequenceNumber":"5","streamSid":"MZ02","mark":{"name":"my label"}}
{"event":"stop","sequenceNumber":"6","streamSid":"MZ02","stop":{"accountSid":"AC01","callSid":"CA03"}}
"""


def start(*tracks: str, **changes: Any) -> str:
    """Return the message with which a stream begins."""
    form = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
    content = {"streamSid": "MZ02", "callSid": "CA03", "tracks": list(tracks or ("inbound",)), "mediaFormat": form}
    return json.dumps({"event": "start", "start": {**content, **changes}})


def media(value: int, at_ms: int | None, track: str = "inbound", size: int = CHUNK) -> str:
    """Return a chunk of samples that all have this value."""
    content = {"track": track, "payload": base64.b64encode(bytes([value]) * size).decode()}
    return json.dumps({"event": "media", "media": content if at_ms is None else {**content, "timestamp": str(at_ms)}})


def audio(steps: list[Step]) -> bytes:
    """Return all audio of these steps."""
    return b"".join(step for step in steps if isinstance(step, bytes))


def runs(samples: bytes) -> list[tuple[int, int]]:
    """Return the values of samples, each with the milliseconds for which it lasts."""
    found: list[list[int]] = []
    for sample in samples:
        if not found or found[-1][0] != sample:
            found.append([sample, 0])
        found[-1][1] += 1
    return [(value, count // 8) for value, count in found]


def heard(*chunks: tuple[int, int | None]) -> list[tuple[int, int]]:
    """Return what is heard of chunks with these values, at these times."""
    client = opened(Twilio)
    steps = take(client, start(), *(media(value, at_ms) for value, at_ms in chunks))
    return runs(audio([*steps, *client.rest()]))


def test_a_whole_log() -> None:
    """The session has the options of the parameters; what happens besides speech is passed on; the end is the end."""
    client = opened(Twilio)
    first, second = bytes([1]) * CHUNK, bytes([2]) * CHUNK
    log = LOG.replace("FIRST", base64.b64encode(first).decode()).replace("SECOND", base64.b64encode(second).decode())
    steps = take(client, *log.strip().splitlines())
    begin = started(steps)
    assert (begin["encoding"], begin["sample_rate"], begin["channels"]) == ("mulaw", 8000, 1)
    assert (begin["language"], begin["multichannel"], begin["written"]) == ("auto", False, True)
    assert steps[1:] == [first, second, Aside("dtmf", {"digit": "1", "track": "inbound_track"}), STOP]
    assert client.about == {
        "account_sid": "AC01",
        "stream_sid": "MZ02",
        "call_sid": "CA03",
        "tracks": ["inbound"],
        "parameters": {"FirstName": "Jane"},
    }
    assert take(client, media(1, 10), "{") == []
    assert told(client, final("nobody is told")) == []


def test_both_directions_are_channels() -> None:
    """Their chunks come in turns, and become samples in turns."""
    client = opened(Twilio)
    steps = take(client, start("inbound", "outbound"))
    assert (started(steps)["channels"], started(steps)["multichannel"]) == (2, True)
    for number in range(5):
        steps += take(client, media(1, 20 * number), media(2, 20 * number, "outbound"))
    assert audio(steps) == bytes([1, 2]) * 5 * CHUNK


def test_a_silent_direction() -> None:
    """The other one waits only for a moment. At the end both are equally long."""
    client = opened(Twilio)
    steps = take(client, start("inbound", "outbound"), *(media(1, 20 * number) for number in range(50)))
    assert len(audio(steps)) == 2 * 8 * (1000 - LEAD_MS)
    steps += take(client, media(2, 980, "outbound"))
    steps += client.rest()
    assert runs(audio(steps)[::2]) == [(1, 1000)]
    assert runs(audio(steps)[1::2]) == [(0xFF, 980), (2, 20)]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([(1, 0), (2, 20), (3, 40)], [(1, 20), (2, 20), (3, 20)]),
        ([(1, 5), (2, 5), (3, 5)], [(1, 20)]),
        ([(1, None), (2, None)], [(1, 20), (2, 20)]),
        ([(1, 0), (3, 40), (2, 20), (4, 60)], [(1, 20), (2, 20), (3, 20), (4, 20)]),
        ([(1, 0), (4, 60), (3, 40), (2, 20)], [(1, 20), (2, 20), (3, 20), (4, 20)]),
        ([(1, 0), (2, 20), (2, 20), (3, 40)], [(1, 20), (2, 20), (3, 20)]),
        ([(1, 0), (2, 24), (3, 37), (4, 66)], [(1, 20), (2, 20), (3, 20), (4, 20)]),
        ([(1, 0), (2, 500)], [(1, 20), (0xFF, 480), (2, 20)]),
        ([(1, 0), (3, 40)], [(1, 20), (0xFF, 20), (3, 20)]),
        ([(1, 0), (3, 400), (2, 20)], [(1, 20), (0xFF, 380), (3, 20)]),
        ([(1, 9000), (2, 9020)], [(1, 20), (2, 20)]),
        ([(1, 0), (2, 3_600_000), (3, 3_600_020)], [(1, 20), (0xFF, LONGEST_GAP_MS), (2, 20), (3, 20)]),
        ([(1, 9000), (2, 9020), (3, 0), (4, 20)], [(1, 20), (2, 20), (3, 20), (4, 20)]),
    ],
    ids=[
        "in order",
        "the same again",
        "without times",
        "one late",
        "two late",
        "doubled",
        "times that are not exact",
        "a long gap",
        "lost at the end",
        "too late",
        "a late beginning",
        "a gap of an hour",
        "a clock set back",
    ],
)
def test_times(chunks: list[tuple[int, int | None]], expected: list[tuple[int, int]]) -> None:
    """Each chunk is heard at its time: once, in order, and with silence for what is lost."""
    assert heard(*chunks) == expected


def test_a_late_chunk_holds_audio_back_only_for_a_moment() -> None:
    """Then it counts as lost."""
    client = opened(Twilio)
    steps = take(client, start(), media(1, 0))
    for at_ms in range(40, 20 + REORDER_MS, 20):
        assert audio(steps) == bytes([1]) * CHUNK
        steps += take(client, media(3, at_ms))
    assert runs(audio(steps)) == [(1, 20), (0xFF, 20), (3, REORDER_MS - 20)]


def test_what_waits_has_a_bound() -> None:
    """Ever smaller chunks behind a gap do not pile up."""
    track = Track(8000, b"\xff")
    track.add(bytes(CHUNK), 0)
    for number in range(10 * MOST_EARLY):
        track.add(b"\1", 2 * CHUNK + number % 3)
        assert len(track._early) <= MOST_EARLY


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("no JSON", "JSON"),
        ("[]", "JSON"),
        (start(mediaFormat={"encoding": "audio/mpeg"}), "encoding"),
        (start(mediaFormat={"encoding": ["audio/x-mulaw"]}), "encoding"),
        (start(mediaFormat={"sampleRate": 1}), "sampleRate"),
        (start(mediaFormat={"sampleRate": "8000"}), "sampleRate"),
        (start(customParameters={"streamer_language": "tlh"}), "language"),
        (start(customParameters={"streamer_step_ms": "7"}), "step_ms"),
        ('{"event":"media","media":{"payload":"?"}}', "base64"),
        ('{"event":"media","media":{"payload":5}}', "base64"),
    ],
)
def test_what_is_refused(message: str, words: str) -> None:
    """It closes the websocket with a reason, and nothing more is taken."""
    client = opened(Twilio)
    steps = take(client, message)
    assert isinstance(steps[-1], Hangup)
    assert (steps[-1].code, words in steps[-1].reason) == (1008, True)
    assert take(client, start()) == []


@pytest.mark.parametrize(
    "message",
    [
        "{}",
        '{"event":"mark"}',
        '{"event":["start"]}',
        '{"event":"dtmf"}',
        media(1, 0, "sideways"),
        start(customParameters={"language": "tlh", "streamer_colour": "red"}),
        start(tracks=5, mediaFormat=None, customParameters="?"),
        start(mediaFormat={"encoding": None, "sampleRate": None}),
        start(customParameters={"streamer_language": "", "streamer_step_ms": None, "streamer_hotwords": ""}),
    ],
)
def test_what_is_ignored(message: str) -> None:
    """What is unknown, or means something to others only, is no reason to end a call."""
    client = opened(Twilio)
    steps = take(client, message, media(1, 0))
    assert audio(steps) == bytes([1]) * CHUNK
    assert not [step for step in steps if isinstance(step, Hangup)]


def test_a_call_without_a_word() -> None:
    """A stream that ends before it has begun has no session."""
    assert take(opened(Twilio), '{"event":"connected"}', '{"event":"stop"}') == []
