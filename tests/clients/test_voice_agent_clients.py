"""Clients of services for voice agents, with only the address changed: the vendors' own packages, LiveKit, pipecat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamer.bridge.access.call_signatures import CallSignatures
from streamer.bridge.access.keys import KeyFile, SecretFile
from streamer.bridge.access.quotas import Fetch
from streamer.bridge.access.rules import AccessRules, PortPolicy, WebhookRules
from streamer.testing.exact_service import ExactService
from tests.bridge.dialects.realtime_client import slowly, spoken
from tests.bridge.uploads.uploading import recording
from tests.clients.conftest import KEY
from tests.clients.running import HALF, run
from workshop.soak.webhook_receiver import WebhookReceiver

SENTENCES = ["Hello world", "Goodbye"]


def lower(texts: list[str]) -> str:
    """Return texts as one, without capitals."""
    return " ".join(texts).lower()


def turns(told: Any) -> list[Any]:
    """Return what Flux tells about turns."""
    return [message for message in told["live"] if message["type"] == "TurnInfo"]


def finals(told: Any) -> list[str]:
    """Return the final texts of LiveKit's plugin."""
    return [text for kind, text in told["events"] if kind == "final_transcript"]


def test_flux(exact: ExactService, turn: Path) -> None:
    """The SDK knows every message as what it is; each turn ends once, for its own reason."""
    told = run("flux_program.py", exact, turn)
    assert {message["class"] for message in told["live"]} == {
        f"ListenV2{kind}" for kind in ("Connected", "TurnInfo", "ConfigureSuccess")
    }
    ends = [message for message in turns(told) if message["event"] == "EndOfTurn"]
    assert [end["transcript"] for end in ends] == SENTENCES
    assert [(end["turn_index"], end["trigger"]) for end in ends] == [(0, "model"), (1, "manual")]
    assert {message["event"] for message in turns(told)} >= {"StartOfTurn", "Update", "EagerEndOfTurn", "EndOfTurn"}
    assert [message["sequence_id"] for message in told["live"]] == list(range(len(told["live"])))
    [configured] = [message for message in told["live"] if message["type"] == "ConfigureSuccess"]
    assert configured["thresholds"] == {"eager_eot_threshold": 0.4, "eot_threshold": 0.5, "eot_timeout_ms": 3000}
    assert told["refused"] == [400, 400]


def test_flux_and_a_killed_triton(exact: ExactService, turn: Path) -> None:
    """Each word comes once, and the client only waits."""
    told = run("flux_program.py", exact, turn, when={HALF: exact.kill_recogniser})
    assert lower([turn["transcript"] for turn in turns(told) if turn["event"] == "EndOfTurn"]) == lower(SENTENCES)


def test_flux_in_livekit(exact: ExactService, talk: Path) -> None:
    """Each turn begins, may be over early, and has its text."""
    told = run("livekit_turns_program.py", exact, talk, "flux")
    kinds = [kind for kind, _ in told["events"] if kind in ("start_of_speech", "final_transcript", "end_of_speech")]
    assert kinds == ["start_of_speech", "final_transcript", "end_of_speech"] * 2
    assert finals(told) == SENTENCES
    assert "preflight_transcript" in {kind for kind, _ in told["events"]}


def test_flux_in_pipecat(exact: ExactService, talk: Path) -> None:
    """It sends audio once it is connected, and silence where a turn would not end."""
    told = run("pipecat_turns_program.py", exact, talk, "flux", "2")
    assert told["heard"] == SENTENCES


