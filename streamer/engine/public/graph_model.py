"""A public model as a StreamingModel: its windows of audio, and the states of its graph in slots."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, cast

import kaldi_native_fbank as knf
import numpy as np
from numpy.typing import NDArray

from streamer.base.limits import LANGUAGE
from streamer.engine.acoustics.streaming_model import Array, Emissions, ModelState
from streamer.engine.public.batch_graph import ELEMENTS, Axes, BatchGraph
from streamer.engine.public.sessions import Placement
from streamer.engine.public.states import SlotStates
from streamer.models.layout import (
    FRAME_LEAD,
    FRAME_LENGTH,
    FRAME_SHIFT,
    EncoderLayout,
    Features,
    Given,
    Surroundings,
)
from streamer.models.model_folder import PublicModel

if TYPE_CHECKING:
    from streamer.engine.public.bound_states import BoundStates


# Filterbank features, with the settings with which public models were trained.

SAMPLE_RATE = 16_000


class Fbank:
    """Computes the features of many windows at once. The numbers of a window do not depend on the other windows."""

    def __init__(self, features: Features, mels: int, *, normalised: bool = False) -> None:
        """`normalised`: they will be normalised, so quiet sounds must not all have the same number."""
        options = knf.FbankOptions()
        options.frame_opts.samp_freq = SAMPLE_RATE
        options.frame_opts.dither = 0
        options.frame_opts.snip_edges = True  # a window already has the samples before and after its frames
        options.mel_opts.num_bins = mels
        options.mel_opts.high_freq = -400
        if features is not Features.KALDI:
            options.frame_opts.remove_dc_offset = False
            options.mel_opts.low_freq = 0
            options.mel_opts.is_librosa = True
        if features is Features.NEMO:
            options.frame_opts.window_type = "hann"
            options.mel_opts.high_freq = 0  # half of the sample rate
        if normalised:
            options.use_log_floor = False
            options.eps = _LEAST_ENERGY
        self._options = options

    def __call__(self, windows: NDArray[np.int16]) -> NDArray[np.float32]:
        """Return the features of these windows of samples: [windows, frames, mels].

        A window begins with the first sample of its first frame, and ends with the last sample of its last one.
        """
        frames = (windows.shape[1] - FRAME_LENGTH) // FRAME_SHIFT + 1
        # To make an extractor takes as long as several windows. So all windows pass through one extractor, each padded
        # to whole frames. The frames that reach into the next window are not read.
        whole = -(-windows.shape[1] // FRAME_SHIFT)
        padded = np.zeros((len(windows), whole * FRAME_SHIFT), dtype=np.float32)
        np.divide(windows, 32768, out=padded[:, : windows.shape[1]], casting="unsafe")
        extractor = knf.OnlineFbank(self._options)
        extractor.accept_waveform(SAMPLE_RATE, padded.reshape(-1).tolist())  # it reads an array more slowly than a list
        rows = [extractor.get_frame(window * whole + at) for window in range(len(windows)) for at in range(frames)]
        return np.stack(rows).reshape(len(windows), frames, -1)


_LEAST_ENERGY: Final = 2**-24
"""What NeMo adds to the energies before their logarithms."""
_DEVIATION_FLOOR: Final = np.float32(1e-5)
_AT_ONCE: Final = 4  # frames


def normalised(windows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return these features [windows, frames, mels] with the mean 0 and the deviation 1 for each number of a frame.

    The sums have the order of sherpa-onnx, which is also the same in any company.
    """
    frames = np.float32(windows.shape[1])
    centred = windows - (_sum(windows) / frames)[:, None]
    scale = np.float32(1) / (np.sqrt(_sum(np.square(centred)) / frames) + _DEVIATION_FLOOR)
    result: NDArray[np.float32] = centred * scale[:, None]
    return result


def _sum(windows: NDArray[np.float32]) -> NDArray[np.float32]:
    total, count = windows[:, 0].copy(), windows.shape[1]
    last = 1 + (count - 1) // _AT_ONCE * _AT_ONCE
    for at in range(1, last, _AT_ONCE):
        first, second, third, fourth = (windows[:, at + each] for each in range(_AT_ONCE))
        total += (first + second) + (third + fourth)
    for at in range(last, count):
        total += windows[:, at]
    return total


FRAMES: Final = "frames"
"""The name of the head. Only the search for the family of the model knows the meaning of its numbers."""

_BEFORE: Final = "before"  # the last samples before the next window
_AHEAD: Final = "features ahead"  # the features of the last window that the next one begins with
_STEPS: Final = "steps"  # how many steps a slot has computed since its reset
_LANGUAGE: Final = "language"  # the number of the language of the stream
_TRIAL_SIZES: Final = (1, 2)  # the numbers of streams in the trial of a graph when it is opened
_NOISE_LEVEL: Final = 3000  # the amplitude of the noise in this trial


