"""The table of all dialects, and the one of the page that shows how to make one."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Done, Error, Flushed
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.deepgram import DeepgramLive
from streamer.wire.dialects.dialect import STOP, Dialect, Hangup
from streamer.wire.dialects.formats import FORMATS, ROOTS
from streamer.wire.dialects.vosk import Vosk
from tests.wire.dialects import (
    test_assemblyai,
    test_deepgram_flux,
    test_elevenlabs,
    test_soniox,
    test_speechmatics,
    test_speechmatics_agent,
)
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


def deepgram() -> DeepgramLive:
    """Return a websocket on which audio has come."""
    client = opened(DeepgramLive, "encoding=linear16&sample_rate=16000")
    take(client, bytes(32_000))
    return client


def vosk() -> Vosk:
    """Return a websocket on which audio has come."""
    client = opened(Vosk)
    take(client, bytes(32_000))
    return client


# How a client asks for the end of what it says, and what the answer has.
REQUESTS: dict[str, tuple[Callable[[], Dialect], str, str]] = {
    "Deepgram": (deepgram, '{"type":"Finalize"}', r'"from_finalize":true'),
    "Flux": (test_deepgram_flux.client_of, '{"type":"ForceEndTurn"}', r'"EndOfTurn"'),
    "AssemblyAI": (test_assemblyai.client_of, '{"type":"ForceEndpoint"}', r'"end_of_turn":true'),
    "ElevenLabs": (test_elevenlabs.client_of, test_elevenlabs.COMMIT, r'"committed_transcript'),
    "Soniox": (test_soniox.client_of, '{"type":"finalize"}', r'"<fin>"|"<end>"|"finished"'),
    "Speechmatics": (test_speechmatics.client_of, test_speechmatics.FORCE, r'"EndOfUtterance"|"EndOfTranscript"'),
    "Speechmatics agent": (
        test_speechmatics_agent.client_of,
        '{"message":"ForceEndOfUtterance"}',
        r'"AddSegment"|"EndOfTurn"',
    ),
    "Vosk": (vosk, '{"reset":1}', r'"text"'),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_no_failure_looks_like_an_answer(name: str) -> None:
    """A client that waits for the end of what it said gets it from a flush, and never from a failure."""
    make, request, answer = REQUESTS[name]
    failure = Error(ErrorCode.FAILED, "It failed.", fatal=True)
    for last, answered in ((Flushed(1000), True), (failure, False)):
        client = make()
        take(client, request)
        heard = (final("one"), partial("tw", 1100, 1500), last)
        texts = [json.dumps(json.loads(text), separators=(",", ":")) for each in heard for text in client.tell(each)]
        assert bool(re.search(answer, "".join(texts))) is answered, texts
