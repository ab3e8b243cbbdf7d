"""Items from the results of sessions: by pauses, by commits, and by both."""

from __future__ import annotations

import json
import random
from collections import deque
from typing import Any

import pytest

from streamer.base.events import (
    Acknowledgement,
    Done,
    Final,
    Flushed,
    Partial,
    ServerMessage,
    Speech,
    SpeechState,
    Word,
)
from streamer.wire.dialects.openai_settings import ServerVad, TurnDetection
from streamer.wire.dialects.openai_turns import ServerEvents, Turns

SHORT = {
    "input_audio_buffer.speech_started": "started",
    "input_audio_buffer.speech_stopped": "stopped",
    "input_audio_buffer.committed": "committed",
    "conversation.item.added": "added",
    "conversation.item.done": "done",
    "conversation.item.created": "created",
    "conversation.item.input_audio_transcription.delta": "delta",
    "conversation.item.input_audio_transcription.completed": "completed",
    "conversation.item.input_audio_transcription.failed": "failed",
    "input_audio_buffer.cleared": "cleared",
    "error": "error",
}


def brief(texts: list[str]) -> list[tuple[Any, ...]]:
    """Each event as its short name, the number of its item, and what it says."""
    found = []
    for event in map(json.loads, texts):
        item = event.get("item_id") or event.get("item", {}).get("id", "_0")
        names = ("audio_start_ms", "audio_end_ms", "previous_item_id", "delta", "transcript")
        said = [event[name] for name in names if name in event]
        said += [event["error"]["code"], event["error"]["event_id"]] if event["type"] == "error" else []
        found.append((SHORT[event["type"]], int(item.rpartition("_")[2]), *said))
    return [event for event in found if event[0] not in ("added", "done")]


class Talk:
    """Items of a session, fed with messages."""

    def __init__(self, detection: TurnDetection = None, at_ms: int = 0) -> None:
        self.turns = Turns(ServerEvents("s", flat=False), "s")
        self.turns.begin(detection, at_ms)

    def take(self, *messages: ServerMessage) -> list[tuple[Any, ...]]:
        return brief([text for message in messages for text in self.turns.take(message)])

    def commit(self, at_ms: int, *, running: bool = True) -> list[tuple[Any, ...]]:
        return brief(self.turns.commit(at_ms, "mine", running=running)[0])

    def clear(self, at_ms: int, *, running: bool = True) -> list[tuple[Any, ...]]:
        return brief(self.turns.clear(at_ms, running=running)[0])


def begins(at_ms: int) -> Speech:
    return Speech(SpeechState.START, at_ms)


def ends(at_ms: int) -> Speech:
    return Speech(SpeechState.END, at_ms)


def partial(text: str, start_ms: int = 0, audio_ms: int = 0) -> Partial:
    return Partial(0, text, 0, start_ms, audio_ms)


def final(text: str, start_ms: int, end_ms: int, cut_ms: int) -> Final:
    return Final(0, text, start_ms, end_ms, cut_ms + 100, 0.9, cut_ms=cut_ms)


VAD = ServerVad()
PREVIOUS = "item_s_1"


def test_a_turn() -> None:
    """One item from its beginning to its transcript, and only whole words go out before."""
    talk = Talk(VAD)
    assert talk.take(begins(500)) == [("started", 1, 200)]
    assert talk.take(partial("Hello wor"), partial("Hello worl")) == [("delta", 1, "Hello")]
    assert talk.take(ends(1400), partial("Hello")) == []
    assert talk.take(final("Hello world.", 500, 1400, 1700)) == [
        ("delta", 1, " world."),
        ("stopped", 1, 1700),
        ("committed", 1, None),
        ("completed", 1, "Hello world."),
    ]
    assert talk.take(begins(1800)) == [("started", 2, 1700)]
    assert talk.take(final("Bye", 1800, 2200, 2500), ends(2200))[1:] == [
        ("stopped", 2, 2500),
        ("committed", 2, PREVIOUS),
        ("completed", 2, "Bye"),
    ]


