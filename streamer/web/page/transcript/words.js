// The words on the page: grey while they may still change, then black, each with its time and confidence.

import {timedWords} from "./cues.js";
import {shortClock} from "./formats.js";
import {joined, separator, wordsOf} from "./joining.js";

// A word with a lower confidence is marked.
export const DOUBTFUL = 0.6;
const QUIET_MS = 1000;

/** Shows finals and the partial. Event: "seek" with the time of a chosen word; `play` if Enter chose it. */
export class Words extends EventTarget {
    #finals;
    #partial;
    #tip;
    #segments = []; // for each final its words: {element, startMs, endMs}
    #words = []; // all of them, in the order of their times
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

    clear() {
        this.#finals.replaceChildren();
        this.#partial.replaceChildren();
        this.#tell(null);
        [this.#segments, this.#words, this.#heard, this.#reached] = [[], [], null, null];
    }

    /** Removes the partial, which will come again or never. */
    clearPartial() {
        this.#partial.replaceChildren();
    }

    /** Shows a partial. Its first `stable` characters will not change. */
    showPartial({text, stable, start_ms, words}) {
        const timed = words && joined(words.map(({word}) => word)) === text && !text.includes("\n");
        const pieces = timed ? words : piecesOf(text).map((word) => ({word}));
        const place = this.#partial.querySelector(".words") ?? this.#openPartial();
        this.#partial.querySelector(".at").textContent = shortClock(start_ms);
        const elements = [...place.children];
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

    /** Replaces the partial by a final segment. */
    showFinal(final) {
        const settled = this.#partial.querySelectorAll(".word:not(.open)").length;
        this.#partial.replaceChildren();
        const paragraph = document.createElement("p");
        paragraph.className = "segment";
        // The service has found that the turn of the speaker is over.
        paragraph.classList.toggle("turn", final.turn !== undefined);
        const at = document.createElement("span");
        [at.className, at.textContent] = ["at", shortClock(final.start_ms)];
        at.ariaHidden = "true";
        const place = document.createElement("span");
        place.className = "words";
        paragraph.append(at, place);
        const words = spell(place, final);
        for (const {element} of words.slice(settled)) element.classList.add("settling");
        this.#segments.push(words);
        this.#words.push(...words);
        this.#finals.append(paragraph);
        if (!this.#reached) this.#reach(this.#words[0]?.element, false);
    }

    /** Shows a whole transcript. Screen readers do not read it aloud. */
    showAll(finals) {
        this.clear();
        this.#finals.ariaLive = "off";
        for (const final of finals) this.showFinal(final);
        setTimeout(() => (this.#finals.ariaLive = "polite"), QUIET_MS);
    }

    /** Shows the new words of a final. @param {number} number */
    replaceFinal(number, final) {
        const index = this.#segments[number].findIndex(({element}) => element === this.#reached);
        const place = this.#finals.children[number].querySelector(".words");
        place.replaceChildren();
        this.#segments[number] = spell(place, final);
        this.#words = this.#segments.flat();
        this.#tell(null);
        if (index < 0) return;
        this.#reached = null;
        const words = this.#segments[number];
        this.#reach((words[Math.min(index, words.length - 1)] ?? this.#words[0])?.element, false);
        this.#reached?.focus({preventScroll: true});
    }

    /** @param {Element} element @returns {[segment: number, index: number]} the place of this word of a final */
    placeOf(element) {
        const number = this.#segments.findIndex((words) => words.some((word) => word.element === element));
        return [number, this.#segments[number].findIndex((word) => word.element === element)];
    }

    /** Marks the word that is being played. With null, marks none. */
    follow(ms) {
        const index = ms === null ? -1 : this.#indexAt(ms);
        const heard = index >= 0 && ms < this.#words[index].endMs + 300 ? this.#words[index].element : null;
        if (heard === this.#heard) return;
        this.#heard?.classList.remove("heard");
        heard?.classList.add("heard");
        this.#heard = heard;
        if (heard) this.#keepInSight(heard);
    }

    /** The last word that begins at this time or before. */
    #indexAt(ms) {
        let [low, high] = [0, this.#words.length];
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.#words[middle].startMs <= ms) low = middle + 1;
            else high = middle;
        }
        return low - 1;
    }

    #openPartial() {
        const at = document.createElement("span");
        at.className = "at";
        at.ariaHidden = "true";
        const place = document.createElement("span");
        place.className = "words";
        this.#partial.append(at, place);
        return place;
    }

    #keepInSight(element) {
        const box = element.getBoundingClientRect();
        const lowest = document.getElementById("dock").getBoundingClientRect().top;
        const highest = document.querySelector("body > header").getBoundingClientRect().bottom;
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

/** @returns {{element: HTMLElement, startMs: number, endMs: number}[]} the words of a final, after adding them there */
function spell(place, final) {
    return timedWords(final).map((word, index, words) => {
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
