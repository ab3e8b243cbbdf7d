// Keeps transcripts while the tab is open, if the user wants the browser to keep none, or it cannot keep any.

/** The same as a BrowserHome, in memory. Drops the oldest transcript when there are too many. */
export class TabHome {
    /** @type {Map<string, any>} */
    #records = new Map();
    /** @type {Map<string, any[]>} by store and id */
    #rows = new Map();
    #most;

    /** @param {number} [most] how many transcripts are kept */
    constructor(most = 100) {
        this.#most = most;
    }

    /** @param {import("./browser-home.js").Entry[]} entries */
    async write(entries) {
        for (const [store, key, value] of entries) {
            if (typeof key === "string") {
                this.#records.set(key, value);
                continue;
            }
            const [id, number] = key;
            const rows = this.#rows.get(`${store} ${id}`) ?? [];
            if (value === undefined) rows.length = Math.min(rows.length, number);
            else rows[number] = value;
            this.#rows.set(`${store} ${id}`, rows);
        }
        const [oldest] = this.#records.keys();
        if (this.#records.size > this.#most) await this.erase(oldest);
    }

    async records() {
        return [...this.#records.values()];
    }

    /** @param {string} id */
    async record(id) {
        return this.#records.get(id);
    }

    /** @param {string} store @param {string} id */
    async rows(store, id) {
        return [...(this.#rows.get(`${store} ${id}`) ?? [])];
    }

    /** @param {string} id */
    async erase(id) {
        this.#records.delete(id);
        for (const store of ["segments", "sound", "picture"]) this.#rows.delete(`${store} ${id}`);
    }
}
