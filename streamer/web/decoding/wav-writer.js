/** Writes 16-bit samples at 16 kHz as a WAV file. */

import {SAMPLE_RATE} from "../resampler.js";

/** @param {(Int16Array | Blob)[]} pieces @param {number} [channels] @returns {Blob} */
export function wav(pieces, channels = 1) {
    const bytes = pieces.reduce((sum, piece) => sum + (piece instanceof Blob ? piece.size : piece.byteLength), 0);
    const header = new DataView(new ArrayBuffer(44));
    const letters = (/** @type {number} */ at, /** @type {string} */ text) => {
        for (const [index, letter] of [...text].entries()) header.setUint8(at + index, letter.charCodeAt(0));
    };
    letters(0, "RIFF");
    header.setUint32(4, 36 + bytes, true);
    letters(8, "WAVEfmt ");
    header.setUint32(16, 16, true);
    header.setUint16(20, 1, true);
    header.setUint16(22, channels, true);
    header.setUint32(24, SAMPLE_RATE, true);
    header.setUint32(28, 2 * channels * SAMPLE_RATE, true);
    header.setUint16(32, 2 * channels, true);
    header.setUint16(34, 16, true);
    letters(36, "data");
    header.setUint32(40, bytes, true);
    return new Blob([header.buffer, .../** @type {BlobPart[]} */ (pieces)], {type: "audio/wav"});
}
