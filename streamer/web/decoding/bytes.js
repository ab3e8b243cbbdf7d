/** Reads the bytes of a file: some of them, or where they are needed, one window at a time. */

import {StreamerError} from "../errors.js";

const WINDOW_BYTES = 262_144;

/**
 * Reads a part of a file, or all of it. The browser has only a place on the disk, where the file may have changed.
 * @param {Blob} file @param {number} [from] @param {number} [end] @returns {Promise<ArrayBuffer>} rejects with
 *     StreamerError `unreadable_file`
 */
export async function bytesOf(file, from = 0, end = file.size) {
    // A part of a file that is gone may seem to be empty, but the file does not.
    const part = from === 0 && end >= file.size ? file : file.slice(from, end);
    try {
        return await part.arrayBuffer();
    } catch {
        const why = "it was moved, changed or removed after it was chosen, it is a folder, or you may not read it";
        throw new StreamerError("unreadable_file", `${nameOf(file)} cannot be read: ${why}. Choose it again.`);
    }
}

/** @param {Blob} file @returns {string} how messages call it */
export function nameOf(file) {
    return /** @type {File} */ (file).name ?? "The recording";
}

export class Bytes {
    #file;
    #window = new Uint8Array(0);
    #from = 0;

    /** @param {Blob} file */
    constructor(file) {
        this.#file = file;
        this.size = file.size;
    }

    /** @param {number} from @param {number} length @returns {Promise<Uint8Array>} fewer at the end of the file */
    async read(from, length) {
        if (from < this.#from || from + length > this.#from + this.#window.length) {
            const end = Math.max(from + length, from + WINDOW_BYTES);
            this.#window = new Uint8Array(await bytesOf(this.#file, from, end));
            this.#from = from;
        }
        return this.#window.subarray(from - this.#from, from - this.#from + length);
    }

    /** @param {number} from @param {number} length @returns {Promise<DataView>} */
    async view(from, length) {
        const {buffer, byteOffset, length: count} = await this.read(from, length);
        return new DataView(buffer, byteOffset, count);
    }
}

/** Letters; none after the end. @param {DataView} view @param {number} at @param {number} [length] @returns {string} */
export function letters(view, at, length = 4) {
    if (at + length > view.byteLength) return "";
    return String.fromCharCode(...new Uint8Array(view.buffer, view.byteOffset + at, length));
}
