/**
 * A recording as a source for a session: any file that the browser can decode, as 16 kHz, mono, 16 bit.
 *
 *     const recording = await Recording.open(file);
 *     await recording.play(session);
 *     await session.stop();
 */

import {openInPieces} from "./decoding/containers.js";
import {wav} from "./decoding/wav-writer.js";
import {decodeWhole} from "./decoding/whole.js";
import {Resampler, SAMPLE_RATE, toInt16} from "./resampler.js";

const PIECE_MS = 500;
const PACED_MS = 100;

export class Recording {
    /** The length. It is approximate for some files that are read in pieces. */
    durationMs = 0;
    /** @type {Int16Array} all samples, 16 kHz, mono; empty if the recording is read in pieces */
    samples;
    /** @type {import("./decoding/wav.js").Source | null} */
    #source = null;

    /** @param {Int16Array} samples 16 kHz, mono */
    constructor(samples) {
        this.samples = samples;
        this.durationMs = (samples.length / SAMPLE_RATE) * 1000;
    }

    /**
     * Decodes the whole recording into memory.
     * @param {Blob} file a File is one
     * @returns {Promise<Recording>} or a StreamerError `unsupported_audio` if the browser finds no sound in it
     */
    static async decode(file) {
        return new Recording(await decodeWhole(file));
    }

    /**
     * Decodes the recording while it is sent, if its format allows that, so that memory does not grow with its length.
     * Otherwise decodes it here as a whole.
     * @param {Blob} file a File is one
     * @returns {Promise<Recording>} or a StreamerError `unsupported_audio` if the browser finds no sound in it
     */
    static async open(file) {
        const source = await openInPieces(file);
        if (!source) return Recording.decode(file);
        const recording = new Recording(new Int16Array(0));
        [recording.#source, recording.durationMs] = [source, source.durationMs];
        return recording;
    }

    /** Returns a waveform: the loudest sample, 0 to 1, of each of `count` equal parts. @param {number} count */
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
     * Sends the whole recording. The caller then calls `session.stop()`. Rejects with the error that ended the
     * session, or with the reason of the signal.
     * @param {import("./streamer.js").Session} session
     * @param {{paced?: boolean, signal?: AbortSignal, onpiece?: (samples: Int16Array) => void}} [how] `paced`: send it
     *     as fast as it was spoken, not as fast as possible. `onpiece` is called with everything that is sent
     */
    async play(session, {paced = false, signal, onpiece} = {}) {
        const began = performance.now();
        let place = 0;
        for await (const piece of this.pieces(paced ? PACED_MS : PIECE_MS)) {
            signal?.throwIfAborted();
            await room(session, signal);
            place += piece.length;
            // Each piece is sent at the time at which a speaker would have said it.
            if (paced) await until(began + (place / SAMPLE_RATE) * 1000, signal);
            signal?.throwIfAborted();
            session.send(piece);
            onpiece?.(piece);
        }
    }

    /** Yields all samples in pieces. @param {number} [ms] of a piece @returns {AsyncGenerator<Int16Array>} */
    async *pieces(ms = PIECE_MS) {
        const size = (SAMPLE_RATE * ms) / 1000;
        if (!this.#source) {
            for (let at = 0; at < this.samples.length; at += size) yield this.samples.subarray(at, at + size);
            return;
        }
        /** @type {Resampler | null} */
        let resampler = null;
        for await (const sound of this.#source.pieces()) {
            resampler ??= new Resampler(this.#source.rate); // the decoder may know the rate better than the file
            yield* parted(toInt16(resampler.push(sound)), size);
        }
        if (resampler) yield* parted(toInt16(resampler.finish()), size);
    }

    /** @returns {Promise<Blob>} a WAV file that is not in the memory of the page */
    async wav() {
        const pieces = [];
        for await (const piece of this.pieces(60_000)) {
            pieces.push(new Blob([/** @type {Int16Array<ArrayBuffer>} */ (piece)]));
        }
        return wav(pieces);
    }
}

/** @param {Int16Array} samples @param {number} size */
function* parted(samples, size) {
    for (let at = 0; at < samples.length; at += size) yield samples.subarray(at, at + size);
}

/** @param {import("./streamer.js").Session} session @param {AbortSignal} [signal] @returns {Promise<void>} */
function room(session, signal) {
    return new Promise((resolve, reject) => {
        const given = new AbortController();
        signal?.addEventListener("abort", () => reject(signal.reason), {once: true, signal: given.signal});
        session.room().then(resolve, reject).finally(() => given.abort());
    });
}

/** @param {number} time @param {AbortSignal} [signal] @returns {Promise<void>} */
function until(time, signal) {
    return new Promise((resolve) => {
        const timer = setTimeout(resolve, Math.max(0, time - performance.now()));
        signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), {once: true});
    });
}
