// Controls with more than a click: dialogs, menus, and dropping files.

import {ModelChoice} from "./models.js";

/** The dialogs: options, history, captions, keys, and use from a program. */
export class Dialogs {
    #dialogs = new Map();
    #refresh;
    #devices;
    #select;
    #list;

    #models;

    /** `devices` lists the microphones of this machine. `list` is the content of the history. */
    constructor(settings, devices, list) {
        this.#list = list;
        for (const id of ["options", "history", "keys", "programs", "names", "captions"]) {
            const dialog = /** @type {HTMLDialogElement} */ (document.getElementById(id));
            this.#dialogs.set(id, dialog);
            document.getElementById(`${id}-open`)?.addEventListener("click", () => this.open(id));
            // A click beside the dialog, on its backdrop, closes it.
            dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
        }
        const form = this.#dialogs.get("options").querySelector("form");
        this.#select = form.elements.device;
        this.#devices = devices;
        this.#refresh = settings.bind(form);
        this.#models = new ModelChoice(form, settings);
        document.getElementById("options-reset").addEventListener("click", () => {
            settings.reset();
            this.#refresh();
        });
        const address = `${location.protocol.replace("http", "ws")}//${location.host}/v1/stream`;
        for (const place of document.querySelectorAll("#address, [data-address]")) place.textContent = address;
        for (const place of document.querySelectorAll("[data-site]")) place.textContent = location.origin;
    }

    get opened() {
        return [...this.#dialogs.values()].some((dialog) => dialog.open);
    }

    open(id) {
        if (id === "options") void this.#listDevices();
        if (id === "options") void this.#models.ask();
        if (id === "history") this.#list.forget();
        if (id === "history") void this.#list.show();
        this.#refresh();
        this.#dialogs.get(id).showModal();
    }

    close(id) {
        this.#dialogs.get(id).close();
    }

    async #listDevices() {
        const found = await this.#devices().catch(() => []);
        const named = found.filter(({deviceId, label}) => deviceId && label && deviceId !== "default");
        const options = named.map(({deviceId, label}) => new Option(label, deviceId));
        this.#select.replaceChildren(this.#select.options[0], ...options);
        this.#refresh();
    }
}

/** A button with a menu. What is chosen has its name in `data-deed`. */
export class Menu {
    #button;
    #list;

    constructor(button, list, choose) {
        [this.#button, this.#list] = [button, list];
        button.addEventListener("click", () => (this.opened ? this.close() : this.open()));
        list.addEventListener("click", (event) => {
            const {deed} = event.target.closest("button")?.dataset ?? {};
            if (deed) this.close();
            if (deed) choose(deed);
        });
        list.addEventListener("keydown", (event) => this.#key(event));
        addEventListener("pointerdown", (event) => {
            if (!list.contains(event.target) && !button.contains(event.target)) this.close(false);
        });
        list.addEventListener("focusout", ({relatedTarget}) => {
            if (relatedTarget && !list.contains(relatedTarget) && relatedTarget !== button) this.close(false);
        });
    }

    get opened() {
        return !this.#list.hidden;
    }

    get list() {
        return this.#list;
    }

    close(refocus = true) {
        if (!this.opened) return;
        this.#list.hidden = true;
        this.#button.ariaExpanded = "false";
        if (refocus) this.#button.focus();
    }

    open() {
        this.#list.hidden = false;
        this.#button.ariaExpanded = "true";
        this.#list.querySelector("button:not(:disabled)")?.focus();
    }

    #key(event) {
        const all = [...this.#list.querySelectorAll("button:not(:disabled)")];
        const here = all.indexOf(document.activeElement);
        const target = {ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: -1}[event.key];
        if (event.key === "Escape") this.close();
        else if (target === undefined) return;
        else all.at(target % all.length).focus();
        event.preventDefault();
    }
}

/** Calls `take` with files that are dropped anywhere on the page. Shows meanwhile that they can be dropped. */
export function dropping(sign, take) {
    let inside = 0;
    const holdsFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    addEventListener("dragenter", (event) => {
        if (holdsFile(event) && ++inside) sign.hidden = false;
    });
    addEventListener("dragleave", (event) => {
        if (holdsFile(event) && --inside <= 0) [inside, sign.hidden] = [0, true];
    });
    addEventListener("dragover", (event) => holdsFile(event) && event.preventDefault());
    addEventListener("drop", (event) => {
        [inside, sign.hidden] = [0, true];
        if (!holdsFile(event)) return;
        event.preventDefault();
        const files = [...event.dataTransfer.files];
        if (files.length) take(files);
    });
}
