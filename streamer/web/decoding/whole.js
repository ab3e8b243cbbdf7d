/** Decodes a recording as a whole in memory, with any decoder of the browser, if it cannot be read in pieces. */

import {StreamerError} from "../errors.js";
import {SAMPLE_RATE} from "../resampler.js";
import {bytesOf, nameOf} from "./bytes.js";

const MOST_BYTES = 512 * 1024 * 1024;
/** While it decodes, the browser itself needs up to ten times the memory of the samples. */
const MOST_MINUTES = 60;
const METADATA_MS = 5_000;
/** How much of a file shows whether it is a text. */
const LOOKED_BYTES = 4096;
/** What to do with a recording of another kind. */
export const ADVICE = "WAV, FLAC, MP3 and Ogg work everywhere, and the command 'streamer' reads more.";

/**
 * @param {Blob} file @returns {Promise<Float32Array[]>} 16 kHz; rejects with StreamerError `unsupported_audio` or
 *     `unreadable_file`
 */
export async function decodeWhole(file) {
    const name = nameOf(file);
    if (file.size === 0 && !(await bytesOf(file)).byteLength) {
        const advice = "If it is still being copied or recorded, choose it again afterwards";
        throw new StreamerError("unsupported_audio", `${name} is empty. ${advice}.`);
    }
    if (file.size > MOST_BYTES) {
        throw new StreamerError("unsupported_audio", `${name} is too large for a browser: use the command 'streamer'.`);
    }
    const minutes = (await lengthOf(file)) / 60;
    if (minutes > MOST_MINUTES) {
        const why = `is ${Math.round(minutes)} minutes long, and this browser would have to keep all of it in memory`;
        const advice = `save it as WAV or MP3, or use the command 'streamer'`;
        throw new StreamerError("unsupported_audio", `${name} ${why} (${MOST_MINUTES} at most): ${advice}.`);
    }
    const [head, bytes] = [await bytesOf(file, 0, LOOKED_BYTES), await bytesOf(file)];
    try {
        // A context of 16 kHz makes the browser resample while it decodes.
        const sound = await new OfflineAudioContext(1, 1, SAMPLE_RATE).decodeAudioData(bytes);
        return Array.from({length: sound.numberOfChannels}, (_, number) => sound.getChannelData(number));
    } catch {
        const why = isText(head)
            ? "is a text, and no recording. A download that failed leaves such a file: fetch it again."
            : `has no sound that this browser can decode: it is damaged, or of another kind. ${ADVICE}`;
        throw new StreamerError("unsupported_audio", `${name} ${why}`);
    }
}

/** @param {ArrayBuffer} head of a file @returns {boolean} */
function isText(head) {
    try {
        // With `stream`, a character that is cut at the end is no error.
        const text = new TextDecoder("utf-8", {fatal: true}).decode(head, {stream: true});
        return !/[\0-\x08\x0e-\x1f]/.test(text);
    } catch {
        return false;
    }
}

/** @param {Blob} file @returns {Promise<number>} seconds; 0 if the browser does not know before it decodes */
function lengthOf(file) {
    if (file.size < 1024 * 1024 || !globalThis.Audio) return Promise.resolve(0);
    return new Promise((resolve) => {
        const sound = new Audio();
        const url = URL.createObjectURL(file);
        const end = () => {
            clearTimeout(timer);
            resolve(Number.isFinite(sound.duration) ? sound.duration : 0);
            sound.removeAttribute("src");
            URL.revokeObjectURL(url);
        };
        const timer = setTimeout(end, METADATA_MS);
        sound.onloadedmetadata = sound.onerror = end;
        sound.preload = "metadata";
        sound.src = url;
    });
}
