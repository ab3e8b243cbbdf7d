// The recordings that wait for their turn. The user may add several at once, or one after another.

const MOST = 500;

export class Queue {
    /** @type {File[]} */
    #files = [];
    /** How many recordings of this series were begun. */
    begun = 0;
    /** Whether one of them is transcribed at the moment, and the next one will follow. */
    busy = false;
    /** @type {{name: string, why: string}[]} those that could not be read, or not to their end */
    unread = [];
    /** @type {string[]} the names of those in which no words were recognised */
    silent = [];

    get length() {
        return this.#files.length;
    }

    /** The number of recordings of this series, including those that are done. */
    get total() {
        return this.begun + this.#files.length;
    }

    /** @param {Iterable<File>} files @returns {number} how many of them were refused for lack of space */
    add(files) {
        if (!this.#files.length && !this.busy) this.clear();
        const all = [...files];
        const taken = all.slice(0, MOST - this.#files.length);
        this.#files.push(...taken);
        return all.length - taken.length;
    }

    /** @returns {File | undefined} the next one */
    next() {
        const file = this.#files.shift();
        this.busy = file !== undefined;
        if (file) this.begun += 1;
        return file;
    }

    clear() {
        [this.#files, this.begun, this.busy, this.unread, this.silent] = [[], 0, false, [], []];
    }
}
