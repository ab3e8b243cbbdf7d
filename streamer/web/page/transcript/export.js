// Saves the text of a sheet in a file, or copies it to the clipboard.

import {FORMATS} from "./formats.js";
import {printable} from "./printable.js";

/** @param {import("./sheet.js").Sheet} sheet @param {string} format @returns {string} the name of the file */
export function save(sheet, format) {
    const {ending, type, write} = FORMATS[format];
    return download(sheet.name, ending, type, write(transcriptOf(sheet)));
}

/** Saves a text in a file. @returns {string} its name */
export function download(name, ending, type, content) {
    // No system allows these characters in the name of a file.
    const file = `${printable(name).replace(/[\\/:*?"<>|]+/g, "-")}.${ending}`;
    const url = URL.createObjectURL(new Blob([content], {type: `${type};charset=utf-8`}));
    Object.assign(document.createElement("a"), {href: url, download: file}).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    return file;
}

/** @param {any} sheet of the desk, or one of the history @returns {import("./formats.js").Transcript} */
export function transcriptOf(sheet) {
    const {file, name, durationMs, recordingMs, stoppedMs, channelNames} = sheet;
    // Segments whose words were deleted are not in a transcript.
    const segments = sheet.segments.filter(({text}) => text);
    return {file: file || name, durationMs, recordingMs, stoppedMs, channelNames, segments};
}

/**
 * @param {import("./sheet.js").Sheet} sheet @param {string} [format] of the text: "text" or "times"
 * @returns {Promise<boolean>} whether the text is in the clipboard now
 */
export async function copy(sheet, format = "text") {
    const text = FORMATS[format].write(transcriptOf(sheet));
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        // Pages without HTTPS have no clipboard interface, only this old way.
        const field = document.createElement("textarea");
        field.value = text;
        field.className = "unseen";
        document.body.append(field);
        field.select();
        const copied = document.execCommand("copy");
        field.remove();
        return copied;
    }
}
