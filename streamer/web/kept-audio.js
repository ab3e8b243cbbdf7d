/**
 * Keeps the audio, the flushes and the stop of a session as long as the client may have to send them again. Pure.
 *
 * Audio is kept until no later final can contain any of it, because another session of the service may have to
 * recognise it again. docs/reference/protocol.md says what a client must keep. streamer/client/sending.py is the
 * same code for the Python client. Places are bytes of audio since the start of the session.
 */

/** The longest segment, unless the options say otherwise. */
const LONGEST_MS = 20_000;
/** A later final may contain audio that is older by this much than the last audio with a result. */
const LAG_MS = 10_000;
/** How much audio the service may lack. Further audio is dropped. */
export const MOST_UNHEARD_MS = 300_000;
/** Bytes of audio in one message. */
const LARGEST_MESSAGE = 32_768;
/** A sample of silence. */
const SILENCE = new Map(Object.entries({pcm_s16le: [0, 0], pcm_f32le: [0, 0, 0, 0], mulaw: [0xff], alaw: [0xd5]}));

/**
 * @typedef {{audio: Uint8Array, begin: number}
 *     | {flush: number, begin: number}
 *     | {stop: true, begin: number}} Entry
 */

/**
 * Returns how old the oldest audio of a new final may be, in a session with these options.
 * @param {Record<string, any>} options @returns {number} milliseconds
 */
export function windowMs(options) {
    const longest = options.endpoint?.longest_ms;
    return (typeof longest === "number" ? longest : LONGEST_MS) + LAG_MS;
}

export class KeptAudio {
    /** @type {Entry[]} in order */
    #entries = [];
    #next = 0; // index of the entry to be sent next
    #skip = 0; // bytes at its beginning that are not to be sent
    #begin = 0; // place of the first audio that is kept
    #dropped = 0; // this many first flushes were dropped, answered or not
    #end = 0;
    #flushes = 0;
    #answered = 0; // this many flushes were answered
    // Where the service's present session began, and from where on it gets the audio of each channel, not silence.
    #origin = 0;
    #originFlushes = 0;
    #cuts = [0];
    #sampleRate;
    #frameBytes; // one sample of every channel
    #silence;
    #most;

    /** @param {Record<string, any>} options of the session */
    constructor(options) {
        const {encoding = "pcm_s16le", sample_rate = 16_000, channels = 1} = options;
        this.#silence = SILENCE.get(encoding) ?? [0, 0];
        this.#sampleRate = sample_rate;
        this.#frameBytes = this.#silence.length * channels;
        this.#most = this.#place(windowMs(options) + MOST_UNHEARD_MS);
    }

    /** The number of flushes that the caller has asked for. */
    get flushes() {
        return this.#flushes;
    }

