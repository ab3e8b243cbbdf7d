// Joins words to text, and finds the words of a text, also in scripts without spaces, like streamer/base/text.py.

/** Kana, Chinese characters, and the marks and wide forms that stand between them. */
const SPACELESS =
    /[\u3000-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff9f\u{20000}-\u{3134f}]/u;
/** These marks belong to the word before them even after a space. */
const CLOSING = new Set(".,;:!?…%)]}»”。、，．！？；：％）」』】》〉");

/** @param {string} before @param {string} after @returns {string} what stands between two words, or two texts */
export function separator(before, after) {
    if (!before || !after || before.endsWith("\n") || after.startsWith("\n")) return "";
    const [last, first] = [outermost([...before].reverse()), outermost([...after])];
    const [left, right] = [SPACELESS.test(last), SPACELESS.test(first)];
    return (left && (right || /\p{Nd}/u.test(first))) || (right && /\p{Nd}/u.test(last)) ? "" : " ";
}

/** @param {string[]} parts words, or texts @returns {string} */
export function joined(parts) {
    let [text, last] = ["", ""];
    for (const part of parts) {
        text += separator(last, part) + part;
        last = part || last;
    }
    return text;
}

/** @param {string} text @returns {string[]} its words, with their marks */
export function wordsOf(text) {
    /** @type {string[]} */
    const found = [];
    let after = "space"; // or a letter, an opening mark, or a character that is whole: a word of its own
    for (const character of text) {
        if (/\s/u.test(character)) {
            after = "space";
            continue;
        }
        const spaceless = SPACELESS.test(character);
        let continues;
        if (/[\p{Ps}\p{Pi}]/u.test(character) && (after !== "letter" || spaceless)) {
            continues = after === "opening";
            after = "opening";
        } else if (/[\p{P}\p{M}]/u.test(character)) {
            continues = after !== "space" || (found.length > 0 && CLOSING.has(character));
            if (!continues) after = "letter";
        } else {
            continues = after === "opening" || (after === "letter" && !spaceless);
            after = spaceless ? "whole" : "letter";
        }
        if (continues) found[found.length - 1] += character;
        else found.push(character);
    }
    return found;
}

/** @param {string} text @returns {number} its width in letters; a character without spaces is as wide as two */
export function columns(text) {
    return [...text].reduce((sum, character) => sum + (SPACELESS.test(character) ? 2 : 1), 0);
}

/** @param {string[]} characters @returns {string} the first letter or figure: a mark does not show the script */
function outermost(characters) {
    return characters.find((character) => /[\p{L}\p{N}]/u.test(character)) ?? characters[0];
}