def test_words_without_a_start_of_speech_begin_a_turn() -> None:
    """Words begin a turn without an event of speech, as from a recogniser without a detector."""
    first = partial("So what", start_ms=900, audio_ms=1000)
    assert Talk(VAD).take(first) == [("started", 1, 600), ("delta", 1, "So")]


def test_speech_without_words_is_an_empty_item() -> None:
    """Speech without words is an empty item, which ends after the pause and some steps."""
    talk = Talk(VAD)
    assert talk.take(begins(500), ends(800), Acknowledgement(1900)) == [("started", 1, 200)]
    stopped = [("stopped", 1, 2000), ("committed", 1, None), ("completed", 1, "")]
    assert talk.take(Acknowledgement(2000)) == stopped
    assert talk.take(Acknowledgement(9000)) == []


def test_a_segment_that_was_cut_for_its_length_does_not_end_a_turn() -> None:
    """An item goes on after a segment that was cut for its length."""
    talk = Talk(VAD)
    talk.take(begins(0))
    assert talk.take(final("First half", 0, 19_000, 19_500)) == [("delta", 1, "First half")]
    assert talk.take(partial("and second", 19_600, 20_500)) == [("delta", 1, " and")]
    assert talk.take(final("and second", 19_600, 21_000, 21_500), ends(21_000)) == [
        ("delta", 1, " second"),
        ("stopped", 1, 21_500),
        ("committed", 1, None),
        ("completed", 1, "First half and second"),
    ]


def test_a_long_segment_before_a_pause_ends_a_turn() -> None:
    """The end of speech says that it was not only cut."""
    talk = Talk(VAD)
    talk.take(begins(0))
    assert [event[0] for event in talk.take(final("Long", 0, 15_000, 15_500), ends(15_000))] == [
        "delta",
        "stopped",
        "committed",
        "completed",
    ]


def test_noise_after_a_long_segment_ends_a_turn() -> None:
    """A turn ends if the speech after a long segment has no words for some time."""
    talk = Talk(VAD)
    talk.take(begins(0), final("Long", 0, 15_000, 15_500))
    assert talk.take(Acknowledgement(20_000)) == []
    assert talk.take(Acknowledgement(20_700)) == [
        ("stopped", 1, 20_700),
        ("committed", 1, None),
        ("completed", 1, "Long"),
    ]


def test_text_that_comes_to_nothing_is_in_no_transcript() -> None:
    """An item waits for text that is not final, and then has none, whatever its deltas said."""
    talk = Talk(VAD)
    assert talk.take(begins(0), partial("Hm well", audio_ms=600), ends(500))[1:] == [("delta", 1, "Hm")]
    assert talk.take(Acknowledgement(8000)) == []
    assert talk.take(Acknowledgement(8500)) == [("stopped", 1, 8500), ("committed", 1, None), ("completed", 1, "")]


@pytest.mark.parametrize(
    ("guesses", "final_text", "deltas"),
    [
        (["they had", "they had been a"], "They had been together.", ["they", " had been", " together."]),
        (["came about for"], "Came for an adventure.", ["came about", " an adventure."]),
        (["so it is here"], "So.", ["so it is"]),
        (["so it is", "so it", "so it was now"], "So it was now.", ["so it", " was", " now."]),
        (["no"], "No.", ["No."]),
        (["一二三"], "一两三。", ["一二", "三。"]),
    ],
)
def test_a_transcript_is_what_the_second_pass_has_read(guesses: list[str], final_text: str, deltas: list[str]) -> None:
    """The deltas go on behind the words that were told, and the transcript is that of the final."""
    talk = Talk(VAD)
    talk.take(begins(0))
    told = talk.take(*(partial(guess, audio_ms=900) for guess in guesses), final(final_text, 0, 900, 1500))
    assert [event[2] for event in told if event[0] == "delta"] == deltas
    talk.take(ends(900))
    assert told[-1:] == [("completed", 1, final_text)]


