/** Measures how long audio takes to become text. Pure. */

/** How many of the last results count. */
const RECENT = 21;

export class Delay {
    /** @type {{endMs: number, at: number}[]} audio that was sent and has no result yet */
    #given = [];
    /** @type {number[]} */
    #recent = [];

    /** The median of the last results, in milliseconds; 0 if there is none. */
    get median() {
        const sorted = [...this.#recent].sort((a, b) => a - b);
        return sorted.length ? Math.round(sorted[sorted.length >> 1]) : 0;
    }

    /** Since when audio has waited for its result. @returns {number} */
    get waitingSince() {
        return this.#given.length ? this.#given[0].at : Infinity;
    }

    /** @param {number} endMs the end of the audio so far @param {number} now */
    given(endMs, now) {
        this.#given.push({endMs, at: now});
    }

    /**
     * Notes that this much audio was recognised.
     * @param {number} ms @param {number} now @param {boolean} shown whether there is text for it
     */
    heard(ms, now, shown) {
        let number = this.#given.findIndex((each) => each.endMs > ms + 1);
        if (number < 0) number = this.#given.length;
        const last = this.#given.splice(0, number).pop();
        if (!last || !shown) return;
        this.#recent.push(now - last.at);
        if (this.#recent.length > RECENT) this.#recent.shift();
    }
}
