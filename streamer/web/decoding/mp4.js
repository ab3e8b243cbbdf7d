/** Reads MP4 files (.m4a, .mp4, .mov) with AAC in pieces. A table at one end has the places of the packets. */

import {Bytes, bytesOf, letters} from "./bytes.js";
import {openPackets} from "./packets.js";

const MOST_TABLE_BYTES = 64 * 1024 * 1024;
const AAC = 0x40;

/** @param {Blob} file @returns {Promise<import("./wav.js").Source | null>} */
export async function openMp4(file) {
    const table = await movie(file);
    if (!table || box(table, "mvex")) return null; // fragmented files have no table of all packets
    for (const track of boxes(table, "trak")) {
        const media = box(track, "mdia");
        const handler = media && box(media, "hdlr");
        if (!media || !handler || letters(handler, 8) !== "soun") continue;
        const samples = box(media, "minf", "stbl");
        const config = samples && configOf(box(samples, "stsd"));
        const where = config && samples && placesOf(samples);
        return where ? openPackets(config, () => packets(new Bytes(file), where), lengthOf(box(media, "mdhd"))) : null;
    }
    return null;
}

/**
 * @typedef {{sizes: (number: number) => number, count: number, runs: number[][], offsets: (chunk: number) => number,
 *     chunks: number}} Places `runs`: [from which chunk, counted from 1; how many packets are in each]
 */

/** @param {Bytes} bytes @param {Places} places @returns {AsyncGenerator<Uint8Array>} */
async function* packets(bytes, {sizes, count, runs, offsets, chunks}) {
    let [number, run] = [0, 0];
    for (let chunk = 0; chunk < chunks && number < count; chunk++) {
        while (run + 1 < runs.length && runs[run + 1][0] - 1 <= chunk) run++;
        let at = offsets(chunk);
        for (let left = runs[run][1]; left > 0 && number < count; left--, number++) {
            const packet = await bytes.read(at, sizes(number));
            if (packet.length < sizes(number)) return; // the file was cut off
            if (packet.length) yield packet;
            at += sizes(number);
        }
    }
}

/** @param {Blob} file @returns {Promise<DataView | null>} the content of its box `moov` */
async function movie(file) {
    for (let at = 0; at + 8 <= file.size; ) {
        const head = new DataView(await bytesOf(file, at, at + 16));
        let [size, begin] = [head.getUint32(0), 8];
        if (at === 0 && letters(head, 4) !== "ftyp") return null;
        if (size === 1 && head.byteLength === 16) [size, begin] = [Number(head.getBigUint64(8)), 16];
        if (size === 0) size = file.size - at;
        if (size < begin) return null;
        if (letters(head, 4) === "moov") {
            if (size > MOST_TABLE_BYTES) return null;
            return new DataView(await bytesOf(file, at + begin, at + size));
        }
        at += size;
    }
    return null;
}

/** @param {DataView} view @param {string} name @returns {Generator<DataView>} the content of each box of this name */
function* boxes(view, name) {
    for (let at = 0; at + 8 <= view.byteLength; ) {
        const size = view.getUint32(at);
        if (size < 8 || at + size > view.byteLength) return;
        if (letters(view, at + 4) === name) yield new DataView(view.buffer, view.byteOffset + at + 8, size - 8);
        at += size;
    }
}

/** @param {DataView} view @param {...string} names from the outer to the inner @returns {DataView | null} */
function box(view, ...names) {
    /** @type {DataView | null} */
    let found = view;
    for (const name of names) found = found && (boxes(found, name).next().value ?? null);
    return found;
}

/** @param {DataView | null} description @returns {AudioDecoderConfig | null} */
function configOf(description) {
    if (!description || letters(description, 12) !== "mp4a") return null;
    const entry = new DataView(description.buffer, description.byteOffset + 16, description.getUint32(8) - 8);
    // The newer versions of QuickTime have more fields before the boxes.
    const version = entry.getUint16(8);
    const before = 28 + (version === 1 ? 16 : 0);
    const inner = new DataView(entry.buffer, entry.byteOffset + before, entry.byteLength - before);
    const stream = version > 1 ? null : (box(inner, "esds") ?? box(inner, "wave", "esds"));
    const specific = stream && specificOf(stream);
    if (!specific) return null;
    const kind = specific[0] >> 3;
    return {
        codec: `mp4a.40.${kind === 31 ? 32 + (((specific[0] & 7) << 3) | (specific[1] >> 5)) : kind}`,
        sampleRate: entry.getUint32(24) >>> 16 || 48_000,
        numberOfChannels: entry.getUint16(16),
        description: specific,
    };
}

/** @param {DataView} stream an `esds` @returns {Uint8Array | null} the configuration for an AAC decoder */
function specificOf(stream) {
    let at = 4;
    while (at + 2 < stream.byteLength) {
        const tag = stream.getUint8(at++);
        let size = 0;
        for (let byte = 128; byte & 128 && at < stream.byteLength; ) {
            byte = stream.getUint8(at++);
            size = (size << 7) | (byte & 127);
        }
        if (tag === 3) {
            const flags = stream.getUint8(at + 2);
            at += 3 + (flags & 128 ? 2 : 0) + (flags & 64 ? 1 + stream.getUint8(at + 3) : 0) + (flags & 32 ? 2 : 0);
        } else if (tag === 4) {
            if (stream.getUint8(at) !== AAC) return null;
            at += 13;
        } else if (tag === 5 && size >= 2) {
            return new Uint8Array(stream.buffer, stream.byteOffset + at, size).slice();
        } else {
            at += size;
        }
    }
    return null;
}

/** @param {DataView} samples an `stbl` @returns {Places | null} */
function placesOf(samples) {
    const [sizes, runs, near, far] = ["stsz", "stsc", "stco", "co64"].map((name) => box(samples, name));
    const offsets = near ?? far;
    if (!sizes || !runs || !offsets) return null;
    const same = sizes.getUint32(4);
    return {
        count: sizes.getUint32(8),
        sizes: (number) => same || sizes.getUint32(12 + 4 * number),
        runs: Array.from({length: runs.getUint32(4)}, (_, run) => [8, 12].map((at) => runs.getUint32(at + 12 * run))),
        chunks: offsets.getUint32(4),
        offsets: (chunk) => (near ? offsets.getUint32(8 + 4 * chunk) : Number(offsets.getBigUint64(8 + 8 * chunk))),
    };
}

/** @param {DataView | null} header an `mdhd` @returns {number} milliseconds */
function lengthOf(header) {
    if (!header) return 0;
    const wide = header.getUint8(0) === 1;
    const scale = header.getUint32(wide ? 20 : 12);
    const length = wide ? Number(header.getBigUint64(24)) : header.getUint32(16);
    return scale ? (length * 1000) / scale : 0;
}
