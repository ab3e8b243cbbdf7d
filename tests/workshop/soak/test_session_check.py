"""The checker of `scripts/service/soak.py faults` finds each kind of error, and none in correct results."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from streamer.base.events import as_json
from streamer.bridge.session.replay import Replay
from streamer.engine.recogniser import Chunk, StreamError
from streamer.testing.exact_model import exact_recogniser
from streamer.wire.events import parse, render
from workshop.soak.scripted_client import SessionRecord
from workshop.soak.session_check import Verdict, check
from workshop.soak.session_plan import STOP, Audio, SessionPlan, Speech, Text, draw_speech, word

Event = dict[str, Any]
VOICE = 5
STEP = 5120


def events(spoken: Speech, flush: int) -> list[Event]:
    """Return all events of a session with these segments, with a flush at this sample."""
    recogniser = exact_recogniser(1)
    recogniser.open(1)
    account = Replay()
    told: list[Event] = [{"type": "ready"}]
    for begin, end in ((0, flush), (flush, len(spoken.audio))):
        for place in range(begin, end, STEP):
            last = place + STEP >= end
            chunk = Chunk(1, spoken.audio[place : min(place + STEP, end)], flush=last and end == flush, end=last)
            chunk = Chunk(1, chunk.samples, flush=chunk.flush, end=chunk.end and end != flush)
            [(_, answer)] = recogniser.step([chunk])
            assert not isinstance(answer, StreamError)
            # As they come out of the service, for what reads the words of its messages.
            results = account.take([parse(as_json(event)) for event in answer])
            told += [json.loads(render(1, result)) for result in results]
    told[-1]["type"] = "done"  # the end flushes, which nobody asked for
    return [{**event, "n": number} for number, event in enumerate(told, 1)]


@pytest.fixture(scope="module")
def whole() -> SessionRecord:
    """Return a correct session of some words and segments."""
    spoken = draw_speech(VOICE, 12, random.Random(7), (0, 310, 1090, 2411))
    flush = spoken.gaps[6]
    audio = spoken.audio.tobytes()
    items = (Audio(0, 2 * flush), Text('{"type":"flush"}', 0), Audio(2 * flush, len(audio)), STOP)
    record = SessionRecord(SessionPlan(1, 1, "plain", {}, (spoken,), audio, items, frozenset({"done"})))
    record.sent, record.ended, record.close_code = len(audio), "done", 1000
    record.events = [(0.0, event) for event in events(spoken, flush)]
    assert sum(event["type"] == "final" for _, event in record.events) >= 3
    return record


def broken(whole: SessionRecord, change: Callable[[list[Event]], None]) -> Verdict:
    """Return what is found after this change of the events, which are numbered again."""
    record = copy.copy(whole)
    told = copy.deepcopy([event for _, event in whole.events])
    change(told)
    record.events = [(0.0, {**event, "n": number}) for number, event in enumerate(told, 1)]
    return check(record, disturbed=False)


def finals(told: list[Event]) -> list[Event]:
    return [event for event in told if event["type"] == "final"]


def say(final: Event, words: list[Event]) -> None:
    """Return a final with these words."""
    final["words"] = words
    final["text"] = " ".join(each["word"] for each in words)
    final["start_ms"], final["end_ms"] = words[0]["start_ms"], words[-1]["end_ms"]


def numbers(verdict: Verdict) -> tuple[int, int, int, int]:
    return verdict.lost, verdict.doubled, verdict.crossed, verdict.altered


def test_nothing_is_wrong(whole: SessionRecord) -> None:
    """There is no complaint about the events of a real recogniser."""
    verdict = check(whole, disturbed=False)
    assert (verdict.broken, numbers(verdict), verdict.words) == ([], (0, 0, 0, 0), 12)


@pytest.mark.parametrize("place", [0, -1])
def test_a_lost_word(whole: SessionRecord, place: int) -> None:
    """A lost word is found at any place."""

    def lose(told: list[Event]) -> None:
        final = finals(told)[place]
        words = final["words"][:-1] if place else final["words"][1:]
        say(final, words) if words else told.remove(final)

    verdict = broken(whole, lose)
    assert numbers(verdict) == (1, 0, 0, 0)
    assert verdict.broken


def test_a_cut_that_goes_back(whole: SessionRecord) -> None:
    """A cut that goes back does not ask for words that were already final."""

    def change(told: list[Event]) -> None:
        finals(told)[1]["cut_ms"] = finals(told)[0]["cut_ms"]

    assert any("is cut at" in found for found in broken(whole, change).broken)


def test_a_lost_final(whole: SessionRecord) -> None:
    """All words of a lost final count as lost, and its segment is missing."""
    verdict = broken(whole, lambda told: told.remove(finals(told)[0]))
    assert verdict.lost >= 1
    assert any("segment" in found for found in verdict.broken)


def test_a_doubled_word(whole: SessionRecord) -> None:
    """A doubled word is found, also if it is repeated in another final."""

    def double(told: list[Event]) -> None:
        first, second = finals(told)[:2]
        say(second, [first["words"][-1], *second["words"]])

    verdict = broken(whole, double)
    assert numbers(verdict) == (0, 1, 0, 0)
    assert verdict.broken


def test_a_doubled_final(whole: SessionRecord) -> None:
    """A final that is sent twice is found; this could happen after a recovery."""

    def double(told: list[Event]) -> None:
        final = finals(told)[1]
        told.insert(told.index(final), copy.deepcopy(final))

    verdict = broken(whole, double)
    assert verdict.doubled >= 1
    assert any("segment" in found for found in verdict.broken)


def test_a_crossed_word(whole: SessionRecord) -> None:
    """A word of another session is recognised as such, whether it is additional or replaces a word."""

    def cross(told: list[Event]) -> None:
        words = finals(told)[0]["words"]
        say(finals(told)[0], [*words[:-1], {**words[-1], "word": word(VOICE + 1, 3)}])

    verdict = broken(whole, cross)
    assert (verdict.lost, verdict.crossed) == (1, 1)

    def beside(told: list[Event]) -> None:
        words = finals(told)[0]["words"]
        say(finals(told)[0], [*words, {**words[-1], "word": word(VOICE + 1, 3)}])

    verdict = broken(whole, beside)
    assert numbers(verdict) == (0, 0, 1, 0)


def test_an_altered_word(whole: SessionRecord) -> None:
    """An incomplete word belongs to no session."""

    def alter(told: list[Event]) -> None:
        words = finals(told)[0]["words"]
        say(finals(told)[0], [{**words[0], "word": words[0]["word"][:3]}, *words[1:]])

    verdict = broken(whole, alter)
    assert (verdict.lost, verdict.altered) == (1, 1)


def test_words_in_another_order(whole: SessionRecord) -> None:
    """Words in the wrong order are found, even if all are there."""

    def swap(told: list[Event]) -> None:
        final = next(final for final in finals(told) if len(final["words"]) > 1)
        one, two, *rest = final["words"]
        say(final, [{**one, "word": two["word"]}, {**two, "word": one["word"]}, *rest])

    verdict = broken(whole, swap)
    assert numbers(verdict) == (0, 0, 0, 0)
    assert any("not those that were spoken" in found for found in verdict.broken)


def shift(told: list[Event], milliseconds: int) -> None:
    """Shift the times of the events, as a wrong replay would."""
    for final in finals(told)[1:]:
        say(final, [{**each, **{name: each[name] + milliseconds for name in TIMES}} for each in final["words"]])


TIMES = ("start_ms", "end_ms")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda told: shift(told, 160), "ms later"),
        (lambda told: shift(told, -160), "ms later"),
        (lambda told: shift(told, 100_000), "from"),
        (lambda told: finals(told)[1].update(segment=7), "is of segment 7"),
        (lambda told: told.append({"type": "heard", "audio_ms": 100}), "messages after the end"),
        (lambda told: told.insert(-1, {"type": "heard", "audio_ms": 10**6}), "reports 1000000 ms"),
        (lambda told: told.insert(1, {"type": "recovered", "gap_ms": 3}), "recovered although"),
        (lambda told: told[-1].update(audio_ms=7), "done reports 7 ms"),
        (lambda told: told.insert(-1, {"type": "flushed", "audio_ms": 9}), "were answered at"),
        (lambda told: told.remove(next(e for e in told if e["type"] == "flushed")), "were answered at"),
        (lambda told: told.insert(1, {"type": "speech", "state": "end", "at_ms": 3}), "speech end at 3 ms"),
        (lambda told: _partial(told).update(text="zzz", stable=3), "takes back"),
        (lambda told: _partial(told).update(text="other words"), "words that were not said there"),
    ],
)
def test_what_else_must_hold(whole: SessionRecord, change: Callable[[list[Event]], None], complaint: str) -> None:
    """Each violation of the protocol has its own sentence."""
    assert any(complaint in found for found in broken(whole, change).broken)


def _partial(told: list[Event]) -> Event:
    return next(event for event in told if event["type"] == "partial")


def test_a_session_that_began_again(whole: SessionRecord) -> None:
    """After `restarted`, audio without a final is heard again, and its text may be shorter than before."""

    def again(told: list[Event], says_so: bool) -> None:
        place = max(number for number, event in enumerate(told) if event["type"] == "partial")
        since = max(number for number, event in enumerate(told[:place]) if event["type"] in ("final", "flushed"))
        earlier = copy.deepcopy(told[since + 1 : place + 1])
        partial = next(event for event in earlier if event["type"] == "partial")
        partial["stable"] = 0
        heard = {"type": "heard", "audio_ms": partial["audio_ms"]}
        restarted = [{"type": "restarted", "from_ms": 0, "segment": partial["segment"]}] * says_so
        told[place + 1 : place + 1] = [{**heard, "audio_ms": told[place]["audio_ms"]}, *restarted, heard, partial]

    assert broken(whole, lambda told: again(told, says_so=True)).broken == []
    found = broken(whole, lambda told: again(told, says_so=False)).broken
    assert any("acknowledges" in each for each in found)
    assert any("went back" in each for each in found)


def test_numbers(whole: SessionRecord) -> None:
    """A missing message is noticed."""
    record = copy.copy(whole)
    record.events = [entry for entry in whole.events if entry[1]["n"] != 3]
    assert any("numbered" in found for found in check(record, disturbed=False).broken)


@pytest.mark.parametrize("ended", ["lost", "1011", "stuck", "not_ready", "failed"])
def test_how_it_may_end(whole: SessionRecord, ended: str) -> None:
    """An end is wrong if neither the plan nor a fault explains it."""
    record = copy.copy(whole)
    record.ended = ended
    assert any("it ended with" in found for found in check(record, disturbed=False).broken)


def test_a_session_that_failed(whole: SessionRecord) -> None:
    """A fault may explain a failed session, but not a wrong amount of unrecognised audio."""
    record = copy.copy(whole)
    record.events = [(0.0, {"type": "ready", "n": 1})]
    for number, (_, event) in enumerate(whole.events[1:], 2):
        if event["type"] == "flushed":
            break
        record.events.append((0.0, {**event, "n": number}))
    reached = whole.plan.flush_offsets[0] // whole.plan.bytes_per_ms
    missing = record.sent // whole.plan.bytes_per_ms - reached
    record.events.append((0.0, {"type": "heard", "n": len(record.events) + 1, "audio_ms": reached}))
    record.ended, record.close_code = "failed", 1011
    record.error = {"type": "error", "code": "failed", "unrecognised_ms": missing}
    assert check(record, disturbed=True).broken == []
    assert check(record, disturbed=False).broken != []
    record.error = {**record.error, "unrecognised_ms": missing + 10_000}
    assert any("later word is final" in found for found in check(record, disturbed=True).broken)
    del record.error["unrecognised_ms"]
    assert any("does not say" in found for found in check(record, disturbed=True).broken)
    record.events = [(0.0, {"type": "ready", "n": 1}), (0.0, {"type": "heard", "n": 2, "audio_ms": reached})]
    record.error["unrecognised_ms"] = 10
    assert any("an earlier word is" in found for found in check(record, disturbed=True).broken)
