// Saves the text of a sheet in a file, or copies it to the clipboard.

import {FORMATS} from "./formats.js";
import {printable} from "./printable.js";
import {readingPage} from "./reading-page.js";

/** A larger recording is not put into a page for reading: it would take too much memory to open. */
const LARGEST_SOUND = 64 * 1024 * 1024;

/** @param {import("./sheet.js").Sheet} sheet @param {string} format @returns {string} the name of the file */
export function save(sheet, format) {
    const {ending, type, write} = FORMATS[format];
    return download(sheet.name, ending, type, write(transcriptOf(sheet)));
}

/**
 * Saves a page for reading with its sound.
 * @param {import("./sheet.js").Sheet} sheet @param {Blob | null} source its sound
 * @returns {Promise<{file: string, sounds: boolean}>} the name of the page, and whether the sound is in it
 */
export async function savePage(sheet, source) {
    const template = await (await fetch(new URL("../../reading.html", import.meta.url))).text();
    const sound = source && source.size <= LARGEST_SOUND ? {type: source.type, content: await base64(source)} : null;
    const file = download(sheet.name, "html", "text/html", readingPage(template, transcriptOf(sheet), sound));
    return {file, sounds: sound !== null};
}

/** @param {Blob} blob @returns {Promise<string>} */
function base64(blob) {
    return new Promise((resolve, reject) => {
        const reader = new FileReader();
        reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
        reader.onerror = () => reject(reader.error);
        reader.readAsDataURL(blob);
    });
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
    const {file, name, durationMs, recordingMs, stoppedMs, channelNames, speakerNames} = sheet;
    // Segments whose words were deleted are not in a transcript.
    const segments = sheet.segments.filter(({text}) => text);
    return {file: file || name, durationMs, recordingMs, stoppedMs, channelNames, speakerNames, segments};
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
