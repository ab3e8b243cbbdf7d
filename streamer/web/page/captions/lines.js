// Divides running text into lines for captions. Text that stays keeps its lines, so no word jumps. Pure.

import {columns, separator, wordsOf} from "../transcript/joining.js";
import {nameOf} from "../transcript/speakers.js";

/**
 * @typedef {{text: string, channel?: number, speaker?: number}} Said
 * @typedef {Said & {parts?: Said[], speaker_names?: string[]}} Shown
 * A partial or a final, as far as it is shown. `parts`: those of a final that several speakers say.
 */

export class CaptionLines {
    /** @type {number} */
    #most;
    /** @type {number} */
    #width;
    #settled = [""]; // lines of finals; the last one goes on
    #voice = ""; // of the last line
    /** @type {Map<number | undefined, Shown>} */
    #partials = new Map(); // by channel

    /** @param {number} most lines @param {number} width characters of a line */
    constructor(most, width) {
        this.#most = most;
        this.#width = width;
    }

    /** The lines to show, with the words that may still change. @returns {string[]} */
    get shown() {
        let [lines, voice] = [[...this.#settled], this.#voice];
        for (const event of this.#partials.values()) [lines, voice] = this.#add(lines, voice, event);
        return lines.filter(Boolean).slice(-this.#most);
    }

    /** @param {Shown} event */
    final(event) {
        this.#partials.delete(event.channel);
        for (const part of partsShown(event)) [this.#settled, this.#voice] = this.#add(this.#settled, this.#voice, part);
        this.#settled = this.#settled.slice(-this.#most);
    }

    /** @param {Shown} event */
    partial(event) {
        if (event.text) this.#partials.set(event.channel, event);
        else this.#partials.delete(event.channel); // its words were taken back
    }

    clear() {
        this.#settled = [""];
        this.#partials.clear();
    }

    /**
     * @param {string[]} before @param {string} last @param {Shown} event
     * @returns {[string[], string]} the lines with the event, and its voice
     */
    #add(before, last, event) {
        // While words may still change, nobody knows who says them.
        const voice = nameShown(event) || (event.channel === undefined ? last : "");
        const lines = [...before];
        if (voice !== last && lines.at(-1)) lines.push("");
        const label = voice && (voice !== last || !lines.at(-1)) ? `[${voice}]` : "";
        for (const word of [...(label ? [label] : []), ...wordsOf(event.text)]) {
            const line = lines[lines.length - 1];
            const longer = line + separator(line, word) + word;
            if (line && columns(longer) > this.#width) lines.push(word);
            else lines[lines.length - 1] = longer;
        }
        return [lines, voice];
    }
}

/** @param {Shown} event @returns {Shown[]} its parts, each with what one speaker says */
export function partsShown({parts, ...event}) {
    return parts?.map((part) => ({...event, ...part})) ?? [event];
}

/** @param {Shown} said @returns {string} the name of whoever says it, or a number; empty if there is only one */
export function nameShown({channel, speaker, speaker_names: speakerNames = []}) {
    return nameOf({channelNames: [], speakerNames}, {channel, speaker});
}
