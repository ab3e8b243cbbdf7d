"""Streams of words for an exact model, and the events of a recogniser for them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from streamer.base.events import Final, Heard, StreamEvent
from streamer.engine.acoustics.streaming_model import ACTIVITY, Emissions, ModelState
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import FRAME, LEVEL, UNITS, say, silence

if TYPE_CHECKING:
    from streamer.engine.search.beam_search import BeamSearch

FloatArray = NDArray[np.float64]
NOTHING = np.zeros(0, dtype=np.int16)


def lexicon_search(text: str, slots: int) -> BeamSearch:
    """A search that knows the words of a text by their letters, and a few more that begin like them."""
    from streamer.engine.language.language_model import LanguageModel  # these compile loops, which few streams need
    from streamer.engine.language.lexicon import Lexicon
    from streamer.engine.search.beam_search import BeamSearch

    words = sorted({*text.split(), *(word[:-1] for word in text.split() if len(word) > 1), "abacadae", "h"})
    language = LanguageModel.build(words, {(word,): (-5.0, 0.0) for word in words})
    numbers = {word: number for number, word in enumerate(language.words)}
    spelled = [(numbers[word], tuple(UNITS.index(letter) for letter in word)) for word in words]
    units = ["|" if unit == " " else unit for unit in UNITS]
    return BeamSearch(Lexicon.build(spelled, language.unigrams), language, units, slots, head="characters")


def one(recogniser: Recogniser, chunk: Chunk) -> list[StreamEvent]:
    [(_, answer)] = recogniser.step([chunk])
    assert not isinstance(answer, StreamError), answer
    return answer


def hear(
    recogniser: Recogniser,
    pieces: Iterable[NDArray[np.int16]],
    options: StreamOptions | None = None,
    stream: int = 1,
) -> list[StreamEvent]:
    """Return all events of a stream fed with these pieces, from open to end, without the acknowledgements."""
    recogniser.open(stream, options)
    events: list[StreamEvent] = []
    for piece in pieces:
        events += one(recogniser, Chunk(stream, piece))
    events += one(recogniser, Chunk(stream, NOTHING, end=True))
    return [event for event in events if not isinstance(event, Heard)]


def hear_together(
    recogniser: Recogniser, streams: Sequence[tuple[Sequence[NDArray[np.int16]], StreamOptions]]
) -> list[list[StreamEvent]]:
    """Return the events of several streams, which are computed as one batch, because that takes far less time."""
    events: list[list[StreamEvent]] = [[] for _ in streams]
    for stream, (_, options) in enumerate(streams):
        recogniser.open(stream, options)
    for place in range(1 + max(len(pieces) for pieces, _ in streams)):
        chunks = [
            Chunk(stream, pieces[place]) if place < len(pieces) else Chunk(stream, NOTHING, end=True)
            for stream, (pieces, _) in enumerate(streams)
            if place <= len(pieces)
        ]
        for index, answer in recogniser.step(chunks):
            assert not isinstance(answer, StreamError), answer
            events[chunks[index].stream] += [event for event in answer if not isinstance(event, Heard)]
    return events


def text(events: Sequence[StreamEvent]) -> str:
    return " ".join(event.text for event in events if isinstance(event, Final))


def talk(seed: int, words: int = 40) -> tuple[str, NDArray[np.int16]]:
    """Return random words with pauses of every length between them, and their audio."""
    dice = random.Random(seed)
    spoken = ["".join(dice.choices("abcdefgh", k=dice.randint(1, 6))) for _ in range(words)]
    audio = [silence(dice.choice([0, 37, 900]))]
    for word in spoken:
        audio += [say(word), silence(dice.choice([0, 0, 0, 55, 310, 640, 1000, 1090, 2411, 5203]))]
    return " ".join(spoken), np.concatenate(audio)


def pieces(audio: NDArray[np.int16], dice: random.Random) -> list[NDArray[np.int16]]:
    sizes: list[int] = []
    while sum(sizes) < len(audio):
        sizes.append(dice.choice([0, 1, 37, 160, 511, 640, 5120, 5121, 30_000]))
    return np.split(audio, np.cumsum(sizes)[:-1])


MUSIC = 1  # added to every sample of audio that is not speech
HELD = 4  # frames: for how long the model still hears speech after the last loud frame


class HearingModel(ExactModel):
    """Hears speech in loud audio, but not in audio marked as music, whatever words it finds there."""

    def make_state(self, slots: int) -> ModelState:
        return {**super().make_state(slots), "quiet": np.random.default_rng().integers(0, 9, slots)}

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        super().reset(state, slots)
        state["quiet"][list(slots)] = HELD

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        quiet, told = self._follow(state["quiet"][list(slots)], samples)
        state["quiet"][list(slots)] = quiet
        return {**super().step(state, slots, samples), ACTIVITY: np.log(told)[:, :, None]}

    def glance(self, state: ModelState, slot: int, samples: NDArray[np.int16]) -> list[float]:
        _, [told] = self._follow(state["quiet"][[slot]], samples[None])
        return [float(probability) for probability in told]

    def _follow(self, quiet: NDArray[np.int64], samples: NDArray[np.int16]) -> tuple[NDArray[np.int64], FloatArray]:
        """Return the frames since the last loud one, and the probabilities of speech [batch, frames]."""
        frames = samples.reshape(len(samples), -1, FRAME).astype(np.int32)
        loud = (np.abs(frames).max(2) >= LEVEL) & ~(frames % LEVEL == MUSIC).any(2)
        told = []
        for frame in loud.T:
            quiet = np.where(frame, 0, quiet + 1)
            told.append(np.where(quiet < HELD, 0.95, 0.05))
        return quiet, np.stack(told, 1)


class LoudDetector:
    """Detects what the model above hears, in pieces: also with a state that a new stream must not inherit."""

    def __init__(self, slots: int) -> None:
        self._model = HearingModel()
        self._state = self._model.make_state(slots)

    def reset(self, slots: Sequence[int]) -> None:
        self._model.reset(self._state, slots)

    def compute(self, slots: Sequence[int], pieces: Sequence[Sequence[NDArray[np.int16]]]) -> list[list[float]]:
        found = [
            self._model.step(self._state, [slot], np.concatenate(own)[None])[ACTIVITY]
            for slot, own in zip(slots, pieces, strict=True)
        ]
        return [np.exp(one)[0, :, 0].tolist() for one in found]
