/** Reads WAV files in pieces, so that a file may have any length. */

import {bytesOf} from "./bytes.js";

const HEADER_BYTES = 65_536;
const PIECE_FRAMES = 32_768;
const [PCM, FLOAT, EXTENSIBLE] = [1, 3, 0xfffe];

/**
 * @typedef {{durationMs: number, rate: number, channels: number,
 *     pieces: (apart?: boolean) => AsyncGenerator<Float32Array[]>}} Source
 * sound in pieces: each is the mean of all channels, or each channel if they are `apart`. `durationMs` is 0 if unknown;
 * `rate` is certain after the first piece
 */

/** @param {Blob} file @returns {Promise<Source | null>} null if it is not a WAV file, or one of a rare kind */
export async function openWav(file) {
    const head = new DataView(await bytesOf(file, 0, HEADER_BYTES));
    if (head.byteLength < 12 || !["RIFF", "RF64"].includes(name(head, 0)) || name(head, 8) !== "WAVE") return null;
    let format = null;
    for (let at = 12; at + 8 <= head.byteLength; ) {
        const size = head.getUint32(at + 4, true);
        if (name(head, at) === "fmt " && at + 24 <= head.byteLength) format = formatAt(head, at + 8, size);
        if (name(head, at) === "data") return format && source(file, format, at + 8, size);
        at += 8 + size + (size % 2);
    }
    return null;
}

/**
 * @typedef {{rate: number, channels: number, bytes: number, read: (view: DataView, at: number) => number}} Format
 * @param {DataView} head @param {number} at @param {number} size @returns {Format | null}
 */
function formatAt(head, at, size) {
    let kind = head.getUint16(at, true);
    const [channels, rate] = [head.getUint16(at + 2, true), head.getUint32(at + 4, true)];
    const bits = head.getUint16(at + 14, true);
    if (kind === EXTENSIBLE && size >= 26 && at + 26 <= head.byteLength) kind = head.getUint16(at + 24, true);
    const read = READERS.get(`${kind} ${bits}`);
    return read && channels > 0 && rate >= 1000 ? {rate, channels, bytes: bits / 8, read} : null;
}

/** @type {Map<string, (view: DataView, at: number) => number>} by kind and bits */
const READERS = new Map([
    [`${PCM} 8`, (view, at) => (view.getUint8(at) - 128) / 128],
    [`${PCM} 16`, (view, at) => view.getInt16(at, true) / 32768],
    [`${PCM} 24`, (view, at) => (view.getInt8(at + 2) * 65536 + view.getUint16(at, true)) / 8388608],
    [`${PCM} 32`, (view, at) => view.getInt32(at, true) / 2147483648],
    [`${FLOAT} 32`, (view, at) => view.getFloat32(at, true)],
    [`${FLOAT} 64`, (view, at) => view.getFloat64(at, true)],
]);

/** @param {Blob} file @param {Format} format @param {number} from @param {number} size @returns {Source} */
function source(file, {rate, channels, bytes, read}, from, size) {
    const wide = channels * bytes;
    // A file that was written to a pipe does not state its length. A file that was cut off is shorter than it states.
    const frames = Math.floor(Math.min(size === 0 || size >= 0xfffffff0 ? Infinity : size, file.size - from) / wide);
    return {
        durationMs: (frames * 1000) / rate,
        rate,
        channels,
        async *pieces(apart = false) {
            for (let frame = 0; frame < frames; frame += PIECE_FRAMES) {
                const count = Math.min(PIECE_FRAMES, frames - frame);
                const begin = from + frame * wide;
                const view = new DataView(await bytesOf(file, begin, begin + count * wide));
                const sounds = Array.from({length: channels}, () => new Float32Array(count));
                for (const [channel, sound] of sounds.entries()) {
                    for (let at = 0; at < count; at++) sound[at] = read(view, at * wide + channel * bytes);
                }
                yield apart ? sounds : [mixed(sounds)];
            }
        },
    };
}

/** @param {Float32Array[]} sounds channels of the same length @returns {Float32Array} their mean */
export function mixed(sounds) {
    if (sounds.length === 1) return sounds[0];
    const mono = new Float32Array(sounds[0].length);
    for (let at = 0; at < mono.length; at++) {
        let sum = 0;
        for (const sound of sounds) sum += sound[at];
        mono[at] = sum / sounds.length;
    }
    return mono;
}

/** @param {DataView} view @param {number} at */
function name(view, at) {
    return String.fromCharCode(view.getUint8(at), view.getUint8(at + 1), view.getUint8(at + 2), view.getUint8(at + 3));
}
