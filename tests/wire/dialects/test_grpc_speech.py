"""The formats of Riva and Google: what a session gets and what its client gets, without gRPC."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import (
    Acknowledgement,
    Alternative,
    Done,
    Error,
    Partial,
    Speakers,
    SpeakerTurn,
    Speech,
    SpeechState,
    Word,
)
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.wire.dialects.dialect import FLUSH, KEEPALIVE, STOP, Hangup, Opening
from streamer.wire.dialects.grpc_speech import (
    CALLS,
    END,
    PROTOCOLS,
    GoogleV1Call,
    GoogleV2Call,
    RivaCall,
    SpeechCall,
    Status,
    riva_models,
    status_of,
)
from streamer.wire.errors import CloseCode, WireError
from streamer.wire.upload import Problem

LINEAR: JsonObject = {"encoding": "LINEAR16", "sample_rate_hertz": 16_000}
WORDS = (Word("Hello,", 100, 400, 0.9, speaker=0), Word("world.", 500, 900, 0.8, speaker=1))
FINAL = FinalMessage(0, "Hello, world.", 100, 900, 2000, 0.85, WORDS)
SECOND = FinalMessage(1, "Bye.", 2500, 2900, 4000, 0.5, (Word("Bye.", 2500, 2900, 0.5),))


def opening(request: JsonObject) -> Opening:
    return Opening(models={"default": ()}, settings=json.dumps(request))


def call(kind: type[SpeechCall], config: JsonObject = LINEAR, **streaming: object) -> SpeechCall:
    """Open a live session. `streaming`: fields beside the configuration of the recogniser."""
    if kind is GoogleV2Call:
        features = {name: value for name, value in config.items() if name not in LINEAR}
        config = {"explicit_decoding_config": LINEAR, "features": features}
        streaming = {"streaming_features": streaming}
    return kind(opening({"streaming_config": {"config": config, **streaming}}), b"\0\0")


def recorded(kind: type[SpeechCall], **config: object) -> SpeechCall:
    request: JsonObject = {"config": {**LINEAR, **config}}
    if kind is GoogleV2Call:
        request = {"config": {"explicit_decoding_config": LINEAR, "features": config}}
    return kind(opening(request), b"\0\0", recorded=True)


def told(dialect: SpeechCall, *messages: Any) -> list[dict[str, Any]]:
    return [json.loads(text) for message in messages for text in dialect.tell(message)]


@pytest.mark.parametrize("kind", CALLS)
def test_a_session(kind: type[SpeechCall]) -> None:
    """It starts at once, gets the audio as it is, and stops when the client has sent all."""
    client = call(kind)
    [start] = client.greet()
    assert {"encoding": "pcm_s16le", "sample_rate": 16_000, "channels": 1}.items() <= json.loads(str(start)).items()
    assert [*client.receive(b"sound"), *client.receive(END), *client.receive(b"late")] == [b"sound", STOP]
    assert client.close(CloseCode.DONE, "") == (Status.OK, "")


def test_text_that_may_change() -> None:
    """What is stable comes as a result of its own, and all results of a response are the text together."""
    client = call(GoogleV1Call, interim_results=True)
    [response] = told(client, Partial(0, "hello world", 6, 0, 800))
    assert [(each["alternatives"][0]["transcript"], each["stability"]) for each in response["results"]] == [
        ("hello ", 0.9),
        ("world", 0.1),
    ]
    assert response["results"][0]["result_end_time"] == {"seconds": 0, "nanos": 800_000_000}
    told(client, FINAL)
    [response] = told(client, Partial(1, "good", 2, 2000, 2800), Partial(1, "", 0, 2000, 2900))
    assert [each["alternatives"][0]["transcript"] for each in response["results"]] == [" go", "od"]


def test_finals_can_be_joined() -> None:
    """Riva's end in a space, and those of Google begin with one, but the first of each channel."""
    texts = {}
    for kind in CALLS:
        client = call(kind)
        finals = (replace(FINAL, channel=0), replace(SECOND, channel=1), replace(SECOND, channel=0))
        responses = told(client, *finals)
        texts[kind] = [each["results"][0]["alternatives"][0]["transcript"] for each in responses]
        assert all(each["results"][0]["is_final"] for each in responses)
    assert texts[RivaCall] == ["Hello, world. ", "Bye. ", "Bye. "]
    assert texts[GoogleV1Call] == texts[GoogleV2Call] == ["Hello, world.", "Bye.", " Bye."]


