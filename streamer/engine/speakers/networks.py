"""Computes with two networks who speaks when in a window of sound, and what each of these voices sounds like.

The first network follows up to three voices in ten seconds. The second one makes a *print* of what a voice said there:
numbers that are similar for two prints of the same voice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import kaldi_native_fbank as knf
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.models.speaker_networks import SpeakerNetworks

RATE: Final = 16_000
WINDOW: Final = 10 * RATE  # samples that the first network reads at once
FRAME: Final = 270  # samples of its frames
FRAME_S: Final = FRAME / RATE
PRINT_NUMBERS: Final = 256

_MELS: Final = 80
_HOP: Final = 160  # samples between two rows of features
_LONGEST_PRINT: Final = 300  # rows of features; more cost more time than they bring
_SHORTEST_PRINT: Final = 25
_ENOUGH_ALONE: Final = 30  # frames that a voice speaks alone, from which on the others do not count
_ACTIVE: Final = 0.5
_SHORTEST_PAUSE: Final = 8  # frames: a longer pause ends a run
_OPTIONS: Final = ("session.intra_op.allow_spinning", "0")

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Run:
    """A time in which one voice speaks, without a pause that would be long enough for another voice.

    `start`, `end`: its samples in the window. `alone_s`: for how long no other voice speaks. `print`: its print, of
    length 1; None if it is too short.
    """

    start: int
    end: int
    alone_s: float
    print: Floats | None


class VoiceNetworks:
    """The two networks, on one processor."""

    def __init__(self, networks: SpeakerNetworks) -> None:
        self._activity, self._prints = _session(networks.segmentation), _session(networks.embedding)

    def hear(self, samples: NDArray[np.int16], since: int = 0) -> list[Run]:
        """Return the runs in at most WINDOW samples that end after the sample `since`, in order.

        A voice of one run need not be the one of another run that the first network gave the same number: the network
        often follows a voice into the turn of the next speaker. So each run has its own print.
        """
        active = self._active(samples)[: min(len(samples), WINDOW) // FRAME]
        alone = active & (active.sum(1, keepdims=True) == 1)
        found = [
            (voice, start, end)
            for voice in range(active.shape[1])
            for start, end in spans(active[:, voice], _SHORTEST_PAUSE)
            if end * FRAME > since
        ]
        if not found:
            return []
        features = _features(samples)
        frame_of = np.minimum((np.arange(len(features)) * _HOP + _HOP) // FRAME, len(active) - 1)
        runs: list[Run] = []
        for voice, start, end in sorted(found, key=lambda each: each[1]):
            frames = np.zeros(len(active), np.bool_)
            by_itself = alone[start:end, voice]
            frames[start:end] = by_itself if by_itself.sum() >= _ENOUGH_ALONE else active[start:end, voice]
            alone_s = float(by_itself.sum()) * FRAME_S
            runs.append(Run(start * FRAME, end * FRAME, alone_s, self._print(features[frames[frame_of]])))
        return runs

    def _active(self, samples: NDArray[np.int16]) -> Flags:
        """Return for each frame and voice whether it speaks."""
        window = np.zeros((1, 1, WINDOW), np.float32)
        window[0, 0, : len(samples)] = samples[:WINDOW] / np.float32(32768)
        (scores,) = self._activity.run(None, {"waveforms": window})
        active: Flags = scores[0] > _ACTIVE
        return active

    def _print(self, features: Floats) -> Floats | None:
        """Return the print of these rows, of the last of them if they are many."""
        rows = features[-_LONGEST_PRINT:]
        if len(rows) < _SHORTEST_PRINT:
            return None
        rows = rows - rows.mean(0)
        (vectors,) = self._prints.run(None, {"fbank": rows[None], "weights": np.ones((1, len(rows)), np.float32)})
        vector: Floats = vectors[0] / max(1e-6, float(np.linalg.norm(vectors[0])))
        return vector


def spans(flags: Flags, longest_gap: int = 0) -> list[tuple[int, int]]:
    """Return where flags are set: the first index of each span and the one after its last. Short gaps are in spans."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    joined: list[tuple[int, int]] = []
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if joined and start - joined[-1][1] <= longest_gap:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def _features(samples: NDArray[np.int16]) -> Floats:
    """Return the features that the second network expects: those of Kaldi, of samples in steps of 16 bits."""
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = RATE
    options.frame_opts.dither = 0.0
    options.frame_opts.window_type = "hamming"
    options.mel_opts.num_bins = _MELS
    options.mel_opts.high_freq = 0.0
    options.energy_floor = 0.0
    bank = knf.OnlineFbank(options)
    bank.accept_waveform(RATE, samples.astype(np.float32))
    bank.input_finished()
    if not bank.num_frames_ready:
        return np.zeros((0, _MELS), np.float32)
    return np.stack([bank.get_frame(number) for number in range(bank.num_frames_ready)])


def _session(graph: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry(*_OPTIONS)
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    vars(session)["_model_bytes"] = None  # it would keep the graph a second time
    return session
