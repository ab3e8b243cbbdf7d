// Divides running text into lines for captions. Text that stays keeps its lines, so no word jumps. Pure.

import {columns, separator, wordsOf} from "../transcript/joining.js";

/** @typedef {{text: string, channel?: number}} Shown a partial or a final, as far as it is shown */

export class CaptionLines {
    /** @type {number} */
    #most;
    /** @type {number} */
    #width;
    #settled = [""]; // lines of finals; the last one goes on
    /** @type {number | undefined} */
    #channel;
    /** @type {Map<number | undefined, Shown>} */
    #partials = new Map(); // by channel

    /** @param {number} most lines @param {number} width characters of a line */
    constructor(most, width) {
        this.#most = most;
        this.#width = width;
    }

    /** The lines to show, with the words that may still change. @returns {string[]} */
    get shown() {
        let [lines, channel] = [[...this.#settled], this.#channel];
        for (const event of this.#partials.values()) [lines, channel] = this.#add(lines, channel, event);
        return lines.filter(Boolean).slice(-this.#most);
    }

    /** @param {Shown} event */
    final(event) {
        this.#partials.delete(event.channel);
        [this.#settled, this.#channel] = this.#add(this.#settled, this.#channel, event);
        this.#settled = this.#settled.slice(-this.#most);
    }

    /** @param {Shown} event */
    partial(event) {
        this.#partials.set(event.channel, event);
    }

    clear() {
        this.#settled = [""];
        this.#partials.clear();
    }

    /**
     * @param {string[]} before @param {number | undefined} last @param {Shown} event
     * @returns {[string[], number | undefined]} the lines with the event, and its channel
     */
    #add(before, last, event) {
        const {text, channel} = event;
        const lines = [...before];
        if (channel !== last && lines.at(-1)) lines.push("");
        const label = channel !== undefined && (channel !== last || !lines.at(-1)) ? `[${channel + 1}]` : "";
        for (const word of [...(label ? [label] : []), ...wordsOf(text)]) {
            const line = lines[lines.length - 1];
            const longer = line + separator(line, word) + word;
            if (line && columns(longer) > this.#width) lines.push(word);
            else lines[lines.length - 1] = longer;
        }
        return [lines, channel];
    }
}
