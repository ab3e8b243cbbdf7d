/** Reads the bytes of a file where they are needed, one window at a time. */

const WINDOW_BYTES = 262_144;

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
            this.#window = new Uint8Array(await this.#file.slice(from, end).arrayBuffer());
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
