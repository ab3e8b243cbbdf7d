// Writes a transcript in every format in which the page can save it, exactly like streamer/base/transcript.py. Pure.

import {cues} from "./cues.js";
import {joined} from "./joining.js";
import {jsonText, printable, printableLines} from "./printable.js";

export const FORMATS = {
    text: {ending: "txt", type: "text/plain", write: text},
    srt: {ending: "srt", type: "application/x-subrip", write: srt},
    vtt: {ending: "vtt", type: "text/vtt", write: vtt},
    json: {ending: "json", type: "application/json", write: json},
};

/** Returns a line for each final. */
export function text({segments}) {
    return segments.map((segment) => `${printableLines(segment.text)}\n`).join("");
}

/** Returns the object that `streamer --format json` prints. */
export function json({file, durationMs, segments}) {
    const kept = segments.map(({start_ms, end_ms, text, confidence, words, spoken}) => {
        const always = {start_ms, end_ms, text, confidence, words};
        return spoken === undefined ? always : {...always, spoken};
    });
    const all = joined(segments.map((segment) => segment.text));
    return `${jsonText({file, text: all, duration_ms: durationMs, segments: kept})}\n`;
}

export function srt({segments}) {
    const block = (cue, index) =>
        `${index + 1}\n${clock(cue.startMs, ",")} --> ${clock(cue.endMs, ",")}\n${cue.lines.map(printable).join("\n")}\n`;
    return cues(segments).map(block).join("\n");
}

export function vtt({segments}) {
    const escaped = (line) => printable(line).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
    const block = (cue) =>
        `${clock(cue.startMs, ".")} --> ${clock(cue.endMs, ".")}\n${cue.lines.map(escaped).join("\n")}\n`;
    return ["WEBVTT\n", ...cues(segments).map(block)].join("\n");
}

/** @param {number} stoppedMs @param {number} recordingMs 0 if unknown @returns {string} where a transcript stops */
export function stopText(stoppedMs, recordingMs) {
    return `stopped at ${shortClock(stoppedMs)}${recordingMs ? ` of ${shortClock(recordingMs)}` : ""}`;
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
