/** Reads WebM and Matroska files with Opus, Vorbis or AAC in pieces, one block after another. */

import {Bytes, bytesOf} from "./bytes.js";
import {openPackets} from "./packets.js";

const [SEGMENT, INFO, TRACKS, TRACK, CLUSTER, GROUP] = [0x18538067, 0x1549a966, 0x1654ae6b, 0xae, 0x1f43b675, 0xa0];
const [BLOCK, SIMPLE_BLOCK, SCALE, DURATION] = [0xa1, 0xa3, 0x2ad7b1, 0x4489];
const [NUMBER, CODEC, PRIVATE, AUDIO, RATE, CHANNELS, ENCODINGS] = [0xd7, 0x86, 0x63a2, 0xe1, 0xb5, 0x9f, 0x6d80];
const FACTS = [SCALE, DURATION, NUMBER, CODEC, PRIVATE, RATE, CHANNELS, ENCODINGS];
/** Elements whose inner elements are read. All others are skipped or read as a whole. */
const OPENED = [SEGMENT, INFO, TRACKS, TRACK, AUDIO, CLUSTER, GROUP];
const CODECS = new Map([["A_OPUS", "opus"], ["A_VORBIS", "vorbis"], ["A_AAC", "mp4a.40.2"]]);
const MOST_BYTES = 1_048_576;

/** @param {Blob} file @returns {Promise<import("./wav.js").Source | null>} */
export async function openWebm(file) {
    if (new DataView(await bytesOf(file, 0, 4)).getUint32(0) !== 0x1a45dfa3) return null;
    let [scale, duration] = [1_000_000, 0];
    /** @type {Record<string, any>[]} */
    const tracks = [];
    for await (const {id, read} of elements(new Bytes(file), FACTS)) {
        if (id === CLUSTER) break;
        if (id === TRACK) tracks.push({rate: 8000, channels: 1});
        const track = tracks.at(-1) ?? {};
        const value = read ? await read() : new DataView(new ArrayBuffer(0));
        if (id === SCALE) scale = unsigned(value);
        if (id === DURATION) duration = real(value);
        if (id === NUMBER) track.number = unsigned(value);
        const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength).slice();
        if (id === CODEC) track.codec = CODECS.get(new TextDecoder().decode(bytes).match(/^A_[A-Z]+/)?.[0] ?? "");
        if (id === PRIVATE) track.description = bytes;
        if (id === RATE) track.rate = real(value);
        if (id === CHANNELS) track.channels = unsigned(value);
        if (id === ENCODINGS) track.codec = undefined; // compressed a second time
    }
    const track = tracks.find(({codec}) => codec);
    if (!track) return null;
    const {codec, rate, channels, description, number} = track;
    const sampleRate = codec === "opus" ? 48_000 : rate;
    const config = {codec, sampleRate, numberOfChannels: channels, ...(description && {description})};
    return openPackets(config, () => packets(new Bytes(file), number), (duration * scale) / 1e6);
}

/** @param {Bytes} bytes @param {number} track @returns {AsyncGenerator<Uint8Array>} */
async function* packets(bytes, track) {
    for await (const {read} of elements(bytes, [BLOCK, SIMPLE_BLOCK])) {
        if (!read) continue;
        const block = await read();
        const [number, at] = variable(block, 0);
        if (number !== track || at + 3 >= block.byteLength) continue;
        if (block.getUint8(at + 2) & 6) throw new Error("its packets are laced");
        yield new Uint8Array(block.buffer, block.byteOffset + at + 3, block.byteLength - at - 3);
    }
}

/**
 * @param {Bytes} bytes @param {number[]} wanted ids of the elements that can be read
 * @returns {AsyncGenerator<{id: number, read: (() => Promise<DataView>) | null}>}
 */
async function* elements(bytes, wanted) {
    for (let at = 0; at < bytes.size; ) {
        const head = await bytes.view(at, 12);
        const length = head.byteLength && Math.clz32(head.getUint8(0)) - 23;
        if (!length || length > 4 || head.byteLength < length + 1) return;
        let id = 0;
        for (let place = 0; place < length; place++) id = id * 256 + head.getUint8(place);
        const [size, begin] = variable(head, length);
        if (begin > head.byteLength) return;
        const from = at + begin;
        if (OPENED.includes(id)) {
            yield {id, read: null};
            at = from;
            continue;
        }
        if (wanted.includes(id)) {
            if (size > MOST_BYTES || from + size > bytes.size) return; // the file was cut off
            yield {id, read: () => bytes.view(from, size)};
        }
        at = from + size;
    }
}

/** @param {DataView} view @param {number} at @returns {[value: number, end: number]} a number of variable length */
function variable(view, at) {
    if (at >= view.byteLength) return [0, Infinity];
    const first = view.getUint8(at);
    const length = Math.clz32(first) - 23;
    if (length > 8 || at + length > view.byteLength) return [0, Infinity];
    let value = first & (0xff >> length);
    for (let place = 1; place < length; place++) value = value * 256 + view.getUint8(at + place);
    return [value, at + length];
}

/** @param {DataView} view */
function unsigned(view) {
    let value = 0;
    for (let at = 0; at < view.byteLength; at++) value = value * 256 + view.getUint8(at);
    return value;
}

/** @param {DataView} view */
function real(view) {
    return view.byteLength === 8 ? view.getFloat64(0) : view.byteLength === 4 ? view.getFloat32(0) : 0;
}
