// Keeps transcripts longer than the tab is open, in a database of the browser (IndexedDB).

const NAME = "streamer";
const VERSION = 1;
/** The stores for each transcript besides its record: its segments, its sound in pieces, and its waveform. */
const ROWS = ["segments", "sound", "picture"];
const OPEN_MS = 5_000;

/** @typedef {[store: string, key: string | [string, number], value: any]} Entry */

/** Rows have the transcript's id and a number as key. Every method rejects if the browser cannot keep anything. */
export class BrowserHome {
    /** @type {Promise<IDBDatabase> | null} */
    #database = null;

    /** Writes all of these entries or none; one without a value removes what is there. @param {Entry[]} entries @returns {Promise<void>} */
    async write(entries) {
        const stores = [...new Set(entries.map(([store]) => store))];
        const transaction = (await this.#open()).transaction(stores, "readwrite", {durability: "relaxed"});
        for (const [store, key, value] of entries) {
            if (value === undefined) transaction.objectStore(store).delete(key);
            else transaction.objectStore(store).put(value, key);
        }
        transaction.commit(); // from here on it is done even if the page closes
        await ended(transaction);
    }

    /** @returns {Promise<any[]>} the record of every transcript */
    async records() {
        return answer((await this.#open()).transaction("records").objectStore("records").getAll());
    }

    /** @param {string} id @returns {Promise<any>} undefined if there is none */
    async record(id) {
        return answer((await this.#open()).transaction("records").objectStore("records").get(id));
    }

    /** @param {string} store @param {string} id @returns {Promise<any[]>} in order */
    async rows(store, id) {
        return answer((await this.#open()).transaction(store).objectStore(store).getAll(of(id)));
    }

    /** @param {string} id @returns {Promise<void>} */
    async erase(id) {
        const transaction = (await this.#open()).transaction(["records", ...ROWS], "readwrite");
        transaction.objectStore("records").delete(id);
        for (const store of ROWS) transaction.objectStore(store).delete(of(id));
        await ended(transaction);
    }

    /** @returns {Promise<IDBDatabase>} */
    #open() {
        this.#database ??= new Promise((resolve, reject) => {
            // Some private windows never answer.
            const timer = setTimeout(() => reject(new Error("The browser's database does not open.")), OPEN_MS);
            const request = indexedDB.open(NAME, VERSION);
            request.onupgradeneeded = () => {
                for (const store of ["records", ...ROWS]) request.result.createObjectStore(store);
            };
            request.onsuccess = () => {
                clearTimeout(timer);
                // A newer version of the page in another tab wants to change the database.
                request.result.onversionchange = () => this.#forget(request.result);
                request.result.onclose = () => (this.#database = null);
                resolve(request.result);
            };
            request.onerror = () => reject(request.error);
        });
        this.#database.catch(() => (this.#database = null));
        return this.#database;
    }

    /** @param {IDBDatabase} database */
    #forget(database) {
        database.close();
        this.#database = null;
    }
}

/** @param {string} id all rows of this transcript */
function of(id) {
    return IDBKeyRange.bound([id], [id, []]);
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function answer(request) {
    return new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
}

/** @param {IDBTransaction} transaction @returns {Promise<void>} */
function ended(transaction) {
    return new Promise((resolve, reject) => {
        transaction.oncomplete = () => resolve();
        transaction.onabort = () => reject(transaction.error);
        transaction.onerror = () => reject(transaction.error);
    });
}
