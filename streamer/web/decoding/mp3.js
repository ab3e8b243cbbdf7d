/** Reads MP3 files in pieces, one frame after another. */

import {Bytes, letters} from "./bytes.js";
import {openPackets} from "./packets.js";

const RATES = [44_100, 48_000, 32_000];
/** The bitrates of layer III in kbit/s, for MPEG 1, and for 2 and 2.5. */
const BITRATES = [
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
/** How many bytes are searched for the first frame, or for the next one after damage. */
const SEARCHED_BYTES = 65_536;

/** @param {Blob} file @returns {Promise<import("./wav.js").Source | null>} */
export async function openMp3(file) {
    const bytes = new Bytes(file);
    const begin = await afterTags(bytes);
    const from = await nextFrame(bytes, begin);
    if (from < 0 || from - begin > 4096) return null; // any file has frames by chance
    const first = frameAt(await bytes.view(from, 4));
    if (!first) return null;
    const counted = await countedFrames(bytes, from, first);
    const frames = counted || (file.size - from) / first.bytes;
    const config = {codec: "mp3", sampleRate: first.rate, numberOfChannels: first.channels};
    // If the first frame states the number of frames, it has no sound.
    const begins = counted ? from + first.bytes : from;
    return openPackets(config, () => packets(new Bytes(file), begins), (frames * first.samples * 1000) / first.rate);
}

/** @param {Bytes} bytes @param {number} at */
async function* packets(bytes, at) {
    while (at >= 0 && at < bytes.size) {
        const frame = frameAt(await bytes.view(at, 4));
        if (!frame) {
            at = await nextFrame(bytes, at + 1);
            continue;
        }
        const packet = await bytes.read(at, frame.bytes);
        if (packet.length < frame.bytes) return; // the file was cut off
        yield packet;
        at += frame.bytes;
    }
}

/** @param {Bytes} bytes @returns {Promise<number>} the end of the tags at the beginning */
async function afterTags(bytes) {
    for (let at = 0; ; ) {
        const view = await bytes.view(at, 10);
        if (letters(view, 0, 3) !== "ID3" || view.byteLength < 10) return at;
        const size = [6, 7, 8, 9].reduce((sum, place) => 128 * sum + (view.getUint8(place) & 127), 0);
        at += 10 + size + (view.getUint8(5) & 16 ? 10 : 0);
    }
}

/** @param {Bytes} bytes @param {number} from @returns {Promise<number>} the next place with two frames, or -1 */
async function nextFrame(bytes, from) {
    const window = (await bytes.read(from, SEARCHED_BYTES)).slice();
    for (let at = window.indexOf(255); at >= 0 && at + 4 <= window.length; at = window.indexOf(255, at + 1)) {
        const frame = frameAt(new DataView(window.buffer, at, 4));
        if (!frame) continue;
        const following = from + at + frame.bytes;
        if (following >= bytes.size || frameAt(await bytes.view(following, 4))) return from + at;
    }
    return -1;
}

/**
 * @param {DataView} view
 * @returns {{bytes: number, samples: number, rate: number, channels: number, older: boolean} | null}
 */
function frameAt(view) {
    if (view.byteLength < 4) return null;
    const head = view.getUint32(0);
    const [version, layer] = [(head >>> 19) & 3, (head >>> 17) & 3];
    const [bitrate, rate] = [(head >>> 12) & 15, (head >>> 10) & 3];
    if (head >>> 21 !== 0x7ff || version === 1 || layer !== 1) return null;
    if (bitrate === 0 || bitrate === 15 || rate === 3) return null;
    const older = version !== 3;
    const sampled = RATES[rate] / (version === 3 ? 1 : version === 2 ? 2 : 4);
    const samples = older ? 576 : 1152;
    const bytes = Math.floor((samples * 125 * BITRATES[older ? 1 : 0][bitrate]) / sampled) + ((head >>> 9) & 1);
    return {bytes, samples, rate: sampled, channels: ((head >>> 6) & 3) === 3 ? 1 : 2, older};
}

/**
 * @param {Bytes} bytes @param {number} from @param {{bytes: number, channels: number, older: boolean}} first
 * @returns {Promise<number>} the number of frames that the first one gives; 0 if it gives none
 */
async function countedFrames(bytes, from, {bytes: size, channels, older}) {
    const view = await bytes.view(from, size);
    const at = 4 + (older ? (channels === 1 ? 9 : 17) : channels === 1 ? 17 : 32);
    if (!["Xing", "Info"].includes(letters(view, at)) || at + 12 > view.byteLength) return 0;
    return view.getUint32(at + 4) & 1 ? view.getUint32(at + 8) : 0;
}
