/** Promises that a session has given: each is kept once its condition holds, and broken if the session ends before. */

export class Waiting {
    /** @type {Set<{holds: () => boolean, resolve: () => void, reject: (error: Error) => void}>} */
    #all = new Set();

    /** @param {() => boolean} holds @returns {Promise<void>} to be looked at with the next `look` */
    until(holds) {
        /** @type {Promise<void>} */
        const promise = new Promise((resolve, reject) => {
            this.#all.add({holds, resolve, reject});
        });
        promise.catch(() => {}); // a session's end is an event, too: nobody has to look at this one
        return promise;
    }

    /** Something has changed. @param {Error | null} [error] why nothing will change any more */
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
