// A sheet: the text so far and its sound, of one recording, or of all speech into the microphone. Pure.

import {timedWords} from "./cues.js";
import {joined} from "./joining.js";

const RATE = 16000;
// Up to this length, the sheet keeps all sound of speech, to play it and to send it again: 58 MB.
export const KEPT_MS = 30 * 60_000;
// Of longer speech, the sheet keeps only this much of the end, to send it again.
const REST_MS = 120_000;
const WORD = 80; // bytes of a word with its times, about

export class Sheet {
    /** Where the present session began on the sheet, and the number of its first segment. */
    #beginMs = 0;
    #firstSegment = 0;
    #samples = 0;
    #pieces = [];
    /** The number of the first sample in the pieces, and the earlier sound if the sheet comes from the history. */
    #from = 0;
    #before = null;
    #whole = true;
    #heardMs = 0;

    /** The last partial that the page has shown. */
    #partial = null;
    /**
     * The sound that the history has for this sheet: its kind, its size, and its number of rows.
     * @type {{kind: "" | "file" | "pcm", soundBytes: number, soundRows: number}}
     */
    kept = {kind: "", soundBytes: 0, soundRows: 0};

    /** @param {string} file the name of the recording; empty if it was spoken here */
    constructor(file = "") {
        this.id = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 10)}`;
        this.file = file;
        this.beganAt = Date.now();
        this.name = file ? file.replace(/\.[^.]+$/, "") : `speech ${day(this.beganAt)}`;
        this.segments = [];
        this.durationMs = 0;
        /** Whether work on the sheet goes on. */
        this.open = false;
    }

    /**
     * Makes a sheet from the history.
     * @param {import("../history/history.js").Kept} kept @param {any[]} segments
     * @param {Blob | null} sound what was spoken, as a WAV file
     */
    static of(kept, segments, sound) {
        const sheet = new Sheet(kept.file);
        const {id, name, beganAt, durationMs, kind, soundBytes, soundRows} = kept;
        Object.assign(sheet, {id, name, beganAt, durationMs, segments});
        sheet.kept = {kind, soundBytes, soundRows};
        sheet.#samples = kept.file ? 0 : Math.round((durationMs * RATE) / 1000);
        [sheet.#from, sheet.#before] = [sheet.#samples, sound?.slice(44) ?? null];
        sheet.#whole = sheet.#before?.size === 2 * sheet.#samples;
        sheet.#partial = kept.partial;
        return sheet;
    }

    /** The record that the history stores beside the segments. @returns {import("../history/history.js").Kept} */
    get record() {
        const {id, name, file, beganAt, durationMs, open} = this;
        const beginning = joined(this.segments.slice(0, 8).map(({text}) => text)).slice(0, 120);
        const textBytes = this.segments.reduce((sum, {text, words}) => sum + text.length + WORD * (words?.length ?? 0), 0);
        const facts = {id, name, file, beganAt, changedAt: Date.now(), durationMs, open, beginning, textBytes};
        return {...facts, partial: this.#partial, ...this.kept};
    }

    /** The number of samples of the microphone. */
    get samples() {
        return this.#samples;
    }

    /** Whether there is no text. */
    get empty() {
        return !this.segments.length && !this.#partial?.text;
    }

    /** Makes a segment of a partial that will never become final. @returns {any} the new segment, if there is one */
    settle() {
        const partial = this.#partial;
        this.#partial = null;
        if (!partial?.text) return null;
        const words = partial.words?.length ? partial.words : timedWords({...partial, end_ms: partial.audio_ms});
        const {start_ms, audio_ms, text} = partial;
        const end_ms = words.at(-1).end_ms;
        const number = this.segments.length;
        const segment = {type: "final", segment: number, start_ms, end_ms, audio_ms, text, confidence: 0, words};
        this.segments.push(segment);
        return segment;
    }

    /** Forgets the partial, because it will come again. */
    unshow() {
        this.#partial = null;
    }

    /** Makes this a new sheet, separate from the one in the history. */
    fork() {
        this.id = new Sheet().id;
        this.kept = {kind: "", soundBytes: 0, soundRows: 0};
    }

    /** Replaces a word by another one, by several, or by none. @returns {object} the segment as it was before */
    reword(number, index, text) {
        const before = this.segments[number];
        const words = timedWords(before).map((word) => ({...word}));
        if (text) words[index] = {...words[index], word: text, confidence: 1};
        else words.splice(index, 1);
        this.segments[number] = {...before, words, text: joined(words.map(({word}) => word))};
        return before;
    }

    /** Begins a session that gets the sound from this time on. */
    begin(fromMs = this.durationMs) {
        this.#beginMs = fromMs;
        this.#firstSegment = this.segments.length;
    }

    /** Adds sound of the microphone. */
    hear(samples) {
        this.#pieces.push(samples);
        this.#samples += samples.length;
        this.durationMs = (this.#samples * 1000) / RATE;
        if (this.durationMs > KEPT_MS) [this.#whole, this.#before] = [false, null];
        // The sound that the page may have to send again stays.
        const needed = this.#samples - REST_MS * (RATE / 1000);
        while (!this.#whole && this.#from + this.#pieces[0].length < needed) this.#from += this.#pieces.shift().length;
    }

    /** All sound of the microphone, in pieces. Null if it was too much to keep. */
    get sound() {
        if (!this.#whole || !this.#samples) return null;
        return this.#before ? [this.#before, ...this.#pieces] : this.#pieces;
    }

    /** The sound after `settledMs`, which is not part of a final. */
    get unsettled() {
        const [rest, from] = [[], Math.floor((this.settledMs * RATE) / 1000)];
        let begin = this.#from;
        for (const piece of this.#pieces) {
            if (begin + piece.length > from) rest.push(piece.subarray(Math.max(0, from - begin)));
            begin += piece.length;
        }
        return rest;
    }

    /** Everything before this time is final. */
    get settledMs() {
        return this.segments.at(-1)?.end_ms ?? 0;
    }

    /** The time up to which the recogniser has recognised the sound. */
    get heardMs() {
        return this.#heardMs;
    }

    /** Takes a message of the session, keeps finals, and returns it with the times and segments of the sheet. */
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
        if (this.file) this.durationMs = this.#heardMs;
        if (taken.type === "partial") this.#partial = taken;
        if (taken.type === "final" || taken.type === "restarted") this.#partial = null;
        if (taken.type === "final") this.segments.push(taken);
        if (taken.type === "done") this.durationMs = Math.max(taken.audio_ms, this.#samples * 1000 / RATE);
        return taken;
    }
}

/** @param {number} time */
function day(time) {
    const at = new Date(time);
    const two = (number) => String(number).padStart(2, "0");
    const date = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
    return `${date} ${two(at.getHours())}.${two(at.getMinutes())}`;
}