def test_assemblyai(exact: ExactService, turn: Path) -> None:
    """The SDK knows every message as what it is; turns end once as spoken, or once more with marks."""
    told = run("assemblyai_program.py", exact, turn)
    for way in ("plain", "formatted"):
        kinds = {f"{kind}Event" for kind in ("Begin", "SpeechStarted", "Turn", "Termination")}
        assert {message["class"] for message in told[way]} == kinds
        assert told[way][-1]["audio_duration_seconds"] == 4
    ends = {way: [each for each in told[way] if each.get("end_of_turn")] for way in ("plain", "formatted")}
    assert [end["transcript"] for end in ends["plain"]] == ["hello world", "goodbye"]
    assert [(end["transcript"], end["turn_order"], end["turn_is_formatted"]) for end in ends["formatted"]] == [
        ("hello world", 0, False),
        ("Hello world", 0, True),
        ("goodbye", 1, False),
        ("Goodbye", 1, True),
    ]
    assert "HTTP 400" in told["refused"][0]["error"]


def test_assemblyai_and_a_killed_triton(exact: ExactService, turn: Path) -> None:
    """Each word comes once, and the client only waits."""
    told = run("assemblyai_program.py", exact, turn, when={HALF: exact.kill_recogniser})
    assert lower([end["transcript"] for end in told["plain"] if end.get("end_of_turn")]) == lower(SENTENCES)


def test_assemblyai_in_livekit(exact: ExactService, talk: Path) -> None:
    """Each turn begins and has its text."""
    told = run("livekit_turns_program.py", exact, talk, "assemblyai")
    kinds = [kind for kind, _ in told["events"] if kind in ("start_of_speech", "final_transcript", "end_of_speech")]
    assert kinds == ["start_of_speech", "final_transcript", "end_of_speech"] * 2
    assert finals(told) == SENTENCES


def test_assemblyai_in_pipecat(exact: ExactService, talk: Path) -> None:
    """Turns end by themselves."""
    told = run("pipecat_turns_program.py", exact, talk, "assemblyai", "2")
    assert (told["heard"], told["interim"] > 1) == (SENTENCES, True)


def committed(told: Any, way: str) -> list[str]:
    """Return the texts that ElevenLabs has committed."""
    return [message["text"] for message in told[way] if message["message_type"] == "committed_transcript"]


def test_elevenlabs(exact: ExactService, turn: Path) -> None:
    """The client commits everything at once, with times, or pauses commit."""
    told = run("elevenlabs_program.py", exact, turn)
    assert (committed(told, "manual"), committed(told, "vad")) == (["Hello world Goodbye"], SENTENCES)
    [timed] = [message for message in told["manual"] if message["message_type"].endswith("timestamps")]
    assert [word["text"] for word in timed["words"] if word["type"] == "word"] == ["Hello", "world", "Goodbye"]
    assert (timed["text"], timed["language_code"], told["refused"]) == ("Hello world Goodbye", "en", 400)


def test_elevenlabs_and_a_killed_triton(exact: ExactService, turn: Path) -> None:
    """Each word comes once, and the client only waits."""
    told = run("elevenlabs_program.py", exact, turn, when={HALF: exact.kill_recogniser})
    assert lower(committed(told, "manual")) == lower(SENTENCES)


def test_elevenlabs_in_livekit(exact: ExactService, talk: Path) -> None:
    """It takes the copy with times, because it asks for the language. It never says that the audio has ended."""
    assert finals(run("livekit_turns_program.py", exact, talk, "elevenlabs", "2")) == SENTENCES


def transcripts(told: Any, way: str) -> list[str]:
    """Return the finals of Speechmatics, as its SDK has read them."""
    return [message["read"][0].strip() for message in told[way] if message["message"] == "AddTranscript"]


