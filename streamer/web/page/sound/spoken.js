// The sound of the microphone that belongs to a sheet, to play it and to send it again. Pure.

const RATE = 16000;
// Up to this length, all sound of speech is kept: 58 MB.
const KEPT_MS = 30 * 60_000;
// Of longer speech, only this much of the end is kept, to send it again.
const REST_MS = 120_000;

export class SpokenSound {
    /** The number of samples so far. */
    samples = 0;
    #pieces = [];
    /** The number of the first sample in the pieces, and the earlier sound if it comes from the history. */
    #from = 0;
    #before = null;
    #whole = true;

    /** @param {number} [samples] how much was spoken before @param {Blob | null} [before] it as a WAV file, if kept */
    constructor(samples = 0, before = null) {
        [this.samples, this.#from, this.#before] = [samples, samples, before?.slice(44) ?? null];
        this.#whole = samples === 0 || this.#before?.size === 2 * samples;
    }

    /** How long it is. */
    get durationMs() {
        return (this.samples * 1000) / RATE;
    }

    /** All of it, in pieces. Null if it was too much to keep. */
    get pieces() {
        if (!this.#whole || !this.samples) return null;
        return this.#before ? [this.#before, ...this.#pieces] : this.#pieces;
    }

    /** @param {Int16Array} samples more of it */
    hear(samples) {
        this.#pieces.push(samples);
        this.samples += samples.length;
        if (this.durationMs > KEPT_MS) [this.#whole, this.#before] = [false, null];
        // The sound that the page may have to send again stays.
        const needed = this.samples - REST_MS * (RATE / 1000);
        while (!this.#whole && this.#from + this.#pieces[0].length < needed) this.#from += this.#pieces.shift().length;
    }

    /** What was spoken in this visit after this time, in pieces. @param {number} ms */
    after(ms) {
        const [rest, from] = [[], Math.floor((ms * RATE) / 1000)];
        let begin = this.#from;
        for (const piece of this.#pieces) {
            if (begin + piece.length > from) rest.push(piece.subarray(Math.max(0, from - begin)));
            begin += piece.length;
        }
        return rest;
    }
}
