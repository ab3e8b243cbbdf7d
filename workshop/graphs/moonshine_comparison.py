"""Compares the readings of the recogniser with those of Moonshine's own library: many streams of different ages.

Readings are free here: nothing of an earlier one is kept, as in that library. So each of them is compared.
"""

from __future__ import annotations

import json
import math
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.base.limits import GREEDY
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.endpointing import EndpointRule
from streamer.engine.public.moonshine_model import PAIR, MoonshineModel
from streamer.engine.public.moonshine_search import MoonshineSearch
from streamer.engine.recogniser import Recogniser
from streamer.engine.stream_options import StreamOptions
from streamer.models.moonshine_folder import (
    CHUNK,
    FEATURE,
    PARTS,
    SAMPLE_STATES,
    STEPS_MS,
    MoonshineFolder,
    MoonshineLayout,
    read_moonshine_folder,
)
from workshop.graphs.comparison import SLOTS, run_streams
from workshop.graphs.exact_moonshine import whole_sound

_PROGRAM: Final = Path(__file__).with_name("moonshine_process.py")
_LONGEST_MS: Final = 8000  # of a segment
_LIMIT_S: Final = 3600

Tokens = list[int]


@dataclass
class ReadSegment:
    """The samples that the model read in a segment, and its readings: the samples of each, and its tokens."""

    samples: NDArray[np.int16]
    readings: list[tuple[int, Tokens]]

    @property
    def ends(self) -> list[int]:
        """The samples of each reading."""
        return [end for end, _ in self.readings]

    @property
    def tokens(self) -> list[Tokens]:
        """The tokens of each reading."""
        return [tokens for _, tokens in self.readings]


class _NotedSearch(MoonshineSearch):
    """Notes the readings of the running segment in each slot."""

    def __init__(self, public: MoonshineFolder, slots: int) -> None:
        super().__init__(public, slots, keeps=False)
        self._ahead = public.layout.ahead_samples
        self._readings: list[list[tuple[int, Tokens]]] = [[] for _ in range(slots)]

    def readings(self, slot: int) -> list[tuple[int, Tokens]]:
        """Return the readings of the running segment, with one of all of it."""
        self.finish([slot])
        return self._readings[slot]

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        super().reset(slots)
        for slot in slots:
            self._readings[slot] = []

    def _read(self, slot: int) -> None:
        super()._read(slot)
        segment = self._segments[slot]
        samples = segment.frames * PAIR * FEATURE + self._ahead
        self._readings[slot].append((samples, [token.number for token in segment.tokens]))


class _NotedModel(MoonshineModel):
    """Notes the segments of all streams. A segment ends when its slot is reset."""

    def follow(self, search: _NotedSearch) -> list[ReadSegment]:
        """Begin to note segments. Returns the list that gets them."""
        self._search = search
        self._steps: dict[int, list[NDArray[np.int16]]] = {}
        self._noted: list[ReadSegment] = []
        return self._noted

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute a step, and note its samples."""
        for slot, window in zip(slots, samples, strict=True):
            self._steps.setdefault(slot, []).append(window.copy())
        return super().step(state, slots, samples)

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear these slots, and note the segments that have ended in them."""
        for slot in slots:
            if windows := self._steps.pop(slot, []):
                parts = [window[: len(window) - self.ahead_samples] for window in windows[:-1]]
                samples = np.concatenate([*parts, windows[-1]])
                self._noted.append(ReadSegment(samples, self._search.readings(slot)))
        super().reset(state, slots)


@dataclass
class MoonshineComparison:
    """The size of a comparison, and the segments in which the reference read something else."""

    streams: int = 0
    segments: int = 0
    readings: int = 0
    tokens: int = 0  # of the last readings
    kinds: set[int] = field(default_factory=set)  # the tokens in them
    all_tokens: int = 0  # of all readings
    revised: int = 0  # the readings that have not all tokens of the one before
    different: list[tuple[ReadSegment, list[Tokens]]] = field(default_factory=list)

    def add(self, segments: Sequence[ReadSegment], expected: Sequence[list[Tokens]], streams: int) -> None:
        """Add these segments of so many streams, and what a reference reads in them."""
        self.streams += streams
        self.segments += len(segments)
        for segment, others in zip(segments, expected, strict=True):
            self.readings += len(segment.readings)
            self.tokens += len(segment.tokens[-1])
            self.kinds |= set(segment.tokens[-1])
            self.all_tokens += sum(map(len, segment.tokens))
            pairs = zip(segment.tokens, segment.tokens[1:], strict=False)
            self.revised += sum(after[: len(before)] != before for before, after in pairs)
            if segment.tokens != others:
                self.different.append((segment, others))


