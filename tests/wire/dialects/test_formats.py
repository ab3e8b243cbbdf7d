"""The table of all dialects, and the one of the page that shows how to make one."""

from __future__ import annotations

import base64
import inspect
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Flushed, ServerMessage
from streamer.wire.dialects import sherpa_onnx
from streamer.wire.dialects.assemblyai import AssemblyAI
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.azure import Azure
from streamer.wire.dialects.deepgram import DeepgramLive
from streamer.wire.dialects.deepgram_flux import DeepgramFlux
from streamer.wire.dialects.dialect import STOP, Dialect, Hangup
from streamer.wire.dialects.elevenlabs import ElevenLabs
from streamer.wire.dialects.formats import FORMATS, ROOTS
from streamer.wire.dialects.openai_realtime import OpenAIRealtime
from streamer.wire.dialects.soniox import Soniox
from streamer.wire.dialects.speechmatics import Speechmatics
from streamer.wire.dialects.speechmatics_agent import SpeechmaticsAgent
from streamer.wire.dialects.vosk import Vosk
from streamer.wire.dialects.whisperlivekit import WhisperLiveKit
from streamer.wire.dialects.wyoming import Wyoming
from tests.wire.dialects import azure_messages, wyoming_events
from tests.wire.dialects.dialect_steps import final, opened, partial, started, take

PAGE = Path("docs/how-to/your-own-dialect.md")
MOST_LINES = 300


def test_each_format_has_one_path_and_one_name() -> None:
    """No two share one, and the root knows all of them."""
    assert len({kind.path for kind in FORMATS.values()}) == len(FORMATS)
    assert len({kind.protocol for kind in FORMATS.values()}) == len(FORMATS)
    assert set(FORMATS) < set(ROOTS)
    assert all(re.fullmatch("[a-z-]+", name) for name in ROOTS)


def test_a_format_is_a_small_module() -> None:
    """Each that stands on the shared base has less lines than the page says."""
    small = [kind for kind in FORMATS.values() if issubclass(kind, AudioFirst)]
    assert small
    for kind in small:
        assert len(Path(inspect.getfile(kind)).read_text().splitlines()) < MOST_LINES, kind


def test_the_page_shows_a_format_that_works() -> None:
    """What stands there can be copied."""
    [_, code, _] = re.split(r"```(?:python)?\n", PAGE.read_text(), maxsplit=2)
    module: dict[str, Any] = {}
    exec(code, module)
    client = opened(module["Lines"])
    steps = take(client, bytes(640))
    assert (started(steps)["written"], steps[1:]) == (True, [bytes(640)])
    assert take(client, "bye") == [STOP, Hangup(1000)]
    assert [text for message in (final("one"), Done(20)) for text in client.tell(message)] == ["one"]


FLUSHED, DONE = Flushed(1000), Done(1000)


class Request(NamedTuple):
    """How a client begins, how it asks for the end of what it says, and what the answer has."""

    kind: type[Dialect]
    query: str
    first: tuple[str | bytes, ...]
    asks: str | bytes
    answer: str
    by: ServerMessage = FLUSHED
    """What of the session brings the answer."""


SECOND = bytes(32_000)
SONIOX = {"audio_format": "pcm_s16le", "sample_rate": 16_000, "num_channels": 1, "enable_endpoint_detection": True}
SPEECHMATICS = {
    "message": "StartRecognition",
    "audio_format": {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000},
    "transcription_config": {"language": "en"},
}
CHUNK = {"message_type": "input_audio_chunk", "audio_base_64": base64.b64encode(SECOND).decode(), "commit": False}
COMMIT = {**CHUNK, "audio_base_64": "", "commit": True}
FORCE = '{"message":"ForceEndOfUtterance","timestamp":1.0}'
NO_TURNS = {"type": "session.update", "session": {"audio": {"input": {"turn_detection": None}}}}
APPEND = {"type": "input_audio_buffer.append", "audio": base64.b64encode(SECOND).decode()}
WYOMING = {"rate": 16_000, "width": 2, "channels": 1}
LINEAR = "encoding=linear16&sample_rate=16000"
REQUESTS = {
    "Deepgram": Request(DeepgramLive, LINEAR, (SECOND,), '{"type":"Finalize"}', r'"from_finalize":true'),
    "Flux": Request(DeepgramFlux, LINEAR, (SECOND,), '{"type":"ForceEndTurn"}', r'"EndOfTurn"'),
    "AssemblyAI": Request(
        AssemblyAI, "sample_rate=16000", (SECOND,), '{"type":"ForceEndpoint"}', r'"end_of_turn":true'
    ),
    "ElevenLabs": Request(ElevenLabs, "", (json.dumps(CHUNK),), json.dumps(COMMIT), r'"committed_transcript'),
    "Soniox": Request(Soniox, "", (json.dumps(SONIOX), SECOND), '{"type":"finalize"}', r'"<fin>"|"<end>"|"finished"'),
    "Speechmatics": Request(
        Speechmatics, "", (json.dumps(SPEECHMATICS), SECOND), FORCE, r'"EndOfUtterance"|"EndOfTranscript"'
    ),
    "Speechmatics agent": Request(
        SpeechmaticsAgent, "", (json.dumps(SPEECHMATICS), SECOND), FORCE, r'"AddSegment"|"EndOfTurn"'
    ),
    "Vosk": Request(Vosk, "", (SECOND,), '{"reset":1}', r'"text"'),
    "OpenAI": Request(
        OpenAIRealtime,
        "",
        (json.dumps(NO_TURNS), json.dumps(APPEND)),
        '{"type":"input_audio_buffer.commit"}',
        r"transcription\.completed",
    ),
    "Azure": Request(
        Azure,
        "",
        (azure_messages.audio(azure_messages.header() + SECOND),),
        azure_messages.audio(),
        "EndOfDictation|turn.end",
        DONE,
    ),
    "sherpa-onnx": Request(
        sherpa_onnx.SherpaOnnx, "", (SECOND,), sherpa_onnx.END, f'"is_eof":true|{sherpa_onnx.ENDED}', DONE
    ),
    "WhisperLiveKit": Request(WhisperLiveKit, "", (SECOND,), b"", "ready_to_stop", DONE),
    "Wyoming": Request(
        Wyoming,
        "",
        (wyoming_events.event("audio-start", WYOMING), wyoming_events.event("audio-chunk", WYOMING, SECOND)),
        wyoming_events.event("audio-stop"),
        r'"transcript"',
        DONE,
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_no_failure_looks_like_an_answer(name: str) -> None:
    """A client that waits for the end of what it said gets it from its session, and never from a failure."""
    request = REQUESTS[name]
    failure = Error(ErrorCode.FAILED, "It failed.", fatal=True)
    for last, answered in ((request.by, True), (failure, False)):
        client = opened(request.kind, request.query)
        list(client.greet())
        take(client, *request.first, request.asks)
        heard = (final("one"), partial("tw", 1100, 1500), last)
        texts = "".join(text for each in heard for text in client.tell(each))
        assert bool(re.search(request.answer, texts)) is answered, texts
