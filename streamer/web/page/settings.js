// The user's settings, kept in the browser: options for the service, pace, microphone, key, and what the history keeps.

import {CHOICES} from "../options.js";

const PLACE = "streamer.settings";
const KEY_PLACE = "streamer.key";
const USUAL = {
    hotwords: "", endpoint: "1000", step: "320", written: true, dictation: false, channels: "ask", speakers: "off", device: "",
    model: "default", language: "auto", text: "usual", pace: "fast", keepKey: false, keep: true, keepSound: false,
    ...Object.fromEntries(CHOICES.map(({name, usual}) => [name, usual])),
};
/** The settings that have a field in the form. */
const FIELDS = [
    "model", "language", "hotwords", "endpoint", "step", "written", "dictation", "channels", "speakers", "text", "device",
    ...CHOICES.map(({name}) => name),
];
const HOTWORDS_MOST = 200;

/** The settings of this browser. If it stores nothing (private windows, blocked cookies), they last for this visit. */
export class Settings {
    #values = {...USUAL};
    #key = "";

    constructor() {
        try {
            const kept = JSON.parse(localStorage.getItem(PLACE) ?? "{}");
            // An earlier version of the page has stored this. There, the setting was off by default.
            if (kept?.dictation === undefined) delete kept?.written;
            for (const [name, usual] of Object.entries(USUAL)) {
                if (typeof kept?.[name] === typeof usual) this.#values[name] = kept[name];
            }
        } catch {
            // This page has not written what is stored there.
        }
        this.#key = read("sessionStorage") || read("localStorage");
    }

    get(name) {
        return this.#values[name];
    }

    set(name, value) {
        this.#values[name] = value;
        try {
            localStorage.setItem(PLACE, JSON.stringify(this.#values));
        } catch {
            // The setting applies to this visit only.
        }
        if (name === "keepKey") this.key = this.#key;
    }

    reset() {
        for (const name of FIELDS) this.set(name, USUAL[name]);
    }

    get key() {
        return this.#key;
    }

    /** Keeps the key for this tab, and in this browser only if the user wants that. */
    set key(key) {
        this.#key = key.trim();
        write("sessionStorage", this.#key);
        write("localStorage", this.#values.keepKey ? this.#key : "");
    }

    /** The options for the protocol's `start`. */
    get options() {
        const {hotwords, endpoint, step, written, dictation, speakers, model, language} = this.#values;
        const names = hotwords.split(/[\n,;]+/).map((name) => name.trim()).filter(Boolean);
        const options = {partial_words: true, second_pass: "reader"};
        if (model !== USUAL.model) options.model = model;
        if (language !== USUAL.language) options.language = language;
        if (names.length) options.hotwords = names.slice(0, HOTWORDS_MOST);
        if (endpoint === "off") options.endpoint = "off";
        else if (endpoint === "turn") options.endpoint = {turn: true};
        else if (endpoint !== USUAL.endpoint) options.endpoint = {after_text_ms: Number(endpoint)};
        if (step !== USUAL.step) options.step_ms = Number(step);
        if (written) options.written = true;
        if (written && dictation) options.dictation = true;
        if (speakers === "on") options.speakers = true;
        else if (speakers !== USUAL.speakers) options.speakers = Number(speakers);
        for (const {name, usual, values} of CHOICES) {
            // A former version of the page may have stored a value that there is not any more.
            const value = this.#values[name];
            if (value !== usual && value in values) options[name] = value;
        }
        return options;
    }

    /** Shows the settings in the fields of this form, and keeps changes that the user makes there. */
    bind(form) {
        for (const choice of CHOICES) form.elements.channels.labels[0].before(...choiceField(choice));
        const fields = FIELDS.map((name) => form.elements[name]);
        const show = () => {
            for (const field of fields) {
                if (field.type === "checkbox") field.checked = this.get(field.name);
                else field.value = this.get(field.name);
                // For example, a microphone that is not connected any more.
                if (field.selectedIndex === -1) field.selectedIndex = 0;
            }
            form.elements.key.value = this.#key;
            form.elements["keep-key"].checked = this.get("keepKey");
        };
        for (const field of fields) {
            const value = () => (field.type === "checkbox" ? field.checked : field.value);
            field.addEventListener("input", () => this.set(field.name, value()));
        }
        form.elements.key.addEventListener("input", (event) => (this.key = event.target.value));
        form.elements["keep-key"].addEventListener("input", (event) => this.set("keepKey", event.target.checked));
        show();
        return show;
    }
}

/** The label and the field of a choice. */
function choiceField({name, label, values}) {
    const text = document.createElement("label");
    text.htmlFor = name;
    text.textContent = label;
    const field = document.createElement("select");
    field.id = field.name = name;
    for (const [value, words] of Object.entries(values)) field.add(new Option(words, value));
    return [text, field];
}

function read(store) {
    try {
        return window[store].getItem(KEY_PLACE) ?? "";
    } catch {
        return "";
    }
}

function write(store, key) {
    try {
        if (key) window[store].setItem(KEY_PLACE, key);
        else window[store].removeItem(KEY_PLACE);
    } catch {
        // The key applies to this visit only.
    }
}