def read_segments(folder: Path, streams: int, *, seconds: float, seed: int) -> list[ReadSegment]:
    """Return the segments of streams that begin and end at different times. Half of the groups have long steps."""
    public = read_moonshine_folder(folder)
    model, search = _NotedModel(public, "noted"), _NotedSearch(public, SLOTS)
    segments = model.follow(search)
    recogniser = Recogniser(model, {GREEDY: search}, slots=SLOTS, idle_limit_s=float("inf"))
    rule = EndpointRule(longest_ms=_LONGEST_MS)
    options = StreamOptions(step_ms=STEPS_MS[seed % len(STEPS_MS)], search=GREEDY, endpoint=rule)
    run_streams(recogniser, options, streams, seconds=seconds, seed=seed, sound=whole_sound)
    return [segment for segment in segments if segment.readings]


def library_texts(folder: Path, segments: Sequence[ReadSegment], python: Path) -> Iterator[list[str]]:
    """Yield the texts of the readings of each segment, as moonshine-voice writes them. `python` has that package."""
    content = b"".join(
        struct.pack("<II", len(segment.samples), len(segment.ends))
        + np.array(segment.ends, "<u4").tobytes()
        + segment.samples.astype("<i2").tobytes()
        for segment in segments
    )
    command = [str(python), str(_PROGRAM), str(folder)]
    done = subprocess.run(command, input=content, capture_output=True, timeout=_LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"moonshine-voice failed: {done.stderr.decode(errors='replace')[-2000:]}")
    for line in done.stdout.splitlines():
        if line.startswith(b"["):
            yield json.loads(line)


# The same loop in its plainest form, for one stream, without a draft and without padding.


class PlainMoonshine:
    """Reads one segment after the other with the graphs of a folder, as the library of the makers does."""

    def __init__(self, folder: Path) -> None:
        self._layout: MoonshineLayout = read_moonshine_folder(folder).layout
        self._graphs = {part: onnxruntime.InferenceSession(str(folder / f"{part}.ort")) for part in PARTS}

    def readings(self, samples: NDArray[np.int16], ends: Sequence[int]) -> list[Tokens]:
        """Return the tokens after each of these numbers of samples."""
        layout = self._layout
        states = {
            name: np.zeros((1, *shape), np.float32 if shape else np.int64) for name, (_, shape) in layout.states.items()
        }
        features = np.zeros((0, layout.encoder_dim), np.float32)
        memory = np.zeros((0, layout.decoder_dim), np.float32)
        at, readings = 0, []
        for end in ends:
            while at + CHUNK <= end:
                audio = samples[None, at : at + CHUNK].astype(np.float32) / 32768
                new, *values = self._graphs["frontend"].run(
                    ["features", *(f"{name}_out" for name in SAMPLE_STATES)], {"audio_chunk": audio, **states}
                )
                states = dict(zip(SAMPLE_STATES, values, strict=True))
                features, at = np.concatenate((features, new[0])), at + CHUNK
            emitted, stable = len(memory), len(features) - layout.total_lookahead
            first = max(0, emitted - 16 * layout.depth)
            [encoded] = self._graphs["encoder"].run(["encoded"], {"features": features[None, first:]})
            new_frames = encoded[:, emitted - first : stable - first]
            [added] = self._graphs["adapter"].run(
                ["memory"], {"encoded": new_frames, "pos_offset": np.array([emitted])}
            )
            memory = np.concatenate((memory, added[0]))
            readings.append(self._decoded(memory))
        return readings

    def _decoded(self, memory: NDArray[np.float32]) -> Tokens:
        layout = self._layout
        keys, values = self._graphs["cross_kv"].run(["k_cross", "v_cross"], {"memory": memory[None]})
        caches = [np.zeros((layout.depth, 1, layout.nheads, 0, layout.head_dim), np.float32)] * 2
        most = min(math.ceil(len(memory) * 0.02 * 6.5), layout.max_seq_len)
        tokens: Tokens = []
        token = layout.bos_id
        while len(tokens) < most:
            feeds = {"token": np.array([[token]]), "k_self": caches[0], "v_self": caches[1]}
            scores, *caches = self._graphs["decoder_kv"].run(
                ["logits", "out_k_self", "out_v_self"], {**feeds, "out_k_cross": keys, "out_v_cross": values}
            )
            token = int(scores[0, -1].argmax())
            if token == layout.eos_id:
                break
            tokens.append(token)
        return tokens
