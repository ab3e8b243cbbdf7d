"""Compares the recogniser with sherpa-onnx on random sounds: many streams of different ages in few slots."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.limits import BEAM, GREEDY, LANGUAGE
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.endpointing import EndpointRule
from streamer.engine.public.beam import Candidate, Grown, RecurrentBeamSearch, TransducerBeamSearch
from streamer.engine.public.graph_model import FRAMES, SAMPLE_RATE, GraphModel
from streamer.engine.public.greedy import RecurrentGreedySearch, TokenSearch
from streamer.engine.public.hotwords import PhraseTokens
from streamer.engine.public.loading import token_searches
from streamer.engine.public.transducers import (
    UNKNOWN,
    Predictor,
    RecurrentGraphs,
    TransducerGraphs,
    context_of,
)
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.search.search import Hotword
from streamer.engine.stream_options import StreamOptions
from streamer.engine.waiting import Work
from streamer.models.layout import ContextTransducer, RecurrentTransducer, Surroundings
from streamer.models.model_folder import PublicModel, read_model_folder
from workshop.graphs.reference import Reference, reference_tokens

# Random sounds for models that recognise nothing sensible: tones and noise of all kinds, with pauses.

_TONES = 3


def random_sound(random: np.random.Generator, seconds: float) -> NDArray[np.int16]:
    """Make a sound of parts of 50 to 400 ms. One in six is a pause of up to two seconds."""
    length = round(seconds * SAMPLE_RATE)
    parts: list[NDArray[np.float64]] = []
    while sum(map(len, parts)) < length:
        if random.random() < 1 / 6:
            parts.append(random.normal(0, 2, int(random.integers(8_000, 32_000))))
            continue
        at = np.arange(int(random.integers(800, 6_400))) / SAMPLE_RATE
        heights, loudness, phases = random.uniform((100, 200, 0), (6_000, 4_000, 6), (_TONES, 3)).T
        tones = loudness @ np.sin(2 * np.pi * np.outer(heights, at) + phases[:, None])
        parts.append(tones + random.normal(0, 30, len(at)))
    return np.concatenate(parts)[:length].clip(-32768, 32767).astype(np.int16)


Sound = Callable[[np.random.Generator, float], NDArray[np.int16]]
SLOTS = 12
_TAG: Final = re.compile("<[a-z]{2,3}(-[A-Z]{2})?>")
NEARLY_EQUAL = 1e-4
"""A difference of scores below which the rounding of another library may decide otherwise."""


@dataclass
class Segment:
    """The samples that the model read in a segment, its options, and the tokens that the search found.

    `margin` is the least difference of two scores that decided anything; infinite if it is not known.
    """

    samples: NDArray[np.int16]
    tokens: list[str]
    frames: list[int]
    hotwords: tuple[Hotword, ...] = ()
    language: str = LANGUAGE
    margin: float = float("inf")

    @property
    def compared(self) -> Reference:
        """The values that are compared: tokens and frames."""
        return self.tokens, self.frames


class RecordingModel(GraphModel):
    """A model that notes the segments of all streams. A segment ends when its slot is reset."""

    def follow(self, search: TokenSearch, tokens: Sequence[str]) -> list[Segment]:
        """Begin to note segments. Returns the list that gets them."""
        self._search = search
        self._names = [token.replace("▁", " ") for token in tokens]
        self._windows: dict[int, list[NDArray[np.int16]]] = {}
        self._hotwords: dict[int, tuple[Hotword, ...]] = {}
        self._languages: dict[int, str] = {}
        self.segments: list[Segment] = []
        return self.segments

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute a step, and note its samples."""
        for slot, window in zip(slots, samples, strict=True):
            if slot not in self._windows and isinstance(self._search, MeasuredBeamSearch):
                self._hotwords[slot] = self._search.hotwords[slot]
            self._windows.setdefault(slot, []).append(window.copy())
        return super().step(state, slots, samples)

    def set_language(self, state: ModelState, slots: Sequence[int], language: str) -> None:
        """Tell the model which language is spoken in these slots, and note it."""
        super().set_language(state, slots, language)
        self.reset(state, slots)  # notes the segments of the streams before
        self._languages.update(dict.fromkeys(slots, language))

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear these slots, and note the segments that have ended in them."""
        for slot in slots:
            windows = self._windows.pop(slot, [])
            if windows:
                parts = [window[: len(window) - self.ahead_samples] for window in windows[:-1]]
                tokens = self._search.tokens(slot)
                if self.languages:  # sherpa-onnx leaves out tokens that look like the names of languages
                    tokens = [token for token in tokens if not _TAG.fullmatch(self._names[token.number])]
                names = [self._names[token.number] for token in tokens]
                if isinstance(self._search, (RecurrentGreedySearch, RecurrentBeamSearch)):
                    names = [name for name in names if name != UNKNOWN]  # but it keeps their frames
                samples = np.concatenate([*parts, windows[-1]])
                segment = Segment(samples, names, [token.frame for token in tokens], self._hotwords.get(slot, ()))
                segment.language = self._languages[slot]
                if isinstance(self._search, MeasuredBeamSearch):
                    segment.margin = self._search.margin(slot)
                self.segments.append(segment)
        super().reset(state, slots)


@dataclass
class Comparison:
    """The size of a comparison, and the segments in which the reference found something else.

    `close`: how many of these were decided by a margin below NEARLY_EQUAL. `biased`: the segments in which the
    reference finds other tokens because of the hotwords.
    """

    streams: int
    segments: int = 0
    tokens: int = 0
    close: int = 0
    biased: int = 0
    different: list[tuple[Segment, Reference]] = field(default_factory=list)

    def __iadd__(self, other: Comparison) -> Comparison:
        """Add the other comparison."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self