class GraphModel:
    """Computes the encoder of a public model with onnxruntime: on the device of `placement`, or with numpy."""

    writes = True  # the language is not known, so the words stay as the model writes them
    sample_rate = SAMPLE_RATE

    def __init__(self, public: PublicModel, name: str, placement: Placement | None = None) -> None:
        layout = public.layout
        self.name = name
        self.frame_samples = layout.step_samples // layout.frames
        self.step_ms: tuple[int, ...] = (layout.step_samples * 1000 // SAMPLE_RATE,)
        self.ahead_samples = layout.ahead_samples
        self.languages = () if layout.languages is None else tuple(layout.languages.numbers)
        self._layout = layout
        self._features = _features_of(layout)
        self._input = public.encoder.inputs[0].name
        self._twice = layout.frames == 1 and layout.surroundings is None  # whether a stream alone is computed twice
        alone = layout.surroundings is not None and layout.surroundings.alone
        self._graph = BatchGraph(public.encoder, self._axes(), self._trial, placement, alone=alone)
        if layout.surroundings is not None and not self._graph.alone:
            self._twice = self._differs_alone()

    @property
    def concurrent(self) -> bool:
        """Whether several batches may be computed at a time. On a GPU, the states of the last batch stay in place."""
        return self._graph.placement is None

    def prepare_batches(self) -> None:
        """Prepare for batches of all usual sizes, in another thread, whenever no steps are computed."""
        self._graph.check_ahead()

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots. The axes of states of the graph keep their order."""
        return self._state(self._graph.placement, slots)

    def _state(self, placement: Placement | None, slots: int) -> ModelState:
        ports = self._layout.states
        types = [ELEMENTS[port.input.type] for port in ports]
        state: ModelState
        if placement is None:
            state = SlotStates(ports, types, slots)
        else:
            from streamer.engine.public.bound_states import BoundStates  # needs torch, which a CPU does not need

            state = BoundStates(ports, types, slots, placement)
        surroundings = self._layout.surroundings
        before = FRAME_LEAD if surroundings is None else surroundings.left * FRAME_SHIFT
        state[_BEFORE] = np.zeros((slots, before), np.int16)
        if self._frames_ahead:
            state[_AHEAD] = np.zeros((slots, self._frames_ahead, self._layout.mels), np.float32)
        state[_STEPS], state[_LANGUAGE] = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        return state

    def has_language(self, language: str) -> bool:
        """Return whether a stream may choose this language."""
        return self._language(language) is not None

    def set_language(self, state: ModelState, slots: Sequence[int], language: str) -> None:
        """Tell the model which language is spoken in these slots. They keep it when they are reset."""
        state[_LANGUAGE][list(slots)] = self._language(language) or 0

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear these slots, so that nothing remains of the streams that used them."""
        numbers = list(slots)
        state[_BEFORE][numbers] = 0
        state[_STEPS][numbers] = 0
        _graph_states(state).reset(numbers)

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Compute one step of audio for each of these slots: [batch, samples]."""
        # The batch has the order of the slots, so that the same streams in another order make the same batch.
        order = np.argsort(slots)
        numbers, samples = [slots[place] for place in order], samples[order]
        ends = list(accumulate(self._graph.parts(len(numbers))))
        parts = [(numbers[begin:end], samples[begin:end]) for begin, end in pairwise((0, *ends))]
        frames = [self._compute(self._graph, state, *part) for part in parts]
        return {FRAMES: np.concatenate(frames)[np.argsort(order)]}

    def _compute(
        self, graph: BatchGraph, state: ModelState, numbers: list[int], samples: NDArray[np.int16]
    ) -> NDArray[np.float32]:
        """Return the frames of these slots, from a step of audio for each."""
        if len(numbers) == 1 and self._twice:
            # A single row is computed twice. onnxruntime may compute one row differently from several, and the results
            # of a stream must not depend on the other streams.
            return self._compute(graph, state, 2 * numbers, np.repeat(samples, 2, axis=0))[:1]
        steps = state[_STEPS][numbers]
        if self._layout.surroundings is None:
            features = self._overlapping(state, numbers, samples, fresh=steps == 0)
            lengths = np.full(len(numbers), self._layout.window)
        else:
            windows = self._windows_around(state, numbers, samples, self._layout.surroundings)
            features = self._recomputed(windows, self._layout.surroundings)
            lengths = np.array([len(window) // FRAME_SHIFT for window in windows])
        feeds: dict[str, Array] = {self._input: _transposed(features) if self._layout.upright else features}
        scalars = {
            Given.AGE: steps * self._layout.step,
            Given.WINDOW: lengths,
            Given.LANGUAGE: state[_LANGUAGE][numbers],
        }
        for port, kind in self._layout.given:
            feeds[port.name] = scalars[kind].astype(ELEMENTS[port.type])
        frames = _graph_states(state).compute(graph.session(), numbers, feeds, self._layout.output)
        frames = _transposed(frames) if self._layout.output_upright else frames
        if self._layout.surroundings is not None:
            frames = self._frames_of_step(frames, lengths)
        if frames.shape[1] != self._layout.frames:
            raise ValueError(f"the graph gave {frames.shape[1]} frames for a step, not {self._layout.frames}")
        if self._layout.units is not None and frames.shape[2] != self._layout.units:
            raise ValueError(f"the graph gave frames of {frames.shape[2]} numbers, not {self._layout.units}")
        step = self._layout.step_samples
        state[_BEFORE][numbers] = np.concatenate((state[_BEFORE][numbers], samples[:, :step]), axis=1)[:, step:]
        state[_STEPS][numbers] += 1
        return frames

    def _windows_around(
        self, state: ModelState, numbers: list[int], samples: NDArray[np.int16], surroundings: Surroundings
    ) -> list[NDArray[np.int16]]:
        """Return the windows around a step of these slots. They begin with the segment if it is shorter."""
        before = np.minimum(state[_STEPS][numbers] * self._layout.step, surroundings.left) * FRAME_SHIFT
        past = state[_BEFORE][numbers]
        return [
            np.concatenate((own[len(own) - length :], new))
            for own, length, new in zip(past, before.tolist(), samples, strict=True)
        ]

    def _recomputed(self, windows: Sequence[NDArray[np.int16]], surroundings: Surroundings) -> NDArray[np.float32]:
        """Return the features of these windows, each computed as if there were no other audio.

        The batch has always the same size, so that what a stream gets does not depend on the age of the others. A
        window that is computed alone has its own.
        """
        size = len(windows[0]) // FRAME_SHIFT if surroundings.alone else self._layout.window
        features = np.zeros((len(windows), size, self._layout.mels), np.float32)
        for length in {len(window) for window in windows}:
            places = [place for place, window in enumerate(windows) if len(window) == length]
            own = np.stack([windows[place] for place in places])
            # Mirrored samples before the first one and after the last one, as in Kaldi.
            whole = np.concatenate((own[:, FRAME_LEAD - 1 :: -1], own, own[:, : -FRAME_LEAD - 1 : -1]), axis=1)
            computed = self._features(whole).astype(np.float32, copy=False)
            features[places, : computed.shape[1]] = normalised(computed) if surroundings.normalised else computed
        return features

    def _frames_of_step(self, frames: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the frames of the step in the middle of each window, from those of the windows of these lengths."""
        assert self._layout.surroundings is not None
        per_frame = self._layout.step // self._layout.frames
        after = self._layout.step + self._layout.surroundings.right
        first = (lengths - after) // per_frame
        if frames.shape[1] < first.max() + self._layout.frames:
            raise ValueError(f"the graph gave only {frames.shape[1]} frames for a window")
        own: NDArray[np.float32] = frames[
            np.arange(len(frames))[:, None], first[:, None] + np.arange(self._layout.frames)
        ]
        return own

    def _overlapping(
        self, state: ModelState, numbers: list[int], samples: NDArray[np.int16], *, fresh: NDArray[np.bool_]
    ) -> Array:
        """Return the features of windows that overlap, for a graph that has the rest of the past in its states."""
        before = state[_BEFORE][numbers]
        before[fresh] = samples[fresh, FRAME_LEAD - 1 :: -1]  # mirrored samples before the first one, as in Kaldi
        return self._new_features(
            state, numbers, np.concatenate((before, samples), axis=1), any_fresh=bool(fresh.any())
        )

    def _new_features(
        self, state: ModelState, numbers: list[int], windows: NDArray[np.int16], *, any_fresh: bool
    ) -> Array:
        """Return the features of these windows of these slots. Those that the last window had are not computed again.

        If a stream begins, all are computed for the whole batch: that is rare.
        """
        ahead = self._frames_ahead
        if not ahead:
            return self._features(windows)
        features: Array
        if any_fresh:
            features = self._features(windows)
        else:
            new = self._features(windows[:, ahead * FRAME_SHIFT :])
            features = np.concatenate((state[_AHEAD][numbers], new), axis=1)
        state[_AHEAD][numbers] = features[:, self._layout.step :]
        return features

    @property
    def _frames_ahead(self) -> int:
        """How many frames of features a window shares with the next one."""
        keeps = isinstance(self._features, Fbank) and self._layout.surroundings is None
        return self._layout.window - self._layout.step if keeps else 0

    def _axes(self) -> Axes:
        """Return the shapes of all inputs of the graph."""
        if self._layout.surroundings is None:
            features: Array = self._features(np.zeros((1, FRAME_LEAD + self._samples), np.int16))
        else:
            features = np.zeros((1, self._layout.window, self._layout.mels), np.float32)
        content = _transposed(features) if self._layout.upright else features
        scalars = {port.name: ((1,), 0) for port, _ in self._layout.given}
        states = {port.input.name: (port.shape, port.axis) for port in self._layout.states}
        return {self._input: (content.shape, 0), **scalars, **states}

    def _trial(self, graph: BatchGraph) -> list[Array]:
        """Return the results of the graph for two steps of noise, for one stream and for two."""
        results: list[Array] = []
        for streams in graph.sizes(_TRIAL_SIZES):
            state, numbers = self._state(graph.placement, streams), list(range(streams))
            noise = np.random.default_rng(streams).integers(
                -_NOISE_LEVEL, _NOISE_LEVEL, (2, streams, self._samples), np.int16
            )
            for samples in noise:
                results.append(self._compute(graph, state, numbers, samples))
            results += _graph_states(state).copies()
        return results

    def _differs_alone(self) -> bool:
        """Return whether a stream alone has other bits than in company, as with sums over a whole window."""
        noise = np.random.default_rng(0).integers(-_NOISE_LEVEL, _NOISE_LEVEL, (2, self._samples), np.int16)
        alone, together = (
            self._compute(self._graph, self._state(self._graph.placement, 2), list(range(streams)), noise[:streams])
            for streams in _TRIAL_SIZES
        )
        return not np.array_equal(alone, together[:1])

    @property
    def _samples(self) -> int:
        """The number of samples in a step and ahead of it."""
        return self._layout.step_samples + self.ahead_samples

    def _language(self, language: str) -> int | None:
        """Return the number of a language; None if the model lacks it."""
        if self._layout.languages is None:
            return 0 if language == LANGUAGE else None
        return self._layout.languages.number(language)


def _features_of(layout: EncoderLayout) -> Fbank | TelephoneSamples:
    """Return the extractor of features for windows of samples."""
    if layout.features is Features.TELEPHONE:
        return TelephoneSamples()
    normalised = layout.surroundings is not None and layout.surroundings.normalised
    return Fbank(layout.features, layout.mels, normalised=normalised)


def _transposed(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """Swap the rows and columns of each stream."""
    return np.ascontiguousarray(frames.transpose(0, 2, 1))


def _graph_states(state: ModelState) -> SlotStates | BoundStates:
    return cast("SlotStates | BoundStates", state)


# Samples at 8 kHz for telephone models, from samples at 16 kHz.

# Hz: half of the amplitude passes at this frequency, all of it a tenth lower, and nothing a tenth higher.
_CUTOFF: Final = 3_830
_SHAPE: Final = 8.0  # of the Kaiser window: frequencies that must not pass are 80 dB quieter
_SCALE: Final = 1 << 15  # the factor that makes whole numbers of the weights
_LOUDEST: Final = 32_767


def _filter() -> NDArray[np.float64]:
    """Return the weights of a low-pass filter that reads a lead of samples on each side."""
    at = np.arange(-FRAME_LEAD, FRAME_LEAD + 1)
    width = 2 * _CUTOFF / SAMPLE_RATE
    return np.round(_SCALE * width * np.sinc(width * at) * np.kaiser(len(at), _SHAPE)).astype(np.float64)


_EVEN: Final = _filter()[::2].copy()
_ODD: Final = _filter()[1::2].copy()


def halved(window: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return every second sample of this window after the filter, without the lead at its beginning and its end."""
    samples = window.astype(np.float64)
    length = (len(window) - 2 * FRAME_LEAD) // 2
    even = np.correlate(samples[::2], _EVEN, "valid")[:length]
    odd = np.correlate(samples[1::2], _ODD, "valid")[:length]
    rounded = np.floor((even + odd) / _SCALE + 0.5)
    return rounded.clip(-_LOUDEST - 1, _LOUDEST).astype(np.int16)


class TelephoneSamples:
    """Makes the input of a graph from many windows at once."""

    def __call__(self, windows: NDArray[np.int16]) -> NDArray[np.int32]:
        """Return the samples of these windows: [windows, samples, 1]."""
        shorter = np.stack([halved(window) for window in windows])
        # sherpa-onnx converts the samples to numbers up to 1, and these back to whole numbers, without rounding.
        scaled = shorter.astype(np.float32) / 32768 * np.float32(_LOUDEST)
        return scaled.astype(np.int32)[..., None]
