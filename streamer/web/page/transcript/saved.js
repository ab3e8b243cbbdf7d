// Reads transcripts that the page or the command line has saved as JSON, like streamer/base/saved_transcript.py. Pure.

import {joined} from "./joining.js";
import {isKnown, renumbered, withTurns} from "./speakers.js";

const MOST_MS = 10 ** 10; // about four months
const MOST_CHANNELS = 100;
const LONGEST_NAME = 200;

/** A file is no saved transcript. The message says why, as the rest of a sentence about the file. */
export class SavedError extends Error {}

/**
 * Returns the transcripts in the text of a file: one object, one for each line, a list of them, or the events of one
 * recording. What is in it is checked, because anybody may have written it.
 * @param {string} text @param {string} file the name of a transcript that does not say which recording it is of
 * @returns {import("./formats.js").Transcript[]}
 */
export function readTranscripts(text, file) {
    let values = valuesOf(text);
    if (values.length === 1 && Array.isArray(values[0])) values = values[0];
    if (values.length && values.every((value) => typeof value?.type === "string")) return [ofEvents(values, file)];
    const transcripts = values.map((value) => ofObject(value, file));
    if (!transcripts.length) throw new SavedError("is empty");
    return transcripts;
}

/** @param {string} text @returns {any[]} */
function valuesOf(text) {
    try {
        return [JSON.parse(text)];
    } catch {
        // It may have an object in each line.
    }
    return text.split("\n").flatMap((line, number) => {
        try {
            return line.trim() ? [JSON.parse(line)] : [];
        } catch {
            throw new SavedError(`is not JSON in line ${number + 1}`);
        }
    });
}

/** @param {any[]} events @param {string} file */
function ofEvents(events, file) {
    /** @type {any[]} */
    let segments = [];
    /** @type {Map<number | undefined, number>} where the service began the session again, by channel */
    const fromMs = new Map();
    for (const event of events) {
        if (event.type === "final") segments.push(segmentOf(event, "a final"));
        else if (event.type === "restarted") fromMs.set(event.channel, timeOf(event, "from_ms", "the event restarted"));
        else if (["speakers", "speaker_merge"].includes(event.type)) {
            const [change, from] = [relabelling(event), fromMs.get(event.channel) ?? 0];
            segments = segments.map((segment) => {
                return segment.channel === event.channel && segment.start_ms >= from ? change(segment) : segment;
            });
        }
    }
    const done = events.find(({type}) => type === "done");
    const durationMs = done ? timeOf(done, "audio_ms", "the event done") : lastOf(segments);
    return transcript(file, segments, Boolean(done), durationMs);
}

/** @param {any} value @param {string} file */
function ofObject(value, file) {
    if (!Array.isArray(value?.segments)) {
        throw new SavedError("is not a transcript: it has no “segments” (the page and streamer --format json write them)");
    }
    const segments = value.segments.map((/** @type {any} */ segment, /** @type {number} */ index) => {
        return segmentOf(segment ?? {}, `segment ${index + 1}`);
    });
    const durationMs = "duration_ms" in value ? timeOf(value, "duration_ms", "the transcript") : lastOf(segments);
    const own = typeof value.file === "string" && value.file ? value.file : file;
    const made = transcript(own, segments, value.complete !== false, durationMs);
    const lengthMs = Math.round(1000 * value.duration_s);
    if (lengthMs >= 0 && lengthMs <= MOST_MS) made.recordingMs = lengthMs;
    [made.channelNames, made.speakerNames] = [namesOf(value.channel_names), namesOf(value.speaker_names)];
    const began = Date.parse(value.began_at);
    if (Number.isFinite(began)) made.beganAt = began;
    for (const name of ["id", "name"]) {
        if (typeof value[name] === "string" && value[name]) made[name] = value[name].slice(0, LONGEST_NAME);
    }
    return made;
}

/** @param {unknown} value @returns {string[]} the names of channels or speakers */
function namesOf(value) {
    if (!Array.isArray(value)) return [];
    return value.slice(0, MOST_CHANNELS).map((/** @type {unknown} */ name) => {
        return typeof name === "string" ? [...name].slice(0, LONGEST_NAME).join("") : "";
    });
}

/** @param {any} event about speakers @returns {(segment: any) => any} what it does to a segment */
function relabelling(event) {
    if (event.type === "speakers") {
        const turns = turnsOf(event);
        return (segment) => withTurns(segment, turns);
    }
    const {speaker, into} = event;
    for (const [name, number] of Object.entries({speaker, into})) {
        if (!isNumber(number)) throw new SavedError(`has no ${name} that can be in the event speaker_merge`);
    }
    return (segment) => renumbered(segment, (own) => (own === speaker ? into : own));
}

