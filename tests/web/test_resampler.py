"""The resampler of the microphone in a browser: which frequencies it passes, and how many samples it gives."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

RATES = (8_000, 22_050, 44_100, 48_000, 96_000)

# The level in decibels of tones of a given rate after the resampler, measured away from its ends.
LEVELS = """async ({rate, tones}) => {
    const {Resampler} = await load("resampler");
    return tones.map((hertz) => {
        const tone = Float32Array.from({length: rate}, (_, at) => Math.sin((2 * Math.PI * hertz * at) / rate));
        const resampler = new Resampler(rate);
        const made = [...resampler.push(tone), ...resampler.finish()].slice(1600, -1600);
        return 10 * Math.log10(2 * made.reduce((sum, sample) => sum + sample * sample, 0) / made.length);
    });
}"""

PIECES = """async ({rate, length, sizes}) => {
    const {Resampler} = await load("resampler");
    const sound = Float32Array.from({length}, (_, at) => Math.sin(at * at * 1e-5));
    const whole = new Resampler(rate);
    const expected = [...whole.push(sound), ...whole.finish()];
    const resampler = new Resampler(rate);
    const made = [];
    for (let at = 0, turn = 0; at < length; at += sizes[turn++ % sizes.length]) {
        made.push(...resampler.push(sound.subarray(at, at + sizes[turn % sizes.length])));
    }
    made.push(...resampler.finish());
    return {count: made.length, expected: expected.length, same: made.every((sample, at) => sample === expected[at])};
}"""


async def levels(shared_bench: Page, rate: int, *tones: int) -> list[float]:
    found: list[float] = await shared_bench.evaluate(LEVELS, {"rate": rate, "tones": tones})
    return found


@pytest.mark.parametrize("rate", [44_100, 48_000, 96_000])
async def test_tones_above_the_band_are_gone(shared_bench: Page, rate: int) -> None:
    """Tones that 16 kHz cannot represent are at least 60 dB lower, from 8 kHz on. Otherwise they would alias."""
    tones = [8_000, 8_100, 9_000, 12_000, 15_900, 16_000, 20_000, *([30_000, 47_000] if rate == 96_000 else [])]
    assert max(await levels(shared_bench, rate, *tones)) < -60


@pytest.mark.parametrize("rate", RATES)
async def test_tones_of_speech_come_through(shared_bench: Page, rate: int) -> None:
    """Tones of speech keep their level within a tenth of a decibel."""
    tones = [100, 1_000, 3_000, *([5_000, 7_000] if rate > 16_000 else [])]
    assert max(abs(level) for level in await levels(shared_bench, rate, *tones)) < 0.1


async def test_a_tone_comes_through_undistorted_and_in_time(shared_bench: Page) -> None:
    """Each output sample is that of the tone at the same time."""
    worst = await shared_bench.evaluate(
        """async () => {
            const {Resampler} = await load("resampler");
            const worst = [44100, 48000, 96000].map((rate) => {
                const tone = Float32Array.from({length: rate}, (_, at) => Math.sin((2 * Math.PI * 1000 * at) / rate));
                const resampler = new Resampler(rate);
                const made = [...resampler.push(tone), ...resampler.finish()].slice(0, -1600);
                return made.reduce((most, sample, at) => at < 1600 ? most :
                    Math.max(most, Math.abs(sample - Math.sin((2 * Math.PI * 1000 * at) / 16000))), 0);
            });
            return Math.max(...worst);
        }"""
    )
    assert worst < 0.001  # 60 dB


@pytest.mark.parametrize("rate", [*RATES, 16_000, 11_025])
async def test_any_quantum_gives_the_same(shared_bench: Page, rate: int) -> None:
    """The count is exact, and the division into blocks changes nothing."""
    length = rate // 2 + 17
    for sizes in ([128], [1], [7, 4096, 1, 333], [100_000]):
        told: dict[str, Any] = await shared_bench.evaluate(PIECES, {"rate": rate, "length": length, "sizes": sizes})
        assert told == {"count": -(-length * 16_000 // rate), "expected": told["count"], "same": True}, sizes


async def test_sixteen_kilohertz_stay_as_they_are(shared_bench: Page) -> None:
    """Audio at 16 kHz is not filtered."""
    assert await shared_bench.evaluate(
        """async () => {
            const {Resampler, toInt16} = await load("resampler");
            const samples = Int16Array.from({length: 1000}, (_, at) => (at * 7919) % 65536 - 32768);
            const resampler = new Resampler(16000);
            const floats = Float32Array.from(samples, (sample) => sample / 32768);
            const made = toInt16(Float32Array.from([...resampler.push(floats), ...resampler.finish()]));
            return made.length === 1000 && made.every((sample, at) => sample === samples[at]);
        }"""
    )


async def test_what_is_too_loud_is_clipped(shared_bench: Page) -> None:
    """Samples that are too loud are clipped, and do not change their sign."""
    clip = "async () => [...(await load('resampler')).toInt16(Float32Array.of(2, 1, 0, -1, -9))]"
    made = await shared_bench.evaluate(clip)
    assert made == [32767, 32767, 0, -32768, -32768]
