// Divides the words of finals into sentences and paragraphs, by the rules of streamer/base/paragraphs.py. Pure.

import {timedWords} from "./cues.js";
import {joined, wordsOf} from "./joining.js";
import {partsOf} from "./speakers.js";

const ENOUGH_WORDS = 60; // from here on, a short pause ends a paragraph
const MOST_WORDS = 120; // a sentence that would make it longer begins a new one
const FEW_WORDS = 20; // a paragraph with fewer words goes on after a pause, unless that is very long
const SHORT_PAUSE_MS = 500;
const PAUSE_MS = 2_000;
const LONG_PAUSE_MS = 5_000;
/** May follow the mark at the end of a sentence. */
const CLOSING = /["'\u201d\u2019\u00bb)\]\u300d\u300f]+$/;
const END = /[.?!。？！]$/;
/** After these words, a full stop does not end a sentence. */
const ABBREVIATIONS = new Set("mr mrs ms dr st prof gen col capt lt sgt rev hon jr sr vs".split(" "));

/**
 * @typedef {{text: string, startMs: number, endMs: number, whole: boolean, turn: boolean, channel?: number,
 *     speaker?: number, words: any[]}} Sentence
 * a sentence, or the part of one that is in one segment and that one speaker says. `whole`: it ends here. `turn`: a turn ends here. `words`: with
 * their times; none if they do not make up the text
 */

/** Says where a new paragraph begins, sentence by sentence. */
export class ParagraphRule {
    #marks = false; // whether the transcript has marks at the ends of sentences
    /** @type {Sentence | null} */
    #last = null;
    #words = 0; // of the present paragraph

    /** @param {any} segment @returns {Sentence[]} its sentences; without marks, a segment is one */
    sentences(segment) {
        const parts = partsOf(segment).flatMap(sentencesOf);
        // The written form has marks, even if none has come yet.
        this.#marks ||= segment.spoken !== undefined || parts.some(({text}) => hasEnd(text));
        return this.#marks ? parts : parts.map((part) => ({...part, whole: true}));
    }

    /** @param {Sentence} sentence the next one @returns {boolean} whether it begins a paragraph */
    begins(sentence) {
        const words = wordsOf(sentence.text).length;
        const begins = this.#last === null || this.#ends(this.#last, sentence, words);
        this.#words = begins ? words : this.#words + words;
        this.#last = sentence;
        return begins;
    }

    /** @param {Sentence} last @param {Sentence} following @param {number} words */
    #ends(last, following, words) {
        if (following.channel !== last.channel || following.speaker !== last.speaker) return true;
        // A sentence that goes on begins with a small letter, whatever mark is before it.
        if (!last.whole || (this.#marks && isSmall(following.text))) return false;
        const pause = following.startMs - last.endMs;
        if (this.#words + words > MOST_WORDS || pause >= LONG_PAUSE_MS) return true;
        if (this.#words >= ENOUGH_WORDS && (pause >= SHORT_PAUSE_MS || last.turn)) return true;
        return this.#words >= FEW_WORDS && (pause >= PAUSE_MS || last.turn);
    }
}

/** @param {any} segment @returns {Sentence[]} */
function sentencesOf(segment) {
    const {text, channel, speaker, start_ms: startMs, end_ms: endMs} = segment;
    const turn = segment.turn !== undefined && segment.turn !== null;
    if (!text.trim()) return [];
    const words = timedWords(segment).filter(({word}) => word.trim());
    // A line break that was dictated is no word, and belongs where it is.
    if (!words.length || joined(words.map(({word}) => word)) !== text) {
        return [{text, startMs, endMs, whole: hasEnd(text), turn, channel, speaker, words: []}];
    }
    /** @type {any[][]} */
    const groups = [[]];
    for (const [index, word] of words.entries()) {
        groups[groups.length - 1].push(word);
        if (index + 1 < words.length && hasEnd(word.word) && !isSmall(words[index + 1].word)) groups.push([]);
    }
    return groups.map((group, index) => {
        const part = joined(group.map(({word}) => word));
        const times = {startMs: group[0].start_ms, endMs: group.at(-1).end_ms};
        const ends = {whole: hasEnd(part), turn: turn && index === groups.length - 1};
        return {text: part, ...times, ...ends, channel, speaker, words: group};
    });
}

/** @param {string} text @returns {boolean} whether a sentence ends with it */
function hasEnd(text) {
    const bare = text.trimEnd().replace(CLOSING, "");
    if (!END.test(bare)) return false;
    const last = bare.split(/\s+/).at(-1) ?? "";
    const word = last.slice(0, -1);
    // Mr. and the letters of a name, such as J. S. Bach.
    return !last.endsWith(".") || !(ABBREVIATIONS.has(word.toLowerCase()) || isInitial(word));
}

/** @param {string} word */
function isInitial(word) {
    return [...word].length === 1 && word.toLowerCase() !== word && word !== "I";
}

/** @param {string} text */
function isSmall(text) {
    return /^\p{Ll}/u.test(text);
}
