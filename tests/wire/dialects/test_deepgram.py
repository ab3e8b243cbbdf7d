"""Deepgram's live format, and its answer to an uploaded recording, byte for byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import pytest

from streamer import __version__
from streamer.base.codes import ErrorCode
from streamer.base.events import (
    Acknowledgement,
    Done,
    Error,
    Final,
    Flushed,
    Partial,
    ServerMessage,
    Speech,
    SpeechState,
    Word,
)
from streamer.base.limits import READER
from streamer.base.options import Endpoint
from streamer.wire.dialects.deepgram import DeepgramLive, DeepgramRecorded, model_info, uuid_of
from streamer.wire.dialects.dialect import FLUSH, KEEPALIVE, STOP, Hangup, Opening, Reply, Step
from streamer.wire.errors import CloseCode, WireError
from streamer.wire.native import parse
from streamer.wire.options import Start
from streamer.wire.upload import Address, BareSamples, Problem

SAMPLES = (("encoding", "linear16"), ("sample_rate", "16000"))
INFO = f'"model_info":{{"name":"default","version":"{__version__}","arch":"streamer"}}'
HELLO = Word("Hello", 240, 600, 0.97, "hello")
FINAL = Final(0, "Hello", 240, 600, 1280, 0.91, (HELLO,), cut_ms=920)


def dialect(*query: tuple[str, str], samples: Iterable[tuple[str, str]] = SAMPLES) -> DeepgramLive:
    """A session with these options."""
    return DeepgramLive(Opening((*samples, *query), {}, {"default": ()}, "request", "2026-01-31T12:00:00.000Z"))


def started(dialect: DeepgramLive) -> Start:
    """The native options of a session."""
    [text] = dialect.greet()
    assert isinstance(text, str)
    message = parse(text)
    assert isinstance(message, Start)
    return message


def told(dialect: DeepgramLive, *messages: ServerMessage) -> list[dict[str, Any]]:
    """What the client gets for these messages."""
    return [json.loads(text) for message in messages for text in dialect.tell(message)]


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [each["type"] for each in found]


def steps(dialect: DeepgramLive, *messages: str | bytes) -> list[Step]:
    """What is to be done for these messages of the client."""
    return [step for message in messages for step in dialect.receive(message)]


def test_a_result_byte_for_byte() -> None:
    """Every field is always there, in the order of the original."""
    speaking = dialect(("punctuate", "true"))
    [text] = speaking.tell(FINAL)
    uuid = json.loads(text)["metadata"]["model_uuid"]
    assert len(uuid) == 36
    assert text == (
        '{"type":"Results","channel_index":[0,1],"duration":0.92,"start":0.0,"is_final":true,"speech_final":true,'
        '"channel":{"alternatives":[{"transcript":"Hello","confidence":0.91,"words":[{"word":"hello","start":0.24,'
        '"end":0.6,"confidence":0.97,"punctuated_word":"Hello"}]}]},'
        f'"metadata":{{"request_id":"request",{INFO},"model_uuid":"{uuid}"}},"from_finalize":false}}'
    )


def test_the_end_byte_for_byte() -> None:
    """An empty final covers the rest; then comes `Metadata` about all that was received."""
    speaking = dialect()
    assert steps(speaking, b"abcd", b"ef") == [b"abcd", b"ef"]
    list(speaking.tell(FINAL))
    rest, metadata = speaking.tell(Done(1500))
    assert rest.startswith(
        '{"type":"Results","channel_index":[0,1],"duration":0.58,"start":0.92,"is_final":true,"speech_final":false,'
        '"channel":{"alternatives":[{"transcript":"","confidence":0.0,"words":[]}]}'
    )
    assert metadata == (
        '{"type":"Metadata","transaction_key":"deprecated","request_id":"request",'
        f'"sha256":"{hashlib.sha256(b"abcdef").hexdigest()}","created":"2026-01-31T12:00:00.000Z","duration":1.5,'
        '"channels":1}'
    )
    assert speaking.close(1000, "done") == (1000, "")


def test_the_options_of_the_session() -> None:
    """The options that LiveKit and pipecat send become those of the session."""
    livekit = dialect(
        ("model", "nova-3"),
        ("punctuate", "true"),
        ("endpointing", "25"),
        ("vad_events", "true"),
        ("interim_results", "true"),
        ("no_delay", "true"),
        ("filler_words", "true"),
        ("keyterm", "Ada"),
    )
    assert started(livekit) == Start(
        sample_rate=16_000,
        partial_words=True,
        written=True,
        second_pass=READER,
        endpoint=Endpoint(after_text_ms=400),
        hotwords=started(livekit).hotwords,
    )
    assert [hotword.text for hotword in started(livekit).hotwords] == ["Ada"]
    pipecat = dialect(("diarize", "false"), ("multichannel", "false"), ("endpointing", "false"))
    assert started(pipecat) == Start(partials=False, speech=False, second_pass=READER)


def test_words_without_marks() -> None:
    """Without `punctuate` there is no `punctuated_word`."""
    [found] = told(dialect(), Final(0, "hello", 240, 600, 1280, 0.9, (Word("hello", 240, 600, 0.9),), cut_ms=920))
    [word] = found["channel"]["alternatives"][0]["words"]
    assert word == {"word": "hello", "start": 0.24, "end": 0.6, "confidence": 0.9}


def test_the_only_speaker() -> None:
    """A client that asks for speakers gets the same one for each word, also of interim results."""
    speaking = dialect(("interim_results", "true"), ("diarize", "true"), ("punctuate", "true"))
    found = told(speaking, Partial(0, "Hello", 0, 240, 800, (Word("Hello", 240, 600),)), FINAL)
    assert [[word["speaker"] for word in each["channel"]["alternatives"][0]["words"]] for each in found] == [[0], [0]]


def test_interim_results() -> None:
    """Interim results begin where the last final ended; in silence they are empty."""
    speaking = dialect(("interim_results", "true"))
    partial = Partial(1, "go", 0, 1500, 1600, (Word("go", 1500, 1600),))
    found = told(speaking, FINAL, Acknowledgement(1400), partial, Acknowledgement(1700))
    assert [(each["start"], each["duration"], each["is_final"]) for each in found] == [
        (0.0, 0.92, True),
        (0.92, 0.48, False),
        (0.92, 0.68, False),
    ]
    assert found[1]["channel"]["alternatives"] == [{"transcript": "", "confidence": 0.0, "words": []}]


@pytest.mark.parametrize(
    ("query", "final", "ended"),
    [
        ((), FINAL, True),
        (("endpointing", "1000"), FINAL, False),  # the client, or the end, made it final
        (("endpointing", "false"), FINAL, False),
        ((), Final(0, "Hello", 240, 600, 20_000, 0.9, (HELLO,), cut_ms=19_000), False),  # it was too long
    ],
)
def test_only_a_pause_ends_speech(query: tuple[str, str] | tuple[()], final: Final, ended: bool) -> None:
    """Only a pause sets `speech_final`, after which a voice agent answers."""
    assert told(dialect(*[query] if query else []), final)[0]["speech_final"] is ended


def test_a_final_waits_for_the_answer_to_finalize() -> None:
    """The last final waits, so that its message has `from_finalize`; later answers are empty."""
    speaking = dialect()
    finalize = '{"type":"Finalize"}'
    assert steps(speaking, finalize, finalize) == [FLUSH, FLUSH]
    assert told(speaking, FINAL) == []
    second = Final(1, "you", 1000, 1200, 1300, 0.9, (), cut_ms=1250)
    [first] = told(speaking, second)
    assert (first["from_finalize"], first["duration"]) == (False, 0.92)
    [answer] = told(speaking, Flushed(1300))
    assert (answer["from_finalize"], answer["start"], answer["duration"]) == (True, 0.92, 0.38)
    assert answer["channel"]["alternatives"][0]["transcript"] == "you"
    [empty] = told(speaking, Flushed(1300))
    assert (empty["from_finalize"], empty["start"], empty["duration"]) == (True, 1.3, 0.0)


def test_the_end_of_an_utterance_comes_once_for_a_gap() -> None:
    """`UtteranceEnd` comes once for each gap, and always before the next words."""
    query = ("interim_results", "true"), ("utterance_end_ms", "1000"), ("vad_events", "true")
    speaking = dialect(*query)
    again = Partial(1, "go", 0, 2000, 2300)
    assert kinds(told(speaking, FINAL, Speech(SpeechState.START, 2000), again)) == [
        "Results",
        "UtteranceEnd",
        "SpeechStarted",
        "Results",
    ]
    silent = dialect(*query)
    found = told(silent, FINAL, Acknowledgement(1500), Acknowledgement(1700), Acknowledgement(5000))
    assert kinds(found) == ["Results", "Results", "Results", "UtteranceEnd", "Results"]
    assert found[3] == {"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 0.6}


def test_channels_have_their_own_results() -> None:
    """The finals of each channel cover its audio."""
    speaking = dialect(("channels", "2"), ("multichannel", "true"))
    assert speaking.slots == 2
    assert started(speaking).multichannel
    second = Final(0, "you", 240, 600, 1280, 0.9, (), cut_ms=700, channel=1)
    found = told(speaking, second, Done(1000))
    assert [(each["channel_index"], each["start"]) for each in found[:-1]] == [
        ([1, 2], 0.0),
        ([0, 2], 0.0),
        ([1, 2], 0.7),
    ]
    assert found[-1]["channels"] == 2


def test_messages_of_the_client() -> None:
    """After the end of the stream nothing counts any more."""
    speaking = dialect()
    assert steps(speaking, '{"type":"KeepAlive"}', b"ab") == [KEEPALIVE, b"ab"]
    [reply] = steps(speaking, '{"type":"Configure","keyterms":["new"]}')
    assert isinstance(reply, Reply)
    failure = json.loads(reply.text)
    assert (failure["type"], failure["request_id"], failure["code"]) == ("ConfigureFailure", "request", "UNSUPPORTED")
    assert steps(speaking, '{"type":"CloseStream"}', b"cd", '{"type":"Finalize"}') == [STOP]


def test_a_container_with_channels_waits_for_its_header() -> None:
    """What the client asks for meanwhile is done then."""
    speaking = dialect(("multichannel", "true"), samples=())
    assert (speaking.container, speaking.separate, list(speaking.greet())) == (True, True, [])
    assert steps(speaking, '{"type":"KeepAlive"}', '{"type":"Finalize"}', b"RIFF") == [b"RIFF"]
    start, flush = speaking.opened(3)
    assert isinstance(start, str)
    assert (json.loads(start)["channels"], flush) == (3, FLUSH)
    assert list(dialect(("multichannel", "true"), samples=()).undecodable(Problem(ErrorCode.UNKNOWN_FORMAT, ""))) == [
        Hangup(1008, "DATA-0000")
    ]


@pytest.mark.parametrize(
    ("error", "code", "found"),
    [
        ("idle", CloseCode.IDLE, (1011, "NET-0001")),
        ("failed", CloseCode.FAILED, (1011, "why")),
        ("full", CloseCode.TRY_LATER, (1013, "why")),
        ("odd_bytes", CloseCode.BAD_MESSAGE, (1000, "")),
        ("too_fast", CloseCode.TOO_FAST, (1008, "why")),
        ("bad_option", CloseCode.BAD_MESSAGE, (1008, "why")),
        ("no_start", CloseCode.IDLE, (1011, "NET-0001")),
        ("", CloseCode.IDLE, (1011, "why")),
        ("", 1000, (1000, "")),
    ],
)
def test_closes(error: str, code: int, found: tuple[int, str]) -> None:
    """Codes of our own become those that clients of Deepgram know. Only the end that was asked for is a 1000."""
    speaking = dialect()
    if error:
        told(speaking, Error(ErrorCode(error), "why", fatal=True))
    assert speaking.close(code, "why") == found


def test_a_container_without_a_header_in_time() -> None:
    """Audio came, but nothing in it could be decoded: that is not silence."""
    waiting = dialect(("multichannel", "true"), samples=())
    assert steps(waiting, b"no header") == [b"no header"]
    assert told(waiting, Error(ErrorCode.NO_START, "why", fatal=True)) == []
    assert waiting.close(CloseCode.IDLE, "why") == (1008, "DATA-0000")


def test_what_cannot_be_decoded_is_told_by_the_close() -> None:
    """Damaged audio has its own close; a stream that its client has cut off counts as complete."""
    bad = dialect(samples=())
    assert list(bad.undecodable(Problem(ErrorCode.DAMAGED_AUDIO, "x"))) == [STOP]
    assert (told(bad, Done(0)), bad.close(1000, "")) == ([], (1008, "DATA-0000"))
    cut_off = dialect(samples=())
    assert steps(cut_off, b"RIFF", '{"type":"CloseStream"}') == [b"RIFF", STOP]
    assert list(cut_off.undecodable(Problem(ErrorCode.DAMAGED_AUDIO, "x"))) == [STOP]
    assert (kinds(told(cut_off, Done(0))), cut_off.close(1000, "")) == (["Metadata"], (1000, ""))


def test_what_the_native_protocol_refuses_is_refused_at_once() -> None:
    """An option that is not valid is refused with a status, before a session begins."""
    for query in (("sample_rate", "100"), ("channels", "9")):
        with pytest.raises(WireError):
            dialect(query)
    assert DeepgramLive.refusal(ErrorCode.FULL, "All taken.", 503, "id") == (
        429,
        '{"err_code":"TOO_MANY_REQUESTS","err_msg":"All taken.","request_id":"id"}\n',
    )


RECORDED_HELLO = Final(0, "Hello.", 240, 600, 1280, 0.9, (Word("Hello.", 240, 600, 0.9, "hello"),), cut_ms=920)
YOU = Final(0, "You?", 1000, 1200, 1500, 0.8, (Word("You?", 1000, 1200, 0.8, "you"),), cut_ms=1400)


def answered(*query: tuple[str, str], channels: int = 1, finals: tuple[Final, ...] = (RECORDED_HELLO, YOU)) -> str:
    """The answer to a recording with these words."""
    format = DeepgramRecorded({"default": ()}, "request", "2026-01-31T12:00:00.000Z")
    format.query(query)
    format.look(b"RIFF")
    format.look(b"more")
    format.start(channels)
    for final in finals:
        format.add(final)
    format.add(Done(1500))
    return format.document()[1]


def test_the_answer_byte_for_byte() -> None:
    """The answer has all fields that the SDKs read."""
    uuid, _ = model_info("default")
    sha = hashlib.sha256(b"RIFFmore").hexdigest()
    first = '{"word": "hello", "start": 0.24, "end": 0.6, "confidence": 0.9, "punctuated_word": "Hello."}'
    second = '{"word": "you", "start": 1.0, "end": 1.2, "confidence": 0.8, "punctuated_word": "You?"}'
    assert answered(("punctuate", "true")) == (
        '{"metadata": {"transaction_key": "deprecated", "request_id": "request", '
        f'"sha256": "{sha}", "created": "2026-01-31T12:00:00.000Z", "duration": 1.5, "channels": 1, '
        f'"models": ["{uuid}"], "model_info": {{"{uuid}": {{"name": "default", "version": "{__version__}", '
        '"arch": "streamer"}}}, "results": {"channels": [{"alternatives": [{"transcript": "Hello. You?", '
        f'"confidence": 0.85, "words": [{first}, {second}]}}]}}]}}}}\n'
    )


def test_scripts_without_spaces() -> None:
    """Segments in Chinese or Japanese are joined without spaces."""
    finals = tuple(Final(0, text, 0, 600, 1280, 0.9, (), cut_ms=920) for text in ("你好。", "“再见”", "OK"))
    [channel] = json.loads(answered(finals=finals))["results"]["channels"]
    assert channel["alternatives"][0]["transcript"] == "你好。“再见” OK"


def test_utterances_if_they_are_asked_for() -> None:
    """Utterances come in the order of speech, each with its channel and its own id."""
    finals = (
        Final(0, "later", 1000, 1200, 1500, 0.8, (), channel=0),
        Final(0, "sooner", 100, 300, 500, 0.7, (), channel=1),
    )
    told = json.loads(answered(("utterances", "true"), ("multichannel", "true"), channels=2, finals=finals))
    assert told["results"]["utterances"] == [
        {
            "start": 0.1,
            "end": 0.3,
            "confidence": 0.7,
            "channel": 1,
            "transcript": "sooner",
            "words": [],
            "id": uuid_of("request 0"),
        },
        {
            "start": 1.0,
            "end": 1.2,
            "confidence": 0.8,
            "channel": 0,
            "transcript": "later",
            "words": [],
            "id": uuid_of("request 1"),
        },
    ]
    texts = [channel["alternatives"][0]["transcript"] for channel in told["results"]["channels"]]
    assert (texts, told["metadata"]["channels"]) == (["later", "sooner"], 2)


@pytest.mark.parametrize("wish", ["paragraphs", "smart_format"])
def test_paragraphs(wish: str) -> None:
    """Paragraphs have their sentences, with times, and begin after a long pause."""
    much_later = Final(0, "Bye.", 9000, 9300, 9900, 0.8, (Word("Bye.", 9000, 9300, 0.8, "bye"),), cut_ms=9800)
    finals = (RECORDED_HELLO, YOU, much_later)
    [channel] = json.loads(answered((wish, "true"), finals=finals))["results"]["channels"]
    assert channel["alternatives"][0]["paragraphs"] == {
        "transcript": "\nHello. You?\n\nBye.",
        "paragraphs": [
            {
                "sentences": [
                    {"text": "Hello.", "start": 0.24, "end": 0.6},
                    {"text": "You?", "start": 1.0, "end": 1.2},
                ],
                "num_words": 2,
                "start": 0.24,
                "end": 1.2,
            },
            {
                "sentences": [{"text": "Bye.", "start": 9.0, "end": 9.3}],
                "num_words": 1,
                "start": 9.0,
                "end": 9.3,
            },
        ],
    }


def test_paragraphs_of_nothing() -> None:
    """A recording without words has no paragraphs, but the field is there."""
    [channel] = json.loads(answered(("paragraphs", "true"), ("diarize", "true"), finals=()))["results"]["channels"]
    assert channel["alternatives"][0]["paragraphs"] == {"transcript": "", "paragraphs": []}


def test_the_speaker_of_a_recording() -> None:
    """Words, paragraphs and utterances have the one speaker that is known, on each channel."""
    query = (("diarize", "true"), ("paragraphs", "true"), ("utterances", "true"))
    results = json.loads(answered(*query))["results"]
    [alternative] = results["channels"][0]["alternatives"]
    assert [word["speaker"] for word in alternative["words"]] == [0, 0]
    assert alternative["paragraphs"]["transcript"] == "\nSpeaker 0: Hello. You?"
    assert [each["speaker"] for each in alternative["paragraphs"]["paragraphs"]] == [0]
    assert [each["speaker"] for each in results["utterances"]] == [0, 0]


def test_the_detected_language() -> None:
    """Each channel says which language it was, if the client asks for it."""
    results = json.loads(answered(("detect_language", "true"), ("multichannel", "true"), channels=2))["results"]
    assert [channel["detected_language"] for channel in results["channels"]] == ["en", "en"]
    assert "detected_language" not in json.loads(answered())["results"]["channels"][0]


def test_the_session_gets_the_options() -> None:
    """The session gets the options, also those of bare samples."""
    format = DeepgramRecorded({"default": ()})
    format.query(
        [
            ("encoding", "mulaw"),
            ("sample_rate", "8000"),
            ("channels", "2"),
            ("multichannel", "true"),
            ("utterances", "true"),
            ("utt_split", "0.5"),
            ("smart_format", "true"),
            ("keyterm", "Ada"),
        ]
    )
    assert (format.samples, format.separate) == (BareSamples("mulaw", 8000, 2), True)
    start = json.loads(format.start(2))
    assert start["endpoint"] == {"after_text_ms": 500}
    assert start["hotwords"] == [{"text": "Ada", "weight": 1.0}]
    assert (start["written"], start["partials"], start["channels"]) == (True, False, 2)
    assert start["second_pass"] == READER


@pytest.mark.parametrize("body", [b'{"url":"http://elsewhere.example"}', b'\n  {"url"'])
def test_an_address_is_no_recording(body: bytes) -> None:
    """JSON with an address is refused, whatever content type the request has."""
    with pytest.raises(WireError, match="fetches no address"):
        DeepgramRecorded().reader("audio/wav", body)


def test_an_address_is_fetched_if_that_is_allowed() -> None:
    """JSON with an address then says what must be fetched; a recording is still one."""
    allowing = DeepgramRecorded(fetches=True)
    reader = allowing.reader("", b'{"url":')
    assert reader is not None
    assert [*reader.feed(b'{"url":'), *reader.feed(b' " http://elsewhere.example "}')] == []
    assert list(reader.finish()) == [Address("http://elsewhere.example")]
    assert allowing.reader("application/json", b"RIFF") is None


def test_refusals_have_the_form_of_deepgram() -> None:
    """A recording at fault is a bad request there."""
    status, text = DeepgramRecorded({}, "request").refusal(Problem(ErrorCode.DAMAGED_AUDIO, "It is damaged."))
    assert (status, text) == (
        400,
        '{"err_code":"Bad Request","err_msg":"It is damaged.","request_id":"request"}\n',
    )