def test_speechmatics(exact: ExactService, turn: Path) -> None:
    """A file as it is, live audio with words that are final early, channels, and refusals that the SDK can tell."""
    told = run("speechmatics_program.py", exact, turn)
    assert (transcripts(told, "live"), transcripts(told, "file")) == (SENTENCES, SENTENCES)
    assert lower(transcripts(told, "early")) == lower(SENTENCES)
    assert len(transcripts(told, "early")) > len(SENTENCES)
    for way in ("live", "early"):
        kinds = [message["message"] for message in told[way]]
        assert (kinds[0], kinds[-1], "AddPartialTranscript" in kinds) == ("RecognitionStarted", "EndOfTranscript", True)
        counts = [message["seq_no"] for message in told[way] if message["message"] == "AudioAdded"]
        assert counts == list(range(1, len(counts) + 1))
    ends = {way: sum(message["message"] == "EndOfUtterance" for message in told[way]) for way in ("live", "early")}
    assert ends == {"live": 1, "early": 2}
    assert transcripts(told, "channels") == SENTENCES
    spoken = [message for message in told["channels"] if message["message"] == "AddTranscript"]
    assert {message["channel"] for message in spoken} == {"caller"}
    language, diarization = told["refused"]
    assert ("TranscriptionError" in language, "language" in language) == (True, True)
    assert ("TranscriptionError" in diarization, "diarization" in diarization) == (True, True)


def test_speechmatics_and_a_killed_triton(exact: ExactService, turn: Path) -> None:
    """Each word comes once, and the client only waits."""
    told = run("speechmatics_program.py", exact, turn, when={HALF: exact.kill_recogniser})
    assert lower(transcripts(told, "live")) == lower(SENTENCES)


@pytest.mark.parametrize("killed", [False, True])
def test_speechmatics_in_javascript(exact: ExactService, turn: Path, killed: bool) -> None:
    """Live audio with a forced end, a file as it is, and two refusals; with a killed Triton, each word comes once."""
    told = run("speechmatics_program.cjs", exact, turn, when={HALF: exact.kill_recogniser} if killed else None)
    for way in ("live", "file"):
        assert lower(spoken_in_javascript(told[way])) == lower(SENTENCES)
        assert (told[way]["messages"][-1]["message"], told[way]["speakers"]) == ("EndOfTranscript", [])
    kinds = [message["message"] for message in told["live"]["messages"]]
    assert (kinds[0], kinds.count("EndOfUtterance"), "AddPartialTranscript" in kinds) == ("RecognitionStarted", 1, True)
    assert told["refused"] == ["invalid_model", "invalid_config"]


def spoken_in_javascript(told: Any) -> list[str]:
    """Return the finals of Speechmatics, as its SDK has passed them on."""
    finals = [message for message in told["messages"] if message["message"] == "AddTranscript"]
    return [message["metadata"]["transcript"].strip() for message in finals]


def test_speechmatics_in_livekit(exact: ExactService, talk: Path) -> None:
    """Turns end by themselves."""
    assert finals(run("livekit_turns_program.py", exact, talk, "speechmatics", "2")) == SENTENCES


def test_speechmatics_in_pipecat(exact: ExactService, talk: Path) -> None:
    """The service ends turns, and pipecat hears of text before that."""
    told = run("pipecat_turns_program.py", exact, talk, "speechmatics", "2")
    assert (told["heard"], told["interim"] > 1) == (SENTENCES, True)


@pytest.fixture(scope="module")
def guarded_words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExactService]:
    """Provide a service with one key, KEY, and no certificate."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{KEY.line}\n")
    with ExactService(slots=4, policy=PortPolicy(AccessRules(KeyFile(keys)))) as service:
        yield service


TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExactService]:
    """Provide a service for the calls of one account of Twilio's."""
    secrets = tmp_path_factory.mktemp("secrets") / "secrets"
    secrets.write_text(f"{TOKEN}\n")
    rules = WebhookRules(Fetch.ANY, "", SecretFile(secrets))
    policy = PortPolicy(AccessRules(calls=CallSignatures(SecretFile(secrets))), webhooks=rules)
    with ExactService(slots=4, policy=policy) as service:
        yield service


