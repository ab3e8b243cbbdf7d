/**
 * A recording as a source for a session: whatever the browser can decode, as 16 kHz, mono, 16 bit.
 *
 *     const recording = await Recording.decode(file);
 *     await recording.play(session);
 *     await session.stop();
 */

import {StreamerError} from "./errors.js";
import {SAMPLE_RATE, toInt16} from "./resampler.js";

const PIECE_MS = 500;
const PACED_MS = 100;
/** It is decoded in memory: a file of this size may be a hundred times as much as sound. */
const MOST_BYTES = 512 * 1024 * 1024;

export class Recording {
    /** @param {Int16Array} samples 16 kHz, mono */
    constructor(samples) {
        this.samples = samples;
    }

    /**
     * @param {Blob} file a File is one
     * @returns {Promise<Recording>} a StreamerError `unsupported_audio` if it has no sound that the browser knows
     */
    static async decode(file) {
        const name = /** @type {File} */ (file).name ?? "The recording";
        if (file.size > MOST_BYTES) {
            const advice = "too large for a browser: use the command 'streamer'";
            throw new StreamerError("unsupported_audio", `${name} is ${advice}.`);
        }
        let sound;
        try {
            // A context of 16 kHz: the browser resamples while it decodes.
            sound = await new OfflineAudioContext(1, 1, SAMPLE_RATE).decodeAudioData(await file.arrayBuffer());
        } catch (error) {
            const unread = /** @type {Error} */ (error).name === "NotReadableError";
            const why = unread ? "cannot be read" : "has no sound that this browser can decode";
            throw new StreamerError("unsupported_audio", `${name} ${why}.`);
        }
        return new Recording(toInt16(mixed(sound)));
    }

    get durationMs() {
        return (this.samples.length / SAMPLE_RATE) * 1000;
    }

    /** The loudest sample of each of so many equal stretches, 0 to 1: a waveform. @param {number} count */
    peaks(count) {
        return Float32Array.from({length: count}, (_, number) => {
            const from = Math.floor((number * this.samples.length) / count);
            const to = Math.max(from + 1, Math.floor(((number + 1) * this.samples.length) / count));
            let peak = 0;
            for (const sample of this.samples.subarray(from, to)) peak = Math.max(peak, Math.abs(sample));
            return Math.min(1, peak / 32767);
        });
    }

    /**
     * Sends all of it; `session.stop()` is left to the caller. Rejects with what ended the session, or with the reason
     * of the signal.
     * @param {import("./streamer.js").Session} session
     * @param {{paced?: boolean, signal?: AbortSignal}} [how] `paced`: as fast as it was spoken; else as it is taken
     */
    async play(session, {paced = false, signal} = {}) {
        const size = (SAMPLE_RATE * (paced ? PACED_MS : PIECE_MS)) / 1000;
        const began = performance.now();
        for (let place = 0; place < this.samples.length; place += size) {
            signal?.throwIfAborted();
            await session.room();
            const piece = this.samples.subarray(place, place + size);
            // Sound is there when it has been spoken.
            if (paced) await until(began + ((place + piece.length) / SAMPLE_RATE) * 1000, signal);
            signal?.throwIfAborted();
            session.send(piece);
        }
    }
}

/** @param {AudioBuffer} sound @returns {Float32Array} the mean of its channels */
function mixed(sound) {
    const mono = sound.getChannelData(0);
    if (sound.numberOfChannels === 1) return mono;
    for (let number = 1; number < sound.numberOfChannels; number++) {
        const channel = sound.getChannelData(number);
        for (let at = 0; at < mono.length; at++) mono[at] += channel[at];
    }
    for (let at = 0; at < mono.length; at++) mono[at] /= sound.numberOfChannels;
    return mono;
}

/** @param {number} time @param {AbortSignal} [signal] @returns {Promise<void>} */
function until(time, signal) {
    return new Promise((resolve) => {
        const timer = setTimeout(resolve, Math.max(0, time - performance.now()));
        signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), {once: true});
    });
}
