/**
 * What was given to a session, as far as it may be needed again: sound, and where flushes and the end stand in it.
 *
 * Pure. Places are bytes of sound since the start. Sound is kept until the service has it and until nothing in it can
 * become part of a final any more: the first is for a connection that is lost, the second for a service that is.
 */

/** Times are rounded: so much more is kept than what was heard. */
const MARGIN_MS = 100;
const SAMPLE_BYTES = new Map(Object.entries({pcm_s16le: 2, pcm_f32le: 4, mulaw: 1, alaw: 1}));

/**
 * @typedef {{sound: Uint8Array, begin: number}
 *     | {flush: number, begin: number}
 *     | {stop: true, begin: number}} Entry
 */

export class Tape {
    /** @type {Entry[]} */
    #entries = [];
    #next = 0; // of the entries, the one to be sent next
    #skip = 0; // bytes of it that are not to be sent
    #begin = 0; // where the first entry begins
    #end = 0;
    #flushes = 0;
    #heard = 0; // what the service is known to have
    #settled = 0; // what is not needed for another session

    /**
     * @param {number} sampleRate
     * @param {number} frameBytes one sample of every channel
     */
    constructor(sampleRate, frameBytes) {
        this.sampleRate = sampleRate;
        this.frameBytes = frameBytes;
    }

    /** For the sound that these options of a session declare. @param {Record<string, any>} options @returns {Tape} */
    static of({encoding = "pcm_s16le", sample_rate = 16_000, channels = 1}) {
        return new Tape(sample_rate, (SAMPLE_BYTES.get(encoding) ?? 2) * channels);
    }

    /** Where the sound ends, in bytes. */
    get end() {
        return this.#end;
    }

    /** How many flushes were asked for. */
    get flushes() {
        return this.#flushes;
    }

    /** Bytes of sound that are not known to have arrived. */
    get unheard() {
        return this.#end - this.#heard;
    }

    /** Bytes of sound that are to be sent. */
    get unsent() {
        const next = this.next();
        return next ? this.#end - next.begin : 0;
    }

    /** Bytes of sound that are kept. */
    get kept() {
        return this.#end - this.#begin;
    }

    /** @param {number} place @returns {number} milliseconds */
    milliseconds(place) {
        return (place / this.frameBytes / this.sampleRate) * 1000;
    }

    /** @param {number} milliseconds @returns {number} the place of a sample */
    place(milliseconds) {
        return Math.floor((milliseconds * this.sampleRate) / 1000) * this.frameBytes;
    }

    /** @param {Uint8Array} sound more of it; it is kept as it is */
    add(sound) {
        this.#entries.push({sound, begin: this.#end});
        this.#end += sound.length;
    }

    /** A flush is asked for here. @returns {number} its number, from 0 */
    flush() {
        this.#entries.push({flush: this.#flushes, begin: this.#end});
        return this.#flushes++;
    }

    /** This was all. */
    stop() {
        this.#entries.push({stop: true, begin: this.#end});
    }

    /** What is to be sent next. @returns {Entry | undefined} */
    next() {
        const entry = this.#entries[this.#next];
        if (!entry || !("sound" in entry) || this.#skip === 0) return entry;
        return {sound: entry.sound.subarray(this.#skip), begin: entry.begin + this.#skip};
    }

    /** The next entry has been sent over the present connection. */
    sent() {
        this.#next += 1;
        this.#skip = 0;
    }

    /** The service has this much. @param {number} milliseconds */
    heard(milliseconds) {
        this.#heard = Math.max(this.#heard, Math.min(this.place(milliseconds), this.#end));
        this.#forget();
    }

    /** Nothing before this is needed by another session. @param {number} place */
    settled(place) {
        this.#settled = Math.max(this.#settled, Math.min(place, this.#end));
        this.#forget();
    }

    /** A flush has been answered. @param {number} number */
    flushed(number) {
        this.#entries = this.#entries.filter((entry, index) => {
            const answered = "flush" in entry && entry.flush <= number;
            if (answered && index < this.#next) this.#next -= 1;
            return !answered;
        });
    }

    /**
     * A connection begins: what follows this place and so many flushes is to be sent.
     * @param {number} place
     * @param {number} flushes
     * @returns {boolean} whether it is here
     */
    rewind(place, flushes) {
        if (!(place >= this.#begin && place <= this.#end)) return false;
        this.#next = this.#entries.findIndex((entry) => {
            if ("sound" in entry) return entry.begin + entry.sound.length > place;
            return "stop" in entry || entry.flush >= flushes;
        });
        if (this.#next < 0) this.#next = this.#entries.length;
        const first = this.#entries[this.#next];
        this.#skip = first && "sound" in first ? Math.max(0, place - first.begin) : 0;
        return true;
    }

    #forget() {
        const needed = Math.min(this.#heard - this.place(MARGIN_MS), this.#settled);
        let forgotten = 0;
        while (forgotten < this.#next) {
            const entry = this.#entries[forgotten];
            // An unanswered flush keeps what is behind it; it is answered soon.
            if (!("sound" in entry) || entry.begin + entry.sound.length > needed) break;
            this.#begin = entry.begin + entry.sound.length;
            forgotten += 1;
        }
        this.#entries.splice(0, forgotten);
        this.#next -= forgotten;
    }
}
