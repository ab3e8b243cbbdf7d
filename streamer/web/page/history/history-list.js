// Shows the history as a list with a search. The user can open a transcript, delete it, or switch the history off.

import {shortClock, stopText} from "../transcript/formats.js";

const MOST_SHOWN = 200;
const SEARCH_AFTER_MS = 200;

/** The content of the history dialog. Event: "open" with the id of a transcript. */
export class HistoryList extends EventTarget {
    #place;
    #history;
    #sheets;
    #undo;
    #searching = new AbortController();
    #timer = 0;

    /**
     * @param {HTMLElement} dialog @param {import("./history.js").History} history
     * @param {import("../sheets.js").Sheets} sheets which deletes @param {import("../undo.js").Undo} undo
     * @param {import("../settings.js").Settings} settings
     */
    constructor(dialog, history, sheets, undo, settings) {
        super();
        this.#place = (/** @type {string} */ id) => /** @type {any} */ (dialog.querySelector(`#${id}`));
        [this.#history, this.#sheets, this.#undo] = [history, sheets, undo];
        this.#place("wanted").addEventListener("input", () => {
            clearTimeout(this.#timer);
            this.#timer = setTimeout(() => void this.show(), SEARCH_AFTER_MS);
        });
        // Enter would close the dialog.
        this.#place("wanted").addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
        this.#place("kept").addEventListener("click", (event) => void this.#click(event));
        this.#place("delete-all").addEventListener("click", () => void this.#deleteAll());
        this.#place("deleted").addEventListener("click", (/** @type {any} */ event) => {
            if (event.target.closest("button")) void this.#bringBack();
        });
        for (const [id, name] of [["keep", "keep"], ["keep-sound", "keepSound"]]) {
            const input = this.#place(id);
            input.checked = settings.get(name);
            input.addEventListener("input", () => {
                settings.set(name, input.checked);
                this.#place("keep-sound").disabled = !settings.get("keep");
            });
        }
        this.#place("keep-sound").disabled = !settings.get("keep");
    }

    /** Shows the present history. */
    async show() {
        this.#searching.abort();
        const {signal} = (this.#searching = new AbortController());
        const wanted = this.#place("wanted").value.trim();
        const found = await this.#history.search(wanted, signal);
        if (signal.aborted) return;
        this.#place("kept").replaceChildren(...found.slice(0, MOST_SHOWN).map((record) => this.#item(record)));
        const bytes = found.reduce((sum, {textBytes, soundBytes}) => sum + textBytes + soundBytes, 0);
        const number = found.length === 1 ? "1 transcript" : `${found.length} transcripts`;
        const more = found.length > MOST_SHOWN ? ` The newest ${MOST_SHOWN} are shown.` : "";
        const none = wanted ? "No transcript has these words." : "There is no transcript yet.";
        this.#place("kept-size").textContent = found.length ? `${number}, ${size(bytes)}.${more}` : none;
        this.#place("delete-all").disabled = found.length === 0;
        this.#place("delete-all").textContent = wanted ? "Delete these" : "Delete all";
    }

    /** Removes the message about transcripts that were deleted when the dialog was last open. */
    forget() {
        this.#place("deleted").replaceChildren();
    }

    #item(record) {
        const item = document.createElement("li");
        const open = Object.assign(document.createElement("button"), {type: "button", className: "kept"});
        open.dataset.id = record.id;
        const name = document.createElement("b");
        name.textContent = record.name;
        const facts = document.createElement("small");
        const {complete = !record.open, stoppedMs, recordingMs} = record; // earlier versions did not write them
        const going = record.open && record.id === this.#sheets.present.id;
        const length = complete || going
            ? shortClock(record.durationMs)
            : stopText({stoppedMs: stoppedMs ?? record.durationMs, recordingMs});
        const parts = [day(record.beganAt), length, size(record.textBytes + record.soundBytes)];
        if (record.kind) parts.push("with sound");
        if (!record.kept) parts.push("until this tab is closed");
        facts.textContent = parts.join(" · ");
        const beginning = document.createElement("span");
        beginning.textContent = record.beginning || (record.partials?.[0] ?? record.partial)?.text || "";
        open.append(name, facts, beginning);
        const remove = Object.assign(document.createElement("button"), {type: "button", className: "plain"});
        remove.ariaLabel = `Delete ${record.name}`;
        Object.assign(remove.dataset, {remove: record.id, name: record.name});
        remove.append(document.querySelector("#clear svg").cloneNode(true));
        item.append(open, remove);
        return item;
    }

    async #click(event) {
        const {id, remove, name} = event.target.closest("button")?.dataset ?? {};
        if (id) this.dispatchEvent(new CustomEvent("open", {detail: id}));
        if (!remove) return;
        await this.#delete([remove], `“${name}” was deleted.`);
    }

    async #deleteAll() {
        const found = await this.#history.search(this.#place("wanted").value, new AbortController().signal);
        const text = found.length === 1 ? "1 transcript was deleted." : `${found.length} transcripts were deleted.`;
        await this.#delete(found.map(({id}) => id), text);
    }

    async #delete(ids, text) {
        await this.#sheets.remove(ids, text);
        const button = Object.assign(document.createElement("button"), {type: "button", className: "link"});
        button.textContent = "Undo";
        this.#place("deleted").replaceChildren(`${text} `, button);
        await this.show();
        button.focus();
    }

    async #bringBack() {
        await this.#undo.back();
        this.forget();
        await this.show();
        this.#place("wanted").focus();
    }
}

/** @param {number} bytes */
function size(bytes) {
    const kilobytes = bytes / 1000;
    if (kilobytes < 1000) return `${Math.max(1, Math.round(kilobytes))} kB`;
    const megabytes = kilobytes / 1000;
    return megabytes < 1000 ? `${megabytes.toFixed(megabytes < 10 ? 1 : 0)} MB` : `${(megabytes / 1000).toFixed(1)} GB`;
}

/** @param {number} time */
function day(time) {
    return new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "short"}).format(time);
}
