"""Properties of marks and capitals in the results of a recogniser with any punctuation model."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from streamer.base.events import Cut, Final, Heard, Partial, StreamEvent
from streamer.engine.endpointing import EndpointRule
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.marks import HeardWord, MarkedWord
from streamer.engine.text.punctuation_model import PunctuationModel
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import NOTHING, hear, hear_together, pieces, talk, text
from tests.engine.random_marks import random_marks


def make(slots: int = 4, punctuation: PunctuationModel | None = None, model: ExactModel | None = None) -> Recogniser:
    units = UNITS if model is None else WritingModel.units
    searches = {"lexicon": GreedySearch(units, slots)}
    return Recogniser(model or ExactModel(), searches, slots=slots, punctuation=punctuation or random_marks())


def written(seed: int, **more: Any) -> StreamOptions:
    """Return options of all kinds with the written form."""
    dice = random.Random(seed)
    endpoint = StreamOptions.from_dict({"endpoint": {"longest_ms": dice.choice([6000, 20_000])}}, [320], ["lexicon"])
    return StreamOptions(
        step_ms=dice.choice([160, 320, 640]),
        written=True,
        dictation=dice.random() < 0.3,
        stability=dice.choice(["low", "medium", "high"]),
        alternatives=dice.choice([0, 3]),
        endpoint=endpoint.endpoint,
        **more,
    )


@pytest.mark.parametrize("seed", range(4))
def test_stable_text_with_marks_never_changes(seed: int) -> None:
    """The stable part of a partial only grows within its segment, and the final begins with it."""
    dice = random.Random(seed)
    spoken = ["".join(dice.choices("abcdefgh", k=dice.randint(1, 6))) for _ in range(60)]
    audio = np.concatenate([say(" ".join(spoken)), silence(1500), say(" ".join(spoken[::-1]))])
    stable: dict[int, str] = {}
    marked = 0
    options = replace(written(seed), endpoint=EndpointRule())
    for event in hear(make(), np.array_split(audio, 20), options):
        if isinstance(event, Partial | Final):
            assert event.text.startswith(stable.get(event.segment, ""))
        if isinstance(event, Partial):
            assert event.stable >= len(stable.get(event.segment, ""))
            stable[event.segment] = event.text[: event.stable]
            marked += any(mark in stable[event.segment] for mark in ",.?")
    assert marked


@pytest.mark.parametrize("seed", range(4))
def test_marks_are_the_same_in_any_chunking(seed: int) -> None:
    """Audio in any pieces gives the same partials and finals."""
    _, audio = talk(seed, words=20)
    audio = audio[:480_000]
    assert hear(make(), pieces(audio, random.Random(seed)), written(seed)) == hear(make(), [audio], written(seed))


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_goes_on_from_a_cut_with_the_same_marks(seed: int) -> None:
    """A stream that begins at a cut, with the fields of the event, gives the texts that the first one gives there."""
    _, audio = talk(seed, words=30)
    options = written(seed)
    events = hear(make(), np.array_split(audio, 8), options)
    places, resumed = [], []
    for place, cut in enumerate(events):
        if isinstance(cut, Cut):
            assert cut.context is not None
            assert len(cut.context) <= random_marks().behind
            context = tuple(HeardWord(word.word, word.pause_ms) for word in cut.context)
            goes_on = written(seed, speaking=cut.speaking, begins=cut.begins, context=context)
            places.append(place)
            resumed.append((np.array_split(audio[cut.sample :], 8), goes_on))
    assert resumed
    for place, rest in zip(places, hear_together(make(slots=len(resumed)), resumed), strict=True):
        assert finals(rest) == finals(events[place:])


def test_streams_with_marks_do_not_notice_one_another() -> None:
    """Streams in one batch have the marks that each has alone, and the model is called once for all of them."""
    dice = random.Random(5)
    waiting = {number: pieces(talk(number, words=8)[1], dice) for number in range(1, 9)}
    options = {number: written(number) if number % 4 else StreamOptions() for number in waiting}
    alone = {number: hear(make(), audio, options[number]) for number, audio in waiting.items()}
    recogniser = make(slots=8)
    together: dict[int, list[StreamEvent]] = {number: [] for number in waiting}
    for number in waiting:
        recogniser.open(number, options[number])
    for at in range(max(map(len, waiting.values())) + 1):
        batch = [
            Chunk(number, left[at]) if at < len(left) else Chunk(number, NOTHING, end=True)
            for number, left in waiting.items()
            if at <= len(left)
        ]
        for index, answer in recogniser.step(batch):
            assert not isinstance(answer, StreamError)
            together[batch[index].stream] += [event for event in answer if not isinstance(event, Heard)]
    assert together == alone


class CountingModel:
    """Counts its calls, and how many windows each has."""

    def __init__(self) -> None:
        self.behind, self.ahead = random_marks().behind, random_marks().ahead
        self.windows: list[int] = []

    def read(self, windows: Sequence[Sequence[HeardWord]]) -> list[list[MarkedWord]]:
        self.windows.append(len(windows))
        return random_marks().read(windows)


def test_one_call_reads_the_words_of_all_streams() -> None:
    """A step calls the model once for all streams that want the written form, and not at all for the others."""
    counting: Any = CountingModel()
    recogniser = make(slots=8, punctuation=counting)
    for number in range(8):
        recogniser.open(number, StreamOptions(written=number < 5))
    list(recogniser.step([Chunk(number, say("abc def")[: 16 * 960]) for number in range(8)]))
    assert counting.windows
    assert {*counting.windows} == {5}
    counting.windows.clear()
    list(recogniser.step([Chunk(number, NOTHING, flush=True) for number in range(8)]))
    assert counting.windows[-1] == 5
    counting.windows.clear()
    list(recogniser.step([Chunk(number, say("abc"), end=True) for number in range(5, 8)]))
    assert counting.windows == []


@pytest.mark.parametrize("seed", range(4))
def test_every_word_keeps_what_was_said(seed: int) -> None:
    """The spoken words of the finals are all words that were said, and the written ones stand for them in order."""
    words, audio = talk(seed)
    found = [event for event in hear(make(), np.array_split(audio, 8), written(seed)) if isinstance(event, Final)]
    assert " ".join(final.spoken or "" for final in found) == words
    for final in found:
        assert " ".join(word.spoken or "" for word in final.words or ()) == final.spoken
        assert " ".join(word.word for word in final.words or ()) == final.text


def test_a_final_does_not_depend_on_partials() -> None:
    """With and without partials the finals are the same."""
    _, audio = talk(4, words=60)
    quiet = StreamOptions(written=True, partials=False)
    assert finals(hear(make(), np.array_split(audio, 9), quiet)) == finals(
        hear(make(), np.array_split(audio, 9), StreamOptions(written=True))
    )


class WritingModel(ExactModel):
    """A model that writes: its units are capitals, and the marks that follow them."""

    writes = True
    units: ClassVar = [{"b": ",", "c": "."}.get(unit, unit.upper()) for unit in UNITS]


def test_a_model_that_writes_is_not_written_over() -> None:
    """The marks and capitals of a model that writes are not changed, and no other model is called."""
    counting: Any = CountingModel()
    recogniser = make(punctuation=counting, model=WritingModel())
    options = StreamOptions(written=True, dictation=True, alternatives=2)
    [final] = [e for e in hear(recogniser, [say("ten oneb two comma u s i amc")], options) if isinstance(e, Final)]
    assert final.text == final.spoken == "TEN ONE, TWO .OMMA U S I AM."
    assert [(word.word, word.spoken) for word in final.words or ()] == [(w, w) for w in final.text.split()]
    assert counting.windows == []


def finals(events: Sequence[StreamEvent]) -> list[tuple[str, str | None, object]]:
    """Return the texts of the finals."""
    return [(event.text, event.spoken, event.alternatives) for event in events if isinstance(event, Final)]


def test_silence_goes_on_over_cuts() -> None:
    """A long silence is cut without a final, and the pause that it makes is the whole of it."""
    audio = np.concatenate([say("ab"), np.zeros(16 * 9000, np.int16), say("cd")])
    cuts = [event for event in hear(make(), [audio], written(1)) if isinstance(event, Cut)]
    pauses = [cut.context[-1].pause_ms or 0 for cut in cuts if cut.context]
    assert len(pauses) > 3
    assert pauses[:-1] == sorted(pauses[:-1])
    assert 6000 < pauses[-2] <= 9400
    assert text(hear(make(), [audio])) == "ab cd"
    assert [len(cut.context or ()) for cut in itertools.islice(cuts, 2)] == [1, 1]