@pytest.mark.parametrize("killed", [False, True])
async def test_twilio(exchange: ExactService, tmp_path: Path, killed: bool) -> None:
    """Only what its package has signed for this address is admitted. Each word comes to the webhook once."""
    (talk := tmp_path / "talk.wav").write_bytes(recording(spoken(slowly("hello", 16_000), slowly("goodbye", 16_000))))
    when: dict[str, Callable[[], object]] = {HALF: exchange.kill_recogniser} if killed else {}
    async with WebhookReceiver() as receiver:
        told = await asyncio.to_thread(run, "twilio_program.py", exchange, talk, TOKEN, receiver.url, when=when)
        events = await receiver.until_ended()
    assert told == {"statuses": [401, 401, 401, 401, 101], "close": 1000}
    heard = [event["data"]["text"] for event in events if event["type"] == "final"]
    assert heard == ["Hello", "Goodbye"]


def tokens(told: Any, way: str) -> str:
    """Return the final tokens of Soniox, joined."""
    return "".join(token["text"] for event in told[way] for token in event["tokens"] if token["is_final"])


def test_soniox(exact: ExactService, turn: Path) -> None:
    """Ends of turns, a forced end, a file as it is, and a refusal that the SDK can read."""
    told = run("soniox_program.py", exact, turn)
    assert tokens(told, "turns") == "Hello world<end> Goodbye"
    assert (tokens(told, "finalized"), tokens(told, "file")) == ("Hello world Goodbye<fin>", "Hello world Goodbye")
    assert any(not token["is_final"] for event in told["turns"] for token in event["tokens"])
    assert [event["finished"] for event in told["turns"]][-2:] == [False, True]
    [refusal] = [event for event in told["refused"] if event["error_code"]]
    assert (refusal["error_code"], "translat" in refusal["error_message"]) == (400, True)


def test_soniox_and_a_killed_triton(exact: ExactService, turn: Path) -> None:
    """Each word comes once, and the client only waits."""
    told = run("soniox_program.py", exact, turn, when={HALF: exact.kill_recogniser})
    assert lower([tokens(told, "turns").replace("<end>", "")]) == lower(SENTENCES)


@pytest.mark.parametrize("killed", [False, True])
def test_soniox_in_javascript(exact: ExactService, turn: Path, killed: bool) -> None:
    """Ends of turns, a forced end, a file as it is, and a refusal; with a killed Triton, each word comes once."""
    told = run("soniox_program.cjs", exact, turn, when={HALF: exact.kill_recogniser} if killed else None)
    refused = told.pop("refused")
    assert {way: lower([each["finals"]]) for way, each in told.items()} == dict.fromkeys(told, lower(SENTENCES))
    assert [told[way]["endpoints"] for way in ("turns", "finalized")] == [1, 0]
    assert all(each["finished"] == 1 and not each["errors"] for each in told.values())
    assert told["turns"]["partials"] > 1
    [[_, _, status, sentence]] = refused["errors"]
    assert (status, "translat" in sentence) == (400, True)


def test_keys_in_javascript(guarded_words: ExactService, turn: Path) -> None:
    """Speechmatics' client sends its key as a token in the address. For Soniox', the address has it."""
    for program in ("speechmatics_program.cjs", "soniox_program.cjs"):
        assert "refused" in run(program, guarded_words, turn, KEY.secret)
        with pytest.raises(AssertionError, match=r"401|WebSocket"):
            run(program, guarded_words, turn, "wrong")


def test_soniox_in_pipecat(exact: ExactService, talk: Path) -> None:
    """The service ends turns, and pipecat hears of text before that."""
    told = run("pipecat_turns_program.py", exact, talk, "soniox", "2")
    assert ([text.strip() for text in told["heard"]], told["interim"] > 1) == (SENTENCES, True)


def test_soniox_in_livekit(exact: ExactService, talk: Path) -> None:
    """Unset options are null. It never says that the audio has ended."""
    told = run("livekit_turns_program.py", exact, talk, "soniox", "2")
    assert [text.strip() for text in finals(told)] == SENTENCES
