// Recordings that wait for their turn: several that were dropped at once, or one after the other.

const MOST = 500;

export class Queue {
    /** @type {File[]} */
    #files = [];
    /** Of those that came together, how many were begun. */
    begun = 0;
    /** Whether one of them is being transcribed, and the next one follows. */
    busy = false;
    /** @type {string[]} names of those that could not be read */
    unread = [];
    /** @type {string[]} names of those in which no word was heard */
    silent = [];

    get length() {
        return this.#files.length;
    }

    /** All that came together, those that are done too. */
    get total() {
        return this.begun + this.#files.length;
    }

    /** @param {Iterable<File>} files @returns {number} how many there was no room for */
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
