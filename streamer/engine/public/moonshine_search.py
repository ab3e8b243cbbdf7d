"""Reads the memory of Moonshine into words: a Search whose decoder reads a growing segment again and again.

A reading begins with the tokens of the last one, which the decoder checks in a single run. What two readings in a row
agree on is kept: later readings of the segment begin with it, so stable words never change.

A decoder does not say when a token was said. So the tokens that are new in a reading are spread over the frames since
the last kept one in which somebody spoke.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.acoustics.activity import ActivityRule
from streamer.engine.acoustics.streaming_model import ACTIVITY, Emissions, Floats
from streamer.engine.public.graph_model import FRAMES
from streamer.engine.public.moonshine_model import PAIR, Part
from streamer.engine.public.token_text import Token, TokenText
from streamer.engine.public.transducers import check_width, log_prob
from streamer.engine.search.search import Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.waiting import Work
from streamer.models.moonshine_folder import CROSS, DECODER, FEATURE, SAMPLE_RATE, MoonshineFolder

_FRAME_MS: Final = 1000 * PAIR * FEATURE // SAMPLE_RATE
_GROWTH: Final = 640 // _FRAME_MS
"""A segment is read again when it has grown by so many frames."""
_UNSURE: Final = 1000 // _FRAME_MS
"""The tokens in the last frames of a reading may become others when more is heard."""
_SINCE: Final = 320 // _FRAME_MS  # frames before the last reading whose tokens it may have missed
_TOKENS_A_SECOND: Final = 6.5  # the most that the decoder may write, as in its makers' library

Reading = list[tuple[int, float]]
"""Tokens, each with its log-probability."""


class DecoderGraphs:
    """Computes the tokens of one memory, the likeliest one after the other."""

    def __init__(self, public: MoonshineFolder) -> None:
        self._layout = public.layout
        self._cross, self._decoder = Part(public, CROSS), Part(public, DECODER)

    def read(self, memory: Floats, draft: Sequence[int], kept: int) -> Reading:
        """Return the tokens of this memory [frames, numbers]. The first `kept` ones are those of the draft."""
        layout = self._layout
        keys, values = self._cross.run_one(["k_cross", "v_cross"], {"memory": memory[None]})
        sound = {"out_k_cross": keys, "out_v_cross": values}
        caches = [np.zeros((layout.depth, 1, layout.nheads, 0, layout.head_dim), np.float32)] * 2
        seconds = len(memory) * FEATURE / SAMPLE_RATE
        most = max(kept, min(math.ceil(seconds * _TOKENS_A_SECOND), layout.max_seq_len))
        scores, caches = self._run([layout.bos_id, *draft], caches, sound)
        tokens: Reading = []
        for number, row in zip(draft, scores, strict=False):
            if len(tokens) >= kept and row.argmax() != number:
                break
            tokens.append((number, log_prob(row, number)))
        # What the decoder has read of a token depends only on the tokens before it.
        last, caches = scores[len(tokens)], [cache[:, :, :, : len(tokens) + 1] for cache in caches]
        while len(tokens) < most:
            number = int(last.argmax())
            if number == layout.eos_id:
                break
            tokens.append((number, log_prob(last, number)))
            if len(tokens) < most:
                [last], caches = self._run([number], caches, sound)
        return tokens

    def _run(
        self, tokens: Sequence[int], caches: Sequence[NDArray[np.float32]], sound: dict[str, NDArray[np.float32]]
    ) -> tuple[Floats, list[NDArray[np.float32]]]:
        feeds: dict[str, NDArray[Any]] = {"token": np.array([tokens], np.int64), **sound}
        feeds |= {"k_self": caches[0], "v_self": caches[1]}
        scores, *caches = self._decoder.run_one(["logits", "out_k_self", "out_v_self"], feeds)
        check_width(scores, self._layout.vocab_size)
        return scores[0], caches


@dataclass
class _Segment:
    """What is known of the running segment of a slot."""

    memory: list[Floats] = field(default_factory=list)
    active: list[bool] = field(default_factory=list)  # for each emission frame
    tokens: list[Token] = field(default_factory=list)  # of the last reading
    words: tuple[HypothesisWord, ...] = ()
    read: int = 0  # how many frames that reading had
    kept: int = 0  # how many of its tokens stay

    @property
    def frames(self) -> int:
        """How many emission frames there are."""
        return len(self.active)


class MoonshineSearch:
    """Reads the memory of each slot when it has grown, and when its segment ends."""

    def __init__(self, public: MoonshineFolder, slots: int, *, keeps: bool = True) -> None:
        """Without `keeps`, each reading is free, as in the library of the makers, and nothing is stable."""
        self._decoder = DecoderGraphs(public)
        self._text = TokenText(public.tokens)
        self._segments = [_Segment() for _ in range(slots)]
        self._settle = [0] * slots
        self._keeps = keeps

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Refuse hotwords, which this decoder cannot prefer."""
        yield from ()
        if hotwords:
            raise ValueError("this model has only a greedy search, which does not support hotwords")
        self._settle[slot] = settle_frames

    def release(self, slot: int) -> None:
        """Do nothing. The memory of a stream is dropped when its slot is reset for the next stream."""
        return

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        for slot in slots:
            self._segments[slot] = _Segment()

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Take the next frames of these slots, read those that are due, and return the hypotheses in the same order."""
        spoken = emissions[ACTIVITY][:, :, 0] >= math.log(ActivityRule().close_below) if ACTIVITY in emissions else None
        for row, (slot, frames) in enumerate(zip(slots, emissions[FRAMES], strict=True)):
            segment = self._segments[slot]
            segment.memory.append(frames.reshape(PAIR * len(frames), -1))
            segment.active += [True] * len(frames) if spoken is None else spoken[row].tolist()
            if segment.frames - segment.read >= _GROWTH and any(segment.active[max(0, segment.read - _SINCE) :]):
                self._read(slot)
            self._keep_old(slot)
        return [self._hypothesis(self._segments[slot]) for slot in slots]

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return the hypotheses of these slots if the segment ended here, in the same order.

        The whole memory is read, if the last reading did not have all of it.
        """
        for slot in slots:
            segment = self._segments[slot]
            if segment.read < segment.frames and any(segment.active):
                self._read(slot)
        return [self._hypothesis(self._segments[slot]) for slot in slots]

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return the only text, with the probability 1."""
        self.finish([slot])
        return [(self._segments[slot].words, 1.0)][:number]

    def tokens(self, slot: int) -> list[Token]:
        """Return the tokens of the running segment after all of its memory was read."""
        self.finish([slot])
        return list(self._segments[slot].tokens)

    def _hypothesis(self, segment: _Segment) -> Hypothesis:
        sure = self._text.words(segment.tokens[: segment.kept])
        unread = [frame for frame in range(segment.read, segment.frames) if segment.active[frame]]
        running = (unread[0], unread[-1] + 1) if unread else None
        return Hypothesis(segment.words, max(0, len(sure) - 1), running)

    def _read(self, slot: int) -> None:
        """Read the memory of a slot from its beginning to its end."""
        segment = self._segments[slot]
        before = segment.tokens
        draft = [token.number for token in before]
        reading = self._decoder.read(np.concatenate(segment.memory), draft, segment.kept)
        same = 0
        while same < min(len(before), len(reading)) and before[same].number == reading[same][0]:
            same += 1
        segment.tokens = [*before[:same], *_placed(segment, before[:same], reading[same:])]
        segment.words = tuple(self._text.words(segment.tokens))
        if self._keeps:
            sure_until = min(segment.read, segment.frames - _UNSURE)
            agreed = sum(token.end <= sure_until for token in segment.tokens[:same])
            segment.kept = max(segment.kept, agreed)
        segment.read = segment.frames

    def _keep_old(self, slot: int) -> None:
        """Keep the tokens that are so old that they must not change any more, also where nothing is read."""
        segment = self._segments[slot]
        if self._keeps and self._settle[slot]:
            settled = segment.frames - self._settle[slot]
            segment.kept = max(segment.kept, sum(token.end <= settled for token in segment.tokens))


def _placed(segment: _Segment, before: Sequence[Token], reading: Reading) -> list[Token]:
    """Return new tokens, spread over the frames after those before them in which somebody spoke."""
    begin = before[-1].end if before else 0
    spoken = [frame for frame in range(begin, segment.frames) if segment.active[frame]]
    spoken = spoken or [min(begin, segment.frames - 1)]
    count = len(reading)
    placed = []
    for place, (number, chance) in enumerate(reading):
        first = place * len(spoken) // count
        last = max(first, (place + 1) * len(spoken) // count - 1)
        placed.append(Token(number, spoken[first], spoken[last] + 1, chance))
    return placed
