"""Sessions whose sequences are lost: which audio is sent again, and which results the client gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.session.stream import MOST_KEPT, Request
from tests.bridge.session.driven_session import FLUSH, LIMITS, STEP, STOP, Driven, final, partial


def sound(number: int) -> bytes:
    """Return one step of audio that differs from the others."""
    return bytes([number]) * STEP


def cut(sample: int) -> dict[str, object]:
    return {"type": "cut", "sample": sample, "speaking": True, "begins": False}


class Replayed(Driven):
    """A driven session whose model counts from the start of its present sequence."""

    def request(self) -> Request | None:
        request = super().request()
        if request is not None and request.start:
            self.heard = 0
        return request

    def begin_again(self) -> Request:
        """Answer the START of the next sequence."""
        request = self.request()
        assert request is not None
        assert request.start
        self.answer()
        return request


def test_audio_since_the_cut_is_played_again() -> None:
    """A new sequence hears the audio since the last cut, with the model's options from that cut."""
    driven = Replayed()
    for number in range(3):
        driven.audio(sound(number))
        driven.exchange(*([final("one"), cut(STEP // 2 + 100)] if number == 1 else []))
    driven.audio(sound(3))
    driven.request()
    driven.messages()
    driven.fail(lost=True)
    assert driven.begin_again().options == {"speaking": True, "begins": False}
    again = (sound(1) + sound(2) + sound(3))[200:]
    assert driven.exchange().pcm == again[: 2 * STEP]
    assert driven.request() is None  # the rest is less than a step
    driven.audio(sound(4))
    assert driven.exchange().pcm == (again + sound(4))[2 * STEP :][:STEP]
    assert driven.said() == ["recovered"]


def test_the_words_before_the_cut_go_with_the_audio() -> None:
    """A new sequence is given the words that decide its first marks, and so is a client that may have to go on."""
    words = [{"word": "one", "pause_ms": 320}]
    driven = Replayed()
    driven.audio(sound(0))
    driven.exchange(final("one"), {**cut(STEP // 2), "context": words})
    [told] = [message for message in driven.messages() if message["type"] == "final"]
    assert told["context"] == {"begins": False, "words": words, "speaking": True}
    driven.audio(sound(1))
    driven.request()
    driven.fail(lost=True)
    assert driven.begin_again().options == {"speaking": True, "begins": False, "context": words}
    driven.exchange({"type": "flushed", "audio_ms": 0})
    driven.audio(sound(2))
    driven.request()
    driven.fail(lost=True)
    assert driven.begin_again().options["context"] == words


def test_a_client_that_goes_on_says_whether_somebody_speaks() -> None:
    """The first sequence begins as one that replaces another: with the speech at the cut, and what was told of it."""
    driven = Replayed(None)
    context = {"begins": True, "words": [], "speaking": True, "told": False}
    driven.text(json.dumps({"type": "start", "context": [context]}))
    request = driven.request()
    assert request is not None
    assert request.options == {"speaking": True, "told": False, "begins": True, "context": []}


def test_a_client_that_goes_on_gives_the_words_before_its_audio() -> None:
    """Each channel has its own context, also when its first sequence is lost before a cut."""
    words = [{"word": "one", "pause_ms": 320}]
    driven = Replayed(None)
    given = [{"begins": False, "words": words}]
    driven.text(json.dumps({"type": "start", "context": given}))
    request = driven.request()
    assert request == Request(start=True, options={"begins": False, "context": words})
    driven.answer()
    driven.audio(sound(0))
    driven.request()
    driven.fail(lost=True)
    assert driven.begin_again().options == {"begins": False, "context": words}


def test_a_segment_that_begins_again_has_heard_no_less() -> None:
    """After a cut without a final, the same segment hears its first word again; the next segment counts anew."""
    driven = Replayed()
    heard = []
    for events in (
        [partial("a", audio_ms=900)],
        [cut(100), partial("a", audio_ms=800), partial("a b", audio_ms=1000)],
        [final("a b"), cut(200), {**partial("c", audio_ms=700), "segment": 1}],
    ):
        driven.audio(sound(0))
        driven.exchange(*events)
        heard += [message["audio_ms"] for message in driven.messages() if message["type"] == "partial"]
    assert heard == [900, 900, 1000, 700]


def test_what_was_told_is_not_told_again() -> None:
    """Partials and speech events of the running segment come only once; new ones follow `recovered`."""
    driven = Replayed()
    start = {"type": "speech", "state": "start", "at_ms": 40}
    first, second = {**partial("a", 320), "stable": 1}, {**partial("a b", 640), "stable": 1}
    driven.audio(sound(0) + sound(1))
    driven.exchange(start, first, second)
    assert driven.said() == ["speech", "partial", "partial"]
    driven.audio(sound(2))
    driven.request()
    driven.later(1.5)
    driven.fail(lost=True)
    driven.begin_again()
    assert driven.messages() == []
    driven.exchange(start, first, second, {**partial("a b c", 960), "stable": 3})
    recovered, third = driven.messages()
    assert (recovered["type"], recovered["gap_ms"]) == ("recovered", 1500)
    assert (third["text"], third["stable"], third["audio_ms"]) == ("a b c", 3, 960)


def test_events_of_heads_come_once_and_with_the_session_s_time() -> None:
    """A head of the operator's own may hear the same again after a loss: only what is new is told."""

    def found(word: str, at_ms: int, name: str = "keywords") -> dict[str, object]:
        return {"type": "head", "name": name, "at_ms": at_ms, "content": {"word": word}}

    driven = Replayed()
    driven.audio(sound(0) + sound(1))
    driven.exchange(
        found("left", 100), final("one"), cut(STEP // 4), found("right", 300), found("cough", 500, "coughs")
    )
    assert [event["at_ms"] for event in driven.messages() if event["type"] == "head"] == [100, 300, 500]
    driven.audio(sound(2))
    driven.request()
    driven.fail(lost=True)
    driven.begin_again()
    # The new sequence began at 160 ms.
    driven.exchange(
        found("right", 140), found("stop", 200), found("cough", 340, "coughs"), found("cough", 400, "coughs")
    )
    told = [event for event in driven.messages() if event["type"] == "head"]
    assert [(event["name"], event["content"]["word"], event["at_ms"]) for event in told] == [
        ("keywords", "stop", 360),
        ("coughs", "cough", 560),
    ]


def test_times_and_segments_go_on() -> None:
    """Times and segments of a new sequence are converted to those of the session."""
    driven = Replayed()
    driven.audio(sound(0) + sound(1))
    driven.exchange(final("one"), cut(STEP // 2))
    assert [event["cut_ms"] for event in driven.messages() if event["type"] == "final"] == [320]
    driven.audio(sound(2))
    driven.request()
    driven.fail(lost=True)
    driven.begin_again()
    words = [{"word": "two", "start_ms": 40, "end_ms": 80, "confidence": 0.5}]
    driven.exchange({**final("two"), "start_ms": 40, "end_ms": 80, "audio_ms": 640, "words": words}, cut(STEP // 2))
    driven.audio(sound(3))
    driven.exchange({**partial("three", 960), "segment": 1, "start_ms": 650})
    told = [message for message in driven.messages() if message["type"] in ("final", "partial")]
    assert [(event["segment"], event["start_ms"]) for event in told] == [(1, 360), (2, 970)]
    assert [event["audio_ms"] for event in told] == [960, 1280]
    assert [event.get("cut_ms") for event in told] == [640, None]
    assert told[0]["words"] == [{"word": "two", "start_ms": 360, "end_ms": 400, "confidence": 0.5}]


def test_flush_and_end_are_asked_again() -> None:
    """A flush without an answer is answered once, in its place, and an END without an answer is sent again."""
    driven = Replayed()
    driven.audio(sound(0))
    driven.text(FLUSH)
    driven.audio(sound(1)[:100])
    driven.text(STOP)
    driven.request()
    driven.fail("overdue")
    driven.begin_again()
    assert driven.exchange({"type": "flushed", "audio_ms": 320}, cut(STEP // 2)) == Request(sound(0), flush=True)
    assert driven.said() == ["recovered", "flushed"]
    assert driven.request() == Request(sound(1)[:100], end=True)
    driven.fail(lost=True)
    driven.begin_again()
    assert driven.exchange() == Request(sound(1)[:100], end=True)
    assert driven.said() == ["recovered", "done"]
    assert driven.session.over


def test_attempts_are_spaced() -> None:
    """The first new sequence is tried at once, later ones after pauses; one outage is reported once."""
    driven = Replayed()
    driven.audio(sound(0))
    driven.request()
    waits: list[Any] = []
    for _ in range(5):
        driven.fail("full" if waits else "unavailable")
        waits.append(0.0)
        while driven.request() is None:
            due = driven.session.due_at()
            assert due is not None
            waits[-1] += due - driven.now
            driven.later(due - driven.now)
    assert waits == [0.0, 0.25, 0.5, 1.0, 2.0]
    driven.answer()
    assert driven.exchange().pcm == sound(0)
    assert driven.said() == ["recovered"]


def test_nothing_comes_back() -> None:
    """After the limit the session fails with 1011, and says how much audio was not recognised."""
    driven = Replayed()
    driven.audio(sound(0) + sound(1))
    driven.exchange(final("one"), cut(STEP // 2))
    driven.audio(sound(2))
    driven.request()
    driven.messages()
    for _ in range(int(LIMITS.recover_s) * 10):
        driven.fail()
        while driven.request() is None and driven.session.close is None:
            driven.messages()
            driven.later(0.1)
        if driven.session.close is not None:
            break
    driven.assert_refused("failed", 1011, "the last 640 ms of audio were not recognised")
    assert driven.session.over


def test_what_always_fails_is_given_up() -> None:
    """Sequences that open and then fail at the same audio do not count as a recovery."""
    driven = Replayed()
    driven.audio(sound(0))
    driven.request()
    begun = driven.now
    while driven.session.close is None:
        driven.fail("failed")
        while (request := driven.request()) is None and driven.session.close is None:
            driven.later(0.1)
        if request is not None and request.start:
            driven.answer()
            driven.request()
        driven.later(0.1)
    assert driven.now - begun < LIMITS.recover_s + 5
    assert driven.said() == ["error"]


def test_live_client_is_not_too_fast() -> None:
    """Audio that waits because of an outage does not count against a live client."""
    driven = Replayed('{"type":"start","live":true}')
    driven.audio(bytes(15 * BYTES_PER_S))
    while driven.request():
        driven.answer()
    driven.audio(sound(0))
    driven.request()
    driven.fail(lost=True)
    driven.audio(bytes(15 * BYTES_PER_S))
    assert driven.session.close is None
    driven.begin_again()
    while driven.request():
        driven.answer()
    driven.messages()
    driven.audio(bytes(21 * BYTES_PER_S))
    driven.assert_refused("too_fast", 4029)


def test_a_client_that_is_gone_is_not_recovered() -> None:
    """A client that is gone needs no new sequence."""
    driven = Replayed()
    driven.audio(sound(0))
    driven.request()
    driven.fail(lost=True)
    driven.session.vanish()
    assert driven.request() is None
    assert driven.session.over


def test_a_model_that_never_cuts() -> None:
    """Kept audio has a bound; a session that exceeds it is not recovered."""
    driven = Replayed()
    while driven.heard < MOST_KEPT:
        driven.audio(bytes(STEP))
        driven.exchange()
    driven.messages()
    driven.audio(bytes(STEP))
    driven.request()
    driven.fail(lost=True)
    driven.assert_refused("failed", 1011)


@pytest.mark.parametrize("failing", [0, 1])
def test_before_ready(failing: int) -> None:
    """A sequence that is lost while the session opens is opened again, and the client is not told."""
    driven = Driven(start=None)
    driven.text('{"type":"start"}')
    driven.request()
    for _ in range(failing + 1):
        driven.fail()
        driven.later(1)
        assert driven.request() == Request(start=True)
    driven.answer()
    assert driven.said() == ["ready"]
