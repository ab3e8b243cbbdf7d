"""What the client keeps of the audio that it sent: pure, run in the browser with random orders of events.

tests/client/test_sending.py tests the same of the Python client.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Page

from tests.client.kept_audio_runs import OPTIONS, outcome, steps

# A service that recognised any part of what was sent, over connections that are lost at any moment. It must get every
# sample and every flush once and in order. Numbers of bytes are even, because samples are.
LOSSES = """async (seed) => {
    const {KeptAudio} = await load("kept-audio");
    const dice = (most) => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
    const kept = new KeptAudio({});
    const given = [];
    let received = [];
    let flushes = 0, answered = 0, number = 0, most = 0, final = 0;
    const bytes = () => received.reduce((sum, entry) => sum + (entry.audio?.length ?? 0), 0);
    for (let turn = 0; turn < 400; turn++) {
        const kind = dice(10);
        if (kind < 4) {
            const audio = new Uint8Array(2 * (1 + dice(4000)));
            for (let at = 0; at < audio.length; at++) audio[at] = number++ % 251;
            kept.add(audio);
            given.push({audio});
        } else if (kind === 4) {
            kept.flush();
            given.push({flush: true});
        } else if (kind < 8) {
            for (let entry = kept.next(); entry && dice(4); entry = kept.next()) {
                received.push(entry);
                if ("flush" in entry) flushes += 1;
                kept.sent();
            }
            final = Math.floor((bytes() / 32000) * 1000);
            if (answered < flushes && dice(2)) kept.answered(++answered);
            kept.letGo(final);
        } else {
            // Lost: the last of what was sent has not arrived, down to half an entry.
            while (received.length && dice(3) && "audio" in received.at(-1)) {
                if ((bytes() - received.at(-1).audio.length) / 32 < final) break;
                received.pop();
            }
            if (!kept.resume(bytes() / 2, flushes)) return `turn ${turn}: ${bytes()} is not kept`;
        }
        most = Math.max(most, kept.keptMs - (kept.givenMs - final));
    }
    if (!kept.resume(bytes() / 2, flushes)) return "not kept at the end";
    for (let entry = kept.next(); entry; entry = kept.next()) {
        received.push(entry);
        kept.sent();
    }
    // Every byte, and -1 for a flush.
    const told = (entries) => {
        const all = new Int16Array(entries.reduce((sum, {audio}) => sum + (audio?.length ?? 1), 0));
        let at = 0;
        for (const {audio} of entries) {
            all.set(audio ?? [-1], at);
            at += audio?.length ?? 1;
        }
        return all;
    };
    const [sent, arrived] = [told(given), told(received)];
    const same = arrived.length === sent.length && arrived.every((each, at) => each === sent[at]);
    return same ? `the same, ${most < 6000 ? "little" : "much"} kept` : "other";
}"""


async def test_every_sample_and_flush_arrives_once(shared_bench: Page) -> None:
    """Every sample and flush arrives once and in order, wherever connections are lost; final audio is not kept."""
    for seed in range(1, 41):
        assert await shared_bench.evaluate(LOSSES, seed) == "the same, little kept", seed


async def test_what_is_not_final_is_kept_for_another_session(shared_bench: Page) -> None:
    """Audio is kept until it is final, although it was sent. The new session counts samples from its own beginning."""
    result = await shared_bench.evaluate(
        """async () => {
            const {KeptAudio} = await load("kept-audio");
            const kept = new KeptAudio({});
            for (let second = 0; second < 10; second++) {
                kept.add(new Uint8Array(32000).fill(second));
                kept.next();
                kept.sent();
            }
            kept.letGo(4500);
            const whole = kept.keptMs;
            const early = kept.restart([3000]);
            const right = kept.restart([4500]);
            const {audio, begin} = kept.next();
            const first = {begin, length: audio.length, value: audio[0], sent: kept.sentMs};
            const resumed = kept.resume(16000, 0);
            return {whole, early, right, first, resumed, sent: kept.sentMs, before: kept.resume(-8001, 0)};
        }"""
    )
    assert result == {
        "whole": 6_000,
        "early": None,
        "right": 4_500,
        "first": {"begin": 144_000, "length": 16_000, "value": 4, "sent": 4_500},
        "resumed": True,
        "sent": 5_500,
        "before": False,
    }


async def test_an_unanswered_flush_is_asked_again_of_another_session(shared_bench: Page) -> None:
    """An unanswered flush is sent again to another session; an answered one is not."""
    kinds = await shared_bench.evaluate(
        """async () => {
            const {KeptAudio} = await load("kept-audio");
            const kept = new KeptAudio({});
            kept.add(new Uint8Array(32000));
            kept.flush();
            kept.add(new Uint8Array(32000));
            kept.flush();
            kept.add(new Uint8Array(32000));
            kept.stop();
            while (kept.next()) kept.sent();
            kept.answered(1);
            kept.letGo(1000);
            kept.restart([1000]);
            const kinds = [];
            for (; kept.next(); kept.sent()) kinds.push(Object.keys(kept.next())[0]);
            kept.resume(32000, 1);
            for (; kept.next(); kept.sent()) kinds.push(Object.keys(kept.next())[0]);
            return kinds;
        }"""
    )
    assert kinds == ["audio", "flush", "audio", "stop", "stop"]


async def test_a_channel_that_was_ahead_hears_silence_first(shared_bench: Page) -> None:
    """Each channel continues at its own cut, even if pieces end within a sample, and after another loss."""
    heard = await shared_bench.evaluate(
        """async () => {
            const {KeptAudio} = await load("kept-audio");
            const told = {};
            for (const encoding of ["pcm_s16le", "mulaw"]) {
                const kept = new KeptAudio({encoding, sample_rate: 8000, channels: 2, multichannel: true});
                const width = encoding === "mulaw" ? 2 : 4;
                const audio = Uint8Array.from({length: 8 * 8 * width}, () => 7);
                for (let at = 0; at < audio.length; at += 13) kept.add(audio.subarray(at, at + 13));
                while (kept.next()) kept.sent();
                kept.restart([2, 5]);
                kept.resume(8, 0);
                const heard = [];
                for (; kept.next(); kept.sent()) heard.push(...kept.next().audio);
                // For each millisecond of each channel, what it is made of.
                told[encoding] = [0, 1].map((channel) =>
                    Array.from({length: 5}, (_, ms) => {
                        const bytes = heard.filter((_, at) => {
                            const [frame, byte] = [Math.floor(at / width), at % width];
                            return Math.floor(frame / 8) === ms && Math.floor(byte / (width / 2)) === channel;
                        });
                        return [...new Set(bytes)].join();
                    }),
                );
            }
            return told;
        }"""
    )
    assert heard == {
        "pcm_s16le": [["7", "7", "7", "7", "7"], ["0", "0", "7", "7", "7"]],
        "mulaw": [["7", "7", "7", "7", "7"], ["255", "255", "7", "7", "7"]],
    }


async def test_there_is_a_bound(shared_bench: Page) -> None:
    """If a service never acknowledges audio, only a limited amount is kept. No session can continue before that."""
    result = await shared_bench.evaluate(
        """async () => {
            const {KeptAudio} = await load("kept-audio");
            const kept = new KeptAudio({sample_rate: 8000});
            for (let second = 0; second < 400; second++) {
                kept.add(new Uint8Array(16000));
                kept.sent();
            }
            return [kept.keptMs, kept.resume(0, 0), kept.restart([0]), kept.resume(75 * 8000, 0)];
        }"""
    )
    assert result == [330_000, False, None, True]


# As JSON, because Playwright takes long for as many values.
RUN = """async (asked) => {
    const {KeptAudio} = await load("kept-audio");
    const {options, run} = JSON.parse(asked);
    const kept = new KeptAudio(options);
    const microseconds = (ms) => Math.round(ms * 1000);
    let value = 0;
    const outcome = run.map(([kind, ...how]) => {
        let given = null;
        if (kind === "add") {
            const audio = new Uint8Array(how[0]);
            for (let at = 0; at < audio.length; at++) audio[at] = (value + at) % 251;
            kept.add(audio);
            value += how[0];
        } else if (kind === "send") {
            given = [];
            for (let entry; given.length < how[0] && (entry = kept.next()); kept.sent()) {
                const {audio} = entry;
                const sum = audio?.reduce((sum, each) => sum + each, 0);
                given.push(audio ? [audio.length, audio[0], audio.at(-1), sum] : "flush");
            }
        } else if (kind === "flush") kept.flush();
        else if (kind === "answered") kept.answered(how[0]);
        else if (kind === "let go") kept.letGo(how[0]);
        else if (kind === "resume") given = kept.resume(...how);
        else given = kept.restart(how[0]);
        return [given, kept.flushes, ...[kept.givenMs, kept.sentMs, kept.keptMs].map(microseconds)];
    });
    return JSON.stringify(outcome);
}"""


@pytest.mark.parametrize("options", OPTIONS)
async def test_it_is_kept_as_the_python_client_keeps_it(shared_bench: Page, options: dict[str, Any]) -> None:
    """In any random run, both clients keep and send the same."""
    for seed in range(5):
        run = steps(seed, options.get("channels", 1) if options.get("multichannel") else 1)
        found = json.loads(await shared_bench.evaluate(RUN, json.dumps({"options": options, "run": run})))
        assert found == outcome(options, run), seed
