"""The interface of a search for public models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Protocol

import numpy as np

from streamer.engine.acoustics.streaming_model import Emissions
from streamer.engine.public.graph_model import FRAMES
from streamer.engine.public.token_text import Token, TokenReader, TokenText
from streamer.engine.public.transducers import RecurrentGraphs, Rows, TransducerGraphs, log_prob
from streamer.engine.search.search import Hotword, Hypothesis, HypothesisWord, LikelyWords, Search
from streamer.engine.waiting import Work


class TokenSearch(Search, Protocol):
    """A Search that finds tokens and makes words of them."""

    def tokens(self, slot: int) -> list[Token]:
        """Return the likeliest tokens of the running segment."""


# The common part of the greedy searches of public models: a path of tokens for each slot, and its words.


@dataclass
class TokenPath:
    """The tokens of one slot in the running segment, how many frames were read, and what makes words of the tokens."""

    reader: TokenReader
    frame: int = 0
    tokens: list[Token] = field(default_factory=list)
    words: tuple[HypothesisWord, ...] = ()

    @property
    def newest(self) -> Token | None:
        """The last token so far. It changes whenever the path changes."""
        return self.tokens[-1] if self.tokens else None


class TokenGreedySearch(ABC):
    """A Search that keeps the likeliest tokens. Subclasses read the frames."""

    no_hotwords: ClassVar[str] = "the greedy search does not support hotwords: leave out 'search', or choose 'beam'"

    def __init__(self, tokens: Sequence[str], slots: int) -> None:
        self._text = TokenText(tokens)
        self._paths = [self._fresh_path() for _ in range(slots)]

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Refuse hotwords, which a greedy search cannot prefer. Its whole words never change, so all are settled."""
        yield from ()
        if hotwords:
            raise ValueError(self.no_hotwords)

    def release(self, slot: int) -> None:
        """Do nothing. The tokens of a stream are dropped when its slot is reset for the next stream."""
        return

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        for slot in slots:
            self._paths[slot] = self._fresh_path()

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        paths = [self._paths[slot] for slot in slots]
        before = [path.newest for path in paths]
        self._read(slots, paths, emissions)
        for path, newest in zip(paths, before, strict=True):
            if path.newest != newest:
                path.words = tuple(path.reader.words(path.tokens))
        return self.finish(slots)

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return the hypotheses of these slots if the segment ended here, in the same order. Changes no state."""
        # A greedy path only grows at its end, so all words except for the last one are stable.
        by_slot = (self._paths[slot].words for slot in slots)
        return [Hypothesis(words, stable=max(0, len(words) - 1)) for words in by_slot]

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return the only path, with the probability 1."""
        return [(self._paths[slot].words, 1.0)][:number]

    def tokens(self, slot: int) -> list[Token]:
        """Return the tokens of the running segment."""
        return list(self._paths[slot].tokens)

    def _fresh_path(self) -> TokenPath:
        return TokenPath(TokenReader(self._text))

    @abstractmethod
    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        """Read the next frames of these slots into their paths."""


# The greedy search for public models with CTC. It takes the likeliest token of every frame, and merges repetitions.


class CtcGreedySearch(TokenGreedySearch):
    """Reads frames of log-probabilities of tokens."""

    def __init__(self, tokens: Sequence[str], blank: int, slots: int) -> None:
        super().__init__(tokens, slots)
        self._blank = blank
        self._previous = [blank] * slots

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        for slot in slots:
            self._previous[slot] = self._blank

    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        best = frames.argmax(-1)
        sure = np.take_along_axis(frames, best[..., None], axis=-1)[..., 0].tolist()
        for slot, path, numbers, certainties in zip(slots, paths, best.tolist(), sure, strict=True):
            for number, certainty in zip(numbers, certainties, strict=True):
                if number != self._blank:
                    if number != self._previous[slot]:
                        path.tokens.append(Token(number, path.frame, path.frame + 1, certainty))
                    else:
                        path.tokens[-1] = replace(path.tokens[-1], end=path.frame + 1)
                self._previous[slot] = number
                path.frame += 1


# The greedy search for transducers of NeMo. It takes up to ten tokens a frame, and computes all slots together.

MOST_IN_A_FRAME: Final = 10
"""The most tokens in a frame, as in sherpa-onnx. A model that emits more is wrong."""


