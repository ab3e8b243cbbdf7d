"""The base of formats for voice agents: what begins a turn, what ends it, and when other options count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from streamer.base.codes import ErrorCode
from streamer.base.events import Acknowledgement, Done, Error, Flushed, Turn, TurnState
from streamer.wire.dialects.dialect import FLUSH, STOP, Step
from streamer.wire.dialects.turn_by_turn import Cause, SpokenTurn, TurnByTurn, whole_words, within
from tests.wire.dialects.dialect_steps import final, opened, partial, started, take

SECOND = bytes(32_000)


class Told(TurnByTurn):
    """Writes what happens as short texts."""

    protocol = "told"
    path = "/told"

    def receive(self, message: str | bytes) -> Iterator[Step]:
        """Take audio."""
        assert isinstance(message, bytes)
        yield from self.hear(message)

    def begun(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield the beginning."""
        yield f"begun {turn.number} at {turn.start_ms}: {turn.whole}"

    def grown(self, turn: SpokenTurn) -> Iterator[str]:
        """Yield the text."""
        yield f"grown: {turn.whole}"

    def paused(self, turn: SpokenTurn, probability: float) -> bool:
        """Return whether it is probable enough."""
        return probability >= 0.6

    def eager(self, turn: SpokenTurn, probability: float) -> Iterator[str]:
        """Yield that it is probably over."""
        yield f"eager: {turn.whole}"

    def resumed(self, turn: SpokenTurn, probability: float) -> Iterator[str]:
        """Yield that it is not."""
        yield "resumed"

    def ended(self, turn: SpokenTurn, cause: Cause, probability: float) -> Iterator[str]:
        """Yield the end."""
        yield f"ended by {cause.value}: {turn.whole} ({probability})"

    def fail(self, code: ErrorCode, message: str) -> Iterator[str]:
        """Yield the code."""
        yield str(code)


def turn(state: TurnState, probability: float = 0.9, audio_ms: int = 1500) -> Turn:
    """Return an event about a turn."""
    return Turn(state, 0, probability, audio_ms)


@pytest.fixture
def client() -> Told:
    """Provide a websocket on which audio has come."""
    client = opened(Told)
    take(client, SECOND)
    return client


def told(client: Told, *messages: object) -> list[str]:
    """Return what the client is told."""
    return [text for message in messages for text in client.tell(message)]  # type: ignore[arg-type]


def test_the_session_asks_for_turns() -> None:
    """The recogniser decides where a turn ends, and says so."""
    start = started(take(opened(Told), SECOND))
    assert (start["turns"], start["partial_words"], start["speech"]) == (True, True, False)
    assert start["endpoint"] == {"turn": True, "eagerness": "medium", "longest_pause_ms": 2000}


def test_a_turn(client: Told) -> None:
    """It begins with its first words, and its end comes once, with the words of the final."""
    last = replace(final("hello there", 200), turn=0.9)
    assert told(client, partial("", 0), partial("hel", 200), partial("hello"), last, turn(TurnState.END)) == [
        "begun 0 at 200: hel",
        "grown: hello",
        "ended by words: hello there (0.9)",
    ]
    assert told(client, partial("next", 3000)) == ["begun 1 at 3000: next"]


def test_a_pause_ends_a_turn(client: Told) -> None:
    """The longest pause is told from one that was long enough for the words."""
    last = replace(final("and then", 200), turn=0.2)
    assert told(client, partial("and"), last, turn(TurnState.END, 0.2, 2400))[-1] == "ended by pause: and then (0.2)"


def test_an_eager_end(client: Told) -> None:
    """It is told if it is probable enough, once, and it may be taken back."""
    events = (turn(TurnState.EAGER), turn(TurnState.EAGER), turn(TurnState.RESUMED), turn(TurnState.RESUMED))
    assert told(client, partial("so"), *events)[1:] == ["eager: so", "resumed"]
    assert told(client, turn(TurnState.EAGER, 0.5), turn(TurnState.RESUMED, 0.5)) == []


def test_a_long_turn_has_several_segments(client: Told) -> None:
    """Its text is that of all of them, and its words have their times."""
    begun, grown, *_ = told(client, final("one"), partial("two", 1200))
    assert (begun, grown) == ("begun 0 at 0: one", "grown: one two")
    assert client.turn is not None
    assert [(word.word, word.start_ms) for word in whole_words(client.turn)] == [("one", 0), ("two", 1200)]
    last = replace(final("two", 1200, 3000), turn=0.8)
    assert told(client, last, turn(TurnState.END, 0.8, 3000)) == ["ended by words: one two (0.8)"]


