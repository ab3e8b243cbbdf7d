"""Audio of videos and of other files that libsndfile cannot read, through the real ffmpeg."""

from __future__ import annotations

import os
import shutil
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import soundfile
from numpy.typing import NDArray

from streamer.audio.audio_file import SAMPLE_RATE, AudioFile, read_audio
from streamer.audio.recordings import AudioError
from tests.project import SAMPLES

TALK = SAMPLES / "talk.flac"

if not os.environ.get("CI") and shutil.which("ffmpeg") is None:
    pytest.skip("ffmpeg is not installed: make system", allow_module_level=True)


def made(target: Path, *arguments: str) -> Path:
    """A file that ffmpeg writes."""
    subprocess.run(["ffmpeg", "-v", "error", "-y", *arguments, f"file:{target}"], check=True, timeout=60)
    return target


def children() -> list[str]:
    """Child processes that still run."""
    return [child.name() for child in psutil.Process().children() if child.name().startswith("ff")]


PICTURE = ("-f", "lavfi", "-i", "color=size=64x48:rate=10:duration=26")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("a.m4a", ("-i", str(TALK), "-c:a", "aac")),
        ("a.aac", ("-i", str(TALK), "-c:a", "aac", "-ar", "44100")),
        ("a.wma", ("-i", str(TALK), "-c:a", "wmav2")),
        ("a.mp4", (*PICTURE, "-i", str(TALK), "-c:a", "aac", "-c:v", "mpeg4")),
        ("a.mkv", (*PICTURE, "-i", str(TALK), "-c:a", "libopus", "-c:v", "mpeg4")),
        ("- odd: name.webm", ("-i", str(TALK), "-c:a", "libopus")),
    ],
)
def test_audio_is_that_of_the_original(tmp_path: Path, name: str, arguments: tuple[str, ...]) -> None:
    """Length and level over time match the original, and no process stays behind."""
    made(tmp_path / name, *arguments)
    heard, original = read_audio(tmp_path / name).astype(np.float64), read_audio(TALK).astype(np.float64)
    assert len(heard) == pytest.approx(len(original), abs=0.2 * SAMPLE_RATE)
    levels = [loudness(samples) for samples in (heard, original)]
    # Codecs delay by some hundredths of a second.
    shifted = [np.corrcoef(levels[0][shift : shift + 1100], levels[1][:1100])[0, 1] for shift in range(15)]
    assert max(shifted) > 0.97
    assert levels[0].mean() == pytest.approx(levels[1].mean(), rel=0.1)
    assert children() == []


