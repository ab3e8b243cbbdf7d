"""OpenAI's realtime transcription, byte by byte: events that are read, events that are sent, sessions behind it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import (
    Acknowledgement,
    Done,
    Error,
    Final,
    Flushed,
    Partial,
    Ready,
    Recovered,
    Speech,
    SpeechState,
)
from streamer.wire.dialects.dialect import FLUSH, STOP, Opening, Reply, Step
from streamer.wire.dialects.openai_realtime import (
    LARGEST_APPEND,
    LARGEST_MESSAGE,
    Append,
    Clear,
    Commit,
    OpenAIRealtime,
    Update,
    parse,
    read,
)
from streamer.wire.dialects.openai_settings import Mistake
from streamer.wire.errors import WireError

SECOND = bytes(48_000)
START = (
    '{"type":"start","encoding":"pcm_s16le","sample_rate":24000,"model":"default","language":"auto","written":true,'
    '"words":false,"stability":"medium","second_pass":"reader","speech":true,"endpoint":{"after_text_ms":500},"hotwords":[]}'
)
MANUAL = START.replace('"speech":true,"endpoint":{"after_text_ms":500}', '"speech":false,"endpoint":{}')
SESSION = (
    '"session":{"id":"sess_ab12","object":"realtime.transcription_session","type":"transcription","audio":{"input":'
    '{"format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"default"},"noise_reduction":null,'
    '"turn_detection":%s}},"include":null}}'
)
VAD = '{"type":"server_vad","threshold":0.5,"prefix_padding_ms":300,"silence_duration_ms":500}'
ITEM = (
    '"item":{"id":"item_ab12_%d","object":"realtime.item","type":"message","status":"completed","role":"user",'
    '"content":[{"type":"input_audio","transcript":null}]}}'
)


def dialect(query: str = "", **headers: str) -> OpenAIRealtime:
    pairs = tuple((name, value) for name, _, value in (pair.partition("=") for pair in query.split("&")))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return OpenAIRealtime(Opening(pairs, named, {"default": (), "fine": ("auto", "de-DE")}, "ab-12"))


def told(steps: Any) -> list[str]:
    """The replies among these steps."""
    return [step.text for step in steps if isinstance(step, Reply)]


def does(client: OpenAIRealtime, type: str, **content: Any) -> list[Step]:
    return list(client.receive(json.dumps({"type": type, **content})))


def append(client: OpenAIRealtime, audio: bytes) -> list[Step]:
    return does(client, "input_audio_buffer.append", audio=base64.b64encode(audio).decode())


def update(client: OpenAIRealtime, **settings: Any) -> list[Step]:
    return does(client, "session.update", session={"type": "transcription", "audio": {"input": settings}})


def test_the_session_is_shown_at_once() -> None:
    """The first event shows a session for transcription, whatever the address asks for."""
    shown = '{"type":"session.created","event_id":"event_ab12_1",' + SESSION % VAD
    for query in ("", "intent=transcription", "model=default"):
        assert told(dialect(query).greet()) == [shown]


def test_a_model_of_the_service_may_be_named_in_the_address() -> None:
    """The address may name a model of the service; any other name is only shown."""
    for name, model in (("fine", "fine"), ("gpt-realtime", "default")):
        client = dialect(f"model={name}")
        [shown] = told(client.greet())
        assert json.loads(shown)["session"]["audio"]["input"]["transcription"] == {"model": name}
        start, _ = append(client, SECOND)
        assert json.loads(str(start))["model"] == model


def test_settings_in_the_address() -> None:
    """The address may have the model and the language of the transcription; what the model lacks is refused."""
    client = dialect("intent=transcription&transcription_model=fine&language=de&model=")
    [shown] = told(client.greet())
    assert json.loads(shown)["session"]["audio"]["input"]["transcription"] == {"model": "fine", "language": "de"}
    start, _ = append(client, SECOND)
    assert (json.loads(str(start))["model"], json.loads(str(start))["language"]) == ("fine", "de-DE")
    with pytest.raises(WireError, match="knows only English"):
        dialect("language=de")


def test_settings_of_a_key() -> None:
    """A session begins with the settings that its key for a short time was made for."""
    settings = json.dumps({"audio": {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}}})
    models = {"default": ()}
    [shown] = told(OpenAIRealtime(Opening(models=models, settings=settings)).greet())
    first = json.loads(shown)["session"]["audio"]["input"]
    assert (first["format"], first["turn_detection"]) == ({"type": "audio/pcmu"}, None)
    settings = json.dumps({"audio": {"input": {"transcription": {"language": "de"}}}})
    with pytest.raises(WireError, match="knows only English"):
        OpenAIRealtime(Opening(models=models, settings=settings))


def test_a_turn_with_detection() -> None:
    """A turn with detection gives every event, in order."""
    client = dialect()
    list(client.greet())
    assert append(client, SECOND) == [START, SECOND]
    assert append(client, SECOND) == [SECOND]
    messages = (
        Ready("n", "t", "default", "m", 24000, 0),
        Speech(SpeechState.START, 400),
        Acknowledgement(500),
        Partial(0, "Hello wor", 0, 400, 900),
        Recovered(10),
        Final(0, "Hello world.", 400, 1000, 1700, 0.9, cut_ms=1500),
        Speech(SpeechState.END, 1000),
    )
    transcription = '{"type":"conversation.item.input_audio_transcription.'
    assert [text for message in messages for text in client.tell(message)] == [
        '{"type":"input_audio_buffer.speech_started","event_id":"event_ab12_2","audio_start_ms":100,'
        '"item_id":"item_ab12_1"}',
        transcription + 'delta","event_id":"event_ab12_3","item_id":"item_ab12_1","content_index":0,"delta":"Hello"}',
        transcription + 'delta","event_id":"event_ab12_4","item_id":"item_ab12_1","content_index":0,"delta":" world."}',
        '{"type":"input_audio_buffer.speech_stopped","event_id":"event_ab12_5","audio_end_ms":1500,'
        '"item_id":"item_ab12_1"}',
        '{"type":"input_audio_buffer.committed","event_id":"event_ab12_6","previous_item_id":null,'
        '"item_id":"item_ab12_1"}',
        '{"type":"conversation.item.added","event_id":"event_ab12_7","previous_item_id":null,' + ITEM % 1,
        '{"type":"conversation.item.done","event_id":"event_ab12_8","previous_item_id":null,' + ITEM % 1,
        transcription + 'completed","event_id":"event_ab12_9","item_id":"item_ab12_1","content_index":0,'
        '"transcript":"Hello world.","usage":{"type":"duration","seconds":1.4}}',
    ]


def test_commits_without_detection() -> None:
    """The item is there at once, and its transcript with the answer of the flush."""
    client = dialect()
    assert told(update(client, turn_detection=None)) == [
        '{"type":"session.updated","event_id":"event_ab12_1",' + SESSION % "null"
    ]
    assert append(client, SECOND) == [MANUAL, SECOND]
    steps = does(client, "input_audio_buffer.commit")
    assert [json.loads(text)["type"] for text in told(steps)] == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert steps[-1] == FLUSH
    [completed] = client.tell(Flushed(1000))
    assert json.loads(completed)["transcript"] == ""


def test_the_end_of_a_stream_in_openai_agents() -> None:
    """A commit, which may be empty, and then a clear. They are answered when the audio before them is recognised."""
    client = dialect()
    append(client, bytes(4000))
    assert does(client, "input_audio_buffer.commit", event_id="last") == [FLUSH]
    assert does(client, "input_audio_buffer.clear") == [FLUSH]
    [error] = client.tell(Flushed(83))
    assert json.loads(error) == {
        "type": "error",
        "event_id": "event_ab12_1",
        "error": {
            "type": "invalid_request_error",
            "code": "input_audio_buffer_commit_empty",
            "message": "A commit needs at least 100 ms of audio, but the buffer has only 83 ms.",
            "param": None,
            "event_id": "last",
        },
    }
    assert client.tell(Flushed(83)) == ['{"type":"input_audio_buffer.cleared","event_id":"event_ab12_2"}']


def test_mistakes_change_nothing() -> None:
    """Each is answered by an error, and audio goes on."""
    client = dialect()
    for message in ("{", b"\0\0", '{"type":"session.update","session":{"audio":{"input":{"format":"mp3"}}}}'):
        [error] = told(client.receive(message))
        assert json.loads(error)["error"]["type"] == "invalid_request_error"
    assert append(client, SECOND) == [START, SECOND]


def test_an_update_that_matters_begins_another_session() -> None:
    """The next audio begins another session. All times go on, at whatever rate the audio comes."""
    client = dialect()
    append(client, SECOND)
    assert update(client, noise_reduction={"type": "far_field"}, turn_detection={"prefix_padding_ms": 0})[1:] == []
    assert update(client, format={"type": "audio/pcmu"})[1:] == [STOP]
    assert client.tell(Done(1000)) == []
    start, audio = append(client, bytes(16_000))
    assert (json.loads(str(start))["encoding"], audio) == ("mulaw", bytes(16_000))
    [began] = client.tell(Speech(SpeechState.START, 1500))
    assert json.loads(began)["audio_start_ms"] == 2500
    assert update(client, turn_detection=None)[1:] == [STOP]
    assert len(client.tell(Done(2000))) == 5
    append(client, bytes(4000))
    steps = does(client, "input_audio_buffer.commit")
    client.tell(Flushed(500))
    assert steps[-1] == FLUSH


def test_an_update_does_not_divide_an_item() -> None:
    """Another pause, or other hotwords, wait for the end of the turn. Another format does not."""
    client = dialect()
    append(client, SECOND)
    client.tell(Speech(SpeechState.START, 400))
    assert update(client, transcription={"keywords": ["Ada"]})[1:] == []
    assert append(client, SECOND) == [SECOND]
    client.tell(Final(0, "Hello", 400, 1000, 1700, 0.9, cut_ms=1500))
    stop, start, _ = append(client, SECOND)
    assert (stop, json.loads(str(start))["hotwords"]) == (STOP, ["Ada"])
    client.tell(Done(2000))
    client.tell(Speech(SpeechState.START, 100))
    assert update(client, format={"type": "audio/pcma"})[1:] == [STOP]


def test_a_client_that_is_silent_gives_its_session_back() -> None:
    """Once; and what it said before is still an item when it commits."""
    client = dialect()
    update(client, turn_detection=None)
    assert list(client.rest()) == []
    append(client, SECOND)
    assert list(client.rest()) == [STOP]
    assert list(client.rest()) == []
    client.tell(Final(0, "Hello", 0, 500, 1000, 0.9))
    client.tell(Done(1000))
    names = [json.loads(text)["type"].rpartition(".")[2] for text in told(does(client, "input_audio_buffer.commit"))]
    assert names == ["committed", "added", "done", "completed"]


def test_samples_may_be_divided_anywhere() -> None:
    """A sample may be divided between two events; the session gets whole samples."""
    client = dialect()
    assert append(client, b"\1") == []
    assert append(client, b"\2\3") == [START, b"\1\2"]
    assert append(client, b"\4") == [b"\3\4"]


@pytest.mark.parametrize(
    "headers",
    [
        {"openai_beta": "realtime=v1"},
        {"sec_websocket_protocol": "realtime, openai-insecure-api-key.k, openai-beta.realtime-v1"},
    ],
)
def test_the_older_shape(headers: dict[str, str]) -> None:
    """A client of the older shape gets its names of events and its flat session."""
    client = dialect(**headers)
    [created] = told(client.greet())
    assert created == (
        '{"type":"transcription_session.created","event_id":"event_ab12_1","session":{"id":"sess_ab12",'
        '"object":"realtime.transcription_session","input_audio_format":"pcm16",'
        '"input_audio_transcription":{"model":"default"},"input_audio_noise_reduction":null,"turn_detection":'
        + VAD
        + ',"include":null}}'
    )
    session = {"input_audio_format": "g711_alaw", "turn_detection": None}
    [updated] = told(does(client, "transcription_session.update", session=session))
    assert json.loads(updated)["type"] == "transcription_session.updated"
    assert json.loads(updated)["session"]["input_audio_format"] == "g711_alaw"
    append(client, bytes(8000))
    names = [json.loads(text)["type"] for text in told(does(client, "input_audio_buffer.commit"))]
    assert names == ["input_audio_buffer.committed", "conversation.item.created"]


def test_the_end_of_the_service_is_told() -> None:
    """Incomplete items fail. Only the close gives the reason: LiveKit does not connect again after an error."""
    client = dialect()
    update(client, turn_detection=None)
    append(client, SECOND)
    does(client, "input_audio_buffer.commit")
    assert client.tell(Error(ErrorCode.AFTER_STOP, "Ignored.", fatal=False)) == []
    [failed] = map(json.loads, client.tell(Error(ErrorCode.FAILED, "It failed; open a new session.", fatal=True)))
    content = {"message": "It failed; open a new session.", "type": "server_error", "param": None, "code": "failed"}
    assert (failed["item_id"], failed["error"]) == ("item_ab12_1", content)
    assert client.close(1011, "why") == (1011, "why")
    assert client.close(4000, "why") == (1008, "why")


def test_a_used_quota_is_an_error() -> None:
    """A used quota is an error, because another connection would not help."""
    [error] = map(json.loads, dialect().tell(Error(ErrorCode.AUDIO_USED_UP, "Continue in 60 s.", fatal=True)))
    assert error["error"] == {
        "message": "Continue in 60 s.",
        "type": "rate_limit_error",
        "param": None,
        "code": "rate_limit_exceeded",
        "event_id": None,
    }


@pytest.mark.parametrize(
    ("code", "status", "kind", "word"),
    [
        ("unauthorized", 401, "invalid_request_error", "invalid_api_key"),
        ("full", 503, "server_error", "full"),
        ("too_many_sessions", 429, "rate_limit_error", "rate_limit_exceeded"),
        ("bad_request", 400, "invalid_request_error", "bad_request"),
    ],
)
def test_a_refusal(code: str, status: int, kind: str, word: str) -> None:
    """A refusal has OpenAI's form."""
    found, text = OpenAIRealtime.refusal(ErrorCode(code), "A sentence.", status, "id")
    assert found == status
    assert json.loads(text) == {"error": {"message": "A sentence.", "type": kind, "param": None, "code": word}}


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
    error: dict[str, Any] = caught.value.content("mine")
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
