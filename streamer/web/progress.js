/**
 * Turns the messages of the service's sessions into the events of one session of the client. Pure.
 *
 * A session of the client may use several sessions of the service, one after the other. Their messages become events
 * with the times, segments and numbers of one session, and messages that come again after a restart are left out.
 * streamer/client/recovery.py is the same code for the Python client.
 */

import {windowMs} from "./kept-audio.js";

/** @typedef {import("./connection.js").Message} Message */

/** Two changes of a turn are further apart than this. A repeated change may have a slightly different time. */
const TURN_MS = 20;
/** Fields in milliseconds that are durations, not times. */
const DURATIONS = ["gap_ms", "unrecognised_ms", "pause_ms"];

export class Progress {
    /** The number of the last message; `ready` has the number 1. */
    seen = 1;
    heardMs = 0;
    /** The number of answered flushes. */
    flushes = 0;
    /** @type {Message | null} */
    done = null;
    /** How often the recogniser has failed since the last final. */
    failures = 0;
    #multichannel;
    /** @type {Channel[]} */
    #channels;
    /**
     * A service that ends a session itself ends its segments, perhaps within a word. Such a final is held back, with
     * all messages after it: another session recognises its audio again.
     * @type {Message[]}
     */
    #held = [];
    #fromMs = 0; // the time in our session at which the service's present session began
    #n = 0; // what is added to the numbers of its messages
    /** @type {WeakMap<Message, object>} the contexts of finals, which are not for readers */
    #contexts = new WeakMap();

    /** @param {Record<string, any>} options of the session */
    constructor(options) {
        const {multichannel = false, channels = 1} = options;
        this.#multichannel = multichannel;
        this.#channels = Array.from({length: multichannel ? channels : 1}, () => new Channel(windowMs(options)));
    }

    /** For each channel, the time from which on audio may still become part of a final. */
    get cutsMs() {
        return this.#channels.map(({cutMs}) => cutMs);
    }

    /** For each channel, the words before its cut; empty if the service has sent none. */
    get contexts() {
        const found = this.#channels.map(({context}) => context);
        return found.some((context) => context !== null) ? found : [];
    }

    /** @param {Message} final @returns {object | null} the words before its cut, for another session */
    contextOf(final) {
        return this.#contexts.get(final) ?? null;
    }

    /** The number that the service itself gave to the last message. */
    get after() {
        return this.seen - this.#n;
    }

    /**
     * @param {Message} received
     * @returns {Message[]} the messages to pass on
     */
    receive(received) {
        const message = this.#shifted(received);
        const numbered = typeof message.n === "number";
        if (numbered) {
            if (message.n <= this.seen) return [];
            this.seen = message.n;
        }
        this.heardMs = Math.max(this.heardMs, message.audio_ms ?? 0);
        if (this.#held.length > 0 || message.abrupt) {
            this.#held.push(message);
            return [];
        }
        const told = this.#told([message]);
        if (told.length === 0 && numbered) {
            // This message was passed on before a restart. So the next message gets its number.
            this.seen -= 1;
            this.#n -= 1;
        }
        return told;
    }

    /** No other session goes on. @returns {Message[]} the messages that were held back, to pass them on */
    release() {
        return this.#told(this.#held.splice(0));
    }

    /**
     * Goes on in another session of the service.
     * @param {number} fromMs the time from which it goes on
     * @returns {Message[]} an event `restarted` for each channel
     */
    restart(fromMs) {
        // The service recognises the audio of the messages that were held back again, so their numbers are free.
        for (const {n} of this.#held.splice(0)) if (typeof n === "number") this.seen = Math.min(this.seen, n - 1);
        this.heardMs = this.#fromMs = fromMs;
        return this.#channels.map((channel, number) => {
            // The last of these events takes the number of the new session's `ready`.
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
            if (message.type === "final") this.failures = 0;
            delete message.abrupt;
            if (message.type === "final" && message.context) this.#contexts.set(message, message.context);
            if (message.type === "done") this.done = message;
            return this.#concerned(message).every((channel) => channel.tell(message));
        });
    }

    /** @param {Message} message @returns {Channel[]} */
    #concerned(message) {
        const own = this.#channels[message.channel];
        return own ? [own] : this.#channels;
    }

    /** @template {Message} M @param {M} message of the service @returns {M} in our times, segments and numbers */
    #shifted(message) {
        if (this.#n === 0) return message;
        const moved = /** @type {any} */ (later(message, this.#fromMs));
        if (message.type === "head") moved.content = message.content; // only its head knows what is a time in it
        if (typeof moved.n === "number") moved.n += this.#n;
        if (typeof moved.segment === "number") moved.segment += this.#concerned(moved)[0].firstSegment;
        return moved;
    }
}

/** The progress of one channel, or of all channels if they are mixed. */
class Channel {
    cutMs = 0;
    /** @type {object | null} of the last final; with it, another session writes the next words in the same way */
    context = null;
    /** The number of the first segment in the service's present session. */
    firstSegment = 0;
    #heardMs = 0;
    #windowMs;
    #segments = 0;
    #speaking = false;
    #changedMs = -1; // when `#speaking` last changed
    /** @type {Map<string, number>} the time of the last event of each head */
    #headsMs = new Map();
    /** @type {Map<string, number>} after a restart: events of heads up to these times come again */
    #headsAgainUntilMs = new Map();
    /** @type {number | null} after a restart: changes up to this time come again */
    #againUntilMs = null;
    /** The segment and the time of the last event about a turn. */
    #turn = {segment: -1, audio_ms: 0};

    /** @param {number} windowMs a final never contains audio that is older than this */
    constructor(windowMs) {
        this.#windowMs = windowMs;
    }

    /** Goes on at the cut in another session of the service. @returns {number} the number of its first segment */
    restart() {
        this.firstSegment = this.#segments;
        this.#againUntilMs = this.#changedMs;
        this.#headsAgainUntilMs = new Map(this.#headsMs);
        return this.firstSegment;
    }

    /** @param {Message} message @returns {boolean} whether to pass it on; false if it was passed on before */
    tell(message) {
        if (message.type === "speech") return this.#tellSpeech(message);
        if (message.type === "turn" && !this.#tellTurn(message)) return false;
        if (message.type === "head") return this.#tellHead(message);
        if (message.type === "final") {
            this.#segments += 1;
            this.context = message.context ?? null; // without one, nothing before it counts
            delete message.context;
        }
        const cutMs = (message.type === "flushed" ? message.audio_ms : message.cut_ms) ?? 0;
        this.#heardMs = Math.max(this.#heardMs, message.audio_ms ?? 0);
        this.cutMs = Math.max(this.cutMs, cutMs, this.#heardMs - this.#windowMs);
        return true;
    }

    /** @param {Message} event */
    #tellHead(event) {
        if (event.at_ms <= (this.#headsAgainUntilMs.get(event.name) ?? -1)) return false;
        this.#headsMs.set(event.name, event.at_ms);
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

    /** @param {Message} turn */
    #tellTurn(turn) {
        const {segment, audio_ms} = this.#turn;
        if (turn.segment < segment || (turn.segment === segment && turn.audio_ms < audio_ms + TURN_MS)) return false;
        this.#turn = {segment: turn.segment, audio_ms: turn.audio_ms};
        return true;
    }
}

/** @param {any} value @param {number} ms @returns {any} a copy in which all times are later by this much */
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
