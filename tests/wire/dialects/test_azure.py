"""The format of Azure's Speech SDK: headers, turns, phrases of both kinds, silence, and what a client may want."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Acknowledgement, Alternative, Done, Final, ServerMessage, Speech, SpeechState, Word
from streamer.wire.dialects import azure, azure_wishes
from streamer.wire.dialects.azure import Azure
from streamer.wire.dialects.dialect import STOP, Hangup, Opening, Reply, Step
from streamer.wire.errors import CloseCode, WireError
from tests.wire.dialects.azure_messages import TURN, Answer, audio, header, read, text
from tests.wire.dialects.dialect_steps import MODELS, final, partial, started, take

SECOND = bytes(32_000)
ONCE = {"phraseDetection": {"mode": "Interactive"}}
OTHER = "FEDCBA98765432100123456789ABCDEF"


def opened(query: str = "", path: str = azure.PATH) -> Azure:
    """Open a websocket at this path with this query."""
    pairs = tuple((name, value) for name, _, value in (pair.partition("=") for pair in query.split("&")))
    return Azure(Opening(pairs, {}, MODELS, "ab-12", path=path))


def context(**sections: Any) -> str:
    return text("speech.context", sections)


def speaking(query: str = "", /, **sections: Any) -> Azure:
    """Return a websocket in a turn, on which a second of audio has come."""
    client = opened(query)
    take(client, context(**sections), audio(header()), audio(SECOND))
    return client


def start_of(client: Azure, *messages: str | bytes) -> dict[str, Any]:
    """Return the options of the session that begins with these messages and audio."""
    return started(take(client, *messages, audio(header()), audio(SECOND)))


def answers(steps: Iterable[Step]) -> list[Answer]:
    return [read(step.text) for step in steps if isinstance(step, Reply)]


def told(client: Azure, *messages: ServerMessage) -> list[Answer]:
    return [read(each) for message in messages for each in client.tell(message)]


def paths(found: Iterable[Answer]) -> list[str]:
    return [answer.path for answer in found]


def test_the_page_has_the_options() -> None:
    """Both tables of the page are those of the code."""
    page = Path("docs/reference/compatibility.md").read_text()
    for marker, options in (("options", azure_wishes.OPTIONS), ("context", azure_wishes.CONTEXT)):
        table = page.partition(f"<!-- the {marker} of Azure")[2].partition("\n\n")[0]
        assert table.splitlines()[3:] == [f"| `{name}` | {meaning} |" for name, meaning in options.items()]


def test_a_turn() -> None:
    """It begins with its first audio, has phrases until the audio ends, and its name stands in each message."""
    client = opened("language=en-US&format=simple")
    assert take(client, text("speech.config", {"context": {}}, ""), context()) == []
    begun, start, second = take(client, audio(header()), audio(SECOND))
    assert answers([begun]) == [Answer("turn.start", {"context": {"serviceTag": TURN}}, TURN)]
    assert (json.loads(str(start))["written"], second) == (True, SECOND)
    assert told(client, Speech(SpeechState.START, 100), partial("hel", 100), final("Hello.", 100)) == [
        Answer("speech.startDetected", {"Offset": 1_000_000}, TURN),
        Answer("speech.hypothesis", {"Text": "hel", "Offset": 1_000_000, "Duration": 9_000_000}, TURN),
        Answer(
            "speech.phrase",
            {"RecognitionStatus": "Success", "Offset": 1_000_000, "Duration": 1_000_000, "DisplayText": "Hello."},
            TURN,
        ),
    ]
    assert paths(told(client, Speech(SpeechState.END, 500), Speech(SpeechState.START, 900))) == []
    assert take(client, audio()) == [STOP]
    assert told(client, final("You.", 1000), Done(2000))[1:] == [
        Answer("speech.endDetected", {"Offset": 20_000_000}, TURN),
        Answer("speech.phrase", {"RecognitionStatus": "EndOfDictation", "Offset": 10_010_000, "Duration": 0}, TURN),
        Answer("turn.end", {}, TURN),
    ]


def test_turns_in_one_connection() -> None:
    """Each has a header of its own, and its times count from its own audio."""
    client = speaking()
    take(client, audio())
    told(client, Done(1000))
    assert take(client, audio(SECOND), audio()) == []  # both are of the turn that is over
    steps = take(client, audio(header(rate=8000), OTHER), audio(SECOND, OTHER))
    assert answers(steps)[0] == Answer("turn.start", {"context": {"serviceTag": OTHER}}, OTHER)
    assert started(steps)["sample_rate"] == 8000
    assert told(client, final("next"))[1].content["Offset"] == 0


def test_a_turn_that_follows_without_an_end() -> None:
    """The one before it ends, with all that was said."""
    client = speaking()
    steps = client.receive(audio(header(), OTHER))
    assert next(steps) == STOP
    assert paths(told(client, final("said"), Done(1000)))[-2:] == ["speech.phrase", "turn.end"]
    assert [answer.turn for answer in answers(steps)] == [OTHER]


def test_a_rest_of_the_client() -> None:
    """Its turn stays, and its next audio goes on with it."""
    client = speaking()
    assert list(client.rest()) == [STOP]
    assert paths(told(client, final("before"), Done(1000))) == ["speech.startDetected", "speech.phrase"]
    assert len(take(client, audio(SECOND))) == 2
    assert told(client, final("after"))[0].content["Offset"] == 10_000_000


def test_recognising_once() -> None:
    """The first phrase ends the turn, and the session with the next message of the client."""
    client = speaking(**ONCE)
    assert paths(told(client, partial("on"), final("One."), partial("tw", 1000), final("Two.", 1000))) == [
        "speech.startDetected",
        "speech.hypothesis",
        "speech.endDetected",
        "speech.phrase",
        "turn.end",
    ]
    assert take(client, text("telemetry", {})) == [STOP]
    assert told(client, Done(2000)) == []
    assert take(client, audio(SECOND), audio()) == []


def test_recognising_once_without_words() -> None:
    """A silence that lasts too long ends the turn; so does speech without a word, later; or the end of the audio."""
    noise = (Speech(SpeechState.START, 4900), Acknowledgement(14_900))
    for query, before, heard, status in (
        ("", noise[:0], 5000, "InitialSilenceTimeout"),
        ("initialSilenceTimeoutMs=900", noise[:0], 1000, "InitialSilenceTimeout"),
        ("", noise, 15_000, "BabbleTimeout"),
    ):
        client = speaking(query, **ONCE)
        assert paths(told(client, *before, Acknowledgement(heard - 200)))[1:] == []
        phrase, end = told(client, Acknowledgement(heard))[-2:]
        assert (phrase.content, end.path) == (
            {"RecognitionStatus": status, "Offset": 0, "Duration": heard * 10_000},
            "turn.end",
        )
    client = speaking(**ONCE)
    assert take(client, audio()) == [STOP]
    assert [answer.content.get("RecognitionStatus") for answer in told(client, Done(1000))] == ["NoMatch", None]
    nothing = take(opened(path="/speech/recognition/interactive/cognitiveservices/v1"), audio(header()), audio())
    assert paths(answers(nothing)) == ["turn.start", "speech.phrase", "turn.end"]
    assert told(speaking(), Acknowledgement(60_000)) == []


def test_a_detailed_phrase() -> None:
    """It has the other texts, the spoken form, and words with their times if the client wants them."""
    client = speaking(phraseOutput={"format": "Detailed", "detailed": {"options": ["WordTimings", "WordConfidence"]}})
    words = (Word("Pay", 0, 100, 0.5, "pay"), Word("$5.", 100, 300, 0.25, "five dollars"))
    others = (Alternative("Pay $5.", 0.6), Alternative("Play $5!", 0.4))
    said = Final(0, "Pay $5.", 0, 300, 1000, 0.75, words, spoken="pay five dollars", alternatives=others)
    phrase = told(client, said)[1].content
    assert phrase["DisplayText"] == "Pay $5."
    best, other = phrase["NBest"]
    assert {name: best[name] for name in ("Confidence", "Lexical", "ITN", "MaskedITN", "Display")} == {
        "Confidence": 0.75,
        "Lexical": "pay five dollars",
        "ITN": "pay $5",
        "MaskedITN": "pay $5",
        "Display": "Pay $5.",
    }
    assert best["Words"] == [
        {"Word": "pay", "Offset": 0, "Duration": 1_000_000, "Confidence": 0.5},
        {"Word": "five dollars", "Offset": 1_000_000, "Duration": 2_000_000, "Confidence": 0.25},
    ]
    assert best["DisplayWords"][1] == {"DisplayText": "$5.", "Offset": 1_000_000, "Duration": 2_000_000}
    assert other == {
        "Confidence": 0.4,
        "Lexical": "play $5",
        "ITN": "play $5",
        "MaskedITN": "play $5",
        "Display": "Play $5!",
    }
    [plain] = told(speaking("format=detailed"), final("one"))[1].content["NBest"]
    assert (plain["Lexical"], "Words" in plain) == ("one", False)
    [timed] = told(speaking("wordLevelTimestamps=true"), final("one"))[1].content["NBest"]
    assert timed["Words"] == [{"Word": "one", "Offset": 0, "Duration": 1_000_000}]


def test_what_a_client_wants() -> None:
    """In the address, or in the message before the audio, whose names may have any case."""
    start = start_of(opened("language=de&cid=fine&profanity=raw&segmentationSilenceTimeoutMs=300&storeAudio=true"))
    assert (start["model"], start["language"], start["profanity"]) == ("fine", "de-DE", "keep")
    assert (start["endpoint"], start["dictation"], start["alternatives"]) == ({"after_text_ms": 400}, False, 0)
    start = start_of(
        opened("language=en-US&endSilenceTimeoutMs=700"),
        context(
            dgi={"Groups": [{"Type": "Generic", "Items": [{"Text": "Ada"}, {"Text": 5}, {}, {"text": "Grace"}]}]},
            phraseDetection={"mode": "CONVERSATION", "enrichment": {"profanity": "Removed"}},
            phraseOutput={"interimResults": {"resultType": "None", "stableThreshold": 3}},
        ),
    )
    assert (start["model"], start["hotwords"], start["profanity"]) == ("default", ["Ada", "Grace"], "remove")
    assert (start["partials"], start["stability"], start["endpoint"]) == (False, "medium", {"after_text_ms": 700})
    segmentation = {"mode": "Semantic", "segmentationForcedTimeoutMs": 1000}
    start = start_of(opened(), context(phraseDetection={"CONVERSATION": {"segmentation": segmentation}}))
    assert (start["endpoint"], start["profanity"]) == ({"turn": True, "longest_ms": 6000}, "mask")
    assert start["partials"] is True
    assert start_of(opened(path="/speech/recognition/dictation/cognitiveservices/v1"))["dictation"] is True


def test_a_client_that_names_several_languages() -> None:
    """It is told which one was chosen, if that is certain."""
    for query, names, language, primary in (
        ("", ["de-DE", "en-GB"], "auto", "en-GB"),
        ("cid=fine", ["de-DE"], "de-DE", "de-DE"),
        ("cid=fine", ["de-DE", "en-US"], "auto", None),
        ("cid=fine", ["UND"], "auto", None),
    ):
        client = opened(query)
        assert start_of(client, context(languageId={"languages": names}))["language"] == language
        phrase = told(client, final("one"))[1].content
        assert phrase.get("PrimaryLanguage", {}).get("Language") == primary


def test_speakers() -> None:
    """A transcription of a conversation names the speaker of most words."""
    client = opened()
    diarization = {"mode": "Anonymous", "audioSessionId": "ab", "audioOffsetMs": 0}
    start = start_of(client, context(phraseDetection={"mode": "Conversation", "speakerDiarization": diarization}))
    assert start["speakers"] is True
    said = final("one two")
    by_somebody = replace(said, words=tuple(replace(word, speaker=1) for word in said.words or ()))
    phrases = told(client, by_somebody, said)[1:]
    assert [phrase.content["SpeakerId"] for phrase in phrases] == ["Guest-2", "Unknown"]


@pytest.mark.parametrize(
    ("begin", "samples", "start", "heard"),
    [
        (header(bits=8), b"\x00\x80\xff", ("pcm_s16le", 16_000, 1), b"\x00\x80\x00\x00\x00\x7f"),
        (header(bits=24, rate=48_000), b"abcdef", ("pcm_s16le", 48_000, 1), b"bcef"),
        (header(bits=32, channels=2), b"abcdefgh", ("pcm_s16le", 16_000, 2), b"cdgh"),
        (header(3, 32), b"abcd", ("pcm_f32le", 16_000, 1), b"abcd"),
        (header(7, 8, 8000), b"abc", ("mulaw", 8000, 1), b"abc"),
        (header(6, 8, 8000), b"abc", ("alaw", 8000, 1), b"abc"),
    ],
)
def test_samples(begin: bytes, samples: bytes, start: tuple[object, ...], heard: bytes) -> None:
    """The header says what they are. It may be divided, and samples may follow it at once."""
    client = opened()
    steps = take(client, audio(begin[:7]), audio(begin[7:] + samples[:1]), audio(samples[1:]))
    options = started(steps)
    assert (options["encoding"], options["sample_rate"], options["channels"]) == start
    assert b"".join(step for step in steps if isinstance(step, bytes)) == heard


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (audio(b"ID3 and so on"), "header of a WAV file"),
        (audio(b"RIFF" + bytes(5000)), "header of a WAV file"),
        (audio(header(2, 8)), "PCM of 8 to 32 bits"),
        (audio(header(rate=400)), "a rate from 8000"),
        (audio(header(channels=9)), "at most 8 channels"),
        (audio(header(), "no name"), "'X-RequestId'"),
        (text("speech.context", [1]), "JSON object"),
        (context(translation={"targetLanguages": ["de"]}), "'translation' is not supported"),
        (context(phraseDetection={"enrichment": {"pronunciationAssessment": {"a": 1}}}), "pronunciation"),
        (context(phraseDetection={"language": "xx-XX"}), "'language' must be"),
        (context(phraseDetection={"trailingSilenceTimeout": "long"}), "must be a number"),
    ],
)
def test_what_cannot_be_served(message: str | bytes, why: str) -> None:
    """The connection ends with a close that the client takes as its own mistake, and a sentence."""
    hangup = take(opened(), message)[-1]
    assert isinstance(hangup, Hangup)
    assert (hangup.code, why in hangup.reason) == (1007, True)


@pytest.mark.parametrize("query", ["language=xx-XX", "wordLevelTimestamps=perhaps", "endSilenceTimeoutMs=long"])
def test_refusals(query: str) -> None:
    """What makes no sense in the address is refused before the upgrade."""
    with pytest.raises(WireError):
        opened(query)


def test_messages_that_mean_nothing() -> None:
    """They are ignored, also before and after turns."""
    client = speaking()
    for message in ("", "{", "Path: dance\r\n\r\n{}", b"", b"\xff", b"\xff\xffPath", b"\0\0", text("agent.config", {})):
        assert take(client, message) == []
    assert len(take(client, audio(SECOND))) == 1


@pytest.mark.parametrize(
    ("code", "told_code"),
    [
        (CloseCode.REFUSED, 1007),
        (CloseCode.BAD_AUDIO, 1007),
        (CloseCode.TOO_FAST, 1013),
        (CloseCode.TRY_LATER, 1013),
        (CloseCode.FAILED, 1011),
        (CloseCode.DONE, 1000),
    ],
)
def test_closes(code: CloseCode, told_code: int) -> None:
    """A mistake has the code after which the client does not try again."""
    assert opened().close(code, "Why.") == (told_code, "Why.")
    status, content = Azure.refusal(ErrorCode.UNAUTHORIZED, "No.", 401, "ab")
    assert (status, json.loads(content)["error"]["message"]) == (401, "No.")
