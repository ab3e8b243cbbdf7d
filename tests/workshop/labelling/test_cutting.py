"""Recordings are cut at pauses: no piece is too long, none overlaps another, and nothing that was said is lost."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from streamer.audio.audio_file import read_audio
from streamer.engine.acoustics.bundle_files import BundleError
from tests.project import BUNDLE, SAMPLES
from workshop.labelling.cutting import Cutter, CuttingRule, Piece, cut

RULE = CuttingRule(longest_s=10.0, joined_s=1.0, around_s=0.2)
FRAMES = (640, 768, 384)  # samples of a frame: those of encoders of both kinds


def pieces(*parts: tuple[float, float], rule: CuttingRule = RULE, frame: int = FRAMES[0]) -> list[Piece]:
    """Cut a recording of parts with this probability of speech for so many seconds."""
    frames = [probability for probability, seconds in parts for _ in range(round(seconds * 16_000 / frame))]
    return list(cut(frames, len(frames) * frame, rule, frame))


def times(found: list[Piece]) -> list[tuple[float, float]]:
    """Return where pieces start and end, in seconds."""
    return [(round(one.start / 16_000, 2), round(one.end / 16_000, 2)) for one in found]


def test_speech_has_some_silence_around_it() -> None:
    """A piece begins before the speech and ends after it, but not outside of the recording."""
    [one] = pieces((0, 2), (1, 3), (0, 2))
    assert times([one]) == [pytest.approx((1.76, 5.2), abs=0.05)]
    assert one.speech_s == 3.0
    assert times(pieces((1, 3))) == [(0, 3)]


def test_after_a_short_pause_the_piece_goes_on() -> None:
    """A longer pause divides it, and each side has its own silence."""
    assert len(pieces((1, 3), (0, 0.8), (1, 3), (0, 1))) == 1
    first, second = pieces((1, 3), (0, 1.2), (1, 3), (0, 1))
    assert 3.1 < first.end / 16_000 < 3.3
    assert 3.9 < second.start / 16_000 < 4.1


def test_a_piece_is_not_joined_to_be_too_long() -> None:
    """Two parts that are too long together stay apart, and divide the pause between them."""
    first, second = pieces((1, 6), (0, 0.6), (1, 6))
    assert first.end <= second.start
    assert max(first.seconds, second.seconds) <= RULE.longest_s


def test_a_long_speech_is_cut_in_its_longest_pause() -> None:
    """A pause that is too short to end speech divides it if it would be too long."""
    first, second = pieces((1, 6), (0, 0.2), (1, 1), (0, 0.08), (1, 7))
    assert first.end / 16_000 == pytest.approx(6.1, abs=0.05)
    assert first.end == second.start


def test_speech_without_a_pause_is_cut_too() -> None:
    """No piece is longer than allowed, and together they have all of the recording."""
    found = pieces((1, 14.6), (0.5, 0.04), (1, 20))
    assert found[0].start == 0
    assert all(one.end == other.start for one, other in pairwise(found))
    assert found[-1].end == round(34.64 * 16_000)
    assert max(one.seconds for one in found) <= RULE.longest_s


@pytest.mark.parametrize("frame", FRAMES)
def test_times_do_not_depend_on_the_frames(frame: int) -> None:
    """With longer or shorter frames, the same pauses divide a recording at the same places."""
    first, second = pieces((0, 2), (1, 3), (0, 0.7), (1, 2), (0, 1.3), (1, 3), (0, 1), frame=frame)
    assert times([first, second]) == [pytest.approx((1.78, 7.9), abs=0.06), pytest.approx((8.78, 12.2), abs=0.06)]
    assert first.speech_s == pytest.approx(5.0, abs=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_no_piece_is_too_long_whatever_is_said(seed: int) -> None:
    """Pieces are in order and do not overlap."""
    dice = np.random.default_rng(seed)
    parts = [(float(dice.random() < 0.7), float(dice.choice([0.1, 0.5, 3, 15]) * dice.random())) for _ in range(60)]
    found = pieces(*parts, frame=FRAMES[seed % len(FRAMES)])
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(0 < one.seconds <= RULE.longest_s and one.speech_s <= one.seconds for one in found)


def test_without_speech_there_is_no_piece() -> None:
    """A recording of silence, and one without samples."""
    cutter = Cutter(BUNDLE, CuttingRule())
    assert cutter.cut(np.zeros(50_001, np.int16)) == []
    assert cutter.cut(np.zeros(0, np.int16)) == []


def test_a_recording_is_cut_between_its_sentences() -> None:
    """The same recording is cut in the same way again, after others."""
    cutter, samples = Cutter(BUNDLE, CuttingRule()), read_audio(SAMPLES / "talk.flac")
    found = cutter.cut(samples)
    assert len(found) == 4
    assert found[-1].end <= len(samples)
    assert cutter.cut(samples) == found


def test_a_bundle_without_an_activity_network_is_refused(tmp_path: Path) -> None:
    """The message names the file that is missing."""
    for path in BUNDLE.iterdir():
        if path.is_file() and path.name != "activity.safetensors":
            (tmp_path / path.name).symlink_to(path)
    with pytest.raises(BundleError, match=r"activity\.safetensors is missing"):
        Cutter(tmp_path, CuttingRule())
