// What was said so far, and its sound: of one recording, or of several goes at speaking, one after the other. Pure.

const RATE = 16000;
// The sound of so much speech is kept, to be played again and to be sent again: 58 MB.
export const KEPT_MS = 30 * 60_000;

export class Sheet {
    /** Where the present session began in the whole, and with which segment. */
    #beginMs = 0;
    #firstSegment = 0;
    #samples = 0;
    #pieces = [];
    #whole = true;
    #heardMs = 0;

    /** @param {string} file the name of the recording; none if it was spoken here */
    constructor(file = "") {
        this.file = file;
        this.segments = [];
        this.durationMs = 0;
    }

    /** A session begins that hears the sound from this time on. */
    begin(fromMs = this.durationMs) {
        this.#beginMs = fromMs;
        this.#firstSegment = this.segments.length;
    }

    /** Sound of the microphone. */
    hear(samples) {
        this.#samples += samples.length;
        this.durationMs = (this.#samples * 1000) / RATE;
        if (this.durationMs > KEPT_MS) [this.#whole, this.#pieces] = [false, []];
        else this.#pieces.push(samples);
    }

    /** All sound of the microphone; null if it became too much to keep. */
    get sound() {
        return this.#whole ? this.#pieces : null;
    }

    /** The sound that is not part of a final, from `settledMs` on. */
    get unsettled() {
        const [rest, from] = [[], Math.floor((this.settledMs * RATE) / 1000)];
        let begin = 0;
        for (const piece of this.#pieces) {
            if (begin + piece.length > from) rest.push(piece.subarray(Math.max(0, from - begin)));
            begin += piece.length;
        }
        return rest;
    }

    /** What is before this is final. */
    get settledMs() {
        return this.segments.at(-1)?.end_ms ?? 0;
    }

    /** How far the recogniser is. */
    get heardMs() {
        return this.#heardMs;
    }

    /** A message of the session with the times and segments of the whole; finals are kept. */
    take(message) {
        const taken = {...message};
        for (const name of ["start_ms", "end_ms", "audio_ms", "at_ms"]) {
            if (name in taken) taken[name] += this.#beginMs;
        }
        if ("segment" in taken) taken.segment += this.#firstSegment;
        taken.words = taken.words?.map((word) => ({
            ...word,
            start_ms: word.start_ms + this.#beginMs,
            end_ms: word.end_ms + this.#beginMs,
        }));
        if ("audio_ms" in taken) this.#heardMs = Math.max(this.#heardMs, taken.audio_ms);
        if (taken.type === "final") this.segments.push(taken);
        if (taken.type === "done") this.durationMs = Math.max(taken.audio_ms, this.#samples * 1000 / RATE);
        return taken;
    }

    /** The name under which it is saved, without its ending. */
    get title() {
        if (this.file) return this.file.replace(/\.[^.]+$/, "");
        const now = new Date();
        const two = (number) => String(number).padStart(2, "0");
        const day = [now.getFullYear(), two(now.getMonth() + 1), two(now.getDate())].join("-");
        return `speech ${day} ${two(now.getHours())}.${two(now.getMinutes())}`;
    }
}
