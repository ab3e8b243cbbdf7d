// Who says which words: speakers of words by their times, and the parts of a segment, like streamer/base/speakers.py. Pure.

import {joined} from "./joining.js";
import {printable} from "./printable.js";

const NEAR_MS = 1000; // a word that is this far from every turn belongs to nobody

/** @typedef {{start_ms: number, end_ms: number, speaker: number}} Turn a time in which a speaker speaks */
/** @typedef {{channel?: number | null, speaker?: number | null}} Voice of a segment, a sentence or a cue */
/** @typedef {(number | undefined)[]} Speakers of words; undefined for one that nobody is known to say */

/** @param {any} segment @param {Turn[]} turns @returns {any} the segment whose words have the speakers of these turns */
export function withTurns(segment, turns) {
    if (!segment.words?.length) return saidBy(segment, speakerAt(segment, turns));
    return withMain({...segment, words: segment.words.map((/** @type {any} */ word) => saidBy(word, speakerAt(word, turns)))});
}

/** @param {any} segment @param {(speaker: number) => number} other @returns {any} it with other numbers of speakers */
export function renumbered(segment, other) {
    const change = (/** @type {any} */ said) => {
        return saidBy(said, isKnown(said.speaker) ? other(said.speaker) : undefined);
    };
    return change({...segment, ...(segment.words ? {words: segment.words.map(change)} : {})});
}

/** @param {any} segment @returns {any} the segment with the speaker of most of its words, if its words have speakers */
export function withMain(segment) {
    const {words} = segment;
    if (!words?.length) return segment;
    return saidBy(segment, mainSpeaker(words.map((/** @type {any} */ word) => word.speaker)));
}

/** @param {any} segment @returns {any[]} the parts that one speaker says; the segment if nobody else says a part of it */
export function partsOf(segment) {
    const words = segment.words ?? [];
    const speakers = speakersOf(words);
    const whole = joined(words.map((/** @type {any} */ {word}) => word)) === segment.text;
    if (new Set(speakers).size < 2 || !whole) return [segment];
    /** @type {{speaker: number | undefined, own: any[]}[]} */
    const groups = [];
    for (const [index, word] of words.entries()) {
        const speaker = speakers[index];
        if (!groups.length || groups[groups.length - 1].speaker !== speaker) groups.push({speaker, own: []});
        groups[groups.length - 1].own.push(word);
    }
    return groups.map(({speaker, own}, index) => {
        const {turn, ...rest} = segment;
        const last = index === groups.length - 1;
        return {
            ...rest,
            ...(last && turn !== undefined ? {turn} : {}), // it ends with the last one
            start_ms: own[0].start_ms,
            end_ms: own[own.length - 1].end_ms,
            text: joined(own.map(({word}) => word)),
            words: own,
            speaker,
        };
    });
}

/**
 * @param {any[]} words @returns {Speakers} of each word; one without a speaker has that of the word before it, or of the
 *     next one at the beginning
 */
export function speakersOf(words) {
    let last = words.find(({speaker}) => isKnown(speaker))?.speaker;
    return words.map(({speaker}) => (last = isKnown(speaker) ? speaker : last));
}

/**
 * The name of a channel and of the speaker there; a number, counted from 1, for one without a name.
 * @param {{channelNames?: string[], speakerNames?: string[]}} names @param {Voice} voice @returns {string} empty if there is only one of both
 */
export function nameOf({channelNames, speakerNames}, {channel, speaker}) {
    const names = [];
    if (isKnown(channel)) names.push(channelNames?.[Number(channel)] || String(Number(channel) + 1));
    if (isKnown(speaker)) names.push(speakerNames?.[Number(speaker)] || String(Number(speaker) + 1));
    return printable(names.join("/"));
}

/** @param {any} said a word, or a segment @param {number | undefined} speaker @returns {any} it with this speaker */
function saidBy(said, speaker) {
    const {speaker: before, ...rest} = said;
    return speaker === undefined ? rest : {...rest, speaker};
}

/** @param {unknown} voice @returns {boolean} whether there is this number of a speaker, or of a channel */
export function isKnown(voice) {
    return voice !== undefined && voice !== null;
}

/** @param {{start_ms: number, end_ms: number}} said @param {Turn[]} turns @returns {number | undefined} */
function speakerAt({start_ms, end_ms}, turns) {
    /** @type {Map<number, number>} */
    const shared = new Map();
    let [nearest, nearestMs] = [/** @type {number | undefined} */ (undefined), NEAR_MS + 1];
    for (const turn of turns) {
        const overlap = Math.min(end_ms, turn.end_ms) - Math.max(start_ms, turn.start_ms);
        if (overlap > 0) shared.set(turn.speaker, (shared.get(turn.speaker) ?? 0) + overlap);
        else if (-overlap < nearestMs) [nearest, nearestMs] = [turn.speaker, -overlap];
    }
    return shared.size ? mostOf(shared) : nearest;
}

/** @param {Speakers} speakers @returns {number | undefined} the one of most words */
function mainSpeaker(speakers) {
    /** @type {Map<number, number>} */
    const counts = new Map();
    for (const speaker of speakers) {
        if (isKnown(speaker)) counts.set(Number(speaker), (counts.get(Number(speaker)) ?? 0) + 1);
    }
    return mostOf(counts);
}

/** @param {Map<number, number>} amounts @returns {number | undefined} whose amount is the largest, the first of equals */
function mostOf(amounts) {
    return [...amounts].reduce((best, each) => (best && best[1] >= each[1] ? best : each), /** @type {any} */ (null))?.[0];
}
