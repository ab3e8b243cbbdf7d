"""What the client keeps of what it sent: pure, fed in the browser with orders of events that nobody thought of."""

from __future__ import annotations

from playwright.async_api import Page

# A service that has heard any part of what was sent, over connections that are lost at any moment: it must get every
# sample and every flush once, in order. Numbers of bytes are even, as samples are.
LOSSES = """async (seed) => {
    const {Tape} = await load("tape");
    const dice = (most) => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
    const tape = new Tape(16000, 2);
    const given = [];
    let received = [];
    let length = 0, flushes = 0, answered = 0, number = 0, most = 0;
    const bytes = () => received.reduce((sum, entry) => sum + (entry.sound?.length ?? 0), 0);
    for (let turn = 0; turn < 400; turn++) {
        const kind = dice(10);
        if (kind < 4) {
            const sound = Uint8Array.from({length: 2 * (1 + dice(4000))}, () => number++ % 251);
            tape.add(sound);
            given.push(...sound);
            length += sound.length;
        } else if (kind === 4) {
            tape.flush();
            given.push(-1);
        } else if (kind < 8) {
            for (let entry = tape.next(); entry && dice(4); entry = tape.next()) {
                received.push(entry);
                if ("flush" in entry) flushes += 1;
                tape.sent();
            }
            const heard = Math.floor((bytes() / 32000) * 1000);
            tape.heard(heard);
            tape.settled(tape.place(heard));
            if (answered < flushes && dice(2)) tape.flushed(answered++);
        } else {
            // Lost: the last of what was sent has not arrived, down to half an entry.
            while (received.length && dice(3) && "sound" in received.at(-1) && bytes() / 32 > 300) {
                const place = bytes() - received.at(-1).sound.length;
                if ((place / 32000) * 1000 < heardMs(tape)) break;
                received.pop();
            }
            if (!tape.rewind(bytes(), flushes)) return `turn ${turn}: ${bytes()} is not kept`;
        }
        most = Math.max(most, tape.kept - tape.unheard);
    }
    if (!tape.rewind(bytes(), flushes)) return "not kept at the end";
    for (let entry = tape.next(); entry; entry = tape.next()) {
        received.push(entry);
        tape.sent();
    }
    const arrived = received.flatMap((entry) => ("sound" in entry ? [...entry.sound] : [-1]));
    const same = arrived.length === given.length && arrived.every((each, at) => each === given[at]);
    return same ? `the same, ${most < 200_000 ? "little" : "much"} kept` : "other";

    function heardMs(tape) {
        return tape.milliseconds(tape.end - tape.unheard);
    }
}"""


async def test_every_sample_and_flush_arrives_once(bench: Page) -> None:
    """In order, wherever connections are lost; what is heard and settled is not kept."""
    for seed in range(1, 41):
        assert await bench.evaluate(LOSSES, seed) == "the same, little kept", seed


async def test_what_is_not_settled_is_kept_for_another_service(bench: Page) -> None:
    """Although it was heard; what is settled is gone."""
    result = await bench.evaluate(
        """async () => {
            const {Tape} = await load("tape");
            const tape = new Tape(16000, 2);
            for (let second = 0; second < 10; second++) {
                tape.add(new Uint8Array(32000).fill(second));
                tape.next();
                tape.sent();
            }
            tape.heard(10000);
            tape.settled(tape.place(4500));
            const whole = tape.kept;
            const early = tape.rewind(tape.place(3000), 0);
            const right = tape.rewind(tape.place(4500), 0);
            const {sound, begin} = tape.next();
            return {whole, early, right, begin, length: sound.length, first: sound[0], unsent: tape.unsent};
        }"""
    )
    assert result == {
        "whole": 6 * 32_000,
        "early": False,
        "right": True,
        "begin": 144_000,
        "length": 16_000,
        "first": 4,
        "unsent": 176_000,
    }


async def test_an_unanswered_flush_is_asked_again_of_another_service(bench: Page) -> None:
    """And one that was answered is not."""
    kinds = await bench.evaluate(
        """async () => {
            const {Tape} = await load("tape");
            const tape = new Tape(16000, 2);
            tape.add(new Uint8Array(32000));
            tape.flush();
            tape.add(new Uint8Array(32000));
            tape.flush();
            tape.add(new Uint8Array(32000));
            tape.stop();
            while (tape.next()) tape.sent();
            tape.heard(3000);
            tape.settled(tape.place(1000));
            tape.flushed(0);
            tape.rewind(tape.place(1000), 1);
            const kinds = [];
            for (; tape.next(); tape.sent()) kinds.push(Object.keys(tape.next())[0]);
            return kinds;
        }"""
    )
    assert kinds == ["sound", "flush", "sound", "stop"]
