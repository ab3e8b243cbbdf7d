// Divides the words of finals into cues, which are readable subtitles, by the rules of streamer/base/cues.py. Pure.

import {columns, joined, separator, wordsOf} from "./joining.js";
import {isKnown, partsOf} from "./speakers.js";

const LINE_CHARACTERS = 42;
const CUE_LINES = 2;
const LONGEST_CUE_MS = 7000;
const SHORTEST_CUE_MS = 1000;
const GAP_MS = 80; // between a cue and the next one
const LONG_GAP_MS = 500; // a shorter gap would flicker, so the cue stays until the next one is near
const PAUSE_MS = 1500; // a longer pause between two words always starts a new cue
const CHARACTERS_A_SECOND = 17; // the reading speed that cues aim at; faster ones cost

/** Words that belong to the next word, so no line or cue should end with them. */
const TIED_TO_NEXT = new Set(
    `a an the my your his her its our their this that these those some any no every each of to in on at by for from with
    into onto over under about as than and or but if because when while where which who whose what how is are was were
    be been am do does did have has had will would can could shall should may might must not very so too i you he she it
    we they there mister missus doctor saint mr mrs ms dr st`.split(/\s+/),
);
/** Words that begin a phrase, so a break before them is good. */
const PHRASE_STARTERS = new Set(
    `and or but because if when while where which who that as since until before after although though unless so than
    then with without from into for in on at by to of`.split(/\s+/),
);

/** The costs of a division. The unit is the cost of one more cue. */
const ONE_MORE_CUE = 1;
const TOO_SHORT = 6;
const TOO_FAST = 6;
const ONE_WORD = 1.5;
const SPLITS_TIED_WORDS = 1;
const AFTER_SENTENCE = 1.5;
const AFTER_COMMA = 0.9;
const BEFORE_PHRASE = 0.4;
const PAUSE = 1;
const HALF_SECOND_MS = 500;
const UNEVEN = 1;
const LONE_WORD = 1;

/** @typedef {{startMs: number, endMs: number, lines: string[], channel?: number, speaker?: number}} Cue */

/**
 * Cues of one channel never overlap; those of two channels only while words of both were spoken at the same time. A cue
 * has the words of one speaker.
 * @param {any[]} segments @param {(voice: {channel?: number, speaker?: number}) => string} [label] before somebody's words
 * @returns {Cue[]}
 */
export function cues(segments, label = () => "") {
    const all = [...new Set(segments.map(({channel}) => channel))].flatMap((channel) => {
        const own = segments.filter((segment) => segment.channel === channel);
        return channelCues(own.flatMap(partsOf), channel, label);
    });
    all.sort((a, b) => a.startMs - b.startMs || (a.channel ?? 0) - (b.channel ?? 0));
    return all.map(({spokenMs, ...cue}, index) => {
        const after = all[index + 1];
        return after ? {...cue, endMs: Math.max(spokenMs, shownUntil(cue.startMs, cue.endMs, after.startMs))} : cue;
    });
}

/** Returns when a cue disappears that would end at `endMs`, if the next one starts at `nextMs`. */
function shownUntil(startMs, endMs, nextMs) {
    if (nextMs - endMs >= LONG_GAP_MS) return endMs;
    // A cue that is followed at once is shown for half of its time at least.
    const latest = Math.max(startMs, nextMs - GAP_MS, startMs + Math.floor((nextMs - startMs) / 2));
    return latest < endMs ? latest : Math.max(endMs, Math.min(latest, startMs + LONGEST_CUE_MS));
}

/** The cues of one channel, each with the time up to which its words need it. */
function channelCues(segments, channel, label) {
    // A dictated line break is not a word.
    const all = segments.map((segment) => {
        const own = {...(channel === undefined ? {} : {channel}), ...(isKnown(segment.speaker) ? {speaker: segment.speaker} : {})};
        return {own, words: timedWords(segment).filter(({word}) => word.trim())};
    });
    const spoken = all.filter(({words}) => words.length);
    const groups = spoken.flatMap(({own, words}, index) => {
        const nextMs = spoken[index + 1]?.words[0].start_ms ?? null;
        return divided(words, nextMs, columns(label(own))).map((divided) => ({...divided, own}));
    });
    return groups.map(({group, lines, own}, index) => {
        const startMs = group[0].start_ms;
        const readable = Math.max(group.at(-1).end_ms, startMs + readableMs(lines));
        const following = groups[index + 1]?.group[0].start_ms ?? Infinity;
        const endMs = shownUntil(startMs, readable, following);
        return {startMs, endMs, lines, ...own, spokenMs: Math.min(endMs, group.at(-1).end_ms)};
    });
}

/** Returns the words with their times. Without words in the final, the length of a word decides its time. */
export function timedWords(segment) {
    if (segment.words?.length) return segment.words;
    const pieces = wordsOf(segment.text);
    const letters = pieces.reduce((sum, piece) => sum + length(piece), 0);
    const scale = (segment.end_ms - segment.start_ms) / Math.max(1, letters);
    let passed = 0;
    return pieces.map((word) => {
        const start_ms = segment.start_ms + Math.round(passed * scale);
        passed += length(word);
        return {word, start_ms, end_ms: segment.start_ms + Math.round(passed * scale)};
    });
}

