/** Reads Ogg files with Opus or Vorbis in pieces, one packet after another. */

import {Bytes, bytesOf, letters} from "./bytes.js";
import {openPackets} from "./packets.js";

const PAGE_BYTES = 27;
const LONGEST_PAGE = PAGE_BYTES + 255 + 255 * 255;
const HEADERS = ["OpusHead", "OpusTags", "\x01vorbis", "\x03vorbis", "\x05vorbis"];

/** @param {Blob} file @returns {Promise<import("./wav.js").Source | null>} */
export async function openOgg(file) {
    const heads = [];
    for await (const packet of packets(new Bytes(file), true)) {
        heads.push(packet.slice());
        const opus = kind(heads[0]) === "OpusHead";
        if (!opus && kind(heads[0]) !== "\x01vorbis") return null;
        if (heads.length === (opus ? 1 : 3)) break;
    }
    if (!heads.length) return null;
    const opus = kind(heads[0]) === "OpusHead";
    const view = new DataView(heads[0].buffer);
    const rate = opus ? 48_000 : view.getUint32(12, true);
    const config = {
        codec: opus ? "opus" : "vorbis",
        sampleRate: rate,
        numberOfChannels: view.getUint8(opus ? 9 : 11),
        description: opus ? heads[0] : laced(heads),
    };
    const skipped = opus ? view.getUint16(10, true) : 0;
    const durationMs = Math.max(0, ((await lastPlace(file)) - skipped) * 1000) / rate;
    return openPackets(config, () => packets(new Bytes(file), false), durationMs);
}

/** @param {Bytes} bytes @param {boolean} headers whether to yield those, too @returns {AsyncGenerator<Uint8Array>} */
async function* packets(bytes, headers) {
    let [at, serial] = [0, -1];
    /** @type {Uint8Array[]} the parts so far of a packet that continues on the next page */
    let begun = [];
    for (;;) {
        const page = await bytes.view(at, LONGEST_PAGE);
        if (letters(page, 0) !== "OggS" || page.byteLength < PAGE_BYTES) return;
        const count = page.getUint8(26);
        if (page.byteLength < PAGE_BYTES + count) return;
        const sizes = Array.from({length: count}, (_, number) => page.getUint8(PAGE_BYTES + number));
        let place = PAGE_BYTES + count;
        const first = (page.getUint8(5) & 2) !== 0;
        const beginning = Math.min(8, page.byteLength - place);
        const sound = HEADERS.includes(kind(new Uint8Array(page.buffer, page.byteOffset + place, beginning)));
        if (first && sound) [serial, begun] = [page.getUint32(14, true), []];
        at += place + sizes.reduce((sum, size) => sum + size, 0);
        if (page.getUint32(14, true) !== serial) continue; // another stream, such as a picture
        let from = place;
        for (const size of sizes) {
            place += size;
            if (place > page.byteLength) return; // the file was cut off
            if (size === 255) continue;
            begun.push(new Uint8Array(page.buffer, page.byteOffset + from, place - from).slice());
            const packet = together(begun);
            [begun, from] = [[], place];
            if (packet.length && (headers || !HEADERS.includes(kind(packet)))) yield packet;
        }
        if (place > from) begun.push(new Uint8Array(page.buffer, page.byteOffset + from, place - from).slice());
    }
}

/** @param {Uint8Array} packet */
function kind(packet) {
    const text = String.fromCharCode(...packet.subarray(0, 8));
    return text.startsWith("Opus") ? text : text.slice(0, 7);
}

/** @param {Uint8Array[]} parts @returns {Uint8Array} */
function together(parts) {
    const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
        whole.set(part, at);
        at += part.length;
    }
    return whole;
}

/** Returns the three headers of Vorbis as one. @param {Uint8Array[]} heads */
function laced(heads) {
    const bytes = (/** @type {number} */ length) => [...new Array(Math.floor(length / 255)).fill(255), length % 255];
    const lengths = heads.slice(0, 2).flatMap(({length}) => bytes(length));
    return together([Uint8Array.of(2, ...lengths), ...heads]);
}

/** @param {Blob} file @returns {Promise<number>} the number of the last sample; 0 if there is no last page */
async function lastPlace(file) {
    const view = new DataView(await bytesOf(file, -LONGEST_PAGE));
    for (let at = view.byteLength - PAGE_BYTES; at >= 0; at--) {
        if (view.getUint8(at) === 79 && letters(view, at) === "OggS") return Number(view.getBigInt64(at + 6, true));
    }
    return 0;
}
