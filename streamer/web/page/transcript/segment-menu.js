// The menu for a segment: splits it, merges it, and names who speaks.

import {Menu} from "../controls.js";

export class SegmentMenu extends Menu {
    #sheets;
    #words;
    #names;

    /**
     * @param {HTMLElement} button @param {HTMLElement} list @param {HTMLElement} finals
     * @param {import("../sheets.js").Sheets} sheets @param {import("./words.js").Words} words
     * @param {HTMLDialogElement} names the dialog for the names of the channels and the speakers
     */
    constructor(button, list, finals, sheets, words, names) {
        super(button, list, (deed) => this.#do(deed));
        [this.#sheets, this.#words, this.#names] = [sheets, words, names];
        // A click on the time of a segment opens the menu for it.
        finals.addEventListener("click", (/** @type {any} */ event) => {
            const row = event.target.closest(".at")?.parentElement;
            if (!row) return;
            words.show([...finals.children].indexOf(row), 0, false);
            this.open();
        });
        finals.addEventListener("keydown", (/** @type {any} */ event) => {
            const {target} = event;
            if (!(event.ctrlKey || event.metaKey) || !target.closest(".word") || target.isContentEditable) return;
            if (event.key !== "Enter" && event.key !== "Backspace") return;
            event.preventDefault();
            this.#do(event.key === "Enter" ? "split" : "merge");
        });
        names.querySelector("form").addEventListener("submit", () => this.#rename());
        names.querySelector("header button").addEventListener("click", () => names.close());
    }

    open() {
        const place = this.#words.reached;
        const [number, index] = place ?? [-1, 0];
        const word = this.#sheets.present.segments[number]?.words?.[index]?.word ?? "";
        const [split, merge, name] = this.list.querySelectorAll("button");
        split.textContent = index ? `Split before “${word}”` : "Split before the word that has the focus";
        split.disabled = !index;
        merge.disabled = !this.#sheets.mergeable(number);
        name.disabled = !this.#voices.channels && !this.#voices.speakers;
        super.open();
    }

    /** @param {string} deed */
    #do(deed) {
        const place = this.#words.reached;
        if (!place) return;
        const [number, index] = place;
        if (deed === "split" && index) {
            this.#sheets.split(number, index);
            this.#words.show(number + 1, 0);
        }
        if (deed === "merge" && this.#sheets.mergeable(number)) {
            const before = this.#words.count(number - 1);
            this.#sheets.merge(number);
            this.#words.show(number - 1, before + index);
        }
        if (deed === "names") this.#askNames();
    }

    /** How many channels and how many speakers the sheet has. */
    get #voices() {
        const {segments, speakers} = this.#sheets.present;
        return {channels: 1 + segments.reduce((most, {channel = -1}) => Math.max(most, channel), -1), speakers};
    }

    #askNames() {
        const {channelNames, speakerNames} = this.#sheets.present;
        const {channels, speakers} = this.#voices;
        const rows = [...nameFields("Channel", channels, channelNames), ...nameFields("Speaker", speakers, speakerNames)];
        const fields = this.#names.querySelector("#names-fields");
        fields.replaceChildren(...rows);
        this.#names.showModal();
        /** @type {HTMLElement | null} */ (fields.querySelector("input"))?.focus();
    }

    #rename() {
        const {channelNames, speakerNames} = this.#sheets.present;
        const [channels, speakers] = ["Channel", "Speaker"].map((what) => {
            const fields = [...this.#names.querySelectorAll(`#names-fields [data-what="${what}"]`)];
            return fields.map((/** @type {any} */ field) => field.value.trim());
        });
        if (differ(channels, channelNames) || differ(speakers, speakerNames)) this.#sheets.nameVoices(channels, speakers);
    }
}

/** @param {string} what "Channel" or "Speaker" @param {number} count @param {string[]} names @returns {HTMLElement[]} */
function nameFields(what, count, names) {
    return Array.from({length: count}, (_, number) => {
        const label = document.createElement("label");
        label.textContent = `${what} ${number + 1}`;
        const field = Object.assign(document.createElement("input"), {type: "text", maxLength: 60, autocomplete: "off"});
        field.value = names[number] ?? "";
        field.dataset.what = what;
        label.append(field);
        return label;
    });
}

/** @param {string[]} names @param {string[]} before @returns {boolean} whether a name was changed */
function differ(names, before) {
    return names.some((name, number) => name !== (before[number] ?? ""));
}
