"""Recordings that a browser decodes and sends."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from playwright.async_api import Page

from streamer.audio.audio_file import read_audio
from streamer.bridge.service import Service
from tests.bridge.service_client import SPOKEN
from tests.project import SAMPLES
from tests.samples import FILES, TWO_SEGMENTS_S, write_beginning
from tests.web.conftest import OpenPage
from tests.web.expected_words import undisturbed, words

DECODE = """async (name) => {
    const {Recording} = await load("recording");
    const response = await fetch(`/${name}`);
    return Recording.decode(new File([await response.blob()], name));
}"""


@pytest.fixture
def folder(elsewhere: tuple[str, Path]) -> Path:
    """The folder in which the page finds its recordings."""
    for name in FILES[1:]:
        (elsewhere[1] / name).write_bytes((SAMPLES / name).read_bytes())
    write_beginning(elsewhere[1] / FILES[0], FILES[0], TWO_SEGMENTS_S)
    return elsewhere[1]


async def decoded(bench: Page, name: str) -> np.ndarray[Any, np.dtype[np.int16]]:
    bytes_of = f"async (name) => new Uint8Array((await ({DECODE})(name)).samples.buffer).toBase64()"
    return np.frombuffer(base64.b64decode(await bench.evaluate(bytes_of, name)), "<i2")


@pytest.mark.parametrize("name", FILES)
async def test_what_a_browser_decodes(folder: Path, bench: Page, name: str) -> None:
    """FLAC, OGG and MP3 give the samples that our own decoder gives."""
    samples, right = await decoded(bench, name), read_audio(folder / name)
    # Decoders remove different amounts of the silence at both ends of an MP3.
    assert abs(len(samples) - len(right)) < 1600
    loud, loud_right = np.sqrt(np.mean(samples.astype(float) ** 2)), np.sqrt(np.mean(right.astype(float) ** 2))
    assert abs(loud / loud_right - 1) < 0.02
    if name == "talk.flac":
        assert np.abs(samples.astype(int) - right).max() <= 1


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (44_100, 2), (48_000, 6), (96_000, 1)])
async def test_any_rate_and_channels(folder: Path, bench: Page, rate: int, channels: int) -> None:
    """Any rate and number of channels becomes 16 kHz and the mean of the channels, with the right length."""
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(2 * rate) / rate)
    sound = np.zeros((len(tone), channels))
    sound[:, 0] = tone
    soundfile.write(folder / "tone.wav", sound, rate, "PCM_16")
    samples = (await decoded(bench, "tone.wav")).astype(float) / 32768
    assert len(samples) == pytest.approx(32_000, abs=2)
    right = 0.5 / channels * np.sin(2 * np.pi * 440 * np.arange(len(samples)) / 16_000)
    assert np.abs(samples - right)[1000:-1000].max() < 0.02 / channels


async def test_a_waveform(folder: Path, bench: Page) -> None:
    """The waveform is the loudest sample of each part, for any number of parts."""
    sound = np.concatenate([np.full(1600, level) for level in (0.0, 0.5, -1.0, 0.25)])
    soundfile.write(folder / "steps.wav", sound, 16_000, "PCM_16")
    peaks = await bench.evaluate(
        f"async () => {{ const r = await ({DECODE})('steps.wav'); return [[...r.peaks(4)], r.peaks(9999).length,"
        " Math.max(...r.peaks(9999)), r.durationMs]; }"
    )
    assert peaks[0] == pytest.approx([0, 0.5, 1, 0.25], abs=0.001)
    assert peaks[1:] == [9999, 1, 400]


async def test_from_a_cut_on(folder: Path, bench: Page) -> None:
    """Channels apart are interleaved. Only what follows a cut is sent; up to a later cut, a channel is silent."""
    sound = np.stack([np.arange(1, 32_001), -np.arange(1, 32_001)], axis=1).astype(np.int16)
    soundfile.write(folder / "apart.wav", sound, 16_000, "PCM_16")
    sent, read, channels = await bench.evaluate(
        """async () => {
            const {Recording} = await load("recording");
            const file = new File([await (await fetch("/apart.wav")).blob()], "apart.wav");
            const recording = await Recording.open(file, {apart: true});
            const [sent, read] = [[], []];
            const session = {room: async () => {}, send: (piece) => sent.push(...piece)};
            await recording.play(session, {cutsMs: [700, 1200], onpiece: (piece) => read.push(...piece)});
            return [JSON.stringify(sent), read.length, recording.channels];
        }"""
    )
    expected = sound[11_200:].copy()
    expected[: 19_200 - 11_200, 1] = 0
    assert (np.array(json.loads(sent)).reshape(-1, 2) == expected).all()
    assert (read, channels) == (2 * 32_000, 2)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", " is empty. "),
        ("Kein Ton ü. ".encode() * 1000, " is a text, and no recording. "),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", " has no sound that this browser can decode: "),
    ],
)
async def test_what_is_no_sound(folder: Path, bench: Page, content: bytes, why: str) -> None:
    """A file without sound is refused by name, with the reason."""
    (folder / "notes.wav").write_bytes(content)
    error = await bench.evaluate(f"failure(({DECODE})('notes.wav'))")
    assert (error["name"], error["code"]) == ("StreamerError", "unsupported_audio")
    assert error["message"].startswith(f"notes.wav{why}")


async def test_at_full_speed(folder: Path, bench: Page, service: Service) -> None:
    """At full speed the words are those of the Python client, and sending waits only for room."""
    soundfile.write(folder / "spoken.flac", np.frombuffer(SPOKEN, "<i2"), 16_000)
    told = await bench.evaluate(
        f"""async () => {{
            const recording = await ({DECODE})("spoken.flac");
            const session = await begin();
            await session.ready;
            const later = globalThis.setTimeout;
            let paused = 0;
            globalThis.setTimeout = (...how) => (paused++, later(...how));
            await recording.play(session);
            globalThis.setTimeout = later;
            const sent = session.sentMs;
            await session.stop();
            return {{told: session.told, paused, sent}};
        }}"""
    )
    expected = [event["text"] for event in await undisturbed(service.url, SPOKEN) if event["type"] == "final"]
    assert words(told["told"]) == " ".join(expected)
    assert (told["paused"], told["sent"]) == (0, pytest.approx(len(SPOKEN) / 32, abs=1))


async def test_paced(folder: Path, bench: Page) -> None:
    """With `paced`, no sound is sent before the time at which it would have been spoken."""
    early, took = await bench.evaluate(
        f"""async () => {{
            const recording = await ({DECODE})("airplane.mp3");
            const session = await begin();
            await session.ready;
            const began = performance.now();
            let early = 0;
            const send = session.send.bind(session);
            session.send = (sound) => {{
                send(sound);
                early = Math.max(early, session.sentMs - (performance.now() - began));
            }};
            await recording.play(session, {{paced: true}});
            const took = performance.now() - began;
            await session.stop();
            return [early - 0, took - recording.durationMs];
        }}"""
    )
    assert early < 20
    assert took > -20


async def test_it_can_be_given_up(folder: Path, bench: Page) -> None:
    """Sending can be stopped at once; the session may go on without the rest."""
    result = await bench.evaluate(
        f"""async () => {{
            const recording = await ({DECODE})("talk.flac");
            const session = await begin();
            await session.ready;
            const giving = new AbortController();
            const send = session.send.bind(session);
            let given = NaN;
            session.send = (sound) => {{
                send(sound);
                if (session.sentMs < 1000 || !isNaN(given)) return;
                given = session.sentMs;
                setTimeout(() => {{
                    given = session.sentMs;
                    giving.abort();
                }}, 10);
            }};
            const error = await failure(recording.play(session, {{paced: true, signal: giving.signal}}));
            const done = await session.stop();
            return {{name: error.name, more: done.audio_ms - given}};
        }}"""
    )
    assert result["name"] == "AbortError"
    assert 0 <= result["more"] <= 100  # one piece may have been due


async def test_a_session_that_ends_ends_the_playing(folder: Path, open_bench: OpenPage) -> None:
    """If the session ends, sending ends with the session's error."""
    bench = await open_bench()
    error = await bench.evaluate(
        f"""async () => {{
            const recording = await ({DECODE})("talk.flac");
            const session = await begin();
            await session.ready;
            setTimeout(() => session.close(), 500);
            return failure(recording.play(session, {{paced: true}}));
        }}"""
    )
    assert error["code"] == "closed"
