// Captions of the present session: tells them to the other windows of this browser, and makes the link for an audience.

import {isKnown, partsOf} from "../transcript/speakers.js";
import {CHANNEL} from "./channel.js";

const PATH = "/v1/captions";
const LOOK_EVERY_MS = 5_000;

/** The dialog "Captions", and what it does. */
export class Sharing {
    #channel = new BroadcastChannel(CHANNEL);
    #dialog;
    #settings;
    /** @type {import("../../streamer.js").Session | null} */
    #session = null;
    #shared = false;
    #looking = 0;
    #link = "";

    #names;

    /**
     * @param {any} dialog @param {any} settings have the key
     * @param {() => string[]} names of the speakers of the session
     */
    constructor(dialog, settings, names) {
        [this.#dialog, this.#settings, this.#names] = [dialog, settings, names];
        this.#part("share").addEventListener("click", () => void this.#share());
        this.#part("unshare").addEventListener("click", () => void this.#end());
        this.#part("copy-link").addEventListener("click", () => void this.#copy());
        dialog.querySelector("#look").addEventListener("change", () => this.#show());
        this.#show();
    }

    /** Takes the words of this session from now on. @param {import("../../streamer.js").Session} session */
    follow(session) {
        [this.#session, this.#shared, this.#link] = [session, false, ""];
        for (const type of ["partial", "final"]) {
            session.addEventListener(type, ({detail}) => {
                if (this.#session === session) this.#channel.postMessage({type, event: shown(detail, this.#names())});
            });
        }
        session.addEventListener("state", ({detail: {state}}) => {
            if (state === "closed" && this.#session === session) this.#over();
            this.#show();
        });
        this.#show();
    }

    #over() {
        this.#channel.postMessage({type: "end"});
        [this.#session, this.#shared] = [null, false];
        clearInterval(this.#looking);
        this.#say("");
    }

    /** Makes the link, or asks how many read along. */
    async #share() {
        const session = this.#session;
        const answer = await this.#ask("POST").catch(() => null);
        if (this.#session !== session) return;
        if (!answer?.ok) {
            const problem = await answer?.json().catch(() => null);
            return this.#say(problem?.error?.message ?? "The service does not answer.");
        }
        const {page, listeners} = await answer.json();
        this.#link = new URL(page, location.href).href;
        this.#say(listeners === 1 ? "1 person reads along." : `${listeners} people read along.`);
        if (!this.#shared) this.#looking = setInterval(() => void (this.#dialog.open && this.#share()), LOOK_EVERY_MS);
        this.#shared = true;
        this.#show();
    }

    async #end() {
        clearInterval(this.#looking);
        await this.#ask("DELETE").catch(() => null);
        this.#shared = false;
        this.#say("The link does not work any more.");
        this.#show();
    }

    /** @param {string} method */
    #ask(method) {
        const {key} = this.#settings;
        const headers = key ? {Authorization: `Bearer ${key}`} : {};
        return fetch(PATH, {method, headers, body: JSON.stringify({token: this.#session?.token ?? ""})});
    }

    async #copy() {
        const field = this.#part("link");
        field.select();
        let copied = true;
        try {
            await navigator.clipboard.writeText(field.value);
        } catch {
            // Pages without HTTPS have no clipboard interface, only this old way.
            copied = document.execCommand("copy");
        }
        this.#say(copied ? "The link is copied." : "The browser does not allow copying.");
    }

    #show() {
        const running = this.#session !== null && this.#session.state !== "connecting";
        const look = this.#dialog.querySelector("[name=look]:checked").value;
        this.#part("share").hidden = this.#shared;
        this.#part("share").disabled = !running;
        this.#part("shared").hidden = !this.#shared;
        this.#part("link").value = this.#link ? `${this.#link}&lines=${look}` : "";
    }

    #say(text) {
        this.#part("share-state").textContent = text;
    }

    /** @param {string} id @returns {any} */
    #part(id) {
        return this.#dialog.querySelector(`#${id}`);
    }
}

/**
 * @param {any} result a partial or a final @param {string[]} names of the speakers
 * @returns {import("./lines.js").Shown & {n: number}} it as streamer/bridge/broadcast.py tells it to listeners
 */
function shown(result, names) {
    const parts = partsOf(result);
    const {n, text, channel, speaker} = result;
    return {
        n,
        text,
        channel,
        speaker,
        ...(isKnown(speaker) && names.some(Boolean) ? {speaker_names: names} : {}),
        ...(parts.length > 1 ? {parts: parts.map((part) => ({text: part.text, speaker: part.speaker}))} : {}),
    };
}