def compare(
    folder: Path,
    streams: int,
    *,
    seconds: float = 8.0,
    seed: int = 0,
    search: str = GREEDY,
    hotwords: Sequence[Hotword] = (),
    sound: Sound = random_sound,
) -> Comparison:
    """Recognise this many streams, and every segment of them again with sherpa-onnx.

    Half of the streams get some of the hotwords. `sound` makes the audio of a stream, which has about `seconds`.
    """
    segments = recognised_segments(
        folder, streams, seconds=seconds, seed=seed, search=search, hotwords=hotwords, sound=sound
    )
    samples, phrases = [segment.samples for segment in segments], [segment.hotwords for segment in segments]
    languages = [segment.language for segment in segments]
    expected = reference_tokens(folder, samples, search=search, hotwords=phrases, languages=languages)
    result = Comparison(streams, len(segments), sum(len(segment.tokens) for segment in segments))
    result.different = [pair for pair in zip(segments, expected, strict=True) if pair[0].compared != pair[1]]
    result.close = sum(segment.margin < NEARLY_EQUAL for segment, _ in result.different)
    if hotwords:
        plain = reference_tokens(folder, samples, search=search)
        result.biased = sum(one != other for one, other in zip(expected, plain, strict=True))
    return result


def recognised_segments(
    folder: Path,
    streams: int,
    *,
    seconds: float,
    seed: int,
    search: str = GREEDY,
    hotwords: Sequence[Hotword] = (),
    sound: Sound = random_sound,
) -> list[Segment]:
    """Return the segments of streams that begin and end at different times, in chunks of any length.

    One stream in eight is given up in the middle, so the next one gets a slot with its remains.
    """
    public = read_model_folder(folder)
    model, searches = RecordingModel(public, "recorded"), _searches(public, search)
    segments = model.follow(searches[search], public.tokens)
    _recognise(model, searches, streams, seconds=seconds, seed=seed, search=search, hotwords=hotwords, sound=sound)
    return segments


