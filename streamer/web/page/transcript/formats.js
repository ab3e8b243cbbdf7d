// Writes a transcript in every format in which the page can save it, exactly like streamer/base/transcript.py. Pure.

import {cues} from "./cues.js";
import {joined, separator} from "./joining.js";
import {ParagraphRule} from "./paragraphs.js";
import {jsonText, printable, printableLines} from "./printable.js";
import {nameOf} from "./speakers.js";

/**
 * @typedef {{file: string, durationMs: number, recordingMs: number, stoppedMs: number | null, channelNames: string[],
 *     speakerNames?: string[], segments: any[], [more: string]: any}} Transcript
 * `recordingMs`: the length of the recording, 0 if unknown; `stoppedMs`: where the text ends, null if it is complete
 */

export const FORMATS = {
    text: {ending: "txt", type: "text/plain", write: text},
    times: {ending: "txt", type: "text/plain", write: times},
    srt: {ending: "srt", type: "application/x-subrip", write: srt},
    vtt: {ending: "vtt", type: "text/vtt", write: vtt},
    json: {ending: "json", type: "application/json", write: json},
};
/** SRT has no remarks, so a cue says where it stops. */
const STOP_CUE_MS = 2_000;
const OPTIONAL = ["channel", "speaker", "turn", "spoken", "alternatives", "language"];

/** Returns text in paragraphs. @param {Transcript} transcript @param {boolean} [timed] whether each begins with its time */
export function text(transcript, timed = false) {
    const rule = new ParagraphRule();
    let [written, last] = ["", ""];
    for (const segment of transcript.segments) {
        for (const sentence of rule.sentences(segment)) {
            if (rule.begins(sentence)) {
                const time = timed ? `[${shortClock(sentence.startMs, true)}] ` : "";
                written += `${last ? "\n\n" : ""}${time}${label(transcript, sentence)}`;
            } else {
                written += separator(last, sentence.text);
            }
            written += printableLines(sentence.text);
            last = sentence.text;
        }
    }
    const stopped = transcript.stoppedMs === null ? "" : `${last ? "\n" : ""}[${stopText(transcript)}]\n`;
    return `${written}${last ? "\n" : ""}${stopped}`;
}

/** @param {Transcript} transcript */
function times(transcript) {
    return text(transcript, true);
}

/** Returns the object that `streamer --format json` prints. @param {Transcript} transcript */
export function json(transcript) {
    return `${jsonText(content(transcript))}\n`;
}

/** @param {Transcript} transcript @returns {object} what JSON has */
export function content({file, durationMs, recordingMs, stoppedMs, channelNames, speakerNames, segments}) {
    const kept = segments.map((segment) => {
        const {start_ms, end_ms, text, confidence, words = null} = segment;
        const optional = OPTIONAL.filter((name) => segment[name] !== undefined).map((name) => [name, segment[name]]);
        return {start_ms, end_ms, text, confidence, words, ...Object.fromEntries(optional)};
    });
    const complete = stoppedMs === null;
    return {
        file,
        text: joined(segments.map((segment) => segment.text)),
        duration_ms: Math.round(durationMs),
        complete,
        ...(complete ? {} : {stopped_at_s: stoppedMs / 1000}),
        ...(recordingMs ? {duration_s: Math.round(recordingMs) / 1000} : {}),
        ...(channelNames?.some(Boolean) ? {channel_names: channelNames} : {}),
        ...(speakerNames?.some(Boolean) ? {speaker_names: speakerNames} : {}),
        segments: kept,
    };
}

/** @param {Transcript} transcript */
export function srt(transcript) {
    const all = cues(transcript.segments, (voice) => label(transcript, voice));
    if (transcript.stoppedMs !== null) {
        const startMs = Math.max(transcript.stoppedMs, ...all.map(({endMs}) => endMs));
        all.push({startMs, endMs: startMs + STOP_CUE_MS, lines: [`[${stopText(transcript)}]`]});
    }
    const block = (cue, index) => {
        const text = label(transcript, cue) + cue.lines.map(printable).join("\n");
        return `${index + 1}\n${clock(cue.startMs, ",")} --> ${clock(cue.endMs, ",")}\n${text}\n`;
    };
    return all.map(block).join("\n");
}

/** @param {Transcript} transcript */
export function vtt(transcript) {
    const block = (cue) => {
        const name = nameOf(transcript, cue);
        const voice = name ? `<v ${escaped(name)}>` : "";
        const lines = cue.lines.map((line) => escaped(line)).join("\n");
        return `${clock(cue.startMs, ".")} --> ${clock(cue.endMs, ".")}\n${voice}${lines}\n`;
    };
    const all = cues(transcript.segments, (voice) => label(transcript, voice));
    const stopped = transcript.stoppedMs === null ? [] : [`NOTE ${stopText(transcript)}\n`];
    return ["WEBVTT\n", ...all.map(block), ...stopped].join("\n");
}

/** Returns where a transcript stops. @param {{stoppedMs: number | null, recordingMs: number}} transcript */
export function stopText({stoppedMs, recordingMs}) {
    return `stopped at ${shortClock(stoppedMs ?? 0)}${recordingMs ? ` of ${shortClock(recordingMs)}` : ""}`;
}

/** Returns a time such as 00:00:03.200, with this decimal mark. */
export function clock(milliseconds, mark) {
    const seconds = Math.floor(milliseconds / 1000);
    const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
    const front = parts.map((part) => String(part).padStart(2, "0")).join(":");
    return `${front}${mark}${String(milliseconds % 1000).padStart(3, "0")}`;
}

/** Returns a time for people: 0:03, with tenths 0:03.2, and from an hour on 1:02:03. */
export function shortClock(milliseconds, tenths = false) {
    const seconds = Math.floor(milliseconds / 1000);
    const two = (number) => String(number).padStart(2, "0");
    const minutes = Math.floor(seconds / 60);
    const front = minutes >= 60 ? `${Math.floor(minutes / 60)}:${two(minutes % 60)}` : `${minutes}`;
    return `${front}:${two(seconds % 60)}${tenths ? `.${Math.floor(milliseconds / 100) % 10}` : ""}`;
}

/** @param {string} text @param {(text: string) => string} [safe] @returns {string} the text for HTML and WebVTT */
export function escaped(text, safe = printable) {
    return safe(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** What stands before somebody's words. @param {Transcript} transcript @param {import("./speakers.js").Voice} voice */
function label(transcript, voice) {
    const name = nameOf(transcript, voice);
    return name ? `[${name}] ` : "";
}
