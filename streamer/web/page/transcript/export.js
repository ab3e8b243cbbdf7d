// Saves the text of a sheet in a file, or copies it to the clipboard.

import {FORMATS, shortClock} from "./formats.js";
import {printable, printableLines} from "./printable.js";

/** @param {import("./sheet.js").Sheet} sheet @param {string} format @returns {string} the name of the file */
export function save(sheet, format) {
    const {ending, type, write} = FORMATS[format];
    // No system allows these characters in the name of a file.
    const name = `${printable(sheet.name).replace(/[\\/:*?"<>|]+/g, "-")}.${ending}`;
    const [file, durationMs] = [sheet.file || sheet.name, Math.round(sheet.durationMs)];
    const content = write({file, durationMs, segments: said(sheet)});
    const url = URL.createObjectURL(new Blob([content], {type: `${type};charset=utf-8`}));
    Object.assign(document.createElement("a"), {href: url, download: name}).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    return name;
}

/**
 * @param {import("./sheet.js").Sheet} sheet @param {boolean} [times] whether each line begins with its time
 * @returns {Promise<boolean>} whether the text is in the clipboard now
 */
export async function copy(sheet, times = false) {
    const segments = said(sheet);
    const lines = segments.map(({start_ms, text}) => `${shortClock(start_ms)}\t${printableLines(text)}\n`);
    const text = times ? lines.join("") : FORMATS.text.write({segments});
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

/** All segments except those whose words were deleted. */
function said({segments}) {
    return segments.filter(({text}) => text);
}