def test_words_of_riva() -> None:
    """Times are milliseconds, and speakers count from 0."""
    wishes = {"enable_word_time_offsets": True, "diarization_config": {"enable_speaker_diarization": True}}
    [response] = told(call(RivaCall, {**LINEAR, **wishes}), FINAL)
    assert response["results"][0]["alternatives"][0]["words"] == [
        {"word": "Hello,", "start_time": 100, "end_time": 400, "confidence": 0.9, "speaker_tag": 0},
        {"word": "world.", "start_time": 500, "end_time": 900, "confidence": 0.8, "speaker_tag": 1},
    ]
    assert (response["results"][0]["channel_tag"], response["results"][0]["audio_processed"]) == (1, 2.0)


@pytest.mark.parametrize(("kind", "name"), [(GoogleV1Call, "time"), (GoogleV2Call, "offset")])
def test_words_of_google(kind: type[SpeechCall], name: str) -> None:
    """Times are durations, confidence comes if it is wished, and speakers count from 1."""
    wishes: JsonObject = {"enable_word_time_offsets": True}
    [response] = told(call(kind, {**LINEAR, **wishes}), replace(FINAL, words=(Word("Hello,", 100, 1400, 0.9),)))
    times = {f"start_{name}": {"seconds": 0, "nanos": 100_000_000}, f"end_{name}": {"seconds": 1, "nanos": 400_000_000}}
    assert response["results"][0]["alternatives"][0]["words"] == [{"word": "Hello,", **times}]
    wishes = {"enable_word_confidence": True}
    [response] = told(call(kind, {**LINEAR, **wishes}), replace(FINAL, words=(Word("Hello,", 100, 1400, 0.9),)))
    assert response["results"][0]["alternatives"][0]["words"] == [{"word": "Hello,", "confidence": 0.9}]
    wishes = {"diarization_config": {"enable_speaker_diarization": True}}
    [response] = told(call(kind, {**LINEAR, **wishes}), FINAL)
    assert [word["speaker_label"] for word in response["results"][0]["alternatives"][0]["words"]] == ["1", "2"]


def test_other_texts() -> None:
    """They follow the best one, which is not repeated, and are as many as the client wishes."""
    client = call(RivaCall, {**LINEAR, "max_alternatives": 2})
    likeliest = [Alternative(FINAL.text, 0.8), Alternative("Hello word.", 0.1), Alternative("Yellow world.", 0.05)]
    [response] = told(client, replace(FINAL, alternatives=tuple(likeliest)))
    texts = [(each["transcript"], each["confidence"]) for each in response["results"][0]["alternatives"]]
    assert texts == [("Hello, world. ", 0.85), ("Hello word. ", 0.1)]


@pytest.mark.parametrize("kind", [GoogleV1Call, GoogleV2Call])
def test_events_of_speech(kind: type[SpeechCall]) -> None:
    """They come only if they are wished."""
    speech = Speech(SpeechState.START, 1200), Speech(SpeechState.END, 2000)
    name = "speech_event_time" if kind is GoogleV1Call else "speech_event_offset"
    assert told(call(kind), *speech) == []
    assert told(call(kind, enable_voice_activity_events=True), *speech) == [
        {"speech_event_type": "SPEECH_ACTIVITY_BEGIN", name: {"seconds": 1, "nanos": 200_000_000}},
        {"speech_event_type": "SPEECH_ACTIVITY_END", name: {"seconds": 2, "nanos": 0}},
    ]


@pytest.mark.parametrize("kind", [GoogleV1Call, GoogleV2Call])
def test_nobody_speaks(kind: type[SpeechCall]) -> None:
    """The next audio ends the session, at its start or after speech, and what was said before still comes."""
    limits = {"speech_start_timeout": "3s", "speech_end_timeout": "1.500s"}
    client = call(kind, enable_voice_activity_events=True, voice_activity_timeout=limits)
    assert (told(client, Acknowledgement(2900)), list(client.receive(b"more"))) == ([], [b"more"])
    begin, end = Speech(SpeechState.START, 2950), Speech(SpeechState.END, 4000)
    assert len(told(client, begin, Acknowledgement(9000), end, Acknowledgement(5400))) == 2
    events = told(client, Acknowledgement(5500), Acknowledgement(6000))
    if kind is GoogleV1Call:
        time = {"seconds": 5, "nanos": 500_000_000}
        assert events == [{"speech_event_type": "SPEECH_ACTIVITY_TIMEOUT", "speech_event_time": time}]
    else:
        assert events == []
    assert [*client.receive(b"more"), *client.receive(b"more")] == [STOP]
    assert told(client, FINAL)[0]["results"][0]["is_final"]
    client = call(kind, voice_activity_timeout=limits)
    assert json.loads(str(next(iter(client.greet()))))["speech"] is True
    assert told(client, Acknowledgement(3000)) == []  # the client did not ask for events
    assert list(client.receive(b"more")) == [STOP]


