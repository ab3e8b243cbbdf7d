// Finds a text in the transcript, and replaces it.

import {found} from "./edits.js";

/** The bar below the name of the transcript. It changes the sheet by `sheets.replace`, so the user can undo that. */
export class FindBar {
    /** @type {any} */
    #bar;
    #button;
    #sheets;
    #words;
    /** @type {import("./edits.js").Place[]} */
    #places = [];
    #at = -1; // the place that is shown

    /**
     * @param {HTMLFormElement} bar @param {HTMLElement} button @param {import("../sheets.js").Sheets} sheets
     * @param {import("./words.js").Words} words
     */
    constructor(bar, button, sheets, words) {
        [this.#bar, this.#button, this.#sheets, this.#words] = [bar, button, sheets, words];
        this.#listen();
        button.addEventListener("click", () => (bar.hidden ? this.open() : this.close()));
        sheets.addEventListener("change", () => bar.hidden || this.#look(this.#at));
    }

    open() {
        this.#bar.hidden = false;
        this.#button.ariaExpanded = "true";
        this.#bar.elements.sought.focus();
        this.#bar.elements.sought.select();
        this.#look(0);
    }

    close() {
        if (this.#bar.hidden) return;
        this.#bar.hidden = true;
        this.#button.ariaExpanded = "false";
        this.#words.mark([], -1);
        this.#button.focus();
    }

    #listen() {
        this.#bar.addEventListener("input", ({target}) => {
            if (target.name !== "instead") this.#look(0);
        });
        this.#bar.addEventListener("submit", (event) => event.preventDefault());
        this.#bar.addEventListener("keydown", (event) => {
            if (event.key === "Escape") this.close();
            else if (event.key === "Enter" && event.target.name === "sought") this.#show(this.#at + (event.shiftKey ? -1 : 1));
            else return;
            event.preventDefault();
            event.stopPropagation();
        });
        this.#bar.addEventListener("click", ({target}) => {
            const {find} = target.closest("button")?.dataset ?? {};
            if (find === "next") this.#show(this.#at + 1);
            if (find === "previous") this.#show(this.#at - 1);
            if (find === "replace") this.#replace(this.#places.slice(this.#at, this.#at + 1));
            if (find === "all") this.#replace(this.#places);
            if (find === "close") this.close();
        });
    }

    /** Finds all places, and shows this one of them. @param {number} at */
    #look(at) {
        const {sought, exact} = this.#bar.elements;
        this.#places = found(this.#sheets.present.segments, sought.value, exact.checked);
        this.#show(at);
    }

    /** @param {number} at */
    #show(at) {
        const {length} = this.#places;
        this.#at = length ? (at + length) % length : -1;
        const {sought} = this.#bar.elements;
        const count = length ? `${this.#at + 1} of ${length}` : sought.value.trim() ? "not found" : "";
        this.#bar.querySelector("[role=status]").textContent = count;
        for (const button of this.#bar.querySelectorAll("[data-find]")) {
            if (button.dataset.find !== "close") button.disabled = !length;
        }
        this.#words.mark(this.#places, this.#at);
    }

    /** @param {import("./edits.js").Place[]} places */
    #replace(places) {
        if (!places.length) return;
        this.#sheets.replace(places, this.#bar.elements.instead.value);
        this.#bar.elements.sought.focus(); // a button that cannot be pressed any more loses the focus
    }
}