/** @param {any} event @returns {import("./speakers.js").Turn[]} the turns of the event speakers, checked */
function turnsOf({turns}) {
    const what = "the event speakers";
    if (!Array.isArray(turns)) throw new SavedError(`has no “turns” in ${what}`);
    return turns.map((turn) => {
        if (!isNumber(turn?.speaker)) throw new SavedError(`has no speaker that can be in ${what}`);
        const [start_ms, end_ms] = ["start_ms", "end_ms"].map((name) => timeOf(turn, name, what));
        return {start_ms, end_ms, speaker: turn.speaker};
    });
}

/** @param {string} file @param {any[]} segments @param {boolean} complete @param {number} durationMs */
function transcript(file, segments, complete, durationMs) {
    segments.sort((a, b) => a.start_ms - b.start_ms || (a.channel ?? 0) - (b.channel ?? 0));
    const stoppedMs = complete ? null : lastOf(segments);
    /** @type {import("./formats.js").Transcript} */
    const made = {file, segments, durationMs, recordingMs: 0, stoppedMs, channelNames: [], speakerNames: []};
    return made;
}

/** @param {any} value @param {string} what @returns {any} the fields of a segment, checked */
function segmentOf(value, what) {
    const {text, words, channel, speaker, turn, spoken, alternatives, language} = value;
    if (typeof text !== "string") throw new SavedError(`has no “text” in ${what}`);
    const [start_ms, end_ms] = ["start_ms", "end_ms"].map((name) => timeOf(value, name, what));
    if (end_ms < start_ms) throw new SavedError(`has a time in ${what} that runs backwards: ${start_ms} to ${end_ms}`);
    for (const [name, number] of Object.entries({channel, speaker})) {
        if (isKnown(number) && !isNumber(number)) throw new SavedError(`has no ${name} that can be in ${what}`);
    }
    return {
        type: "final",
        start_ms,
        end_ms,
        text,
        confidence: typeof value.confidence === "number" ? value.confidence : 1,
        // If the words are not those of the text any more, the text counts.
        words: fits(words, text) ? words.map(wordOf) : null,
        ...(isKnown(channel) ? {channel} : {}),
        ...(isKnown(speaker) ? {speaker} : {}),
        ...(typeof turn === "number" ? {turn} : {}),
        ...(typeof spoken === "string" ? {spoken} : {}),
        ...(Array.isArray(alternatives) ? {alternatives} : {}),
        ...(typeof language === "string" && language ? {language} : {}),
    };
}

/** @param {any} word */
function wordOf({word, start_ms, end_ms, confidence, spoken, speaker}) {
    const sure = typeof confidence === "number" ? {confidence} : {};
    const who = isKnown(speaker) ? {speaker} : {};
    return {word, start_ms, end_ms, ...sure, ...(typeof spoken === "string" ? {spoken} : {}), ...who};
}

/** @param {unknown} value @returns {boolean} whether it can be the number of a channel or of a speaker */
function isNumber(value) {
    return Number.isInteger(value) && Number(value) >= 0 && Number(value) < MOST_CHANNELS;
}

/** @param {any} words @param {string} text @returns {boolean} whether these are the words of the text, with times */
function fits(words, text) {
    if (!Array.isArray(words) || !words.length) return false;
    const time = (/** @type {any} */ ms) => Number.isInteger(ms) && ms >= 0 && ms <= MOST_MS;
    const said = (/** @type {any} */ {speaker}) => !isKnown(speaker) || isNumber(speaker);
    const all = words.every((word) => {
        return typeof word?.word === "string" && time(word.start_ms) && time(word.end_ms) && said(word);
    });
    const plain = (/** @type {string} */ written) => written.split(/\s+/).filter(Boolean).join(" ");
    return all && plain(joined(words.map(({word}) => word))) === plain(text);
}

/** @param {any} value @param {string} name @param {string} what @returns {number} */
function timeOf(value, name, what) {
    const time = value[name];
    if (!(typeof time === "number" && time >= 0 && time <= MOST_MS)) {
        throw new SavedError(`has no “${name}” in milliseconds in ${what}`);
    }
    return Math.round(time);
}

/** @param {any[]} segments */
function lastOf(segments) {
    return segments.reduce((last, {end_ms}) => Math.max(last, end_ms), 0);
}
