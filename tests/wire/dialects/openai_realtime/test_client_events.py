"""Reading the events of a client of OpenAI's realtime transcription."""

from __future__ import annotations

import base64
import json

import pytest

from streamer.wire.dialects.openai_realtime.client_events import (
    LARGEST_APPEND,
    LARGEST_MESSAGE,
    Append,
    Clear,
    Commit,
    Update,
    parse,
    read,
)
from streamer.wire.dialects.openai_realtime.mistakes import Mistake


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ('{"type":"input_audio_buffer.append","audio":"AAEC/w=="}', Append(b"\0\1\2\xff")),
        ('{"type":"input_audio_buffer.append","audio":"","later":[1]}', Append(b"")),
        ('{"type":"input_audio_buffer.commit"}', Commit()),
        ('{"type":"input_audio_buffer.clear"}', Clear()),
        ('{"type":"session.update","session":{"a":1}}', Update({"a": 1}, flat=False)),
        ('{"type":"transcription_session.update","session":{}}', Update({}, flat=True)),
    ],
)
def test_event(text: str, event: object) -> None:
    """An event is read, and its unknown fields are ignored."""
    content, event_id = parse(text)
    assert event_id is None
    assert read(content, len(text)) == event


def test_an_event_may_have_a_name() -> None:
    """The name of an event is bounded, because errors repeat it. A name that is no string is ignored."""
    assert parse('{"event_id":"mine"}')[1] == "mine"
    assert parse(json.dumps({"event_id": "m" * 5000}))[1] == "m" * 512
    assert parse('{"event_id":7}')[1] is None
    assert parse('{"event_id":"\\ud800"}')[1] is None


@pytest.mark.parametrize(
    ("text", "code", "param", "says"),
    [
        ("{", "invalid_json", None, "JSON object"),
        ("[" * 200_000, "invalid_json", None, "JSON object"),
        ("[]", "invalid_json", None, "not a list"),
        ("{}", "invalid_value", "type", "not null"),
        ('{"type":"response.create"}', "invalid_value", "type", "only transcribes"),
        ('{"type":["session.update"]}', "invalid_value", "type", "not a list"),
        ('{"type":"input_audio_buffer.append"}', "invalid_value", "audio", "not null"),
        ('{"type":"input_audio_buffer.append","audio":[0]}', "invalid_value", "audio", "not a list"),
        ('{"type":"input_audio_buffer.append","audio":"AA"}', "invalid_value", "audio", "not valid base64"),
        ('{"type":"input_audio_buffer.append","audio":"é==="}', "invalid_value", "audio", "not valid base64"),
        ('{"type":"input_audio_buffer.append","audio":"A A="}', "invalid_value", "audio", "not valid base64"),
        (json.dumps({"type": "session.update", "session": "x" * 70_000}), "invalid_value", "session", "65536"),
    ],
)
def test_mistake(text: str, code: str, param: str | None, says: str) -> None:
    """The sentence says what is wrong, and the error repeats the client's name of its event."""
    with pytest.raises(Mistake) as caught:
        read(parse(text)[0], len(text))
    error = caught.value.content("mine")
    assert (error["type"], error["code"], error["param"], error["event_id"]) == (
        "invalid_request_error",
        code,
        param,
        "mine",
    )
    assert says in error["message"]


def test_audio_has_a_bound() -> None:
    """An event may have 15 MiB of audio, as at OpenAI, and a message has room for all of its base64."""
    largest = base64.b64encode(bytes(LARGEST_APPEND)).decode()
    text = json.dumps({"type": "input_audio_buffer.append", "audio": largest})
    assert len(text) <= LARGEST_MESSAGE
    assert read(parse(text)[0], len(text)) == Append(bytes(LARGEST_APPEND))
    with pytest.raises(Mistake, match="15 MiB"):
        read({"type": "input_audio_buffer.append", "audio": largest + "AAAA"}, 0)
