/**
 * How far a session has got, over several sessions of the service if need be: what was told, and what may come again.
 *
 * Pure: messages of the service in; events out, in the times, segments and numbers of one session. The Python client has
 * the same in streamer/client/progress.py.
 */

import {windowMs} from "./kept-audio.js";

/** @typedef {import("./connection.js").Message} Message */

/** A final whose last word ends so shortly before what was heard was not ended by a pause. */
const ABRUPT_MS = 400;
/** Milliseconds that are no times of the audio. */
const DURATIONS = ["gap_ms", "unrecognised_ms"];

export class Progress {
    /** The number of the last message; the first is the greeting. */
    seen = 1;
    heardMs = 0;
    /** How many were answered. */
    flushes = 0;
    /** @type {Message | null} */
    done = null;
    /** How often the service's session was replaced since the last final. */
    restarts = 0;
    #multichannel;
    /** @type {Channel[]} */
    #channels;
    #doubtful = new Doubtful();
    #fromMs = 0; // where the service's present session began in ours,
    #n = 0; // and what is added to its numbers

    /** @param {Record<string, any>} options of the session */
    constructor(options) {
        const {multichannel = false, channels = 1} = options;
        this.#multichannel = multichannel;
        this.#channels = Array.from({length: multichannel ? channels : 1}, () => new Channel(windowMs(options)));
    }

    /** For each channel, from where on audio may become part of a final: another session would begin there. */
    get cutsMs() {
        return this.#channels.map(({cutMs}) => cutMs);
    }

    /** The service's own number of the last message. */
    get after() {
        return this.seen - this.#n;
    }

    /** Whether something waits to be told because the service may be about to end the session. */
    get doubtful() {
        return this.#doubtful.kept.length > 0;
    }

    /**
     * @param {Message} received
     * @param {boolean} asked whether the client has asked for the end of a segment
     * @returns {Message[]} what may be told now
     */
    receive(received, asked) {
        const message = this.#shifted(received);
        const numbered = typeof message.n === "number";
        if (numbered) {
            if (message.n <= this.seen) return [];
            this.seen = message.n;
        }
        this.heardMs = Math.max(this.heardMs, message.audio_ms ?? 0);
        if (this.#doubtful.keep(message, asked)) return [];
        const told = [...this.believe(), ...this.#told([message])];
        if (told.length === 0 && numbered) {
            // It was told before a restart: the next one has its number.
            this.seen -= 1;
            this.#n -= 1;
        }
        return told;
    }

    /** The service goes on. @returns {Message[]} what may be told now of that which was doubtful */
    believe() {
        return this.#told(this.#doubtful.take());
    }

    /**
     * Another session of the service goes on.
     * @param {number} fromMs from there
     * @returns {Message[]} the events that say so, one for each channel
     */
    restart(fromMs) {
        // What was not told is heard again: its numbers are free.
        for (const {n} of this.#doubtful.take()) if (typeof n === "number") this.seen = Math.min(this.seen, n - 1);
        this.restarts += 1;
        this.heardMs = this.#fromMs = fromMs;
        return this.#channels.map((channel, number) => {
            // The last of these events has the number of the new greeting.
            this.#n = this.seen;
            this.seen += 1;
            const event = {type: "restarted", n: this.seen, fromMs: channel.cutMs, segment: channel.restart()};
            return this.#multichannel ? {...event, channel: number} : event;
        });
    }

    /** @param {Message[]} messages */
    #told(messages) {
        return messages.filter((message) => {
            if (message.type === "flushed") this.flushes += 1;
            if (message.type === "final") this.restarts = 0;
            if (message.type === "done") this.done = message;
            return this.#concerned(message).every((channel) => channel.tell(message));
        });
    }

    /** @param {Message} message @returns {Channel[]} */
    #concerned(message) {
        return "channel" in message ? [this.#channels[message.channel]] : this.#channels;
    }

    /** @template {Message} M @param {M} message of the service @returns {M} in our times, segments and numbers */
    #shifted(message) {
        if (this.#n === 0) return message;
        const moved = /** @type {any} */ (later(message, this.#fromMs));
        if (typeof moved.n === "number") moved.n += this.#n;
        if (typeof moved.segment === "number") moved.segment += this.#concerned(moved)[0].firstSegment;
        return moved;
    }
}

/** What was told of one channel, or of all of them if they are mixed. */
class Channel {
    cutMs = 0;
    /** Of the service's present session. */
    firstSegment = 0;
    #heardMs = 0;
    #windowMs;
    #segments = 0;
    #speaking = false;
    #changedMs = -1; // when that last changed
    /** @type {number | null} what comes again of that after a restart */
    #againUntilMs = null;

    /** @param {number} windowMs no final has audio in it from so long before what was heard */
    constructor(windowMs) {
        this.#windowMs = windowMs;
    }

    /** Another session of the service goes on at the cut. @returns {number} its first segment */
    restart() {
        this.firstSegment = this.#segments;
        this.#againUntilMs = this.#changedMs;
        return this.firstSegment;
    }

    /** @param {Message} message what is about to be told @returns {boolean} false if it was told before */
    tell(message) {
        if (message.type === "speech") return this.#tellSpeech(message);
        if (message.type === "final") this.#segments = message.segment + 1;
        const cutMs = (message.type === "flushed" ? message.audio_ms : message.cut_ms) ?? 0;
        this.#heardMs = Math.max(this.#heardMs, message.audio_ms ?? 0);
        this.cutMs = Math.max(this.cutMs, cutMs, this.#heardMs - this.#windowMs);
        return true;
    }

    /** @param {Message} speech */
    #tellSpeech(speech) {
        const speaking = speech.state === "start";
        const again = this.#againUntilMs;
        if (again !== null && (speech.at_ms <= again || speaking === this.#speaking)) return false;
        this.#speaking = speaking;
        this.#changedMs = speech.at_ms;
        return true;
    }
}

/**
 * Messages from a final on that may have been cut in a word, because the service shuts down: it says so next. They are
 * not told before it is known whether the service goes on; if it does not, another session hears it again.
 */
class Doubtful {
    /** @type {Message[]} */
    kept = [];
    /** @type {Map<number | undefined, number>} of which channels, and how much these had heard */
    #doubts = new Map();

    /**
     * @param {Message} message
     * @param {boolean} asked whether the client has asked for the end of a segment
     * @returns {boolean} whether it is not to be told yet
     */
    keep(message, asked) {
        const {type, channel, audio_ms: heardMs = 0} = message;
        if (type === "final" && !asked && heardMs - message.end_ms < ABRUPT_MS) {
            this.#doubts.set(channel, heardMs);
        } else if (type === "partial") {
            this.#doubts.delete(channel);
        } else if (type === "done") {
            this.#doubts.clear();
        } else if (type !== "final" && type !== "speech") {
            for (const [of, ms] of this.#doubts) if (heardMs > ms) this.#doubts.delete(of);
        }
        if (this.#doubts.size > 0) this.kept.push(message);
        return this.#doubts.size > 0;
    }

    /** What was kept; nothing is any more. @returns {Message[]} */
    take() {
        this.#doubts.clear();
        return this.kept.splice(0);
    }
}

/** @param {any} value @param {number} ms @returns {any} a copy whose times are later */
function later(value, ms) {
    if (Array.isArray(value)) return value.map((each) => later(each, ms));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
        Object.entries(value).map(([name, each]) => {
            const time = typeof each === "number" && name.endsWith("_ms") && !DURATIONS.includes(name);
            return [name, time ? Math.round(each + ms) : later(each, ms)];
        }),
    );
}
