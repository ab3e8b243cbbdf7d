"""Wyoming's events: divided anywhere, of any format of audio, with answers in order, and refusals that say why."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error
from streamer.wire.dialects.dialect import STOP, Hangup, Opening, Reply, Step
from streamer.wire.dialects.wyoming import LONGEST_LINE, TRANSCRIBE, Wyoming
from tests.wire.dialects.dialect_steps import MODELS, final, opened, started, take
from tests.wire.dialects.wyoming_events import event, read

SECOND = bytes(32_000)
FORMAT = {"rate": 16_000, "width": 2, "channels": 1}
COMMAND = event("audio-start", FORMAT) + event("audio-chunk", FORMAT, SECOND) + event("audio-stop")


def answers(steps: Iterable[Step]) -> list[tuple[str, dict[str, Any]]]:
    """Return the events among these steps."""
    return [read(step.text) for step in steps if isinstance(step, Reply)]


def told(client: Wyoming, *messages: Any) -> list[tuple[str, dict[str, Any]]]:
    return [read(text) for message in messages for text in client.tell(message)]


def audio_of(steps: Iterable[Step]) -> bytes:
    return b"".join(step for step in steps if isinstance(step, bytes))


def test_the_page_has_what_a_command_may_ask_for() -> None:
    """The reference has each key with its meaning."""
    page = Path("docs/reference/compatibility.md").read_text()
    table = page.partition("<!-- the data of Wyoming")[2].partition("\n\n")[0]
    assert table.splitlines()[3:] == [f"| `{key}` | {meaning} |" for key, meaning in TRANSCRIBE.items()]


@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
def test_a_command(size: int) -> None:
    """However its bytes are divided, the session gets the same audio, and chunks are what the transcript has."""
    client = opened(Wyoming)
    data = event("transcribe", {"language": "en"}) + COMMAND
    steps = take(client, *(data[place : place + size] for place in range(0, len(data), size)))
    options = started(steps)
    assert (options["sample_rate"], options["channels"], options["written"], options["partials"]) == (
        16_000,
        1,
        True,
        False,
    )
    assert (audio_of(steps), steps[-1]) == (SECOND, STOP)
    assert told(client, final("Turn on"), final("the light.", 1200), Done(2000)) == [
        ("transcript-start", {}),
        ("transcript-chunk", {"text": "Turn on"}),
        ("transcript-chunk", {"text": " the light."}),
        ("transcript", {"text": "Turn on the light."}),
        ("transcript-stop", {}),
    ]


def test_the_next_command_begins_anew() -> None:
    """Nothing of the former one is told again, also if its client has not ended it."""
    client = opened(Wyoming)
    take(client, COMMAND)
    told(client, final("one"), Done(1000))
    assert started(take(client, COMMAND))
    assert told(client, final("two"), Done(1000))[-2] == ("transcript", {"text": "two"})
    begun = event("audio-start", FORMAT) + event("audio-chunk", FORMAT, SECOND)
    take(client, begun)
    assert take(client, begun)[0] == STOP


def test_nothing_was_said() -> None:
    """Without words or without audio, the transcript is empty."""
    empty = [("transcript-start", {}), ("transcript", {"text": ""}), ("transcript-stop", {})]
    client = opened(Wyoming)
    take(client, COMMAND)
    assert told(client, Done(1000)) == empty
    assert answers(take(client, event("audio-start", FORMAT) + event("audio-stop"))) == empty
    assert take(client, event("audio-stop")) == []  # there is no command to answer


def test_audio_without_a_start() -> None:
    """Each chunk says its format, so the first one begins a command."""
    steps = take(opened(Wyoming), event("audio-chunk", {**FORMAT, "rate": 8000}, SECOND), event("audio-stop"))
    assert (started(steps)["sample_rate"], steps[-1]) == (8000, STOP)


@pytest.mark.parametrize(
    ("width", "packed"),
    [
        (1, bytes([0, 128, 255])),
        (2, struct.pack("<3h", -32768, 0, 32512)),
        (3, b"\xff\x00\x80" + bytes(3) + b"\xff\x00\x7f"),
        (4, struct.pack("<3i", -(2**31), 0, 32512 << 16)),
    ],
)
def test_widths(width: int, packed: bytes) -> None:
    """Samples of any width are samples of 16 bits, also if a payload ends within one."""
    format = {"rate": 44_100, "width": width, "channels": 1}
    client = opened(Wyoming)
    steps = take(client, *(event("audio-chunk", format, packed[place : place + 2]) for place in (0, 2, 4)))
    steps += take(client, *(event("audio-chunk", format, packed[place:]) for place in (6,) if packed[place:]))
    if width == 3:
        steps = take(opened(Wyoming), event("audio-chunk", format, packed))
    assert started(steps)["sample_rate"] == 44_100
    whole = audio_of(steps)
    assert struct.unpack(f"<{len(whole) // 2}h", whole) == (-32768, 0, 32512)[: len(whole) // 2]
    assert whole


def test_channels() -> None:
    """They are mixed by the session, which gets whole frames only."""
    format = {"rate": 48_000, "width": 2, "channels": 2}
    steps = take(opened(Wyoming), event("audio-chunk", format, bytes(6)), event("audio-chunk", format, bytes(6)))
    assert started(steps)["channels"] == 2
    assert [len(step) for step in steps if isinstance(step, bytes)] == [4, 8]


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ({**FORMAT, "rate": 7999}, "'rate' must be 8000 to 192000, not 7999."),
        ({**FORMAT, "rate": "16000"}, "'rate' must be"),
        ({**FORMAT, "width": 5}, "'width' must be 1 to 4"),
        ({**FORMAT, "channels": 0}, "'channels' must be 1 to 8"),
    ],
)
def test_a_format_that_makes_no_sense(data: dict[str, Any], wrong: str) -> None:
    """It is refused by an event, and the connection is closed."""
    *steps, hangup = take(opened(Wyoming), event("audio-start", data))
    [(kind, error)] = answers(steps)
    assert (kind, error["code"]) == ("error", "unsupported_audio")
    assert error["text"].startswith(wrong)
    assert isinstance(hangup, Hangup)


def test_a_format_that_changes() -> None:
    """Within a command it cannot."""
    steps = take(opened(Wyoming), event("audio-start", FORMAT), event("audio-chunk", {**FORMAT, "rate": 8000}, SECOND))
    assert answers(steps)[0][1]["code"] == "unsupported_audio"


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({}, {}),
        ({"language": "en-US"}, {"model": "default"}),
        ({"language": "de"}, {"model": "fine", "language": "de-DE"}),  # another model has it
        ({"name": "fine"}, {"model": "fine"}),
        ({"name": "fine", "language": "de-DE"}, {"model": "fine", "language": "de-DE"}),
        ({"name": "whisper"}, {"model": "default"}),
        ({"transcript_names": ["Ada"], "transcript_terms": ["lamp", 7]}, {"hotwords": ["Ada", "lamp"]}),
        ({"language": None, "context": {"a": 1}, "vad_sensitivity": "relaxed"}, {"model": "default"}),
    ],
)
def test_what_a_command_asks_for(asked: dict[str, Any], options: dict[str, Any]) -> None:
    """The model that has the language recognises it."""
    start = started(take(opened(Wyoming), event("transcribe", asked) + COMMAND))
    assert {name: start.get(name) for name in options} == options


@pytest.mark.parametrize("asked", [{"language": "fr"}, {"name": "default", "language": "de"}])
def test_a_language_that_no_model_has(asked: dict[str, Any]) -> None:
    """It is refused before the audio."""
    steps = take(opened(Wyoming), event("transcribe", asked))
    assert answers(steps)[0][1]["code"] == "bad_option"
    assert isinstance(steps[-1], Hangup)


def test_describe() -> None:
    """The models, by their public names, and their languages; one that is not loaded has none yet."""
    client = Wyoming(Opening(models={**MODELS, "later": None}))
    [(kind, info)] = answers(take(client, event("describe")))
    [program] = info["asr"]
    assert (kind, program["supports_transcript_streaming"], program["installed"]) == ("info", True, True)
    languages = {model["name"]: model["languages"] for model in program["models"]}
    assert languages == {"default": ["en"], "fine": ["de-DE"], "later": []}


def test_a_ping() -> None:
    """Its text comes back, also while a command is spoken, and whatever it is."""
    client = opened(Wyoming)
    begun = event("audio-start", FORMAT) + event("audio-chunk", FORMAT, SECOND)
    assert answers(take(client, begun + event("ping", {"text": "here\n\u2028\ud800"}))) == [
        ("pong", {"text": "here\n\u2028\ud800"})
    ]
    assert answers(take(client, event("ping"))) == [("pong", {"text": None})]


def test_events_that_mean_nothing_here() -> None:
    """They are left out with their payload."""
    steps = take(opened(Wyoming), event("select-program", {"name": "x"}, b'{"type":"describe"}\n'), event("describe"))
    assert [kind for kind, _ in answers(steps)] == ["info"]


def test_data_within_the_line() -> None:
    """Data may be in the line, behind it, or both."""
    line = {"type": "audio-start", "data": {"rate": 8000}, "data_length": 12}
    steps = take(opened(Wyoming), json.dumps(line).encode() + b'\n{"width": 1}' + event("audio-chunk", {}, bytes(8)))
    assert (started(steps)["sample_rate"], len(audio_of(steps))) == (8000, 16)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"[]\n",
        b"[" * 60_000 + b"\n",
        b"\xff\n",
        b'{"type":"ping","data_length":2}\n[]',
        b'{"type":"ping","data_length":-1}\n',
        b'{"type":"ping","data_length":true}\n',
        b'{"type":"ping","data_length":70000}\n',
        b'{"type":"audio-chunk","payload_length":1e9}\n',
        b'{"type":"audio-chunk","payload_length":1048577}\n',
        b"x" * (LONGEST_LINE + 1),
    ],
)
def test_what_is_no_event(data: bytes) -> None:
    """The connection is closed, after an event that says why."""
    *steps, hangup = take(opened(Wyoming), data)
    assert [kind for kind, _ in answers(steps)] == ["error"]
    assert isinstance(hangup, Hangup)


def test_a_silent_client() -> None:
    """Its command ends, and it gets what it has said."""
    client = opened(Wyoming)
    take(client, event("audio-start", FORMAT) + event("audio-chunk", FORMAT, SECOND))
    assert list(client.rest()) == [STOP]
    assert list(client.rest()) == []


def test_an_error_of_the_session() -> None:
    """It is an event; one that is not fatal is none."""
    client = opened(Wyoming)
    assert told(client, Error(ErrorCode.FULL, "No room.", fatal=False)) == []
    assert told(client, Error(ErrorCode.FULL, "No room.", fatal=True)) == [
        ("error", {"text": "No room.", "code": "full"})
    ]
