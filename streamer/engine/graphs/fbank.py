"""Filterbank features, with the settings with which public models were trained."""

from __future__ import annotations

import kaldi_native_fbank as knf
import numpy as np
from numpy.typing import NDArray

from streamer.graphs.layout import FRAME_SHIFT, Features

SAMPLE_RATE = 16_000


class Fbank:
    """Computes the features of many windows at once. The numbers of a window do not depend on the other windows."""

    def __init__(self, features: Features, mels: int, frames: int) -> None:
        """`frames` is their number in each window. A window begins with the first sample of its first frame."""
        self._frames = frames
        options = knf.FbankOptions()
        options.frame_opts.samp_freq = SAMPLE_RATE
        options.frame_opts.dither = 0
        options.frame_opts.snip_edges = True  # a window already has the samples before and after its frames
        options.mel_opts.num_bins = mels
        options.mel_opts.high_freq = -400
        if features is Features.NEMO:
            options.frame_opts.window_type = "hann"
            options.frame_opts.remove_dc_offset = False
            options.mel_opts.low_freq = 0
            options.mel_opts.high_freq = 0  # half of the sample rate
            options.mel_opts.is_librosa = True
        self._options = options

    def __call__(self, windows: NDArray[np.int16]) -> NDArray[np.float32]:
        """Return the features of these windows of samples: [windows, frames, mels]."""
        # To make an extractor takes as long as several windows. So all windows pass through one extractor, each padded
        # to whole frames. The frames that reach into the next window are not read.
        whole = -(-windows.shape[1] // FRAME_SHIFT)
        padded = np.zeros((len(windows), whole * FRAME_SHIFT), dtype=np.float32)
        np.divide(windows, 32768, out=padded[:, : windows.shape[1]], casting="unsafe")
        extractor = knf.OnlineFbank(self._options)
        extractor.accept_waveform(SAMPLE_RATE, padded.reshape(-1).tolist())  # it reads an array more slowly than a list
        rows = [extractor.get_frame(window * whole + frame) for window in range(len(windows)) for frame in self._range]
        return np.stack(rows).reshape(len(windows), self._frames, -1)

    @property
    def _range(self) -> range:
        return range(self._frames)
