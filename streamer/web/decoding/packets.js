/** Decodes the packets of a file with the browser (WebCodecs) one after another, so only few of them are in memory. */

import {StreamerError} from "../errors.js";
import {mixed} from "./wav.js";
import {ADVICE} from "./whole.js";

const MOST_QUEUED = 32;
const PIECE_FRAMES = 16_384;
const STUCK_MS = 30_000;

/** @typedef {import("./wav.js").Source} Source */

/**
 * @param {AudioDecoderConfig} config @param {() => AsyncGenerator<Uint8Array>} packets from the first one, at each call
 * @param {number} durationMs 0 if unknown
 * @returns {Promise<Source | null>} null if this browser cannot decode it
 */
export async function openPackets(config, packets, durationMs) {
    if (!globalThis.AudioDecoder) return null; // an old browser, or a page that is not secure
    const {supported} = await AudioDecoder.isConfigSupported(config).catch(() => ({supported: false}));
    if (!supported) return null;
    /** @type {Source} */
    const source = {
        durationMs,
        rate: config.sampleRate,
        channels: config.numberOfChannels,
        pieces: (apart = false) => decoded(config, packets(), apart, (rate) => (source.rate = rate)),
    };
    return source;
}

/**
 * @param {AudioDecoderConfig} config @param {AsyncGenerator<Uint8Array>} packets @param {boolean} apart
 * @param {(rate: number) => void} tell
 * @returns {AsyncGenerator<Float32Array[]>}
 */
async function* decoded(config, packets, apart, tell) {
    /** @type {Float32Array[][]} */
    let ready = [];
    let frames = 0;
    /** @type {unknown} */
    let failure = null;
    const decoder = new AudioDecoder({
        output(sound) {
            tell(sound.sampleRate);
            const sounds = channelsOf(sound, apart ? config.numberOfChannels : sound.numberOfChannels);
            ready.push(apart ? sounds : [mixed(sounds)]);
            frames += sound.numberOfFrames;
            sound.close();
        },
        error: (error) => (failure = error),
    });
    const take = () => {
        const piece = ready[0].map((_, channel) => joined(ready.map((sounds) => sounds[channel]), frames));
        [ready, frames] = [[], 0];
        return piece;
    };
    try {
        decoder.configure(config);
        let number = 0;
        for await (const data of packets) {
            // Packets are decoded in order, so their times do not matter.
            decoder.decode(new EncodedAudioChunk({type: "key", timestamp: 20_000 * number++, data}));
            while (decoder.decodeQueueSize > MOST_QUEUED && !failure) await dequeued(decoder);
            if (failure) throw failure;
            if (frames >= PIECE_FRAMES) yield take();
        }
        await decoder.flush();
        if (frames) yield take();
    } catch (error) {
        if (error instanceof StreamerError) throw error; // the file cannot be read
        const why = String(failure ?? error);
        const message = `The recording is damaged, or of a kind that this browser cannot decode (${why}). ${ADVICE}`;
        throw new StreamerError("unsupported_audio", message);
    } finally {
        if (decoder.state !== "closed") decoder.close();
    }
}

/** @param {AudioDecoder} decoder @returns {Promise<void>} */
function dequeued(decoder) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error("the decoder has stopped")), STUCK_MS);
        decoder.ondequeue = () => (clearTimeout(timer), resolve());
    });
}

/** @param {AudioData} sound @param {number} count @returns {Float32Array[]} so many channels */
function channelsOf(sound, count) {
    return Array.from({length: count}, (_, number) => {
        const channel = new Float32Array(sound.numberOfFrames);
        // A file may have less channels than it states.
        const planeIndex = Math.min(number, sound.numberOfChannels - 1);
        sound.copyTo(channel, {planeIndex, format: "f32-planar"});
        return channel;
    });
}

/** @param {Float32Array[]} pieces @param {number} length */
function joined(pieces, length) {
    const whole = new Float32Array(length);
    let at = 0;
    for (const piece of pieces) {
        whole.set(piece, at);
        at += piece.length;
    }
    return whole;
}
