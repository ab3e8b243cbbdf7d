// The choice of model and language, if the service has several.

import {languageName} from "./languages.js";

/** Beside a model for English, a reader reads another language only for a session that has chosen it. */
const NOT_CHOSEN = "found out by the model, or English if it knows no other";

/** The fields of the options for it. */
export class ModelChoice {
    #model;
    #language;
    #settings;
    #hears = /** @type {HTMLElement} */ (document.getElementById("hears"));
    /** @type {Record<string, {model?: string, languages?: string[]}>} by public name */
    #models = {};

    /** @param {any} form @param {import("./settings.js").Settings} settings */
    constructor(form, settings) {
        [this.#model, this.#language, this.#settings] = [form.elements.model, form.elements.language, settings];
        this.#model.addEventListener("input", () => this.#show());
    }

    /** Asks the service what it has, and shows it. */
    async ask() {
        try {
            const answer = await fetch("/readyz", {cache: "no-store"});
            this.#models = (await answer.json()).models ?? {};
        } catch {
            return; // what was known before stays
        }
        this.#show();
    }

    #show() {
        const names = Object.keys(this.#models);
        const model = names.includes(this.#settings.get("model")) ? this.#settings.get("model") : "default";
        const languages = this.#models[model]?.languages ?? [];
        const heard = this.#models[model]?.model ?? "";
        this.#hears.textContent = heard && `The model ${heard} hears.`;
        this.#hears.hidden = !heard;
        fill(this.#model, names.map((name) => [name, name === "default" ? "the usual one" : name]), model);
        const named = languages.filter((code) => code !== "auto").map((code) => [code, languageName(code)]);
        const language = languages.includes(this.#settings.get("language")) ? this.#settings.get("language") : "auto";
        fill(this.#language, [["auto", NOT_CHOSEN], ...named], language);
        this.#model.closest("div").hidden = names.length < 2;
        this.#language.closest("div").hidden = named.length < 2;
        // What this service does not have any more must not be asked for.
        if (this.#settings.get("model") !== model) this.#settings.set("model", model);
        if (this.#settings.get("language") !== language) this.#settings.set("language", language);
    }
}

/** @param {HTMLSelectElement} field @param {string[][]} values @param {string} chosen */
function fill(field, values, chosen) {
    field.replaceChildren(...values.map(([value, words]) => new Option(words, value)));
    field.value = chosen;
}
