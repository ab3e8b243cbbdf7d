// A sheet: the text so far, of one recording, or of all speech into the microphone, and whether it is whole. Pure.

import {SpokenSound} from "../sound/spoken.js";
import {timedWords} from "./cues.js";
import {joined} from "./joining.js";
import {renumbered, withTurns} from "./speakers.js";

const RATE = 16000;
const WORD = 80; // bytes of a word with its times, about
/** A word that ends later than this before the end of the audio may be cut in two (streamer/base/transcript.py). */
const TAIL_MS = 200;
/** The last word of a partial is not known before more audio than this was heard after it. */
const OPEN_TAIL_MS = 400;
const TIMES = ["start_ms", "end_ms", "audio_ms", "at_ms", "cut_ms"];

/** @typedef {{ms: number, context: object | null}} Cut where another session can go on in a channel */

export class Sheet {
    /** Where the present session began on the sheet. */
    beginMs = 0;
    /** The finals in the order of their times. `provisional`: the end of the audio ended it; it comes again later. */
    segments = [];
    /** How much of the sound is recognised. */
    durationMs = 0;
    /** How long the recording is; 0 if that is not known. */
    recordingMs = 0;
    /** How many bytes the file of the recording has. */
    fileBytes = 0;
    /** Whether the sound was recognised to its end. */
    complete = true;
    /** Whether work on the sheet goes on. */
    open = false;
    /** What the session was asked for. With the same options, another session gives the same words. */
    options = {};
    /** The names of the channels that were recognised separately. Without a name, a channel has its number. */
    channelNames = [];
    /** The names of the speakers, by their numbers. Without a name, a speaker has the number. */
    speakerNames = [];
    /** @type {Cut[]} for each channel the end of its last final */
    cuts = [{ms: 0, context: null}];
    /** The sound of the microphone. */
    spoken = new SpokenSound();
    #heardMs = 0;
    #firstSpeaker = 0; // the number on the sheet of the first speaker of the present session of the service
    /** Where the present session of the service began in each channel. @type {Map<number, number>} */
    #fromMs = new Map();
    /** The last partial of each channel that the page has shown. @type {Map<number, any>} */
    #partials = new Map();
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
    }

    /**
     * Makes a sheet from the history.
     * @param {import("../history/history.js").Kept} kept @param {any[]} segments
     * @param {Blob | null} sound what was spoken, as a WAV file
     */
    static of(kept, segments, sound) {
        const sheet = new Sheet(kept.file);
        const {id, name, beganAt, durationMs, kind, soundBytes, soundRows} = kept;
        // Earlier versions of the page did not write these.
        const {recordingMs = 0, fileBytes = 0, complete = !kept.open, options = {}, channelNames = [], speakerNames = []} = kept;
        const cuts = kept.cuts ?? [{ms: segments.at(-1)?.end_ms ?? 0, context: null}];
        Object.assign(sheet, {id, name, beganAt, durationMs, segments, recordingMs, fileBytes, complete});
        Object.assign(sheet, {options, channelNames, speakerNames, cuts});
        sheet.kept = {kind, soundBytes, soundRows};
        sheet.spoken = new SpokenSound(kept.file ? 0 : Math.round((durationMs * RATE) / 1000), sound);
        sheet.#heardMs = durationMs;
        const partials = kept.partials ?? [kept.partial].filter(Boolean);
        sheet.#partials = new Map(partials.map((/** @type {any} */ partial) => [partial.channel ?? 0, partial]));
        return sheet;
    }

    /**
     * Makes a sheet from a transcript that was saved. @param {import("./formats.js").Transcript} saved
     * @param {File | null} sound its recording
     */
    static from(saved, sound) {
        const {file, durationMs, recordingMs, stoppedMs, channelNames, speakerNames = [], segments} = saved;
        const sheet = new Sheet(file);
        const {id = sheet.id, name = sheet.name, beganAt = sheet.beganAt} = saved;
        Object.assign(sheet, {id, name, beganAt, durationMs, recordingMs, channelNames, segments});
        Object.assign(sheet, {complete: stoppedMs === null, fileBytes: sound?.size ?? 0, speakerNames});
        sheet.#heardMs = durationMs;
        sheet.cuts = [...new Set([0, ...segments.map(({channel = 0}) => channel)])].map((channel) => {
            // The end of the audio may have ended the last one, so that it comes again.
            const own = segments.filter(({channel: of = 0}) => of === channel);
            if (!sheet.complete && own.length) own[own.length - 1].provisional = true;
            return {ms: own.at(sheet.complete ? -1 : -2)?.end_ms ?? 0, context: null};
        });
        return sheet;
    }

    /** The record that the history stores beside the segments. @returns {import("../history/history.js").Kept} */
    get record() {
        const {id, name, file, beganAt, durationMs, recordingMs, fileBytes, complete, open} = this;
        const {options, channelNames, speakerNames, cuts, stoppedMs} = this;
        const beginning = joined(this.segments.slice(0, 8).map(({text}) => text)).slice(0, 120);
        const textBytes = this.segments.reduce((sum, {text, words}) => sum + text.length + WORD * (words?.length ?? 0), 0);
        const facts = {id, name, file, beganAt, changedAt: Date.now(), durationMs, recordingMs, fileBytes, complete, open};
        const partials = [...this.#partials.values()];
        return {...facts, stoppedMs, options, channelNames, speakerNames, cuts, beginning, textBytes, partials, ...this.kept};
    }

    /** Whether there is no text. */
    get empty() {
        return !this.segments.length && !this.#partials.size;
    }

    /** The time at which the text ends if the sound goes on; null if the sheet is whole. */
    get stoppedMs() {
        return this.complete ? null : this.segments.reduce((last, {end_ms}) => Math.max(last, end_ms), 0);
    }

    /** How many numbers of speakers there are. */
    get speakers() {
        return this.segments.reduce((most, {speaker = -1, words}) => {
            const all = (words ?? []).map((/** @type {any} */ word) => word.speaker ?? -1);
            return Math.max(most, 1 + speaker, ...all.map((/** @type {number} */ number) => 1 + number));
        }, 0);
    }

    /** The names of the speakers of the present session. */
    get sessionSpeakerNames() {
        return this.speakerNames.slice(this.#firstSpeaker);
    }

    /** How many channels were recognised separately; 1 if they were mixed. */
    get channels() {
        return this.cuts.length;
    }

    /** The time up to which the recogniser has recognised the sound. */
    get heardMs() {
        return this.#heardMs;
    }

    /** Everything before this time is final. */
    get settledMs() {
        return Math.min(...this.cuts.map(({ms}) => ms));
    }

    /** The sound of the microphone after `settledMs`, which is not part of a final. */
    get unsettled() {
        return this.spoken.after(this.settledMs);
    }

    /** Adds sound of the microphone. @param {Int16Array} samples */
    hear(samples) {
        this.spoken.hear(samples);
        this.durationMs = this.recordingMs = this.spoken.durationMs;
    }

    /** Begins a session that gets the sound from this time on. @param {number} [channels] recognised separately */
    begin(fromMs = this.durationMs, channels = 1) {
        this.beginMs = fromMs;
        this.#firstSpeaker = this.speakers;
        this.cuts = Array.from({length: channels}, () => ({ms: fromMs, context: null}));
        this.complete = false;
    }

    /** Goes on where the sheet stopped: from now on, times count from its cuts. What came after them comes again. */
    resume() {
        this.#partials.clear();
        this.segments = this.segments.filter(({provisional}) => !provisional);
        this.beginMs = this.#heardMs = this.settledMs;
        this.#firstSpeaker = this.speakers;
        this.complete = false;
    }

    /** Notes that the sound was recognised to its end. */
    finish() {
        this.complete = true;
        for (const segment of this.segments) delete segment.provisional;
    }

    /** Makes segments of partials that will never become final, without a word that is cut. @returns {boolean} if any */
    settle() {
        const partials = [...this.#partials.values()];
        this.#partials.clear();
        let settled = false;
        for (const partial of partials) {
            const words = partial.words?.length ? partial.words : timedWords({...partial, end_ms: partial.audio_ms});
            const segment = {type: "final", ...partial, end_ms: partial.audio_ms, confidence: 0, words};
            const whole = withoutTail({...segment, type: "final", provisional: true}, OPEN_TAIL_MS);
            if (whole) this.insert(whole);
            settled ||= whole !== null;
        }
        return settled;
    }

    /** Forgets the partials, because they come again, or their words were taken back. */
    unshow() {
        this.#partials.clear();
    }

    /** Makes this a new sheet, separate from the one in the history. */
    fork() {
        this.id = new Sheet().id;
        this.kept = {kind: "", soundBytes: 0, soundRows: 0};
    }

    /** @param {any} segment @returns {number} its place in the order of times */
    insert(segment) {
        const of = (/** @type {any} */ one) => one.start_ms + (one.channel ?? 0) / 100;
        const at = 1 + this.segments.findLastIndex((each) => of(each) <= of(segment));
        this.segments.splice(at, 0, segment);
        return at;
    }

    /**
     * Takes a message of the session, keeps finals, and returns it with the times of the sheet.
     * @param {any} message @param {object | null} [context] of a final
     * @param {boolean} [broken] whether the user has stopped the recording, so that the audio ends before its end
     * @returns {{message: any, at: number}} the message, and the place of a final; -1 if it had only a word that was cut
     */
    take(message, context = null, broken = false) {
        let taken = {...message};
        for (const name of TIMES) if (name in taken) taken[name] += this.beginMs;
        taken.words = taken.words?.map((word) => ({
            ...word,
            start_ms: word.start_ms + this.beginMs,
            end_ms: word.end_ms + this.beginMs,
        }));
        if (taken.type === "final") taken = this.#ofSheet(taken);
        if ("audio_ms" in taken) this.#heardMs = Math.max(this.#heardMs, taken.audio_ms);
        if (this.file) this.durationMs = this.#heardMs;
        const channel = taken.channel ?? 0;
        if (taken.type === "partial" && taken.text) this.#partials.set(channel, taken);
        else if (["partial", "final"].includes(taken.type)) this.#partials.delete(channel);
        if (taken.type === "restarted") {
            this.#firstSpeaker = this.speakers;
            this.#fromMs.set(channel, taken.fromMs + this.beginMs);
        }
        if (taken.type === "done") this.durationMs = Math.max(taken.audio_ms, this.spoken.durationMs);
        if (taken.type === "speakers") this.#relabel(taken);
        if (taken.type === "speaker_merge") this.#merge(taken);
        let at = -1;
        if (taken.type === "final") {
            if (broken && endsWithAudio(taken)) taken = withoutTail({...taken, provisional: true}, TAIL_MS);
            else this.cuts[channel] = {ms: taken.cut_ms ?? taken.end_ms, context};
            if (taken) at = this.insert(taken);
        }
        return {message: taken ?? message, at};
    }

    /** @param {any} said a final, or a turn @returns {any} it with the number that its speaker has on the sheet */
    #ofSheet(said) {
        // Another session counts from 0 again, and its speakers may be other people.
        return renumbered(said, (speaker) => this.#firstSpeaker + speaker);
    }

    /** Takes a second look at who speaks in the present session. @param {any} speakers the event */
    #relabel({turns, channel}) {
        const moved = turns.map((/** @type {any} */ turn) => {
            const times = {start_ms: turn.start_ms + this.beginMs, end_ms: turn.end_ms + this.beginMs};
            return this.#ofSheet({...turn, ...times});
        });
        this.#change(channel, (segment) => withTurns(segment, moved));
    }

    /** Takes two speakers of the present session for one. @param {any} merge the event */
    #merge({speaker, into, channel}) {
        const [from, to] = [this.#firstSpeaker + speaker, this.#firstSpeaker + into];
        this.#change(channel, (segment) => renumbered(segment, (own) => (own === from ? to : own)));
    }

    /**
     * Changes all segments that the present session has recognised in a channel.
     * @param {number | undefined} channel @param {(segment: any) => any} change
     */
    #change(channel, change) {
        const fromMs = Math.max(this.beginMs, this.#fromMs.get(channel ?? 0) ?? 0);
        this.segments = this.segments.map((segment) => {
            return segment.start_ms >= fromMs && segment.channel === channel ? change(segment) : segment;
        });
    }
}

/** Whether a final ended because its audio did, so that its last word may be cut in two. */
function endsWithAudio({cut_ms, audio_ms, turn}) {
    return cut_ms !== undefined && cut_ms >= audio_ms && turn === undefined;
}

/** @param {any} segment @param {number} tailMs @returns {any} it without words that end in the tail of its audio */
function withoutTail(segment, tailMs) {
    const words = timedWords(segment);
    const whole = words.filter(({end_ms}) => end_ms <= segment.audio_ms - tailMs);
    if (!whole.length) return null;
    if (whole.length === words.length) return {...segment, end_ms: whole.at(-1).end_ms};
    const {alternatives, ...rest} = segment; // they have the word
    const spoken = segment.spoken === undefined ? {} : {spoken: joined(whole.map(({word, spoken = word}) => spoken))};
    const text = joined(whole.map(({word}) => word));
    return {...rest, ...spoken, text, words: whole, end_ms: whole.at(-1).end_ms};
}

/** @param {number} time */
function day(time) {
    const at = new Date(time);
    const two = (number) => String(number).padStart(2, "0");
    const date = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
    return `${date} ${two(at.getHours())}.${two(at.getMinutes())}`;
}
