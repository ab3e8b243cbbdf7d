/**
 * How far a session has got, over several sessions of the service if need be: what was told, how much was heard, and
 * from where on another session would have to hear it again. Pure.
 */

/** @typedef {import("./connection.js").Message} Message */

/** No segment is longer, unless the options say otherwise. */
const LONGEST_MS = 20_000;
/** How far the recogniser may be behind what it says that it has heard. */
const LAG_MS = 10_000;
/** A final whose last word ends so shortly before what was heard was not ended by a pause. */
const ABRUPT_MS = 400;
/** Milliseconds that are no times of the sound. */
const DURATIONS = ["gap_ms", "unrecognised_ms"];

export class Progress {
    /** The number of the last message. */
    seen = 0;
    heardMs = 0;
    /** How many were answered. */
    flushes = 0;
    /** @type {Message | null} */
    done = null;
    /** How often the service's session was replaced since the last final. */
    restarts = 0;
    #origin = new Origin();
    #settled;
    #doubtful = new Doubtful();

    /** @param {Record<string, any>} options of the session */
    constructor(options) {
        this.#settled = new Settled(options);
    }

    /** From where on sound may become part of a final. */
    get settledMs() {
        return this.#settled.ms;
    }

    /**
     * @param {Message} received
     * @param {boolean} asked whether the end of a segment was asked for
     * @returns {Message[]} what may be told now, in our times, segments and numbers
     */
    receive(received, asked) {
        const message = this.#origin.shifted(received);
        if (typeof message.n === "number") {
            if (message.n <= this.seen) return [];
            this.seen = message.n;
        }
        if (typeof message.audio_ms === "number") this.heardMs = Math.max(this.heardMs, message.audio_ms);
        if (this.#doubtful.keep(message, asked)) return [];
        return [...this.believe(), this.#told(message)];
    }

    /** Nothing has followed the finals that were doubtful. @returns {Message[]} what may be told now */
    believe() {
        return this.#doubtful.take().map((message) => this.#told(message));
    }

    /**
     * Where the service's present session began, and which of its messages was the last.
     * @returns {{place: number, after: number, flushes: number}}
     */
    get present() {
        return {place: this.#origin.place, after: this.seen - this.#origin.n, flushes: this.#origin.flushes};
    }

    /**
     * Another session of the service goes on.
     * @param {number} place @param {number} fromMs the same
     * @returns {number} its first segment
     */
    restart(place, fromMs) {
        this.#doubtful.take(); // it is heard again
        this.restarts += 1;
        this.heardMs = fromMs;
        return this.#origin.begin(place, fromMs, this.flushes, this.seen);
    }

    /** @param {Message} message */
    #told(message) {
        if (message.type === "flushed") this.flushes += 1;
        if (message.type === "final") this.restarts = 0;
        if (message.type === "done") this.done = message;
        this.#origin.told(message);
        this.#settled.told(message, this.heardMs);
        return message;
    }
}

/** Where the service's present session began in ours, which counts on. */
class Origin {
    place = 0;
    flushes = 0;
    /** What is added to the service's numbers. */
    n = 0;
    #ms = 0;
    #segment = 0;
    #nextSegment = 0;

    /**
     * A message of the service in our times, segments and numbers.
     * @template {Message} M @param {M} message @returns {M}
     */
    shifted(message) {
        if (this.n === 0) return message;
        const moved = /** @type {any} */ (shiftTimes(message, this.#ms));
        if (typeof moved.n === "number") moved.n += this.n;
        if (typeof moved.segment === "number") moved.segment += this.#segment;
        return moved;
    }

    /** @param {Message} message in our numbers */
    told(message) {
        if (message.type === "final") this.#nextSegment = message.segment + 1;
    }

    /** @param {number} place @param {number} ms @param {number} flushes @param {number} seen @returns {number} */
    begin(place, ms, flushes, seen) {
        this.place = place;
        this.flushes = flushes;
        this.#ms = ms;
        this.#segment = this.#nextSegment;
        // Its greeting is number 1, and told to nobody.
        this.n = seen - 1;
        return this.#segment;
    }
}

/** From where on sound may become part of a final: a new session would begin there. */
class Settled {
    ms = 0;
    #longestMs;

    /** @param {Record<string, any>} options of the session */
    constructor(options) {
        const longest = options.endpoint?.longest_ms;
        this.#longestMs = typeof longest === "number" ? longest : LONGEST_MS;
    }

    /** @param {Message} message @param {number} heardMs */
    told(message, heardMs) {
        if (message.type === "final") {
            this.#move(message.cut_ms);
        } else if (message.type === "flushed") {
            this.#move(message.audio_ms);
        }
        this.#move(heardMs - this.#longestMs - LAG_MS);
    }

    /** @param {number} ms */
    #move(ms) {
        this.ms = Math.max(this.ms, ms);
    }
}

/**
 * Finals that may have been cut in the middle of a word, because the service shuts down: it says so right after them.
 * They are not told before that is known; another session hears the words again.
 */
class Doubtful {
    /** @type {Message[]} */
    #kept = [];

    /**
     * @param {Message} message
     * @param {boolean} asked whether the end of a segment was asked for
     * @returns {boolean} whether it is kept
     */
    keep(message, asked) {
        const abrupt = message.type === "final" && message.audio_ms - message.end_ms < ABRUPT_MS && !asked;
        const follows = this.#kept.length > 0 && (message.type === "final" || message.type === "speech");
        if (abrupt || follows) this.#kept.push(message);
        return abrupt || follows;
    }

    /** What was kept; nothing is any more. @returns {Message[]} */
    take() {
        return this.#kept.splice(0);
    }
}

/** @param {any} value @param {number} ms @returns {any} a copy whose times are later */
function shiftTimes(value, ms) {
    if (Array.isArray(value)) return value.map((each) => shiftTimes(each, ms));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
        Object.entries(value).map(([name, each]) => {
            const time = typeof each === "number" && name.endsWith("_ms") && !DURATIONS.includes(name);
            return [name, time ? Math.round(each + ms) : shiftTimes(each, ms)];
        }),
    );
}