def test_a_turn_waits_for_a_word_that_is_not_told() -> None:
    """A pause does not end a turn whose last segment is only guessed, even if no delta has told it."""
    talk = Talk(VAD)
    talk.take(begins(0), final("First half", 0, 19_000, 19_500))
    assert talk.take(partial("on", start_ms=19_600, audio_ms=20_000), ends(20_100), Acknowledgement(21_400)) == []
    assert talk.take(final("On.", 19_600, 20_000, 21_500))[-1] == ("completed", 1, "First half On.")


def test_probabilities_of_words() -> None:
    """A client that wants them gets each word of the finals with the logarithm of its confidence."""
    talk = Talk()
    talk.turns.logprobs = True
    words = (Word("On", 0, 300, 1.0), Word("we", 300, 600, 0.5))
    talk.take(Final(0, "On we", 0, 600, 900, 0.8, words, cut_ms=800), final("go.", 900, 1000, 1100))
    talk.commit(1200)
    [completed] = map(json.loads, talk.turns.take(Flushed(1200)))
    assert completed["transcript"] == "On we go."
    assert completed["logprobs"] == [
        {"token": "On", "logprob": 0.0, "bytes": [79, 110]},
        {"token": " we", "logprob": -0.6931, "bytes": [32, 119, 101]},
    ]


def test_commits_make_items_without_detection() -> None:
    """Deltas may come before, and each answer of a flush completes the oldest item."""
    talk = Talk()
    assert talk.take(begins(0), partial("One t", audio_ms=800)) == [("delta", 1, "One")]
    assert talk.commit(1000) == [("committed", 1, None)]
    assert talk.commit(2000) == [("committed", 2, PREVIOUS)]
    assert talk.take(final("One", 0, 900, 1000), Flushed(1000)) == [("completed", 1, "One")]
    assert talk.take(final("Two", 1000, 1900, 2000), Flushed(2000)) == [("delta", 2, "Two"), ("completed", 2, "Two")]
    assert talk.commit(2500) == [("committed", 3, "item_s_2")]
    assert talk.take(Flushed(2500)) == [("completed", 3, "")]


def test_segments_of_an_item_are_joined() -> None:
    """Pauses do not end an item that only a commit can end."""
    talk = Talk()
    assert talk.take(final("One.", 0, 900, 1500), Acknowledgement(9000), final("Two.", 9000, 9900, 10_000)) == [
        ("delta", 1, "One."),
        ("delta", 1, " Two."),
    ]
    talk.commit(11_000)
    assert talk.take(Flushed(11_000)) == [("completed", 1, "One. Two.")]
    chinese = Talk()
    assert chinese.take(final("一。", 0, 900, 1500), final("二。", 9000, 9900, 10_000))[1:] == [("delta", 1, "二。")]


def test_a_commit_ends_a_turn() -> None:
    """A commit ends a turn once the audio before it is recognised, as pauses may still divide this audio."""
    talk = Talk(VAD)
    talk.take(begins(500), partial("Hello th", audio_ms=900))
    assert talk.commit(4000) == []
    assert talk.take(final("Hello there", 500, 1500, 1800), ends(1500)) == [
        ("delta", 1, " there"),
        ("stopped", 1, 1800),
        ("committed", 1, None),
        ("completed", 1, "Hello there"),
    ]
    assert talk.take(begins(3000), final("Bye", 3000, 3900, 3985), ends(3900)) == [
        ("started", 2, 2700),
        ("delta", 2, "Bye"),
    ]
    assert talk.take(Flushed(3985)) == [("stopped", 2, 4000), ("committed", 2, PREVIOUS), ("completed", 2, "Bye")]
    assert talk.take(Acknowledgement(9000), begins(9000)) == [("started", 3, 8700)]