def test_somebody_may_be_silent_for_ever() -> None:
    """A timeout that is not set, or not positive, is none."""
    for limits in ({}, {"speech_start_timeout": "0s"}, {"speech_end_timeout": "-1s"}):
        client = call(GoogleV1Call, voice_activity_timeout=limits)
        assert json.loads(str(next(iter(client.greet()))))["speech"] is False
        assert (told(client, Acknowledgement(600_000)), list(client.receive(b"more"))) == ([], [b"more"])


def test_a_single_utterance() -> None:
    """After the first final nothing comes any more, and the next audio ends the session."""
    client = call(GoogleV1Call, single_utterance=True, interim_results=True)
    event, response = told(client, FINAL)
    assert event["speech_event_type"] == "END_OF_SINGLE_UTTERANCE"
    assert response["results"][0]["is_final"]
    assert told(client, Partial(1, "more", 0, 2500, 2600), SECOND) == []
    assert [*client.receive(b"more"), *client.receive(END)] == [STOP]


def test_the_end_of_an_utterance() -> None:
    """Riva's clients may ask for it while they speak; a second configuration is a mistake."""
    client = call(RivaCall)
    assert list(client.receive('{"runtime_config": {"force_eou": "true"}}')) == [FLUSH]
    assert list(client.receive('{"runtime_config": {"force_eou": "false"}}')) == []
    [hangup] = client.receive('{"streaming_config": {}}')
    assert isinstance(hangup, Hangup)
    assert hangup.code == Status.INVALID_ARGUMENT


def test_the_id_of_a_request() -> None:
    """Riva's responses repeat it."""
    request: JsonObject = {"streaming_config": {"config": LINEAR}, "id": {"value": "x"}}
    assert told(RivaCall(opening(request), b"\0"), FINAL)[0]["id"] == {"value": "x"}


@pytest.mark.parametrize("kind", CALLS)
def test_a_recording(kind: type[SpeechCall]) -> None:
    """All results are one response, in the order in which they were said."""
    client = recorded(kind, interim_results=True)
    assert json.loads(str(next(iter(client.greet()))))["partials"] is False
    assert told(client, SECOND, FINAL) == []
    [response] = told(client, Done(4000))
    texts = [each["alternatives"][0]["transcript"].strip() for each in response["results"]]
    assert texts == ["Hello, world.", "Bye."]
    assert "is_final" not in response["results"][0]


@pytest.mark.parametrize("kind", CALLS)
def test_speakers_of_a_recording(kind: type[SpeechCall]) -> None:
    """The second look counts. Google's clients find all words in one more result."""
    client = recorded(kind, diarization_config={"enable_speaker_diarization": True})
    told(client, FINAL, SECOND, Speakers((SpeakerTurn(0, 950, 1), SpeakerTurn(2000, 3000, 0))))
    [response] = told(client, Done(4000))
    results = response["results"]
    assert len(results) == (2 if kind is RivaCall else 3)
    words = [word for each in results[:2] for word in each["alternatives"][0]["words"]]
    if kind is RivaCall:
        assert [word["speaker_tag"] for word in words] == [1, 1, 0]
    else:
        assert [word["speaker_label"] for word in words] == ["2", "2", "1"]
        assert results[2]["alternatives"][0] == {"words": words}


def test_a_container() -> None:
    """With separate channels, a session waits for its header."""
    wishes: JsonObject = {"enable_separate_recognition_per_channel": True}
    client = RivaCall(opening({"streaming_config": {"config": wishes}}), b"RIFF")
    assert (client.container, client.separate, [*client.greet(), *client.waiting()]) == (True, True, [])
    [start] = client.opened(2)
    assert (json.loads(str(start))["channels"], list(client.waiting())) == (2, [KEEPALIVE])


