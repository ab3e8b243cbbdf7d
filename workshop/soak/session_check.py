"""Checks that a session got the right events: each of its words once, in order, at the right time, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamer.base.text import either, joined
from workshop.soak.scripted_client import Event, SessionRecord
from workshop.soak.session_plan import SessionPlan, SpokenWord, origin

# The ends after which no word may be missing.
WHOLE = ("done", "idle", "odd_bytes", "shutting_down")
# The ends of a session whose recogniser failed for too long. A client that was away then finds no session.
OF_FAULTS = ("failed", "unknown_token")
# Audio that waits because of a failure does not count against a client that is too fast.
FORGIVEN = "too_fast"
# The client goes on in another session of the service, which recognises audio without a final again.
RESTARTED = "restarted"
CLOSES = {
    "done": 1000,
    "failed": 1011,
    "idle": 4008,
    "no_start": 4008,
    "too_fast": 4029,
    "unsupported_audio": 4001,
    "shutting_down": 1013,
}
BAD_MESSAGE = 4000


@dataclass
class Verdict:
    """The errors of a session: counts of wrong words, and a sentence for each error."""

    words: int = 0  # received in finals
    lost: int = 0
    doubled: int = 0
    crossed: int = 0  # words of other sessions
    altered: int = 0  # words of no session
    broken: list[str] = field(default_factory=list)


def check(record: SessionRecord, *, disturbed: bool) -> Verdict:
    """Check everything about a session. `disturbed`: there was a fault during the session or just before."""
    verdict, plan = Verdict(), record.plan
    verdict.broken += record.wrong
    events = [event for _, event in record.events]
    verdict.broken += _end(record, events, disturbed)
    verdict.broken += _numbers(events)
    channels: Sequence[int | None] = range(len(plan.speeches)) if plan.options.get("multichannel") else (None,)
    for channel, speech in zip(channels, plan.speeches, strict=True):
        own = [event for event in events if event.get("channel") == channel]
        finals = [event for event in own if event["type"] == "final"]
        recognised = [word["word"] for final in finals for word in final["words"]]
        sent_ms = record.sent / plan.bytes_per_ms
        owed_ms = sent_ms if record.ended in WHOLE else 0.0
        count(recognised, speech.words, owed_ms, verdict, exact=plan.exact)
        verdict.broken += _segments(own)
        verdict.broken += _times(own, sent_ms)
        verdict.broken += word_times(finals, [word for word in speech.words if word.end_ms <= sent_ms], plan.late_ms)
        verdict.broken += _promises(own)
        if plan.exact:
            verdict.broken += _partials(own, [word.text for word in speech.words])
        verdict.broken += _speech(own)
    verdict.broken += _answers(record, events)
    if not disturbed and any(event["type"] == "recovered" for event in events):
        verdict.broken.append("it recovered although there was no fault")
    return verdict


def count(
    recognised: Sequence[str], spoken: Sequence[SpokenWord], owed_ms: float, verdict: Verdict, *, exact: bool
) -> None:
    """Compare the words with those that were spoken. Words that end after `owed_ms` may be missing at the end."""
    verdict.words += len(recognised)
    texts = [word.text for word in spoken]
    if recognised and len(recognised) <= len(texts) and spoken[len(recognised) - 1].end_ms > owed_ms > 0:
        # The audio ended inside this word.
        whole = texts[len(recognised) - 1]
        if whole.startswith(recognised[-1]):
            recognised = [*recognised[:-1], whole]
    counts, own = Counter(recognised), Counter(texts)
    for text, times in counts.items():
        if text in own:
            verdict.doubled += max(0, times - own[text])
        elif exact and origin(text) is not None:
            verdict.crossed += times
        else:
            verdict.altered += times
    right = list(recognised) == texts[: len(recognised)]
    # If a word arrived, all words before it must have arrived too.
    last = (
        len(recognised) - 1
        if right
        else max((number for number, text in enumerate(texts) if text in counts), default=-1)
    )
    due = Counter(word.text for number, word in enumerate(spoken) if number <= last or word.end_ms <= owed_ms)
    missing = due - counts
    verdict.lost += missing.total()
    if missing:
        verdict.broken.append(f"words are missing: {' '.join(missing)}")
    if not right:
        verdict.broken.append(f"the words are not those that were spoken: {' '.join(recognised)}")


def _end(record: SessionRecord, events: Sequence[Event], disturbed: bool) -> Iterator[str]:
    ends = record.plan.ends | (set(OF_FAULTS) if disturbed else set())
    if disturbed and FORGIVEN in ends:
        ends |= {"done"}
    if record.ended not in ends:
        yield f"it ended with {record.ended!r} instead of {either(sorted(ends))}: {record.error}"
    if record.error and record.ended == record.error.get("code"):
        expected = CLOSES.get(record.ended, BAD_MESSAGE)
        # A close may be lost if data is still on its way to the service.
        if record.close_code not in (expected, None):
            yield f"{record.ended} was closed with code {record.close_code}, not {expected}"
    if record.ended == "done":
        if record.close_code not in (1000, None):
            yield f"done was closed with code {record.close_code}"
        last = events[-1]
        if last["type"] != "done":
            yield f"{last['type']} follows done"
        if last["audio_ms"] != record.sent // record.plan.bytes_per_ms:
            yield f"done reports {last['audio_ms']} ms of audio"
    if record.ended == "failed":
        yield from _unrecognised(record, events)


def _unrecognised(record: SessionRecord, events: Sequence[Event]) -> Iterator[str]:
    """Check `unrecognised_ms` of a failed session: the audio after its last final, the longest of all channels."""
    missing = record.error.get("unrecognised_ms")
    if not isinstance(missing, int):
        yield "the error does not say how much audio was not recognised"
        return
    sent_ms = record.sent / record.plan.bytes_per_ms
    heard_ms = max((event["audio_ms"] for event in events if event["type"] in ("heard", "flushed")), default=0)
    reached = []  # for each channel the beginning of its last word
    for spoken, finals in _by_channel(record.plan, events):
        words = [word for final in finals for word in final["words"]]
        reached.append(words[-1]["start_ms"] if words else 0)
        if len(words) < len(spoken) and spoken[len(words)].end_ms < heard_ms - missing:
            yield f"the error says that only {missing} ms are missing, but an earlier word is missing too"
    if missing > sent_ms - min(reached):
        yield f"the error says that {missing} ms are missing, but a later word is final"


def _by_channel(plan: SessionPlan, events: Sequence[Event]) -> Iterator[tuple[Sequence[SpokenWord], list[Event]]]:
    finals = [event for event in events if event["type"] == "final"]
    for channel, speech in enumerate(plan.speeches):
        yield speech.words, [final for final in finals if final.get("channel", 0) == channel]


def _numbers(events: Sequence[Event]) -> Iterator[str]:
    numbers = [event["n"] for event in events]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"messages are numbered {numbers}"
    if any(event["type"] in ("done",) or event.get("fatal") for event in events[:-1]):
        yield "there are messages after the end"


def _segments(events: Iterable[Event]) -> Iterator[str]:
    finals = 0
    for event in events:
        if event["type"] in ("partial", "final") and event["segment"] != finals:
            yield f"message {event['n']} is of segment {event['segment']}, of which {finals} are final"
        finals += event["type"] == "final"


def _times(events: Sequence[Event], sent_ms: float) -> Iterator[str]:
    """Check that times never go back, and that none is after the end of the audio that was sent."""
    last_ms = heard_ms = cut_ms = 0
    for event in events:
        if event["type"] == RESTARTED:
            heard_ms = 0
        if event["type"] == "final":
            heard_ms = 0  # the audio after the cut is computed again
            if not cut_ms < event["cut_ms"] <= event["audio_ms"]:
                yield f"final {event['n']} is cut at {event['cut_ms']} ms of {event['audio_ms']}, after {cut_ms}"
            cut_ms = event["cut_ms"]
            words = event["words"]
            if (event["start_ms"], event["end_ms"]) != (words[0]["start_ms"], words[-1]["end_ms"]):
                yield f"final {event['n']} does not begin and end with its words"
            for word in words:
                if not last_ms <= word["start_ms"] <= word["end_ms"] <= sent_ms:
                    yield f"{word['word']} is from {word['start_ms']} to {word['end_ms']} ms, after {last_ms}"
                last_ms = max(last_ms, word["end_ms"])
        if event["type"] == "partial":
            if event["audio_ms"] < heard_ms:
                yield f"`audio_ms` of partial {event['n']} went back from {heard_ms} to {event['audio_ms']}"
            heard_ms = event["audio_ms"]
            if event["start_ms"] < last_ms:
                yield f"partial {event['n']} starts before the end of the last final"
        if event.get("audio_ms", 0) > sent_ms:
            yield f"message {event['n']} reports {event['audio_ms']} ms of audio, but {sent_ms:.0f} ms were sent"


def word_times(
    finals: Iterable[Mapping[str, Any]], spoken: Sequence[SpokenWord], late_ms: tuple[int, int]
) -> Iterator[str]:
    """Check that each word has the times at which it was said, whichever sequence recognised it."""
    recognised = [word for final in finals for word in final["words"]]
    for word, spoken_word in zip(recognised, spoken, strict=False):  # `count` reports missing words
        late = word["start_ms"] - spoken_word.start_ms, word["end_ms"] - spoken_word.end_ms
        if word["word"] == spoken_word.text and not all(late_ms[0] <= each <= late_ms[1] for each in late):
            times = f"{spoken_word.start_ms} to {spoken_word.end_ms} ms"
            yield f"{spoken_word.text} was said from {times}, but its times are {late} ms later"


def _promises(events: Iterable[Event]) -> Iterator[str]:
    """Check that stable text never changes and never becomes shorter."""
    promised: dict[int, str] = {}
    for event in events:
        if event["type"] == RESTARTED:
            promised.clear()
        if event["type"] not in ("partial", "final"):
            continue
        before = promised.get(event["segment"], "")
        if not event["text"].startswith(before):
            yield f"message {event['n']} takes back {before!r}"
        if event["type"] == "partial":
            if event["stable"] < len(before):
                yield f"partial {event['n']} has less stable text than {before!r}"
            promised[event["segment"]] = event["text"][: event["stable"]]
        elif event["text"] != joined(word["word"] for word in event["words"]):
            yield f"final {event['n']} has another text than its words"


def _partials(events: Iterable[Event], spoken: Sequence[str]) -> Iterator[str]:
    """Check that a partial is the beginning of the words that are not final yet."""
    done = 0
    for event in events:
        if event["type"] == "final":
            done += len(event["words"])
        elif event["type"] == "partial" and not " ".join(spoken[done:]).startswith(event["text"]):
            yield f"partial {event['n']} has words that were not said there: {event['text']!r}"


def _speech(events: Iterable[Event]) -> Iterator[str]:
    state, last_ms = "end", 0
    for event in events:
        if event["type"] == "speech":
            if event["state"] == state or event["at_ms"] < last_ms:
                yield f"message {event['n']}: speech {event['state']} at {event['at_ms']} ms after {state} at {last_ms}"
            state, last_ms = event["state"], event["at_ms"]


def _answers(record: SessionRecord, events: Sequence[Event]) -> Iterator[str]:
    """Check that each flush is answered once, where it was sent, and that acknowledgements never go back."""
    plan = record.plan
    flushed = [event["audio_ms"] for event in events if event["type"] == "flushed"]
    expected = [offset // plan.bytes_per_ms for offset in plan.flush_offsets]
    if flushed != expected[: len(flushed)] or (record.ended in ("done", "odd_bytes") and flushed != expected):
        yield f"flushes at {expected} ms were answered at {flushed}"
    heard_ms = 0
    for event in events:
        if event["type"] == RESTARTED:
            heard_ms = 0
        elif event["type"] in ("heard", "flushed", "done"):
            if event["audio_ms"] < heard_ms:
                yield f"after {heard_ms} ms of audio, message {event['n']} acknowledges {event['audio_ms']}"
            heard_ms = event["audio_ms"]