def test_a_commit_of_silence_is_an_empty_item() -> None:
    """A commit of silence makes an empty item."""
    talk = Talk(VAD)
    talk.commit(200)
    assert talk.take(Flushed(200)) == [("committed", 1, None), ("completed", 1, "")]


def test_a_commit_of_a_turn_without_words() -> None:
    """What was told to have started is told to have stopped."""
    talk = Talk(VAD)
    talk.take(begins(500))
    talk.commit(900)
    assert talk.take(ends(900), Flushed(900)) == [("stopped", 1, 900), ("committed", 1, None), ("completed", 1, "")]


EMPTY = [("error", 0, "input_audio_buffer_commit_empty", "mine")]


def test_a_commit_needs_audio() -> None:
    """A commit needs at least 100 ms of audio since the last item."""
    talk = Talk()
    assert talk.commit(99) == EMPTY
    assert talk.turns.commit(99, None, running=True)[1] is False
    assert talk.commit(1000) == [("committed", 1, None)]
    assert talk.commit(1000) == EMPTY
    assert talk.take(Flushed(1000)) == [("completed", 1, "")]


def test_a_pause_may_leave_nothing_to_commit() -> None:
    """The error comes when that is known, before the answer to a clear that came later."""
    talk = Talk(VAD)
    assert talk.commit(2050) == []
    assert talk.clear(2050) == []
    talk.take(final("Late", 1500, 1600, 1980))
    assert talk.take(Flushed(2050)) == EMPTY
    assert talk.take(Flushed(2050)) == [("cleared", 0)]


def test_cleared_audio_is_in_no_item() -> None:
    """Results of cleared audio are dropped with its item, but its times still count."""
    talk = Talk()
    assert talk.take(partial("Forget it", audio_ms=800)) == [("delta", 1, "Forget")]
    assert talk.turns.clear(1000, running=True)[1] is True
    assert talk.turns.clear(1000, running=True)[1] is False
    assert talk.take(final("Forget it", 0, 900, 1000), Flushed(1000)) == []
    assert talk.take(final("Keep", 1100, 1500, 1600)) == [("delta", 2, "Keep")]
    assert talk.commit(2000) == [("committed", 2, None)]
    assert talk.take(Flushed(2000)) == [("completed", 2, "Keep")]


def test_a_cleared_turn_never_ends() -> None:
    """Turns that ended by a pause before do, and the next one begins where the audio was cleared."""
    talk = Talk(VAD)
    talk.take(begins(100))
    talk.clear(2000)
    assert [event[0] for event in talk.take(final("Keep", 100, 500, 900), ends(500))][1:] == [
        "stopped",
        "committed",
        "completed",
    ]
    talk.take(begins(1500))
    assert talk.take(final("Forget", 1500, 1900, 2000), ends(1900), Flushed(2000)) == [
        ("delta", 2, "Forget"),
        ("cleared", 0),
    ]
    assert talk.take(begins(2100)) == [("started", 3, 2000)]


def test_sessions_in_a_row() -> None:
    """Times go on, an open turn ends with its session, and an item without detection does not."""
    talk = Talk(VAD)
    talk.take(begins(500))
    assert [event[0] for event in talk.take(Done(900))] == ["stopped", "committed", "completed"]
    talk.turns.begin(None, 1000)
    assert talk.take(final("One", 100, 400, 500), Done(600)) == [("delta", 2, "One")]
    talk.turns.begin(None, 1600)
    assert talk.take(final("Two", 100, 400, 500)) == [("delta", 2, " Two")]
    assert talk.commit(2200) == [("committed", 2, PREVIOUS)]
    assert talk.take(Flushed(600)) == [("completed", 2, "One Two")]
    talk.take(Done(600))
    talk.turns.begin(VAD, 2200)
    assert talk.take(begins(500)) == [("started", 3, 2400)]