@pytest.mark.parametrize("separate", [False, True])
def test_a_container_that_cannot_be_decoded(separate: bool) -> None:
    """The call ends with the reason, before or after the start of its session."""
    wishes: JsonObject = {"enable_separate_recognition_per_channel": separate}
    client = RivaCall(opening({"streaming_config": {"config": wishes}}), b"RIFF")
    [step] = client.undecodable(Problem(ErrorCode.UNKNOWN_FORMAT, "This is no recording."))
    expected = (Status.INVALID_ARGUMENT, "This is no recording.")
    if separate:
        assert step == Hangup(*expected)
    else:
        assert (step, client.close(CloseCode.DONE, "")) == (STOP, expected)


def test_a_recording_that_its_client_cut_off() -> None:
    """Live, it is complete; as a whole it is damaged."""
    problem = Problem(ErrorCode.DAMAGED_AUDIO, "It ends in the middle.")
    request: JsonObject = {"streaming_config": {"config": {}}}
    live, whole = RivaCall(opening(request), b"fLaC"), RivaCall(opening({"config": {}}), b"fLaC", recorded=True)
    for client in (live, whole):
        assert [*client.receive(END), *client.undecodable(problem)] == [STOP, STOP]
    assert live.close(CloseCode.DONE, "")[0] == Status.OK
    assert (whole.close(CloseCode.DONE, "")[0], told(whole, Done(0))) == (Status.INVALID_ARGUMENT, [])


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.UNAUTHORIZED, Status.UNAUTHENTICATED),
        (ErrorCode.FULL, Status.RESOURCE_EXHAUSTED),
        (ErrorCode.AUDIO_USED_UP, Status.RESOURCE_EXHAUSTED),
        (ErrorCode.IDLE, Status.OUT_OF_RANGE),
        (ErrorCode.SHUTTING_DOWN, Status.UNAVAILABLE),
        (ErrorCode.ENDED_BY_OPERATOR, Status.ABORTED),
        (ErrorCode.FAILED, Status.UNAVAILABLE),
        (ErrorCode.INTERNAL, Status.INTERNAL),
        (ErrorCode.BAD_OPTION, Status.INVALID_ARGUMENT),
        (ErrorCode.UNKNOWN_FORMAT, Status.INVALID_ARGUMENT),
    ],
)
def test_the_status_of_an_ending(code: ErrorCode, status: Status) -> None:
    """An error of the session is the status of the call, with its sentence."""
    client = call(GoogleV1Call)
    assert told(client, Error(code, "Why.", fatal=True)) == []
    assert client.close(CloseCode.FAILED, "") == (status_of(code), "Why.") == (status, "Why.")
    assert GoogleV1Call.refusal(code, "Why.", 400, "") == (status, "Why.")


def test_errors_that_end_nothing() -> None:
    """A session without speakers goes on, and one whose audio ended within a sample is complete."""
    client = call(RivaCall)
    told(client, Error(ErrorCode.NO_SPEAKERS, "No.", fatal=False), Error(ErrorCode.ODD_BYTES, "Odd.", fatal=True))
    assert client.close(CloseCode.BAD_MESSAGE, "Odd.") == (Status.OK, "")
    assert client.close(CloseCode.FAILED, "the service failed") == (Status.UNAVAILABLE, "the service failed")
    assert call(RivaCall).close(CloseCode.BAD_MESSAGE, "Wrong.") == (Status.INVALID_ARGUMENT, "Wrong.")


@pytest.mark.parametrize(
    "request_", [{"config": LINEAR, "uri": "gs://a"}, {"config": LINEAR, "audio": {"uri": "gs://a"}}]
)
def test_a_recording_elsewhere(request_: JsonObject) -> None:
    """Nothing is fetched."""
    with pytest.raises(WireError, match="fetches no recording"):
        GoogleV1Call.check(opening(request_))


def test_the_models_of_riva() -> None:
    """Each model is there for live speech and for recordings, with each of its languages."""
    entries = riva_models({"default": (), "large": ("de-DE", "fr-FR"), "away": None})["model_config"]
    assert isinstance(entries, list)
    assert [(each["model_name"], each["parameters"]["language_code"]) for each in entries[::2]] == [
        ("default", "en-US"),
        ("large", "de-DE"),
        ("large", "fr-FR"),
        ("away", "en-US"),
    ]
    assert {each["parameters"]["type"] for each in entries} == {"online", "offline"}
    assert PROTOCOLS == ("riva", "google")
