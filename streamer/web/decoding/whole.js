/** Decodes a recording as a whole in memory, with any decoder of the browser, if it cannot be read in pieces. */

import {StreamerError} from "../errors.js";
import {SAMPLE_RATE} from "../resampler.js";

const MOST_BYTES = 512 * 1024 * 1024;
/** While it decodes, the browser itself needs up to ten times the memory of the samples. */
const MOST_MINUTES = 60;
const METADATA_MS = 5_000;

/** @param {Blob} file @returns {Promise<Float32Array[]>} 16 kHz; rejects with StreamerError `unsupported_audio` */
export async function decodeWhole(file) {
    const name = /** @type {File} */ (file).name ?? "The recording";
    if (file.size > MOST_BYTES) {
        throw new StreamerError("unsupported_audio", `${name} is too large for a browser: use the command 'streamer'.`);
    }
    const minutes = (await lengthOf(file)) / 60;
    if (minutes > MOST_MINUTES) {
        const why = `is ${Math.round(minutes)} minutes long, and this browser would have to keep all of it in memory`;
        const advice = `save it as WAV or MP3, or use the command 'streamer'`;
        throw new StreamerError("unsupported_audio", `${name} ${why} (${MOST_MINUTES} at most): ${advice}.`);
    }
    try {
        // A context of 16 kHz makes the browser resample while it decodes.
        const sound = await new OfflineAudioContext(1, 1, SAMPLE_RATE).decodeAudioData(await file.arrayBuffer());
        return Array.from({length: sound.numberOfChannels}, (_, number) => sound.getChannelData(number));
    } catch (error) {
        const unread = /** @type {Error} */ (error).name === "NotReadableError";
        const why = unread ? "cannot be read" : "has no sound that this browser can decode";
        throw new StreamerError("unsupported_audio", `${name} ${why}.`);
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