/** Divides the words of a segment into cues at the lowest cost. `nextMs`: the start of the next segment. */
function divided(words, nextMs, labelLength) {
    const best = [{cost: 0, start: 0, lines: []}]; // up to each word: cost, and the start of its cue
    for (let end = 1; end <= words.length; end++) {
        let least = null;
        for (let start = end - 1; start >= 0; start--) {
            const group = words.slice(start, end);
            const lines = linesOf(group, labelLength);
            const fits = lines.length <= CUE_LINES && group.at(-1).end_ms - group[0].start_ms <= LONGEST_CUE_MS;
            if (group.length > 1 && (!fits || group[1].start_ms - group[0].end_ms > PAUSE_MS)) break;
            const until = end < words.length ? words[end].start_ms : nextMs;
            let cost = best[start].cost + ONE_MORE_CUE + costOf(group, lines, until);
            if (end < words.length) cost += breakCost(words[end - 1], words[end]);
            if (least === null || cost < least.cost) least = {cost, start, lines};
        }
        best.push(least);
    }
    const groups = [];
    for (let end = words.length; end > 0; end = best[end].start) {
        groups.unshift({group: words.slice(best[end].start, end), lines: best[end].lines});
    }
    return groups;
}

/** Returns the cost of this cue if the next one starts at `until`. */
function costOf(group, lines, until) {
    const start = group[0].start_ms;
    const wanted = readableMs(lines);
    let shown = Math.max(group.at(-1).end_ms - start, wanted);
    if (until !== null) shown = Math.min(shown, until - GAP_MS - start);
    let cost = TOO_FAST * Math.max(0, 1 - shown / wanted);
    cost += TOO_SHORT * Math.max(0, 1 - shown / SHORTEST_CUE_MS);
    return cost + ONE_WORD * Number(group.length === 1);
}

/** Returns the cost of a break between these two words. It is negative at a good point. */
function breakCost(word, following) {
    const last = word.word.toLowerCase().split(" ").at(-1);
    const first = following.word.toLowerCase().split(" ")[0];
    const pause = following.start_ms - word.end_ms;
    let cost = -PAUSE * Math.min(1, Math.max(0, pause) / HALF_SECOND_MS);
    const tied = Number(TIED_TO_NEXT.has(last.replace(/\.+$/, ""))); // also Mr. and Dr.
    const starts = Number(PHRASE_STARTERS.has(first));
    if (!tied && /[.?!。？！]$/.test(last)) cost -= AFTER_SENTENCE;
    else if (/[,:;，、：；]$/.test(last)) cost -= AFTER_COMMA;
    return cost + SPLITS_TIED_WORDS * tied - BEFORE_PHRASE * starts;
}

/** Returns words in lines. Two lines have about the same length, and the break between them is at a good point. */
function linesOf(words, labelLength) {
    const pieces = words.map(({word}) => word);
    const text = joined(pieces);
    const whole = columns(text);
    if (whole <= LINE_CHARACTERS - labelLength) return [text];
    if (whole > CUE_LINES * LINE_CHARACTERS) return wrapped(text, labelLength);
    let best = null;
    let [first, gap] = [0, ""];
    for (let index = 1; index < words.length; index++) {
        first += gap.length + columns(pieces[index - 1]);
        gap = separator(pieces[index - 1], pieces[index]);
        const second = whole - first - gap.length;
        if (first > LINE_CHARACTERS - labelLength) break;
        if (second > LINE_CHARACTERS) continue;
        const uneven = (UNEVEN * Math.abs(first - second)) / LINE_CHARACTERS;
        const lone = LONE_WORD * Number(index === 1 || index === words.length - 1);
        const cost = breakCost(words[index - 1], words[index]) + uneven + lone;
        if (best === null || cost < best.cost) best = {cost, index};
    }
    if (best === null) return wrapped(text, labelLength);
    return [joined(pieces.slice(0, best.index)), joined(pieces.slice(best.index))];
}

/** Wraps a text where a line is full. A word that is longer than a line begins in the line before it. */
function wrapped(text, labelLength) {
    const lines = [""];
    const room = () => LINE_CHARACTERS - (lines.length === 1 ? labelLength : 0);
    for (const word of wordsOf(text)) {
        const last = lines.at(-1);
        let gap = separator(last, word);
        const fits = columns(last + gap + word) <= room();
        if (!fits && (columns(word) <= LINE_CHARACTERS || columns(last + gap) >= room())) {
            if (last) lines.push("");
            gap = "";
        }
        for (const letter of gap + word) {
            if (columns(lines.at(-1) + letter) > room()) lines.push("");
            lines[lines.length - 1] += letter;
        }
    }
    return lines;
}

function readableMs(lines) {
    const milliseconds = Math.ceil((1000 * columns(joined(lines))) / CHARACTERS_A_SECOND);
    return Math.min(LONGEST_CUE_MS, Math.max(SHORTEST_CUE_MS, milliseconds));
}

function length(text) {
    return [...text].length;
}
