// Changes of segments: words replaced, segments split and merged. Times of what stays the same stay the same. Pure.

import {timedWords} from "./cues.js";
import {joined, wordsOf} from "./joining.js";
import {isKnown, withMain} from "./speakers.js";

/** @typedef {{number: number, index: number, count: number, start: number, end: number}} Place
 * Where a text was found: so many words of a segment from an index on, and the characters of it in their text. */

/** Replaces a word by another one, by several, or by none. @param {any} segment @param {number} index @param {string} text */
export function reworded(segment, index, text) {
    const words = [...timedWords(segment)];
    words.splice(index, 1, ...instead(words.slice(index, index + 1), text));
    return withWords(segment, words);
}

/** @param {any} segment @param {number} index of the first word of the second one @returns {any[]} two segments */
export function split(segment, index) {
    const words = timedWords(segment);
    const {turn, provisional, ...rest} = segment;
    const [first, second] = [words.slice(0, index), words.slice(index)];
    const end = {...(turn === undefined ? {} : {turn}), ...(provisional ? {provisional} : {})};
    return [
        {...withWords(rest, first), end_ms: first.at(-1).end_ms},
        {...withWords(rest, second), ...end, start_ms: second[0].start_ms},
    ];
}

/** @param {any} first @param {any} second of the same channel @returns {any} both in one segment */
export function merged(first, second) {
    const words = [first, second].flatMap((segment) => {
        const who = isKnown(segment.speaker) ? {speaker: segment.speaker} : {};
        return timedWords(segment).map((word) => ({...who, ...word}));
    });
    const [one, other] = [first, second].map(({words}) => words?.length ?? 1);
    const confidence = (first.confidence * one + second.confidence * other) / (one + other);
    const {turn, language, ...rest} = first;
    const same = language && language === second.language ? {language} : {};
    const end = {...(second.turn === undefined ? {} : {turn: second.turn}), end_ms: Math.max(first.end_ms, second.end_ms)};
    const provisional = first.provisional || second.provisional ? {provisional: true} : {};
    return {...withWords(rest, words), ...same, ...end, ...provisional, confidence};
}

/**
 * Finds a text in segments, also across their words.
 * @param {any[]} segments @param {string} wanted @param {boolean} exact whether small and capital letters differ
 * @returns {Place[]} in order; they do not overlap
 */
export function found(segments, wanted, exact) {
    const fold = (/** @type {string} */ text) => (exact ? text : text.toLowerCase());
    const sought = fold(wanted.trim().replace(/\s+/g, " "));
    /** @type {Place[]} */
    const places = [];
    if (!sought) return places;
    for (const [number, segment] of segments.entries()) {
        const words = timedWords(segment).map(({word}) => word);
        const starts = words.map((_, index) => joined(words.slice(0, index + 1)).length - words[index].length);
        const text = fold(joined(words));
        for (let at = text.indexOf(sought); at >= 0; at = text.indexOf(sought, at + sought.length)) {
            const end = at + sought.length;
            const index = starts.findLastIndex((start) => start <= at);
            const count = starts.filter((start, other) => other >= index && start < end).length;
            places.push({number, index, count, start: at - starts[index], end: end - starts[index]});
        }
    }
    return places;
}

/**
 * Replaces what was found. @param {any} segment @param {Place[]} places in it, in order @param {string} text
 * @returns {any} the segment with this text in these places
 */
export function replaced(segment, places, text) {
    const words = [...timedWords(segment)];
    // From the end, so that the places before stay where they are.
    for (const {index, count, start, end} of [...places].reverse()) {
        const old = words.slice(index, index + count);
        const before = joined(old.map(({word}) => word));
        words.splice(index, count, ...instead(old, before.slice(0, start) + text + before.slice(end)));
    }
    return withWords(segment, words);
}

/**
 * Returns the words of a text in place of others. So many words as before keep their times; otherwise the time of all
 * is divided by their letters.
 */
function instead(old, text) {
    const pieces = wordsOf(text);
    const [from, to] = [old[0].start_ms, old.at(-1).end_ms];
    const timed = pieces.length === old.length ? old : timedWords({words: null, text, start_ms: from, end_ms: to});
    return pieces.map((word, at) => {
        const {start_ms, end_ms} = timed[at];
        const before = old[at];
        if (pieces.length === old.length && before.word === word) return before;
        const spoken = pieces.length === old.length && before.spoken !== undefined ? {spoken: before.spoken} : {};
        const {speaker} = before ?? old[0];
        return {word, start_ms, end_ms, confidence: 1, ...spoken, ...(isKnown(speaker) ? {speaker} : {})};
    });
}

function withWords(segment, words) {
    const {alternatives, ...rest} = segment; // they are of other words
    const spoken = words.every((word) => word.spoken !== undefined);
    const said = segment.spoken === undefined || !spoken ? {} : {spoken: joined(words.map((word) => word.spoken))};
    const fresh = {...rest, ...said, words, text: joined(words.map(({word}) => word))};
    return words.some(({speaker}) => isKnown(speaker)) ? withMain(fresh) : fresh;
}
