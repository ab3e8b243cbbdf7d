"""The messages of a client in the native protocol, and the errors for invalid ones."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from streamer.wire.errors import CloseCode, WireError
from streamer.wire.native import (
    DEEPEST,
    LONGEST_REASON,
    LONGEST_START,
    LONGEST_TEXT,
    Flush,
    KeepAlive,
    Stop,
    close_reason,
    encode,
    name_of,
    parse,
)
from streamer.wire.options import EnrolledVoice, SpeakerNames, Start


def start_with_voice(seconds: int, *, speakers: bool = True) -> str:
    """A start in which a voice is enrolled."""
    audio = base64.b64encode(bytes(32_000 * seconds)).decode()
    return json.dumps({"type": "start", "speakers": speakers, "voices": [{"name": "Ada", "audio": audio}]})


def test_voices_are_enrolled() -> None:
    """Recordings come as base64, and only the first message may be so long. Other names than theirs come first."""
    start = parse(start_with_voice(seconds=10), LONGEST_START)
    assert isinstance(start, Start)
    assert start.voices == (EnrolledVoice("Ada", bytes(320_000)),)
    assert start.names_of_speakers == ("Ada",)
    assert replace(start, speaker_names=("Grace",)).names_of_speakers == ("Grace",)
    with pytest.raises(WireError, match="at most 65536 characters"):
        parse(start_with_voice(seconds=10))
    with pytest.raises(WireError, match="1 to 10 s of 16-bit"):
        parse(start_with_voice(seconds=11), LONGEST_START)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type":"start"}', Start()),
        ('{"type":"start","encoding":"pcm_s16le","sample_rate":16000,"channels":1}', Start()),
        ('{"type":"start","partials":false,"words":false}', Start(partials=False, words=False)),
        ('{"type":"start","speech":false,"live":true}', Start(speech=False, live=True)),
        ('{"type":"start","step_ms":640}', Start(step_ms=640)),
        (' { "step_ms" : 160 , "type" : "start" } ', Start(step_ms=160)),
        ('{"type":"flush"}', Flush()),
        ('{"type":"keepalive"}', KeepAlive()),
        ('{"type":"speaker_names","names":["Ada",""]}', SpeakerNames(("Ada", ""))),
        ('{"type":"start","speaker_names":["Ada"]}', Start(speaker_names=("Ada",))),
        ('{"type":"stop"}', Stop()),
    ],
)
def test_message(text: str, message: object) -> None:
    """parse returns the message, with defaults for what the client left out."""
    assert parse(text) == message


@pytest.mark.parametrize(
    ("text", "code", "close_code", "says"),
    [
        ("", "bad_json", 4000, "JSON object"),
        ("hello", "bad_json", 4000, '{"type":"start"}'),
        ('{"type":"start"', "bad_json", 4000, "JSON object"),
        ("[" * 20000, "bad_json", 4000, "at most 8 levels"),
        ("1" * 5000, "bad_json", 4000, "JSON object"),
        ("[]", "bad_json", 4000, "not a list"),
        ("null", "bad_json", 4000, "not null"),
        ('"start"', "bad_json", 4000, "not a string"),
        ("1.5", "bad_json", 4000, "not a number with a fraction"),
        ("{}", "unknown_type", 4000, "start, flush, keepalive, speaker_names, stop"),
        ('{"type":"begin"}', "unknown_type", 4000, 'not "begin"'),
        ('{"type":["start"]}', "unknown_type", 4000, "not a list"),
        ('{"type":"\\ud800"}', "unknown_type", 4000, "\\ud800"),
        ('{"type":"%s"}' % ("x" * 500), "unknown_type", 4000, "xxx…"),
        ('{"type":"start","rate":16000}', "unknown_option", 4000, "it takes encoding, sample_rate, channels"),
        ('{"type":"start","resume":{"token":"t"}}', "bad_option", 4000, "'after': the 'n' of the last message"),
        ('{"type":"start","resume":{"token":7,"after":1}}', "bad_option", 4000, "'token' of 'resume' must be a string"),
        ('{"type":"start","resume":{"token":"t","after":-1}}', "bad_option", 4000, "from 0 to"),
        ('{"type":"start","resume":{"token":"t","after":1},"words":true}', "bad_option", 4000, "only option"),
        ('{"type":"stop","now":true}', "unknown_option", 4000, "it takes none"),
        ('{"type":"start","speakers":true,"voices":[{"name":"Ada"}]}', "bad_option", 4000, "1 to 10 s of 16-bit"),
        ('{"type":"start","speakers":true,"voices":[7]}', "bad_option", 4000, "at most 20 names"),
        (start_with_voice(seconds=0), "bad_option", 4000, "1 to 10 s of 16-bit"),
        (start_with_voice(seconds=1, speakers=False), "bad_option", 4000, "'voices' need 'speakers'"),
        ('{"type":"speaker_names","names":"Ada"}', "bad_option", 4000, "'names' of 'speaker_names' must be a list"),
        ('{"type":"speaker_names","names":[7]}', "bad_option", 4000, "at most 20 names"),
        ('{"type":"start","speaker_names":["a\\nb"]}', "bad_option", 4000, "60 printable characters"),
        (
            '{"type":"start","words":1}',
            "bad_option",
            4000,
            "'words' must be true or false, not a whole number",
        ),
        ('{"type":"start","words":"no"}', "bad_option", 4000, "not a string"),
        ('{"type":"start","partials":"no"}', "bad_option", 4000, """must be true, false or "reader", not "no"."""),
        (
            '{"type":"start","step_ms":true}',
            "bad_option",
            4000,
            "'step_ms' must be a whole number, not true or false",
        ),
        ('{"type":"start","step_ms":null}', "bad_option", 4000, "not null"),
        ('{"type":"start","step_ms":100}', "bad_option", 4000, "160, 320 or 640, not 100"),
        ('{"type":"start","search":"best"}', "bad_option", 4000, "'search' must be lexicon, greedy or beam, not"),
        ('{"type":"start","sample_rate":"16000"}', "bad_option", 4000, "whole number"),
    ],
)
def test_bad_message(text: str, code: str, close_code: int, says: str) -> None:
    """parse says what is wrong with a message, and what is expected."""
    with pytest.raises(WireError) as caught:
        parse(text)
    assert (caught.value.code, caught.value.close_code) == (code, close_code)
    assert says in caught.value.message
    assert len(caught.value.message) < 400
    caught.value.message.encode()


def test_long_text() -> None:
    """A text frame that can only be misplaced audio is not even decoded."""
    with pytest.raises(WireError, match="binary frames"):
        parse(" " * (LONGEST_TEXT + 1) + '{"type":"stop"}')


@pytest.mark.parametrize("name", ["start", "flush", "keepalive", "speaker_names", "stop"])
def test_name(name: str) -> None:
    """The name of a message is its `type`."""
    assert name_of(parse(encode({"type": name}))) == name


def test_encode() -> None:
    """encode gives compact JSON that keeps every character."""
    event = {"type": "final", "text": "l'été 你好"}
    assert encode(event) == '{"type":"final","text":"l\'été 你好"}'
    assert json.loads(encode(event)) == event


def test_close_reason() -> None:
    """A reason is cut between characters so that it fits into a close frame."""
    assert close_reason("done") == "done"
    long = close_reason("é" * 100)
    assert long.endswith("é…")
    assert len(long.encode()) <= LONGEST_REASON


def test_close_codes() -> None:
    """The codes are those that clients rely on."""
    assert sorted(CloseCode) == [1000, 1008, 1009, 1011, 1013, 4000, 4001, 4008, 4010, 4029]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"b":', "}]")])
@pytest.mark.parametrize("option", ["endpoint", "hotwords", "step_ms", "nothing"])
def test_nested(option: str, opening: str, closing: str) -> None:
    """A message that is nested too deep gets a sentence, even beyond what the parser can read."""
    for depth in range(1, 1100):
        text = f'{{"type":"start","{option}":{opening * depth}1{closing * depth}}}'
        with pytest.raises(WireError) as refused:
            parse(text)
        if depth * len(closing) + 1 > DEEPEST:
            assert refused.value.code == "bad_json"
            assert refused.value.message.endswith("nested in at most 8 levels.")
        else:
            assert refused.value.code in ("bad_option", "unknown_option")