    /** The time at which the audio of the caller ends. */
    get givenMs() {
        return this.milliseconds(this.#end);
    }

    /** The time up to which audio was sent over the present connection. */
    get sentMs() {
        const entry = this.#entries[this.#next];
        return this.milliseconds(entry ? entry.begin + this.#skip : this.#end);
    }

    /** The length of the audio that is kept. */
    get keptMs() {
        return this.milliseconds(this.#end - this.#begin);
    }

    /** @param {number} place @returns {number} its time */
    milliseconds(place) {
        return (place * 1000) / (this.#frameBytes * this.#sampleRate);
    }

    /** @param {Uint8Array} audio more audio, which is copied */
    add(audio) {
        for (let at = 0; at < audio.length; at += LARGEST_MESSAGE) {
            const piece = audio.slice(at, at + LARGEST_MESSAGE);
            this.#entries.push({audio: piece, begin: this.#end});
            this.#end += piece.length;
        }
        // This happens only if a service does not report what it has recognised. It cannot ask for the dropped audio.
        while (this.#end - this.#begin > this.#most && this.#next > 0) this.#drop(1);
    }

    /** Adds a flush at the present end of the audio. @returns {number} its number, from 0 */
    flush() {
        this.#entries.push({flush: this.#flushes, begin: this.#end});
        return this.#flushes++;
    }

    /** Adds the end of the session. */
    stop() {
        this.#entries.push({stop: true, begin: this.#end});
    }

    /** Returns the next entry to send. @returns {Entry | undefined} undefined if everything was sent */
    next() {
        const entry = this.#entries[this.#next];
        if (!entry || !("audio" in entry)) return entry;
        const begin = entry.begin + this.#skip;
        return {audio: this.#silenced(entry.audio.subarray(this.#skip), begin), begin};
    }

    /** Notes that the next entry was sent over the present connection. */
    sent() {
        this.#next += 1;
        this.#skip = 0;
    }

    /** Notes that no later final contains audio from before this time. @param {number} ms */
    letGo(ms) {
        const place = Math.min(this.#place(ms), this.#end);
        let number = 0;
        for (; number < this.#next; number++) {
            const entry = this.#entries[number];
            // A flush without an answer keeps everything after it. Its answer comes soon.
            if (!("audio" in entry) || entry.begin + entry.audio.length > place) break;
        }
        this.#drop(number);
    }

    /** Notes that this many flushes have been answered. @param {number} flushes */
    answered(flushes) {
        if (flushes <= this.#answered) return;
        this.#answered = flushes;
        const sent = this.#entries.slice(0, this.#next);
        this.#next -= sent.filter((entry) => isFlushBefore(entry, flushes)).length;
        this.#entries = this.#entries.filter((entry) => !isFlushBefore(entry, flushes));
    }

    /**
     * Continues over another connection. The service has these numbers of samples and flushes.
     * @param {number} fromSample @param {number} flushes
     * @returns {boolean} whether everything that comes after them is kept
     */
    resume(fromSample, flushes) {
        return this.#rewind(this.#origin + fromSample * this.#frameBytes, this.#originFlushes + flushes);
    }

    /**
     * Continues in another session of the service, which gets each channel from its cut on. It begins at the earliest
     * cut. A channel with a later cut gets silence before it, because its words up to there are final.
     * @param {number[]} cutsMs
     * @returns {number | null} the time at which it begins; null if its audio is not kept any more
     */
    restart(cutsMs) {
        const cuts = cutsMs.map((ms) => this.#place(ms));
        const origin = Math.min(...cuts);
        if (!this.#rewind(origin, this.#answered)) return null;
        this.#origin = origin;
        this.#originFlushes = this.#answered;
        this.#cuts = cuts;
        return this.milliseconds(origin);
    }

    /** @param {number} place @param {number} flushes what follows is sent again @returns {boolean} if it is kept */
    #rewind(place, flushes) {
        if (!(place >= this.#begin && place <= this.#end) || flushes < this.#dropped) return false;
        this.#next = this.#entries.findIndex((entry) => {
            if ("audio" in entry) return entry.begin + entry.audio.length > place;
            return entry.begin >= place && !isFlushBefore(entry, flushes);
        });
        if (this.#next < 0) this.#next = this.#entries.length;
        const first = this.#entries[this.#next];
        this.#skip = first && "audio" in first ? Math.max(0, place - first.begin) : 0;
        return true;
    }

    /** @param {Uint8Array} audio @param {number} begin @returns {Uint8Array} with silence where a channel needs it */
    #silenced(audio, begin) {
        if (begin >= Math.max(...this.#cuts)) return audio;
        const changed = audio.slice();
        const width = this.#silence.length;
        this.#cuts.forEach((cut, channel) => {
            const end = Math.min(audio.length, cut - begin);
            for (let at = 0; at < end; at++) {
                const byte = ((begin + at) % this.#frameBytes) - channel * width;
                if (byte >= 0 && byte < width) changed[at] = this.#silence[byte];
            }
        });
        return changed;
    }

    /** @param {number} ms @returns {number} the place of the sample at this time */
    #place(ms) {
        return Math.floor((ms * this.#sampleRate) / 1000) * this.#frameBytes;
    }

    /** @param {number} number of the first entries */
    #drop(number) {
        for (const entry of this.#entries.splice(0, number)) {
            if ("audio" in entry) this.#begin += entry.audio.length;
            else if ("flush" in entry) this.#dropped = entry.flush + 1;
        }
        this.#next -= number;
    }
}

/** @param {Entry} entry @param {number} flushes */
function isFlushBefore(entry, flushes) {
    return "flush" in entry && entry.flush < flushes;
}