def test_a_commit_between_sessions_is_complete_at_once() -> None:
    """A commit between two sessions is complete at once, as no result can come any more."""
    talk = Talk()
    talk.take(final("All", 0, 500, 600), Done(700))
    assert talk.commit(700, running=False) == [("committed", 1, None), ("completed", 1, "All")]
    assert talk.turns.clear(900, running=False)[1] is False
    assert talk.commit(950, running=False) == EMPTY


def test_the_duration_is_that_of_the_item() -> None:
    """The duration of an item counts seconds of its audio."""
    turns = Turns(ServerEvents("s", flat=True), "s")
    turns.begin(None, 0)
    turns.commit(1250, None, running=True)
    [completed] = map(json.loads, turns.take(Flushed(1250)))
    assert completed["usage"] == {"type": "duration", "seconds": 1.25}


def test_every_committed_item_ends() -> None:
    """If the session fails, with a failure; and cleared audio with nothing."""
    talk = Talk()
    talk.commit(1000)
    talk.clear(2000)
    talk.commit(3000)
    assert [event[:2] for event in brief(talk.turns.fail({"code": "failed"}))] == [("failed", 1), ("failed", 2)]
    assert talk.turns.fail({}) == []


def test_the_older_shape_has_its_own_name_of_an_item() -> None:
    """In the older shape an item is created, and not added and done."""
    events = ServerEvents("s", flat=True)
    names = [json.loads(text)["type"] for text in events.committed("item_1", None)]
    assert names == ["input_audio_buffer.committed", "conversation.item.created"]


@pytest.mark.parametrize("detection", [VAD, None])
@pytest.mark.parametrize("seed", range(40))
def test_any_conversation(detection: TurnDetection, seed: int) -> None:
    """In any conversation, items follow each other, and the deltas of each make up its transcript."""
    chance = random.Random(seed)
    talk, told = Talk(detection), []
    sent_ms = heard_ms = began_ms = 0
    words: list[str] = []
    flushes: deque[int] = deque()

    def finish(cut_ms: int, message: ServerMessage | None = None) -> None:
        nonlocal began_ms
        if words:
            told.extend(talk.take(final(" ".join(words), began_ms, cut_ms - 1, cut_ms), ends(cut_ms)))
        began_ms = cut_ms
        words.clear()
        if message is not None:
            told.extend(talk.take(message))

    for _ in range(300):
        sent_ms += chance.randrange(400)
        heard_ms = min(heard_ms + chance.randrange(500), sent_ms)
        if flushes and heard_ms >= flushes[0]:
            heard_ms = flushes.popleft()
            finish(heard_ms, Flushed(heard_ms))
            continue
        act = chance.random()
        if act < 0.4:
            told.extend(talk.take(begins(heard_ms)) if not words else [])
            words.append(chance.choice(["one", "two", "three"]))
            told.extend(talk.take(partial(" ".join(words), began_ms, heard_ms)))
        elif act < 0.6:
            finish(max(began_ms, heard_ms - 300))
        elif act < 0.7:
            told.extend(talk.take(Acknowledgement(heard_ms)))
        elif act < 0.9:
            texts, flush = (talk.turns.commit if act < 0.8 else _clear(talk))(sent_ms, None, running=True)
            told.extend(brief(texts))
            flushes.extend([sent_ms] if flush else [])
    while flushes:
        heard_ms = flushes.popleft()
        finish(heard_ms, Flushed(heard_ms))
    finish(sent_ms, Done(sent_ms))
    committed = [event[1] for event in told if event[0] == "committed"]
    assert [event[1] for event in told if event[0] == "completed"] == committed == sorted(committed)
    assert len(committed) > 3
    for _, item, transcript in (event for event in told if event[0] == "completed"):
        assert transcript == "".join(event[2] for event in told if event[:2] == ("delta", item))
    times = [event[2] for event in told if event[0] in ("started", "stopped")]
    assert times == sorted(times)


def _clear(talk: Talk) -> Any:
    return lambda at_ms, _, running: talk.turns.clear(at_ms, running=running)
