"""The features of public models."""

from __future__ import annotations

import kaldi_native_fbank as knf
import numpy as np

from streamer.engine.graphs.fbank import Fbank
from streamer.graphs.layout import FRAME_LEAD, FRAME_SHIFT, Features

FRAMES, STEP = 45, 32


def test_windows_have_the_frames_of_the_whole() -> None:
    """The frames of every window, beside any others, have the same bits as the frames of the whole sound."""
    sound = np.random.default_rng(0).integers(-9000, 9000, 40_000, dtype=np.int16)
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins, options.mel_opts.high_freq = 80, -400
    whole = knf.OnlineFbank(options)
    whole.accept_waveform(16_000, sound.astype(np.float32) / 32768)
    mirrored = np.concatenate((sound[FRAME_LEAD - 1 :: -1], sound))
    length = (FRAMES - 1) * FRAME_SHIFT + 400
    windows = np.stack([mirrored[step * STEP * FRAME_SHIFT :][:length] for step in range(6)])
    features = Fbank(Features.KALDI, 80, FRAMES)
    for company in ([0], [3, 1], [5, 4, 3, 2, 1, 0]):
        for row, window in zip(features(windows[company]), company, strict=True):
            assert all((row[frame] == whole.get_frame(window * STEP + frame)).all() for frame in range(FRAMES))
