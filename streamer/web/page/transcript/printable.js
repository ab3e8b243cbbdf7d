// Makes text safe to print, like streamer/base/text.py: a terminal obeys control characters, and an editor shows text
// in another order. Pure.

/** What moves a cursor, starts a command of the terminal or ends a line. */
const CONTROLS = "\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029";
/** What nobody sees, although it changes the order or the comparison of what is seen. The two joiners stay. */
const INVISIBLE =
    "\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb" +
    "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e007f}";
const CONTROL = new RegExp(`[${CONTROLS}]`, "gu");
const UNSAFE = new RegExp(`[${CONTROLS}${INVISIBLE}]`, "gu");
const HIDDEN = new RegExp(`[${INVISIBLE}]`, "gu");

/** @param {string} text @returns {string} one line without characters that a terminal would obey, or that nobody sees */
export function printable(text) {
    return text.replace(CONTROL, " ").replace(HIDDEN, "");
}

/** @param {string} text @returns {string} the same of a text that keeps its line breaks and tabs */
export function printableLines(text) {
    return text.replace(CONTROL, (found) => ("\n\t".includes(found) ? found : " ")).replace(HIDDEN, "");
}

/** @param {unknown} value @returns {string} JSON that is safe to print: the same characters are escaped */
export function jsonText(value) {
    const escape = (/** @type {string} */ unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
    return JSON.stringify(value).replace(UNSAFE, (found) => found.split("").map(escape).join(""));
}
