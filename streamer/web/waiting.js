/** The promises of a session. Each resolves when its condition holds, and rejects if the session ends before. */

export class Waiting {
    /** @type {Set<{holds: () => boolean, resolve: () => void, reject: (error: Error) => void}>} */
    #all = new Set();

    /** @param {() => boolean} holds the condition, checked with each `look` @returns {Promise<void>} */
    until(holds) {
        /** @type {Promise<void>} */
        const promise = new Promise((resolve, reject) => {
            this.#all.add({holds, resolve, reject});
        });
        promise.catch(() => {}); // the end of a session is also an event, so nobody has to handle this
        return promise;
    }

    /** Checks the conditions. @param {Error | null} [error] why nothing will change any more */
    look(error = null) {
        for (const each of this.#all) {
            const holds = each.holds();
            if (!holds && !error) continue;
            this.#all.delete(each);
            if (holds || !error) each.resolve();
            else each.reject(error);
        }
    }
}
