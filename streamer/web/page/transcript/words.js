// The words on the page: grey while they may still change, then black, each with its time and confidence.

import {languageName} from "../languages.js";
import {timedWords} from "./cues.js";
import {shortClock} from "./formats.js";
import {joined, separator, wordsOf} from "./joining.js";
import {speakersOf} from "./speakers.js";

// A word with a lower confidence is marked.
export const DOUBTFUL = 0.6;
const QUIET_MS = 1000;

/** @typedef {(voice: {channel?: number, speaker?: number}) => string} Naming of whoever speaks; empty if nobody knows */

/** Shows finals and the partial. Event: "seek" with the time of a chosen word; `play` if Enter chose it. */
export class Words extends EventTarget {
    #finals;
    #partial;
    #tip;
    #segments = []; // for each final its words: {element, startMs, endMs}
    #words = []; // all of them, as they are shown
    #timed = null; // the same in the order of their times; null until it is needed
    #heard = null;
    #told = null;
    #reached = null; // the only word that Tab leads to

    constructor(finals, partial, tip) {
        super();
        [this.#finals, this.#partial, this.#tip] = [finals, partial, tip];
        for (const place of [finals, partial]) {
            place.addEventListener("pointerover", (event) => this.#tell(event.target.closest(".word")));
            place.addEventListener("pointerleave", () => this.#tell(document.activeElement.closest(".word")));
        }
        finals.addEventListener("focusin", (event) => this.#reach(event.target.closest(".word")));
        finals.addEventListener("focusout", () => this.#tell(null));
        finals.addEventListener("click", (event) => this.#choose(event.target.closest(".word")));
        finals.addEventListener("keydown", (event) => this.#key(event));
    }

    get empty() {
        return this.#words.length === 0 && this.#partial.childElementCount === 0;
    }

    /** The word that Tab leads to: its segment and its index; null if there is no word. */
    get reached() {
        return this.#reached ? this.placeOf(this.#reached) : null;
    }

    clear() {
        this.#finals.replaceChildren();
        this.#partial.replaceChildren();
        this.#tell(null);
        [this.#segments, this.#words, this.#timed, this.#heard, this.#reached] = [[], [], null, null, null];
    }

    /** Removes the partials, which will come again or never. */
    clearPartial() {
        this.#partial.replaceChildren();
    }

    /**
     * Shows a partial of a channel, or removes it if it has no words any more. Its first `stable` characters will not
     * change. @param {any} partial @param {string} [who]
     */
    showPartial(partial, who = "") {
        const {text, stable, start_ms, words, channel = 0} = partial;
        if (!text) return this.#rowOf(channel)?.remove();
        const timed = words && joined(words.map(({word}) => word)) === text && !text.includes("\n");
        const pieces = timed ? words : piecesOf(text).map((word) => ({word}));
        const row = this.#rowOf(channel) ?? this.#openPartial(channel, who);
        const place = row.querySelector(".words");
        row.querySelector(".at").textContent = shortClock(start_ms);
        const elements = [...place.querySelectorAll(".word")];
        let end = 0;
        for (const [index, piece] of pieces.entries()) {
            const element = elements[index] ?? place.appendChild(wordElement());
            if (element.textContent !== piece.word) element.textContent = piece.word;
            const gap = index ? separator(pieces[index - 1].word, piece.word) : "";
            end += gap.length + [...piece.word].length;
            element.classList.toggle("open", end > stable);
            describe(element, piece);
            const before = element.previousSibling;
            if (before?.nodeType === Node.TEXT_NODE) before.nodeValue = gap;
            else if (gap) element.before(gap);
        }
        for (const left of elements.slice(pieces.length)) {
            if (left.previousSibling?.nodeType === Node.TEXT_NODE) left.previousSibling.remove();
            left.remove();
        }
    }

    /** Replaces the partial of a channel by a final segment at this place. @param {Naming} [who] */
    showFinal(final, at = this.#segments.length, who = () => "") {
        const row = this.#rowOf(final.channel ?? 0);
        const settled = row?.querySelectorAll(".word:not(.open)").length ?? 0;
        row?.remove();
        this.splice(at, 0, [final], who);
        for (const {element} of this.#segments[at].slice(settled)) element.classList.add("settling");
    }

    /** Shows a whole transcript. Screen readers do not read it aloud. @param {Naming} [who] */
    showAll(finals, who) {
        this.clear();
        this.#finals.ariaLive = "off";
        this.splice(0, 0, finals, who);
        setTimeout(() => (this.#finals.ariaLive = "polite"), QUIET_MS);
    }

    /**
     * Replaces so many finals from this place on by others.
     * @param {number} at @param {number} count @param {any[]} finals @param {Naming} [who]
     */
    splice(at, count, finals, who = () => "") {
        const reached = this.reached;
        const lost = reached !== null && reached[0] >= at && reached[0] < at + count;
        const focused = lost && this.#reached.matches(":focus");
        for (const old of [...this.#finals.children].slice(at, at + count)) old.remove();
        const rows = finals.map((final) => segmentRow(final, who));
        const next = this.#finals.children[at] ?? null;
        for (const {paragraph} of rows) this.#finals.insertBefore(paragraph, next);
        const appended = at === this.#segments.length;
        this.#segments.splice(at, count, ...rows.map(({words}) => words));
        if (appended) this.#words.push(...rows.flatMap(({words}) => words));
        else this.#words = this.#segments.flat();
        this.#timed = null;
        if (count) this.#tell(null);
        if (lost) {
            this.#reached = null;
            const words = this.#segments.slice(at, at + finals.length).flat();
            this.#reach((words[Math.min(reached[1], words.length - 1)] ?? this.#words[0])?.element, false);
        }
        if (focused) this.#reached?.focus({preventScroll: true});
        if (!this.#reached) this.#reach(this.#words[0]?.element, false);
    }

    /** @param {Element} element @returns {[segment: number, index: number]} the place of this word of a final */
    placeOf(element) {
        const number = this.#segments.findIndex((words) => words.some((word) => word.element === element));
        return [number, this.#segments[number].findIndex((word) => word.element === element)];
    }

    /** Makes this word of a final the one that Tab leads to, in sight and focused if the user wants that. */
    show(number, index, focus = true) {
        const element = this.#segments[number]?.[index]?.element;
        this.#reach(element);
        if (focus) element?.focus({preventScroll: true});
        if (element) this.#keepInSight(element);
        return element;
    }

    /** How many words a final has. @param {number} number */
    count(number) {
        return this.#segments[number]?.length ?? 0;
    }

    /** Marks the words of these places, and shows one of them. @param {any[]} places @param {number} shown */
    mark(places, shown) {
        for (const element of this.#finals.querySelectorAll(".found")) element.classList.remove("found", "shown");
        for (const [at, {number, index, count}] of places.entries()) {
            for (const {element} of this.#segments[number]?.slice(index, index + count) ?? []) {
                element.classList.add("found");
                element.classList.toggle("shown", at === shown);
            }
        }
        const element = this.#finals.querySelector(".shown");
        if (element) this.#keepInSight(element);
    }

    /** Marks the word that is being played. With null, marks none. */
    follow(ms) {
        this.#timed ??= [...this.#words].sort((a, b) => a.startMs - b.startMs);
        const index = ms === null ? -1 : this.#indexAt(ms);
        const heard = index >= 0 && ms < this.#timed[index].endMs + 300 ? this.#timed[index].element : null;
        if (heard === this.#heard) return;
        this.#heard?.classList.remove("heard");
        heard?.classList.add("heard");
        this.#heard = heard;
        if (heard) this.#keepInSight(heard);
    }

    /** The last word that begins at this time or before. */
    #indexAt(ms) {
        let [low, high] = [0, this.#timed.length];
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.#timed[middle].startMs <= ms) low = middle + 1;
            else high = middle;
        }
        return low - 1;
    }

    #rowOf(channel) {
        return this.#partial.querySelector(`[data-channel="${channel}"]`);
    }

    #openPartial(channel, who) {
        const row = document.createElement("div");
        row.className = "segment";
        row.dataset.channel = String(channel);
        row.append(timeElement(0), wordsPlace());
        if (who) row.querySelector(".words").append(nameElement(who, channel), " ");
        this.#partial.append(row);
        return row;
    }

    #keepInSight(element) {
        const box = element.getBoundingClientRect();
        const dock = document.getElementById("dock");
        const lowest = dock.checkVisibility() ? dock.getBoundingClientRect().top : innerHeight; // a large view has none
        const highest = document.getElementById("tools").getBoundingClientRect().bottom;
        if (box.top < highest || box.bottom > lowest) element.scrollIntoView({block: "center", behavior: gently()});
    }

    #reach(element, tell = true) {
        if (!element) return;
        if (this.#reached) this.#reached.tabIndex = -1;
        element.tabIndex = 0;
        this.#reached = element;
        if (tell) this.#tell(element);
    }

    #choose(element, play = false) {
        // A click that ends a selection of text chooses no word.
        if (!element || element.isContentEditable || !getSelection().isCollapsed) return;
        const detail = {ms: Number(element.dataset.start), play};
        this.dispatchEvent(new CustomEvent("seek", {detail}));
    }

    #key(event) {
        const element = event.target.closest(".word");
        if (!element || element.isContentEditable || event.ctrlKey || event.altKey || event.metaKey) return;
        const all = this.#words.map((word) => word.element);
        const here = all.indexOf(element);
        const target = {
            ArrowRight: here + 1,
            ArrowLeft: here - 1,
            ArrowDown: this.#inLine(all, here, 1),
            ArrowUp: this.#inLine(all, here, -1),
            Home: 0,
            End: all.length - 1,
        }[event.key];
        if (event.key === "Enter") this.#choose(element, true);
        else if (target === undefined) return;
        else all[Math.max(0, Math.min(all.length - 1, target))].focus();
        event.preventDefault();
    }

    /** The nearest word in the next or the previous line. */
    #inLine(all, here, way) {
        const from = all[here].getBoundingClientRect();
        let best = here;
        let line = null;
        for (let index = here + way; index >= 0 && index < all.length; index += way) {
            const box = all[index].getBoundingClientRect();
            if (Math.abs(box.top - from.top) < from.height / 2) continue;
            line ??= box.top;
            if (Math.abs(box.top - line) > from.height / 2) break;
            const distance = (place) => Math.abs(place.left + place.width / 2 - from.left - from.width / 2);
            if (best === here || distance(box) < distance(all[best].getBoundingClientRect())) best = index;
        }
        return best;
    }

    #tell(element) {
        this.#told?.removeAttribute("aria-describedby");
        this.#told = element;
        this.#tip.textContent = element?.dataset.told ?? "";
        if (element?.dataset.told) element.setAttribute("aria-describedby", "tip");
    }
}

/** How to scroll, for users who may not want to see movement. */
export function gently() {
    return matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
}

function wordElement() {
    const element = document.createElement("span");
    element.className = "word";
    return element;
}

/** @param {any} final @param {Naming} who */
function segmentRow(final, who) {
    const paragraph = document.createElement("p");
    paragraph.className = "segment";
    // The service has found that the turn of the speaker is over.
    paragraph.classList.toggle("turn", final.turn !== undefined);
    const place = wordsPlace();
    paragraph.append(timeElement(final.start_ms), place);
    if (final.language) paragraph.append(languageElement(final.language));
    return {paragraph, words: spell(place, final, who)};
}

/** Says which language was heard, in that language. @param {string} code */
function languageElement(code) {
    const element = document.createElement("span");
    [element.className, element.textContent] = ["language", languageName(code, code)];
    return element;
}

/** @param {number} ms */
function timeElement(ms) {
    const at = document.createElement("span");
    [at.className, at.textContent, at.ariaHidden] = ["at", shortClock(ms), "true"];
    return at;
}

function wordsPlace() {
    const place = document.createElement("span");
    place.className = "words";
    return place;
}

/** @param {string} who speaks @param {number} [channel] @param {number} [speaker] */
function nameElement(who, channel, speaker) {
    const name = document.createElement("b");
    [name.className, name.textContent] = ["who", who];
    // Two colours take turns.
    if (((speaker ?? channel ?? 0) & 1) === 1) name.classList.add("other");
    return name;
}

/**
 * Adds the words of a final there. Before the first word, and where somebody else goes on, stands who speaks.
 * @param {HTMLElement} place @param {any} final @param {Naming} who
 * @returns {{element: HTMLElement, startMs: number, endMs: number}[]} the words
 */
function spell(place, final, who) {
    const {channel} = final;
    const timed = timedWords(final);
    const speakers = speakersOf(timed).map((speaker) => speaker ?? final.speaker);
    const first = who({channel, speaker: speakers.length ? speakers[0] : final.speaker});
    if (first) place.append(nameElement(first, channel, speakers[0]), " ");
    return timed.map((word, index, words) => {
        const speaker = speakers[index];
        if (index && speaker !== speakers[index - 1]) place.append(" ", nameElement(who({channel, speaker}), channel, speaker));
        const element = wordElement();
        element.textContent = word.word;
        element.tabIndex = -1;
        element.classList.toggle("doubtful", word.confidence < DOUBTFUL);
        describe(element, word);
        place.append(separator(words[index - 1]?.word ?? "", word.word), element);
        return {element, startMs: word.start_ms, endMs: word.end_ms};
    });
}

/** The words of a partial. A dictated line break stays where it is. @param {string} text @returns {string[]} */
function piecesOf(text) {
    return text.split(" ").flatMap((part) => (/\s/.test(part) ? [part] : wordsOf(part)));
}

function describe(element, {start_ms, end_ms, confidence, spoken, word}) {
    if (start_ms === undefined) return;
    const parts = [`${shortClock(start_ms, true)} – ${shortClock(end_ms, true)}`];
    if (confidence !== undefined) parts.push(`${Math.round(confidence * 100)} % sure`);
    const plain = word.toLowerCase().replace(/[.,?!:;]+$/, "");
    if (spoken !== undefined && spoken !== plain) parts.push(`“${spoken}”`);
    element.dataset.start = start_ms;
    element.dataset.told = parts.join(" · ");
}