def _recognise(
    model: GraphModel,
    searches: Mapping[str, TokenSearch],
    streams: int,
    *,
    seconds: float,
    seed: int,
    search: str = GREEDY,
    hotwords: Sequence[Hotword] = (),
    sound: Sound = random_sound,
) -> None:
    """Recognise streams that begin and end at different times, in chunks of any length."""
    recogniser = Recogniser(model, searches, slots=SLOTS, idle_limit_s=float("inf"))
    options = StreamOptions(
        step_ms=model.step_ms[0], search=search, endpoint=EndpointRule(after_text_ms=600, without_text_ms=1000)
    )
    run_streams(
        recogniser,
        options,
        streams,
        seconds=seconds,
        seed=seed,
        sound=sound,
        hotwords=hotwords,
        languages=model.languages,
    )


def run_streams(
    recogniser: Recogniser,
    options: StreamOptions,
    streams: int,
    *,
    seconds: float,
    seed: int,
    sound: Sound,
    hotwords: Sequence[Hotword] = (),
    languages: Sequence[str] = (),
) -> None:
    """Let the recogniser hear streams that begin and end at different times, in chunks of any length.

    Some are given up in the middle. Each gets one of the languages, if there are any.
    """
    random = np.random.default_rng(seed)
    waiting = list(range(streams))
    live: dict[int, NDArray[np.int16]] = {}
    while waiting or live:
        while waiting and len(live) < SLOTS and random.random() < 0.5:
            number = waiting.pop()
            live[number] = sound(random, float(random.uniform(0.5, 1.5)) * seconds)
            some = tuple(hotword for hotword in hotwords if number % 2 and random.random() < 0.7)
            language = str(random.choice(languages)) if languages else LANGUAGE
            recogniser.open(number, replace(options, hotwords=some, language=language))
        chunks = []
        for number in [number for number in live if random.random() < 0.6]:
            length = int(random.integers(0, 16_000))
            samples, live[number] = live[number][:length], live[number][length:]
            flush = random.random() < 0.02
            chunks.append(Chunk(number, samples, flush=flush, end=not len(live[number])))
        for _, answer in recogniser.step(chunks):
            if isinstance(answer, Exception):
                raise answer
        for number in [number for number in live if not len(live[number])]:
            del live[number]
        for number in [number for number in live if random.random() < 0.01]:
            recogniser.close(number)
            del live[number]


