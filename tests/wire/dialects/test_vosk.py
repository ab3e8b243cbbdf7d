"""The format of Vosk: one answer for each message, configs of all kinds, resets, and alternatives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamer.base.events import Acknowledgement, Alternative, Done, Final, Flushed
from streamer.wire.dialects.dialect import FLUSH, STOP, Hangup, Reply
from streamer.wire.dialects.vosk import CONFIG, LAG_MS, Vosk
from tests.wire.dialects.dialect_steps import final, opened, partial, replies, started, take, told

SECOND = bytes(16_000)
EOF = '{"eof" : 1}'
RESET = '{"reset" : 1}'


def config(**options: Any) -> str:
    return json.dumps({"config": options})


def test_the_page_has_the_config() -> None:
    """The reference has each key with its meaning."""
    page = Path("docs/reference/compatibility.md").read_text()
    table = page.partition("<!-- the config of Vosk")[2].partition("\n\n")[0]
    assert table.splitlines()[3:] == [f"| `{key}` | {meaning} |" for key, meaning in CONFIG.items()]


def test_each_frame_has_one_answer() -> None:
    """It comes at once, also when nothing was recognised yet, and results are kept for it."""
    client = opened(Vosk)
    steps = take(client, SECOND, b"")
    assert started(steps)["sample_rate"] == 8000
    assert replies(steps) == [{"partial": ""}, {"partial": ""}]
    assert told(client, partial("hel")) == []
    assert replies(take(client, SECOND)) == [{"partial": "hel"}]
    assert told(client, final("hello world", 100)) == []
    [answer] = replies(take(client, SECOND))
    assert answer["text"] == "hello world"
    assert answer["result"][1] == {"conf": 0.5, "end": 0.3, "start": 0.2, "word": "world"}
    assert replies(take(client, SECOND)) == [{"partial": ""}]


def test_an_answer_is_written_in_lines() -> None:
    """Some clients look for the text of the original, and not for its meaning."""
    [reply] = [step.text for step in take(opened(Vosk), SECOND) if isinstance(step, Reply)]
    assert reply == '{\n  "partial" : ""\n}'


def test_finals_that_are_due_together() -> None:
    """They are one answer, and no word is lost."""
    client = opened(Vosk)
    take(client, SECOND)
    told(client, final("one", 0, 500), final("two", 600, 900))
    [answer] = replies(take(client, SECOND))
    assert (answer["text"], [word["start"] for word in answer["result"]]) == ("one two", [0.0, 0.6])


def test_an_answer_waits_only_for_audio_that_came() -> None:
    """A client that sends a file as fast as it can is answered when it is heard; one that speaks never waits."""
    client = opened(Vosk)
    many = LAG_MS // 1000 + 2
    assert len(replies(take(client, *[SECOND] * many))) == many - 2
    assert told(client, Acknowledgement(1000)) == []
    assert told(client, partial("hello", 0, 2000)) == [{"partial": "hello"}] * 2


def test_a_client_that_does_not_wait() -> None:
    """It is answered however much is not recognised, so nothing piles up."""
    client = opened(Vosk)
    answered = [len(replies(take(client, SECOND))) for _ in range(300)]
    assert sum(answered) > 200
    assert max(answered) <= 101


@pytest.mark.parametrize(
    ("rate", "taken"), [(16_000, 16_000), ("44100", 44_100), ("16000.000000", 16_000), (8000.0, 8000), (None, 8000)]
)
def test_rates(rate: Any, taken: int) -> None:
    """A rate may be a number or its text."""
    client = opened(Vosk)
    assert take(client, config(sample_rate=rate)) == []
    assert started(take(client, SECOND))["sample_rate"] == taken


@pytest.mark.parametrize("rate", ["fast", 0, -1, 1e12, "NaN", [8000], {}, 10**400])
def test_a_rate_that_makes_no_sense(rate: Any) -> None:
    """It closes the connection with a sentence."""
    [step] = take(opened(Vosk), config(sample_rate=rate))
    assert isinstance(step, Hangup)
    assert (step.code, "8000 to 192000" in step.reason) == (1008, True)


def test_a_rate_counts_until_the_first_audio() -> None:
    """A later config is taken, but the audio that is under way keeps its rate."""
    client = opened(Vosk)
    take(client, config(sample_rate=16_000), SECOND)
    assert take(client, config(sample_rate=8000, words=False)) == []
    assert client.sent_ms == 500
    told(client, final("one"))
    assert replies(take(client, SECOND)) == [{"text": "one"}]


def test_phrases_are_hotwords() -> None:
    """Long phrases count as their words; the sign for anything else, and what is no phrase, is left out."""
    client = opened(Vosk)
    phrases = ["zero one", "[unk]", "one two three four five six seven", 5, "", "zero one"]
    start = started(take(client, config(phrase_list=phrases, model="fine"), SECOND))
    assert start["hotwords"] == ["zero one", *["one", "two", "three", "four", "five", "six", "seven"]]
    assert start["model"] == "fine"
    assert started(take(opened(Vosk), config(model="model-small", phrase_list=None), SECOND))["model"] == "default"


def test_alternatives() -> None:
    """The best text is the first, with its words, and comes once; without alternatives the form is another one."""
    client = opened(Vosk)
    assert started(take(client, config(max_alternatives=2), SECOND))["alternatives"] == 2
    heard = final("one", 100)
    texts = (Alternative("one", 0.7), Alternative("won", 0.25), Alternative("on", 0.05))
    told(client, Final(**{**vars(heard), "alternatives": texts}))
    [answer] = replies(take(client, SECOND))
    best, other = answer["alternatives"]
    assert (best["text"], best["confidence"], best["result"]) == (
        "one",
        0.5,
        [{"end": 0.2, "start": 0.1, "word": "one"}],
    )
    assert other == {"confidence": 0.25, "text": "won"}
    assert "text" not in answer
    take(client, config(max_alternatives=0))
    told(client, final("two"))
    assert "result" in replies(take(client, SECOND))[0]


def test_words_of_partials() -> None:
    """A client may ask for them."""
    client = opened(Vosk)
    assert started(take(client, config(partial_words=True), SECOND))["partial_words"] is True
    told(client, partial("hello", 100))
    [answer] = replies(take(client, SECOND))
    assert answer["partial_result"] == [{"end": 0.2, "start": 0.1, "word": "hello"}]


def test_the_end() -> None:
    """One final with all that is left, then a normal close; nothing that comes later counts."""
    client = opened(Vosk)
    take(client, SECOND)
    assert take(client, '{"eof":1}') == [STOP, Hangup(1000)]
    assert told(client, final("one"), final("two", 500), Done(1000))[0]["text"] == "one two"
    assert take(client, SECOND, RESET, EOF) == []


@pytest.mark.parametrize("command", [EOF, RESET])
def test_an_end_without_audio(command: str) -> None:
    """It has an answer too."""
    steps = take(opened(Vosk), command)
    assert replies(steps) == [{"text": ""}]
    assert (steps[1:] == [Hangup(1000)]) is (command == EOF)


def test_a_reset() -> None:
    """It is answered by a final; frames behind it are answered after it; times go on."""
    client = opened(Vosk)
    take(client, SECOND)
    assert take(client, RESET) == [FLUSH]
    assert replies(take(client, SECOND, SECOND)) == []
    assert told(client, final("one", 0, 1000)) == []
    answers = told(client, Flushed(1000))
    assert [answer.get("text", answer.get("partial")) for answer in answers] == ["one", "", ""]
    assert len(replies(take(client, SECOND))) == 1


def test_frames_that_pile_up_behind_a_reset() -> None:
    """Too many close the connection."""
    client = opened(Vosk)
    take(client, SECOND, RESET)
    steps = take(client, *[b"ab"] * 1001)
    assert isinstance(steps[-1], Hangup)


def test_a_rest_keeps_finals_and_times() -> None:
    """What was said before a silence of the client is the answer to its next frame."""
    client = opened(Vosk)
    take(client, SECOND)
    assert list(client.rest()) == [STOP]
    assert told(client, final("one", 0, 1000), Done(1000)) == []
    [answer] = replies(take(client, SECOND))
    assert answer["text"] == "one"
    told(client, final("two", 100, 900))
    assert replies(take(client, SECOND))[0]["result"][0]["start"] == 1.1


def test_a_client_that_waits_does_not_rest() -> None:
    """It sends nothing because an answer is owed, so its session goes on."""
    client = opened(Vosk)
    assert replies(take(client, bytes(2 * LAG_MS * 16))) == []
    assert list(client.rest()) == []
    [answer] = told(client, final("one", 0, 2 * LAG_MS))
    assert answer["text"] == "one"
    assert list(client.rest()) == [STOP]


@pytest.mark.parametrize("text", ["hello", "[]", '{"config": 5}', "{}", "[" * 50_000, '{"config": {"words": {}}}'])
def test_other_texts(text: str) -> None:
    """They have no answer, and change nothing."""
    client = opened(Vosk)
    assert take(client, text) == []
    assert replies(take(client, SECOND)) == [{"partial": ""}]
