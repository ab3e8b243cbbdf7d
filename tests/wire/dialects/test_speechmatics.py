"""Speechmatics' realtime format: the first message, finals and their marks, ends of utterances, channels, failures."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Acknowledgement, Done, Error, Flushed
from streamer.base.limits import LARGEST_MESSAGE
from streamer.wire.dialects import speechmatics_config
from streamer.wire.dialects.audio_first import Interleaver
from streamer.wire.dialects.dialect import FLUSH, STOP, Hangup, Step
from streamer.wire.dialects.speechmatics import Speechmatics
from streamer.wire.errors import WireError
from streamer.wire.upload import Problem
from tests.wire.dialects.dialect_steps import (
    final,
    opened,
    partial,
    replies,
    stands_on_the_page,
    started,
    take,
    told,
    words,
)

SECOND = bytes(32_000)
RAW = {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
END = '{"message":"EndOfStream","last_seq_no":1}'
FORCE = '{"message":"ForceEndOfUtterance","timestamp":1.0}'
EAR = {"diarization": "channel", "channel_diarization_labels": ["left", "right"]}


def begin(audio: object = RAW, **config: object) -> str:
    """Return the first message, as the SDK writes it."""
    said = {"language": "en", "model": "enhanced", **config}
    return json.dumps({"message": "StartRecognition", "audio_format": audio, "transcription_config": said})


def client_of(**config: object) -> Speechmatics:
    """Return a websocket on which audio has come."""
    client = opened(Speechmatics)
    take(client, begin(**config), SECOND)
    return client


def configure(**config: object) -> str:
    """Return the message that changes the config."""
    return json.dumps({"message": "SetRecognitionConfig", "transcription_config": config})


def channel(label: str, audio: bytes) -> str:
    """Return a message with audio of a channel."""
    return json.dumps({"message": "AddChannelAudio", "channel": label, "data": base64.b64encode(audio).decode()})


def kinds(messages: list[Any]) -> list[str]:
    """Return what messages are."""
    return [message["message"] for message in messages]


def mistake(steps: list[Step]) -> tuple[str, int, str]:
    """Return the type of the error, and how the websocket is closed."""
    [error], hangup = replies(steps), steps[-1]
    assert isinstance(hangup, Hangup)
    assert (error["message"], len(error["reason"].split()) > 3) == ("Error", True)
    return error["type"], hangup.code, hangup.reason


def test_the_page_has_the_config() -> None:
    """The table of the page is the one of the code."""
    assert stands_on_the_page("the config of Speechmatics", speechmatics_config.CONFIG)


def test_the_first_message() -> None:
    """It is answered at once. The session begins with the audio, each message of which is counted."""
    client = opened(Speechmatics)
    begun, info = replies(take(client, begin()))
    assert (begun["message"], begun["id"]) == ("RecognitionStarted", "ab-12")
    assert begun["language_pack_info"]["word_delimiter"] == " "
    assert (info["message"], info["type"], info["quality"]) == ("Info", "recognition_quality", "broadcast")
    steps = take(client, SECOND, SECOND)
    start = started(steps)
    assert (start["encoding"], start["sample_rate"], start["model"]) == ("pcm_s16le", 16_000, "default")
    assert (start["written"], start["second_pass"]) == (True, "reader")
    assert replies(steps) == [{"message": "AudioAdded", "seq_no": number} for number in (1, 2)]


def test_options() -> None:
    """Those of the config, as far as the service has them."""
    config = {
        "model": "fine",
        "language": "de",
        "additional_vocab": ["Ada", {"content": "Grace", "sounds_like": ["grays"]}, {"content": 7}],
        "diarization": "speaker",
        "speaker_diarization_config": {"max_speakers": 2},
        "conversation_config": {"end_of_utterance_silence_trigger": 0.2},
        "enable_entities": True,
        "domain": "finance",
        "max_delay_mode": "fixed",
    }
    audio = {"type": "raw", "encoding": "mulaw", "sample_rate": 8000, "chunk_size": 4096}
    client = opened(Speechmatics)
    assert replies(take(client, begin(audio, **config)))[1]["quality"] == "telephony"
    start = started(take(client, SECOND))
    assert (start["model"], start["language"], start["hotwords"]) == ("fine", "de-DE", ["Ada", "Grace"])
    assert (start["speakers"], start["endpoint"]) == (True, {"after_text_ms": 400})
    assert (start["encoding"], start["sample_rate"]) == ("mulaw", 8000)


@pytest.mark.parametrize(
    ("delay", "settle_ms", "second_pass"), [(0.7, 700, None), (0.1, 500, None), (4, None, "reader")]
)
def test_a_delay(delay: float, settle_ms: int | None, second_pass: str | None) -> None:
    """A word is final so long after its end, and then nothing reads it again. Four seconds are the usual delay."""
    start = started(take(opened(Speechmatics), begin(max_delay=delay), SECOND))
    assert (start.get("settle_ms"), start.get("second_pass")) == (settle_ms, second_pass)
    # Words get their speakers when their segment ends.
    start = started(take(opened(Speechmatics), begin(max_delay=delay, diarization="speaker"), SECOND))
    assert (start.get("settle_ms"), start["second_pass"]) == (None, "reader")


def test_a_language() -> None:
    """Clients name English if they are told none. A hint counts if the language is open."""
    for language, hints, chosen in (("en", [], None), ("multi", ["xx", "de-DE"], "de-DE"), ("auto", [], None)):
        config = {"model": "fine", "language": language, "language_hints": hints}
        assert started(take(opened(Speechmatics), begin(**config), SECOND)).get("language") == chosen


def test_a_query() -> None:
    """The address may have options of a session; what the SDK writes there is ignored."""
    start = started(take(opened(Speechmatics, "sm-sdk=python-rt&jwt=key&speakers=2&model=fine"), begin(), SECOND))
    assert (start["speakers"], start["model"]) == (2, "fine")
    with pytest.raises(WireError):
        opened(Speechmatics, "step_ms=7")


@pytest.mark.parametrize("audio", [{"type": "file"}, None])
def test_a_container(audio: object) -> None:
    """The first message says it, or nothing of the audio. Then there is one session, and it has begun."""
    client = opened(Speechmatics)
    assert (client.container, client.successive) == (False, True)
    steps = take(client, begin(audio))
    assert (client.container, client.successive, kinds(replies(steps))) == (
        True,
        False,
        ["RecognitionStarted", "Info"],
    )
    assert "encoding" not in started(steps)
    assert take(client, b"any bytes", b"")[0] == b"any bytes"
    # The service closes the websocket after the last message, so there is no hangup.
    assert take(client, END) == [STOP]
    assert kinds(told(client, Done(1000))) == ["EndOfTranscript"]
    assert client.close(1000, "") == (1000, "")


def test_a_container_that_is_none() -> None:
    """The error says it, and no end of the transcript follows."""
    client = opened(Speechmatics)
    take(client, begin({"type": "file"}), b"no recording")
    error, stop = list(client.undecodable(Problem(ErrorCode.UNKNOWN_FORMAT, "This is no recording.")))
    assert (stop, replies([error])[0]["type"]) == (STOP, "invalid_audio_type")
    assert (told(client, Done(0)), client.close(1000, "")) == ([], (1003, "invalid_audio_type"))
    cut = opened(Speechmatics)
    take(cut, begin({"type": "file"}), b"half a recording", END)
    assert list(cut.undecodable(Problem(ErrorCode.DAMAGED_AUDIO, "It ends early."))) == [STOP]
    assert kinds(told(cut, Done(0))) == ["EndOfTranscript"]


def test_transcripts() -> None:
    """Finals come once, with words and marks. A partial has what follows the last final, if it is asked for."""
    client = client_of(enable_partials=True)
    [guess] = told(client, partial("hello", 100))
    assert (guess["message"], guess["metadata"]["transcript"]) == ("AddPartialTranscript", "hello ")
    [said] = told(client, final("Hello, world.", 100))
    assert (said["message"], said["format"]) == ("AddTranscript", "2.9")
    assert said["metadata"] == {"start_time": 0.1, "end_time": 0.3, "transcript": "Hello, world. "}
    assert [(each["type"], each["alternatives"][0]["content"]) for each in said["results"]] == [
        ("word", "Hello"),
        ("punctuation", ","),
        ("word", "world"),
        ("punctuation", "."),
    ]
    hello, comma, _, full_stop = said["results"]
    assert hello["alternatives"] == [{"content": "Hello", "confidence": 0.5, "language": "en"}]
    assert (hello["start_time"], hello["end_time"]) == (0.1, 0.2)
    assert (comma["attaches_to"], comma["is_eos"], full_stop["is_eos"]) == ("previous", False, True)
    assert (comma["start_time"], comma["end_time"]) == (0.2, 0.2)
    assert told(client_of(), partial("hello")) == []


def test_words_that_stay_come_early() -> None:
    """With a delay. Each word comes once; the last stable one waits, because a mark may still follow it."""
    client = client_of(max_delay=1, enable_partials=True)
    texts = []
    for message in (
        partial("one two"),
        replace(partial("one two three four"), stable=13),
        replace(partial("one two three, four"), stable=14),
        final("One two three, four."),
    ):
        texts += [(each["message"][3:], each["metadata"]["transcript"]) for each in told(client, message)]
    assert texts == [
        ("PartialTranscript", "one two "),
        ("Transcript", "one two "),
        ("PartialTranscript", "three four "),
        ("PartialTranscript", "three, four "),
        ("Transcript", "three, four. "),
    ]


def test_marks_that_are_not_permitted() -> None:
    """They are left out of the words and of the text."""
    client = client_of(punctuation_overrides={"permitted_marks": ["."], "sensitivity": 0.4})
    [said] = told(client, final("Hello, world."))
    assert said["metadata"]["transcript"] == "Hello world. "
    none = client_of(punctuation_overrides={"permitted_marks": []})
    assert told(none, final("So? Yes!"))[0]["metadata"]["transcript"] == "So Yes "
    every = client_of(punctuation_overrides={"permitted_marks": ["all"]})
    assert told(every, final("So? Yes!"))[0]["metadata"]["transcript"] == "So? Yes! "


def test_speakers() -> None:
    """Each word has one, or the name for nobody. A service that cannot tell them says so."""
    client = client_of(diarization="speaker")
    spoken = [replace(word, speaker=speaker) for word, speaker in zip(words("a b c", 0), (0, 1, None), strict=True)]
    [said] = told(client, replace(final("a b c"), words=tuple(spoken)))
    assert [each["alternatives"][0]["speaker"] for each in said["results"]] == ["S1", "S2", "UU"]
    [warning] = told(client, Error(ErrorCode.NO_SPEAKERS, "There are no speakers.", fatal=False))
    assert (warning["message"], warning["type"]) == ("Warning", "speaker_id")


def test_ends_of_utterances() -> None:
    """They follow the last words after the silence that the client has named, each once."""
    client = client_of(conversation_config={"end_of_utterance_silence_trigger": 0.5})
    assert kinds(told(client, final("one", 0, 300), Acknowledgement(350))) == ["AddTranscript"]
    [end] = told(client, Acknowledgement(700))
    assert (end["message"], end["metadata"]) == ("EndOfUtterance", {"start_time": 0.7, "end_time": 0.7})
    assert told(client, Acknowledgement(5000)) == []
    # Words that may change are no silence.
    assert kinds(told(client, final("two", 5000, 5200), partial("thr", 5200, 9000))) == ["AddTranscript"]
    take(client, END)
    assert kinds(told(client, final("three", 5200, 9000), Done(9000)))[-2:] == ["EndOfUtterance", "EndOfTranscript"]
    assert kinds(told(client_of(), final("one", 0, 300), Acknowledgement(9000))) == ["AddTranscript"]


def test_a_forced_end() -> None:
    """It is always answered, exactly once."""
    client = opened(Speechmatics)
    take(client, begin(conversation_config={"end_of_utterance_silence_trigger": 0.5}))
    assert kinds(replies(take(client, FORCE))) == ["EndOfUtterance"]
    take(client, SECOND)
    assert take(client, FORCE) == [FLUSH]
    assert kinds(told(client, final("one", 0, 1000), Flushed(1000))) == ["AddTranscript", "EndOfUtterance"]
    take(client, FORCE, FORCE)
    assert kinds(told(client, Flushed(1000), Flushed(1000))) == ["EndOfUtterance", "EndOfUtterance"]
    # A silence before that ends an utterance of its own.
    take(client, SECOND, FORCE)
    assert kinds(told(client, final("two", 1000, 1900), Flushed(2000))) == [
        "AddTranscript",
        "EndOfUtterance",
        "EndOfUtterance",
    ]
    take(client, FORCE)
    assert kinds(told(client, Done(1000))) == ["EndOfUtterance"]


def test_another_config() -> None:
    """It counts from the next gap on; what the client sees counts at once."""
    client = client_of(enable_partials=False)
    assert take(client, configure(language="en", model="enhanced", enable_partials=True, max_delay=1)) == []
    assert kinds(told(client, partial("one"))) == ["AddPartialTranscript"]
    assert SECOND in take(client, SECOND)
    told(client, final("one", 0, 900))
    steps = take(client, SECOND)
    assert (steps[0], started(steps)["settle_ms"]) == (STOP, 1000)
    # The last audio is heard again, from the end of the last final on.
    assert sum(len(step) for step in steps if isinstance(step, bytes)) == len(SECOND) * 2 + 3200
    assert kinds(told(client, Done(2000))) == []


def test_what_cannot_change() -> None:
    """It is refused, unless it is what it was."""
    client = client_of()
    assert mistake(take(client, configure(language="de")))[:2] == ("invalid_config", 1003)
    contained = opened(Speechmatics)
    take(contained, begin({"type": "file"}))
    assert take(contained, configure(max_delay=1, enable_partials=True)) == []
    assert kinds(told(contained, partial("one"))) == ["AddPartialTranscript"]


def test_the_end() -> None:
    """The last words come before it. Audio after it is ignored, which is said once."""
    silent = opened(Speechmatics)
    take(silent, begin())
    assert kinds(replies(take(silent, END))) == ["EndOfTranscript"]
    client = client_of()
    steps = take(client, END, SECOND, SECOND)
    assert (steps[0], steps[1]) == (STOP, Hangup(1000))
    assert [each["type"] for each in replies(steps)] == ["add_audio_after_eos"]
    assert kinds(told(client, final("bye"), Done(1000))) == ["AddTranscript", "EndOfTranscript"]


def test_a_silent_client_goes_on() -> None:
    """Its session ends, and times count on."""
    client = client_of()
    assert list(client.rest()) == [STOP]
    assert told(client, Done(1000)) == []
    assert started(take(client, SECOND))["type"] == "start"
    assert told(client, final("later", 100))[0]["metadata"]["start_time"] == 1.1


def test_channels() -> None:
    """Their audio comes apart, and is recognised together. One that ends is silent."""
    client = opened(Speechmatics)
    greeting = replies(take(client, begin(**EAR)))[0]
    assert greeting["channel_ids"] == ["left", "right"]
    assert take(client, channel("left", b"\x01\x02\x03\x04"))[:-1] == []
    steps = take(client, channel("right", b"\x05\x06"))
    start = started(steps)
    assert (start["channels"], start["multichannel"]) == (2, True)
    assert b"\x01\x02\x05\x06" in steps
    assert replies(steps) == [{"message": "ChannelAudioAdded", "channel": "right", "seq_no": 1}]
    ends = [json.dumps({"message": "EndOfChannel", "channel": label, "last_seq_no": 1}) for label in ("right", "left")]
    steps = take(client, *ends)
    assert (steps[0], steps[1:]) == (b"\x03\x04\x00\x00", [STOP, Hangup(1000)])
    [said] = told(client, replace(final("hello"), channel=1))
    assert said["channel"] == "right"
    assert kinds(told(client, Done(1))) == ["EndOfTranscript"]


def test_a_forced_end_of_channels() -> None:
    """Of one of them, or of all."""
    client = opened(Speechmatics)
    take(client, begin(**EAR), channel("left", SECOND), channel("right", SECOND))
    assert take(client, FORCE, '{"message":"ForceEndOfUtterance","channel":"right"}') == [FLUSH, FLUSH]
    assert [each["channel"] for each in told(client, Flushed(1))] == ["left", "right"]
    assert [each["channel"] for each in told(client, Flushed(1))] == ["right"]


def test_channels_that_drift_apart() -> None:
    """A channel may be ahead for a while, which the service keeps, and not for longer."""
    parts = Interleaver(["a", "b"], "mulaw", 80_000)
    assert parts.add(0, bytes(80_000)) == b""
    with pytest.raises(WireError):
        parts.add(0, b"\0")
    assert parts.end(1)[1::2] == b"\xff" * 80_001
    assert parts.add(1, b"late") == b""
    client = opened(Speechmatics)
    take(client, begin(**EAR))
    assert mistake(take(client, channel("middle", b"")))[0] == "invalid_message"


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([SECOND], ("protocol_error", 1003, "protocol_error")),
        ([END], ("protocol_error", 1003, "protocol_error")),
        (["{"], ("invalid_message", 1003, "invalid_message")),
        (['{"message":"Sing"}'], ("invalid_message", 1003, "invalid_message")),
        ([begin(language="xx")], ("invalid_model", 4004, "invalid_model")),
        ([begin({"type": "raw", "encoding": "mp3"})], ("invalid_audio_type", 1003, "invalid_audio_type")),
        ([begin({"type": "raw", "encoding": "mulaw"})], ("invalid_audio_type", 1003, "invalid_audio_type")),
        ([begin({"type": "tape"})], ("invalid_audio_type", 1003, "invalid_audio_type")),
        ([begin({"type": "file"}, **EAR)], ("invalid_audio_type", 1003, "invalid_audio_type")),
        ([begin("raw")], ("invalid_config", 1003, "invalid_config")),
        ([begin(language=["en"])], ("invalid_config", 1003, "invalid_config")),
        ([begin(language="en-" + "x" * 90)], ("invalid_config", 1003, "invalid_config")),
        (
            [begin(diarization="channel", channel_diarization_labels=["x" * 999])],
            ("invalid_config", 1003, "invalid_config"),
        ),
        ([begin(diarization="faces")], ("invalid_config", 1003, "invalid_config")),
        ([begin(diarization="channel")], ("invalid_config", 1003, "invalid_config")),
        ([begin(max_delay="soon")], ("invalid_config", 1003, "invalid_config")),
        ([begin(additional_vocab="Ada")], ("invalid_config", 1003, "invalid_config")),
        (
            [begin(transcript_filtering_config={"replacements": [{"from": "a", "to": "b"}]})],
            ("invalid_config", 1003, "invalid_config"),
        ),
    ],
)
def test_mistakes(messages: list[str | bytes], error: tuple[str, int, str]) -> None:
    """The error has the vendor's type and a sentence, and then the websocket is closed."""
    client = opened(Speechmatics)
    assert mistake(take(client, *messages)) == error
    assert take(client, begin()) == []