class WindowModel(GraphModel):
    """A model without caches that notes its windows: the samples of each, and its frames."""

    def __init__(self, public: PublicModel) -> None:
        self.windows: list[tuple[NDArray[np.int16], NDArray[np.float32]]] = []
        super().__init__(public, "recorded")
        self.windows.clear()  # those of the trial

    def _windows_around(
        self, state: ModelState, numbers: list[int], samples: NDArray[np.int16], surroundings: Surroundings
    ) -> list[NDArray[np.int16]]:
        self._latest = super()._windows_around(state, numbers, samples, surroundings)
        return self._latest

    def _frames_of_step(self, frames: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        for window, own in zip(self._latest, frames, strict=True):
            self.windows.append((window, own[: len(window) // self.frame_samples].copy()))
        return super()._frames_of_step(frames, lengths)


def compare_windows(folder: Path, streams: int, *, seconds: float = 8.0, seed: int = 0) -> Comparison:
    """Recognise this many streams with a model without caches, and each of their windows again with sherpa-onnx.

    The tokens of a window are those that a search finds in all of its frames, as if they were a whole utterance. Each
    window was computed in a batch with those of other streams.
    """
    public = read_model_folder(folder)
    model = WindowModel(public)
    _recognise(model, token_searches(public, SLOTS), streams, seconds=seconds, seed=seed)
    search = token_searches(public, 1)[GREEDY]
    segments = []
    for samples, frames in model.windows:
        search.reset([0])
        search.advance([0], {FRAMES: frames[None]})
        tokens = search.tokens(0)
        names = [public.tokens[token.number].replace("▁", " ") for token in tokens]
        segments.append(Segment(samples, names, [token.frame for token in tokens]))
    expected = reference_tokens(folder, [segment.samples for segment in segments])
    result = Comparison(streams, len(segments), sum(len(segment.tokens) for segment in segments))
    result.different = [pair for pair in zip(segments, expected, strict=True) if pair[0].compared != pair[1]]
    return result


def _searches(public: PublicModel, search: str) -> dict[str, TokenSearch]:
    if search == BEAM and public.transducer is not None:
        phrases = PhraseTokens(public.tokens, public.pieces)
        if isinstance(public.transducer, ContextTransducer):
            graphs = TransducerGraphs(public.tokens, public.transducer)
            return {BEAM: MeasuredContextSearch(public.tokens, graphs, phrases, SLOTS)}
        assert isinstance(public.transducer, RecurrentTransducer)
        return {BEAM: MeasuredRecurrentSearch(public.tokens, RecurrentGraphs(public.transducer), phrases, SLOTS)}
    return {search: token_searches(public, SLOTS)[search]}


# The beam searches of transducers, with the margins of their decisions.

_NONE = float("inf")


class MeasuredBeamSearch(TransducerBeamSearch, ABC):
    """Notes the margins of a segment: the least difference of two scores that decided anything.

    Scores decide which candidates go on, which of two equal sequences gives the times, and which hypothesis is shown.
    """

    def __init__(self, tokens: Sequence[str], graphs: Predictor, phrases: PhraseTokens, slots: int) -> None:
        super().__init__(tokens, graphs, phrases, slots)
        self.hotwords: list[tuple[Hotword, ...]] = [()] * slots
        """The hotwords of the stream in each slot."""
        self._margins = [_NONE] * slots

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Set the options of the next stream in this slot, and note its hotwords."""
        self.hotwords[slot] = tuple(hotwords)
        yield from super().prepare(slot, hotwords, settle_frames, caller)

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        for slot in slots:
            self._margins[slot] = _NONE

    def margin(self, slot: int) -> float:
        """Return the least margin of the running segment, if it ended here."""
        first, *others = sorted(self._final_scores(slot), reverse=True)
        return min([self._margins[slot], *(first - other for other in others)])

    @abstractmethod
    def _final_scores(self, slot: int) -> Iterator[float]:
        """Yield the scores of which the highest decides what is shown."""


class MeasuredContextSearch(MeasuredBeamSearch):
    """The search of transducers of icefall."""

    def _final_scores(self, slot: int) -> Iterator[float]:
        beam = self._beams[slot]
        before = len(context_of(self._graphs.first)) + len(beam.settled)
        return (one.score / (before + len(one.tokens)) for one in beam.hypotheses)

    def _chosen(self, slot: int, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        chosen = super()._chosen(slot, candidates)
        gaps = [candidates[len(chosen)].less - chosen[-1].less] if len(candidates) > len(chosen) else []
        best: dict[tuple[int, ...], float] = {}
        for candidate in chosen:
            before = self._beams[slot].hypotheses[candidate.place].numbers
            numbers = before if candidate.number in self._graphs.silent else (*before, candidate.number)
            if numbers in best:
                gaps.append(candidate.less - best[numbers])
            best.setdefault(numbers, candidate.less)
        self._margins[slot] = min([self._margins[slot], *gaps])
        return chosen


class MeasuredRecurrentSearch(RecurrentBeamSearch, MeasuredBeamSearch):
    """The search of transducers of NeMo."""

    def _final_scores(self, slot: int) -> Iterator[float]:
        return (one.score for one in self._beams[slot].hypotheses)

    def _kept(self, slot: int, grown: Sequence[Grown]) -> Sequence[Grown]:
        scores: dict[tuple[bool, tuple[int, ...]], list[float]] = {}
        for one in grown:
            scores.setdefault((one.stays, one.hypothesis.numbers), []).append(one.hypothesis.score)
        ways = [sorted(each, reverse=True) for each in scores.values()]
        gaps = [each[0] - each[1] for each in ways if len(each) > 1]
        best = sorted((each[0] for each in ways), reverse=True)
        if len(best) > self._width:
            gaps.append(best[self._width - 1] - best[self._width])
        self._margins[slot] = min([self._margins[slot], *gaps])
        return super()._kept(slot, grown)
