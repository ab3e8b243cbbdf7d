"""Decoding recordings in pieces, compared with the browser's decoding of the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from streamer.audio.audio_file import SAMPLE_RATE
from tests.project import SAMPLES
from tests.samples import pcm
from tests.web.conftest import OpenPage

# How much of the whole is found in the pieces, at any offset, and both lengths.
COMPARE = """async ([name, reader, open]) => {
    const file = new File([await (await fetch(`/${name}`)).blob()], name);
    const {Recording} = await load("recording");
    const {Resampler} = await load("resampler");
    const source = await (await load(`decoding/${reader}`))[open](file);
    let resampler = null;
    const pieces = [];
    for await (const piece of source.pieces()) {
        resampler ??= new Resampler(source.rate);
        pieces.push(...resampler.push(piece[0]));
    }
    pieces.push(...resampler.finish());
    const {samples} = await Recording.decode(file);
    let most = 0;
    for (let lag = -2000; lag <= 2000; lag++) {
        let [both, one, other] = [0, 1e-9, 1e-9];
        for (let at = 10_000; at < 60_000; at += 41) {
            const [a, b] = [pieces[at + lag] ?? 0, samples[at] / 32768];
            [both, one, other] = [both + a * b, one + a * a, other + b * b];
        }
        most = Math.max(most, both / Math.sqrt(one * other));
    }
    return [most, pieces.length / 16, samples.length / 16, source.durationMs];
}"""


@pytest.mark.parametrize(
    ("format", "subtype", "rate", "reader"),
    [
        ("WAV", "PCM_24", 44_100, "wav"),
        ("WAV", "FLOAT", 16_000, "wav"),
        ("MP3", "MPEG_LAYER_III", 44_100, "mp3"),
        ("OGG", "OPUS", 48_000, "ogg"),
        ("OGG", "VORBIS", 22_050, "ogg"),
    ],
)
async def test_in_pieces_as_a_whole(
    open_bench: OpenPage, elsewhere: tuple[str, Path], format: str, subtype: str, rate: int, reader: str
) -> None:
    """Sound and length are the same, except at the beginning, where decoders differ."""
    sound = np.frombuffer(pcm("quilter.ogg"), "<i2").astype(np.float32) / 32768
    sound = soxr.resample(sound, SAMPLE_RATE, rate)
    file = elsewhere[1] / f"sound.{format.lower()}"
    soundfile.write(file, np.stack([sound, sound], axis=1), rate, subtype, format=format)
    bench = await open_bench()
    alike, pieces_ms, whole_ms, told_ms = await bench.evaluate(
        COMPARE, [file.name, reader, f"open{reader.capitalize()}"]
    )
    assert alike > 0.98
    assert abs(pieces_ms - whole_ms) < 120
    assert abs(told_ms - whole_ms) < 120


async def test_no_kind_that_is_known(open_bench: OpenPage, elsewhere: tuple[str, Path]) -> None:
    """FLAC, text and a header without sound are left to the decoder of whole files."""
    (elsewhere[1] / "talk.flac").write_bytes((SAMPLES / "talk.flac").read_bytes())
    bench = await open_bench()
    found = await bench.evaluate(
        """async () => {
            const {openInPieces} = await load("decoding/containers");
            const flac = await (await fetch("/talk.flac")).blob();
            const large = (text) => new Blob([text, new Uint8Array(1_200_000)]);
            const files = [flac, large("no sound"), large("OggS"), large("RIFF    WAVE"), large("ID3"), new Blob([])];
            files.push(large(Uint8Array.of(0x1a, 0x45, 0xdf, 0xa3)), large("\\0\\0\\0\\bftyp"));
            return Promise.all(files.map(openInPieces));
        }"""
    )
    assert found == [None] * 8