def loudness(samples: NDArray[Any]) -> NDArray[Any]:
    """The level of each fiftieth of a second."""
    pieces = samples[: len(samples) // 320 * 320].reshape(-1, 320)
    return np.asarray(np.sqrt((pieces**2).mean(axis=1)))


def test_times_are_those_of_the_video(tmp_path: Path) -> None:
    """Audio that begins three seconds after the picture has three seconds of silence before it."""
    later = ("-itsoffset", "3", "-i", str(TALK), "-c:a", "aac", "-c:v", "mpeg4", "-map", "0:v", "-map", "1:a")
    heard = read_audio(made(tmp_path / "a.mp4", *PICTURE, *later))
    assert len(heard) == pytest.approx(len(read_audio(TALK)) + 3 * SAMPLE_RATE, abs=0.2 * SAMPLE_RATE)
    assert np.abs(heard[: int(2.9 * SAMPLE_RATE)]).max() < 20


def test_channels_stay_apart(tmp_path: Path) -> None:
    """Channels of a video can be separate too."""
    sine = ("-f", "lavfi", "-i", "sine=440:duration=2", "-f", "lavfi", "-i", "anullsrc=channel_layout=mono:duration=2")
    made(tmp_path / "a.m4a", *sine, "-filter_complex", "[0][1]amerge=inputs=2", "-t", "2", "-c:a", "aac")
    with AudioFile(tmp_path / "a.m4a", separate=True) as recording:
        assert recording.channels == 2
        assert recording.duration_s == pytest.approx(2.0, abs=0.1)
        samples = np.concatenate(list(recording.chunks()))
    assert np.abs(samples[:, 0]).max() > 1000
    assert np.abs(samples[:, 1]).max() < 50


def test_a_long_file_needs_no_memory(tmp_path: Path) -> None:
    """A long film is read a chunk at a time, and ffmpeg ends with its reader."""
    long = made(tmp_path / "a.mka", "-f", "lavfi", "-i", "sine=440:duration=400", "-c:a", "pcm_s16le")
    tracemalloc.start()
    with AudioFile(long) as recording:
        chunks = recording.chunks()
        for _ in range(600):
            next(chunks)
        assert children() == ["ffmpeg"]
        decoder = next(child for child in psutil.Process().children() if child.name() == "ffmpeg")
        assert decoder.memory_info().rss < 200_000_000
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()
    assert children() == []


@pytest.mark.parametrize("part", [0.3, 0.7])
def test_a_damaged_video_gives_what_it_has(tmp_path: Path, part: float) -> None:
    """A truncated file is read as far as it goes; then one sentence says how far."""
    whole = made(tmp_path / "a.m4a", "-i", str(TALK), "-c:a", "aac", "-movflags", "+faststart").read_bytes()
    (tmp_path / "b.m4a").write_bytes(whole[: int(len(whole) * part)])
    heard: list[int] = []
    damaged = r"damaged: only \d+\.\d of 24\.\d s"
    with AudioFile(tmp_path / "b.m4a") as recording, pytest.raises(AudioError, match=damaged):
        heard.extend(len(chunk) for chunk in recording.chunks())
    assert 0.5 * part * 24.7 * SAMPLE_RATE < sum(heard) < 1.1 * part * 24.7 * SAMPLE_RATE


def test_a_decoder_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its samples are read, one sentence says what is wrong, and the process is ended."""
    video = made(tmp_path / "a.m4a", "-i", str(TALK), "-c:a", "aac")
    (tmp_path / "ffmpeg").write_text(f'#!/bin/sh\n{shutil.which("ffmpeg")} "$@"\nexec >&-\nexec sleep 600\n')
    (tmp_path / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("streamer.audio.ffmpeg.STALL_S", 1.0)
    heard: list[int] = []
    with AudioFile(video) as recording, pytest.raises(AudioError, match=r"a\.m4a cannot be read to its end"):
        heard.extend(len(chunk) for chunk in recording.chunks())
    assert sum(heard) > 20 * SAMPLE_RATE
    assert [child.name() for child in psutil.Process().children() if child.name() == "sleep"] == []


def test_a_file_without_audio_is_refused(tmp_path: Path) -> None:
    """A film without audio and a text file are refused for different reasons."""
    with pytest.raises(AudioError, match=r"a\.mp4 cannot be read as audio: it has no audio track"):
        AudioFile(made(tmp_path / "a.mp4", *PICTURE, "-c:v", "mpeg4"))
    (tmp_path / "b.mp4").write_text("This is no film. " * 1000)
    with pytest.raises(AudioError, match=r"b\.mp4 cannot be read as audio, neither by itself nor through ffmpeg"):
        AudioFile(tmp_path / "b.mp4")


def test_a_playlist_reads_nothing_else(tmp_path: Path) -> None:
    """A playlist is not followed to the network or to other files."""
    address = "http://127.0.0.1:1/a.ts"
    (tmp_path / "a.m3u8").write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{address}\n#EXT-X-ENDLIST\n")
    with pytest.raises(AudioError, match="cannot be read"):
        AudioFile(tmp_path / "a.m3u8")


def test_without_ffmpeg_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ffmpeg, files that need it are refused with that reason; other files are read as always."""
    video = made(tmp_path / "a.m4a", "-i", str(TALK), "-c:a", "aac")
    (tmp_path / "notes.txt").write_text("hello " * 100)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AudioError, match=r"a\.m4a can only be read with ffmpeg.*apt-get install ffmpeg"):
        AudioFile(video)
    with pytest.raises(AudioError, match=r"notes\.txt cannot be read as audio"):
        AudioFile(tmp_path / "notes.txt")
    assert len(read_audio(TALK)) == soundfile.info(TALK).frames
