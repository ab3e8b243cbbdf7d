/**
 * A recording as a source for a session: any file that the browser can decode, as 16 kHz, 16 bit, mono, or with its
 * channels apart.
 *
 *     const recording = await Recording.open(file);
 *     await recording.play(session);
 *     await session.stop();
 */

import {openInPieces} from "./decoding/containers.js";
import {LOOKED_MS, Voices} from "./decoding/voices.js";
import {mixed} from "./decoding/wav.js";
import {wav} from "./decoding/wav-writer.js";
import {decodeWhole} from "./decoding/whole.js";
import {Resampler, SAMPLE_RATE, toInt16} from "./resampler.js";

const PIECE_MS = 500;
const PACED_MS = 100;
/** The service takes no more channels. */
const MOST_CHANNELS = 8;

export class Recording {
    /** The length. It is approximate for some files that are read in pieces. */
    durationMs = 0;
    /** @type {Int16Array} all samples, 16 kHz; empty if the recording is read in pieces */
    samples;
    /** How many channels the samples have, interleaved: 1 unless they are apart. */
    channels = 1;
    /** Whether the recording is a call: two channels, each with a voice of its own. */
    call = false;
    /** @type {import("./decoding/wav.js").Source | null} */
    #source = null;

    /** @param {Int16Array} samples 16 kHz @param {number} [channels] interleaved */
    constructor(samples, channels = 1) {
        [this.samples, this.channels] = [samples, channels];
        this.durationMs = (samples.length / channels / SAMPLE_RATE) * 1000;
    }

    /**
     * Decodes the whole recording into memory.
     * @param {Blob} file a File is one
     * @param {{apart?: boolean}} [how] `apart`: the channels are not mixed
     * @returns {Promise<Recording>} or a StreamerError: `unsupported_audio` if the browser finds no sound in
     *     it, `unreadable_file` if it cannot read it
     */
    static async decode(file, {apart = false} = {}) {
        const sounds = (await decodeWhole(file)).slice(0, MOST_CHANNELS);
        const recording = new Recording(interleaved(apart ? sounds : [mixed(sounds)]), apart ? sounds.length : 1);
        if (sounds.length === 2) {
            const voices = new Voices(SAMPLE_RATE);
            voices.push(sounds[0], sounds[1]);
            recording.call = voices.apart;
        }
        return recording;
    }

    /**
     * Decodes the recording while it is sent, if its format allows that, so that memory does not grow with its length.
     * Otherwise decodes it here as a whole.
     * @param {Blob} file a File is one
     * @param {{apart?: boolean}} [how] `apart`: the channels are not mixed
     * @returns {Promise<Recording>} or a StreamerError: `unsupported_audio` if the browser finds no sound in
     *     it, `unreadable_file` if it cannot read it
     */
    static async open(file, {apart = false} = {}) {
        const source = await openInPieces(file);
        if (!source) return Recording.decode(file, {apart});
        const recording = new Recording(new Int16Array(0), apart ? Math.min(MOST_CHANNELS, source.channels) : 1);
        [recording.#source, recording.durationMs] = [source, source.durationMs];
        recording.call = source.channels === 2 && (await isCall(source));
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
     * Sends the whole recording, or what follows a cut. The caller then calls `session.stop()`. Rejects with the error
     * that ended the session, or with the reason of the signal.
     * @param {import("./streamer.js").Session} session
     * @param {{paced?: boolean, signal?: AbortSignal, onpiece?: (samples: Int16Array) => void, cutsMs?: number[]}} [how]
     *     `paced`: send it as fast as it was spoken, not as fast as possible. `onpiece` is called with everything that
     *     is read. `cutsMs`: for each channel, the time before which its words are known: it is sent from the first of
     *     these times on, and a channel with a later one gets silence up to there
     */
    async play(session, {paced = false, signal, onpiece, cutsMs = [0]} = {}) {
        const began = performance.now();
        const cuts = cutsMs.map((ms) => Math.floor((ms * SAMPLE_RATE) / 1000));
        const from = Math.min(...cuts);
        let place = 0; // samples of each channel
        for await (const piece of this.pieces(paced ? PACED_MS : PIECE_MS)) {
            signal?.throwIfAborted();
            const begin = place;
            place += piece.length / this.channels;
            if (place > from) {
                await room(session, signal);
                // Each piece is sent at the time at which a speaker would have said it.
                if (paced) await until(began + ((place - from) / SAMPLE_RATE) * 1000, signal);
                signal?.throwIfAborted();
                session.send(this.#after(piece, begin, from, cuts));
            }
            onpiece?.(piece);
        }
    }

    /** Yields all samples in pieces. @param {number} [ms] of a piece @returns {AsyncGenerator<Int16Array>} */
    async *pieces(ms = PIECE_MS) {
        const size = ((SAMPLE_RATE * ms) / 1000) * this.channels;
        if (!this.#source) {
            yield* parted(this.samples, size);
            return;
        }
        /** @type {Resampler[]} */
        let resamplers = [];
        for await (const sounds of this.#source.pieces(this.channels > 1)) {
            const {rate} = this.#source; // the decoder may know it better than the file
            if (!resamplers.length) resamplers = Array.from({length: this.channels}, () => new Resampler(rate));
            yield* parted(interleaved(resamplers.map((resampler, channel) => resampler.push(sounds[channel]))), size);
        }
        if (resamplers.length) yield* parted(interleaved(resamplers.map((resampler) => resampler.finish())), size);
    }

    /** @returns {Promise<Blob>} a WAV file that is not in the memory of the page */
    async wav() {
        const pieces = [];
        for await (const piece of this.pieces(60_000)) {
            pieces.push(new Blob([/** @type {Int16Array<ArrayBuffer>} */ (piece)]));
        }
        return wav(pieces, this.channels);
    }

    /**
     * @param {Int16Array} piece @param {number} begin its place @param {number} from @param {number[]} cuts
     * @returns {Int16Array} what is sent of it
     */
    #after(piece, begin, from, cuts) {
        const rest = piece.subarray(Math.max(0, from - begin) * this.channels);
        if (begin >= Math.max(...cuts)) return rest;
        const sent = rest.slice();
        for (const [channel, cut] of cuts.entries()) {
            const first = Math.max(begin, from);
            const end = Math.min(sent.length / this.channels, cut - first);
            for (let at = 0; at < end; at++) sent[at * this.channels + channel] = 0;
        }
        return sent;
    }
}

/** @param {import("./decoding/wav.js").Source} source with two channels @returns {Promise<boolean>} */
async function isCall(source) {
    /** @type {Voices | null} */
    let voices = null;
    try {
        for await (const [left, right] of source.pieces(true)) {
            voices ??= new Voices(source.rate);
            voices.push(left, right);
            if (voices.heardMs >= LOOKED_MS) break;
        }
    } catch {
        return false; // whoever reads the recording learns why
    }
    return voices?.apart ?? false;
}

/** @param {Float32Array[]} sounds channels of the same length @returns {Int16Array} */
function interleaved(sounds) {
    if (sounds.length === 1) return toInt16(sounds[0]);
    const samples = new Int16Array(sounds[0].length * sounds.length);
    for (const [channel, sound] of sounds.map(toInt16).entries()) {
        for (let at = 0; at < sound.length; at++) samples[at * sounds.length + channel] = sound[at];
    }
    return samples;
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