class RecurrentGreedySearch(TokenGreedySearch):
    """Reads frames of an encoder. The predictor reads each token that the search emits."""

    def __init__(self, tokens: Sequence[str], graphs: RecurrentGraphs, slots: int) -> None:
        super().__init__(tokens, slots)
        self._graphs = graphs
        self._predictions = np.repeat(graphs.started, slots, axis=0)
        self._memory = [np.repeat(value, slots, axis=1) for value in graphs.fresh]

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        self._predictions[list(slots)] = self._graphs.started
        for memory, value in zip(self._memory, self._graphs.fresh, strict=True):
            memory[:, list(slots)] = value

    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        for frame in range(frames.shape[1]):
            rows = list(range(len(slots)))
            for _ in range(MOST_IN_A_FRAME):
                rows = self._emit(rows, slots, paths, frames[:, frame])
                if not rows:
                    break
            for path in paths:
                path.frame += 1

    def _emit(self, rows: list[int], slots: Sequence[int], paths: Sequence[TokenPath], frames: Rows) -> list[int]:
        """Let these rows emit the likeliest token in this frame. Return the rows that did not emit a blank."""
        logits = self._graphs.join(frames[rows], self._predictions[[slots[row] for row in rows]])
        best = logits.argmax(-1).tolist()
        emitted = {row: number for row, number in zip(rows, best, strict=True) if number != self._graphs.blank}
        for place, row in enumerate(rows):
            if row in emitted:
                path, number = paths[row], best[place]
                path.tokens.append(Token(number, path.frame, path.frame + 1, log_prob(logits[place], number)))
        self._predict({slots[row]: number for row, number in emitted.items()})
        return list(emitted)

    def _predict(self, tokens: Mapping[int, int]) -> None:
        """Let the predictor read these tokens, which are given by slot."""
        if not tokens:
            return
        slots = list(tokens)
        before = [memory[:, slots] for memory in self._memory]
        self._predictions[slots], after = self._graphs.predict(list(tokens.values()), before)
        for memory, value in zip(self._memory, after, strict=True):
            memory[:, slots] = value


class DurationGreedySearch(RecurrentGreedySearch):
    """The same for a joiner that also says in how many frames the next token comes."""

    no_hotwords: ClassVar[str] = "this model has only a greedy search, which does not support hotwords"

    def __init__(self, tokens: Sequence[str], graphs: RecurrentGraphs, slots: int) -> None:
        super().__init__(tokens, graphs, slots)
        self._skipped = [0] * slots  # how many of the next frames have no token
        self._taken = [0] * slots  # how many tokens the present frame has

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        for slot in slots:
            self._skipped[slot] = self._taken[slot] = 0

    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        count = frames.shape[1]
        while rows := [row for row, slot in enumerate(slots) if self._skipped[slot] < count]:
            own = [slots[row] for row in rows]
            scores = self._graphs.join(frames[rows, [self._skipped[slot] for slot in own]], self._predictions[own])
            logits, durations = np.split(scores, [self._graphs.vocabulary], axis=-1)
            emitted: dict[int, int] = {}
            best = zip(rows, own, logits.argmax(-1).tolist(), durations.argmax(-1).tolist(), strict=True)
            for place, (row, slot, number, duration) in enumerate(best):
                if number != self._graphs.blank:
                    at = paths[row].frame + self._skipped[slot]
                    paths[row].tokens.append(Token(number, at, at + 1, log_prob(logits[place], number)))
                    emitted[slot] = number
                    self._taken[slot] += 1
                stays = number != self._graphs.blank and not duration and self._taken[slot] < _MOST_WITHOUT_DURATION
                if not stays:
                    self._taken[slot] = 0
                    self._skipped[slot] += max(1, duration)
            self._predict(emitted)
        for slot, path in zip(slots, paths, strict=True):
            self._skipped[slot] -= count
            path.frame += count


_MOST_WITHOUT_DURATION: Final = 5
"""The most tokens in a frame of a model with durations, as in sherpa-onnx."""


# The greedy search for transducers. It takes at most one token a frame, and computes all slots together.


class TransducerGreedySearch(TokenGreedySearch):
    """Reads frames of an encoder. The predictor is computed again for the slots that emitted a token."""

    def __init__(self, tokens: Sequence[str], graphs: TransducerGraphs, slots: int) -> None:
        super().__init__(tokens, slots)
        self._graphs = graphs
        self._contexts = [graphs.start] * slots
        self._predictions = np.repeat(graphs.started[None], slots, axis=0)

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        for slot in slots:
            self._contexts[slot] = self._graphs.start
        self._predictions[list(slots)] = self._graphs.started

    def _read(self, slots: Sequence[int], paths: Sequence[TokenPath], emissions: Emissions) -> None:
        frames = emissions[FRAMES]
        count = frames.shape[1]
        # Few frames have a token. So all frames are joined at once with the present prediction, and only the frames
        # after a token are joined again. A row of the joiner does not depend on the other rows.
        unread = dict.fromkeys(range(len(slots)), 0)  # the next frame of each row
        while unread:
            pairs = [(row, frame) for row, next_frame in unread.items() for frame in range(next_frame, count)]
            rows = np.array([row for row, _ in pairs])
            logits = self._graphs.join(
                frames[rows, [frame for _, frame in pairs]], self._predictions[[slots[row] for row in rows]]
            )
            emitted: dict[int, int] = {}  # the first frame with a token of each row
            for place, ((row, frame), number) in enumerate(zip(pairs, logits.argmax(-1).tolist(), strict=True)):
                if row in emitted or number in self._graphs.silent:
                    continue
                emitted[row] = frame
                path, slot, at = paths[row], slots[row], paths[row].frame + frame
                path.tokens.append(Token(number, at, at + 1, log_prob(logits[place], number)))
                self._contexts[slot] = (*self._contexts[slot][1:], number)
            if emitted:
                numbers = [slots[row] for row in emitted]
                self._predictions[numbers] = self._graphs.predict([self._contexts[slot] for slot in numbers])
            unread = {row: frame + 1 for row, frame in emitted.items() if frame + 1 < count}
        for path in paths:
            path.frame += count