def test_a_second_beginning() -> None:
    """There is one recognition for each websocket, and audio of channels is only for channels."""
    assert mistake(take(client_of(), begin()))[0] == "protocol_error"
    assert mistake(take(client_of(), channel("left", b"")))[0] == "protocol_error"
    client = opened(Speechmatics)
    take(client, begin(**EAR))
    assert mistake(take(client, SECOND))[0] == "protocol_error"


def test_what_the_service_does_not_have() -> None:
    """A warning says it, as the original does where it can."""
    client = opened(Speechmatics)
    content = json.loads(begin(speaker_diarization_config={"speakers": [{"label": "Ada"}]}))
    content["translation_config"] = {"target_languages": ["fr"]}
    content["audio_events_config"] = {"types": ["music"]}
    answers = replies(take(client, json.dumps(content)))
    assert [each["type"] for each in answers[2:]] == ["empty_translation_target_list", "speaker_id"]
    speakers, warning = replies(take(client, '{"message":"GetSpeakers","final":true}'))
    assert (speakers, warning["type"]) == ({"message": "SpeakersResult", "speakers": []}, "speaker_id")


@pytest.mark.parametrize(
    ("code", "kind", "close"),
    [
        (ErrorCode.TOO_MANY_SESSIONS, "quota_exceeded", 4005),
        (ErrorCode.AUDIO_USED_UP, "timelimit_exceeded", 4006),
        (ErrorCode.IDLE, "idle_timeout", 1008),
        (ErrorCode.FULL, "job_error", 4013),
        (ErrorCode.SHUTTING_DOWN, "job_error", 4013),
        (ErrorCode.ENDED_BY_OPERATOR, "job_error", 1008),
        (ErrorCode.INTERNAL, "unknown_error", 1011),
        (ErrorCode.BAD_RESUME, "protocol_error", 1003),
    ],
)
def test_failures(code: ErrorCode, kind: str, close: int) -> None:
    """The error has the vendor's type, and so has the close."""
    client = client_of()
    [error] = told(client, Error(code, "A reason.", fatal=True))
    assert (error["type"], error["reason"], client.close(1011, "")) == (kind, "A reason.", (close, kind))


def test_closes_and_refusals() -> None:
    """Without an error before it, the close has a type as well; a refusal is an error in JSON."""
    client = opened(Speechmatics)
    closes = {1000: (1000, "x"), 1009: (1009, "x"), 1013: (4013, "job_error"), 4000: (1003, "protocol_error")}
    assert {code: client.close(code, "x") for code in closes} == closes
    status, text = Speechmatics.refusal(ErrorCode.UNAUTHORIZED, "No.", 401, "ab")
    assert (status, json.loads(text)) == (401, {"message": "Error", "type": "not_authorised", "reason": "No."})
    assert Speechmatics.largest_message > LARGEST_MESSAGE