def test_the_client_ends_a_turn(client: Told) -> None:
    """The flush brings the rest of the words. Without a turn or a session there is nothing to end."""
    told(client, partial("hel"))
    assert list(client.end_turn()) == [FLUSH]
    assert told(client, final("hello"), Flushed(1000)) == ["grown: hello", "ended by client: hello (1.0)"]
    assert list(client.end_turn()) == [FLUSH]
    assert told(client, Flushed(1000)) == []
    assert list(opened(Told).end_turn()) == []


def test_the_end_of_the_audio(client: Told) -> None:
    """It ends the turn, whether the client says so or only sends nothing."""
    told(client, partial("hel"))
    assert list(client.rest()) == [STOP]
    assert told(client, final("hello"), Done(1000))[-1] == "ended by pause: hello (1.0)"
    take(client, SECOND)
    told(client, partial("hel"))
    assert list(client.end()) == [STOP]
    assert told(client, final("hello"), Done(1000))[-1] == "ended by client: hello (1.0)"


def test_times_go_on_after_a_rest(client: Told) -> None:
    """Another session behind the same websocket counts from where it began."""
    list(client.rest())
    told(client, Done(1000))
    take(client, SECOND)
    assert told(client, final("later", 200)) == ["begun 0 at 1200: later"]
    assert client.turn is not None
    assert [word.start_ms for word in client.turn.words] == [1200]


def test_words_that_were_dropped(client: Told) -> None:
    """A turn whose words vanish ends nevertheless, after the longest pause; so does one whose last segment was cut."""
    told(client, partial("uh", 200))
    assert told(client, partial("", 1000), Acknowledgement(1900)) == []
    assert told(client, Acknowledgement(2400)) == ["ended by pause:  (1.0)"]
    told(client, final("one", 3000, 3500))
    assert told(client, Acknowledgement(5200)) == ["ended by pause: one (1.0)"]


def test_a_failure(client: Told) -> None:
    """What is final is said before the reason, and what is not is left out. The turn does not end."""
    error = Error(ErrorCode.FAILED, "It failed.", fatal=True)
    assert told(client, final("one"), partial("tw", 1100), error)[-2:] == ["grown: one", "failed"]


def test_half_a_sample_at_the_end(client: Told) -> None:
    """The client has ended its audio, and all of it is recognised: the turn ends."""
    error = Error(ErrorCode.ODD_BYTES, "A byte is left.", fatal=True)
    assert told(client, final("one"), error)[-2:] == ["ended by pause: one (1.0)", "odd_bytes"]


def test_other_options_count_from_the_next_turn_on(client: Told) -> None:
    """While somebody speaks the session goes on; after it, the next audio begins another one."""
    told(client, partial("hel"))
    client.eagerness = "high"
    client.change()
    assert take(client, SECOND) == [SECOND]
    told(client, replace(final("hello"), turn=0.9), turn(TurnState.END, audio_ms=2000))
    stop, *steps = take(client, SECOND)
    assert (stop, started(steps)["endpoint"]["eagerness"], steps[1:]) == (STOP, "high", [SECOND])
    assert client.base_ms == 2000
    assert take(client, SECOND) == [SECOND]


def test_a_word_that_is_not_recognised_yet(client: Told) -> None:
    """The session with other options hears it again, at its time, and the former one does not tell it."""
    client.change()
    quarter = b"\1" * 8000
    steps = client.receive(quarter)
    assert next(iter(steps)) == STOP
    assert told(client, final("hel"), Done(1000)) == []
    begin, audio = steps
    assert (started([begin])["turns"], audio) == (True, SECOND + quarter)
    assert client.base_ms == 0
    told(client, partial("hello", 200), Acknowledgement(1250))


def test_half_a_sample_before_other_options(client: Told) -> None:
    """Audio that is heard again begins with a whole sample."""
    take(client, b"\2", b"\1\2")
    client.change()
    _, _, audio = take(client, b"\1")
    assert isinstance(audio, bytes)
    assert (audio[-5:], len(audio)) == (b"\0\2\1\2\1", len(SECOND) + 2)


def test_other_options_wait_while_much_is_not_recognised(client: Told) -> None:
    """Otherwise words could be lost, because only the last audio is kept."""
    take(client, SECOND * 3)
    client.change()
    assert take(client, SECOND) == [SECOND]
    told(client, Acknowledgement(4500))
    stop, begin, audio = take(client, SECOND)
    assert (stop, audio) == (STOP, SECOND * 3)
    assert isinstance(begin, str)
    assert client.base_ms == 3000


def test_bounds() -> None:
    """A pause outside of the bounds is the nearest one within them."""
    assert [within(value) for value in (0, 400.4, 1e9)] == [400, 400, 10_000]
