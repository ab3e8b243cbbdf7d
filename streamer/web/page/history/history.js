// The history: every earlier transcript with its name, date and times, and with its sound if the user wants that.

import {wav} from "../../decoding/wav-writer.js";
import {Sheet} from "../transcript/sheet.js";
import {BrowserHome} from "./browser-home.js";
import {TabHome} from "./tab-home.js";

/** How many sounds stay available while the tab is open, even if they are not kept. */
const SOUNDS_AT_HAND = 4;
const CLAIM_MS = 1_000;

/**
 * @typedef {{id: string, name: string, file: string, fileBytes: number, beganAt: number, changedAt: number,
 *     durationMs: number, recordingMs: number, complete: boolean, stoppedMs: number | null, partials: any[],
 *     partial?: any, options: any, channelNames: string[], speakerNames?: string[], cuts: any[], open: boolean, beginning: string,
 *     textBytes: number, kind: "" | "file" | "pcm", soundBytes: number, soundRows: number}} Kept
 * A transcript without its segments. `open`: work on it goes on. `beginning`: its first words. `kind`: of its sound.
 * `partial` is that of an earlier version. The others are those of a Sheet.
 */

export class History {
    #browser = new BrowserHome();
    #tab = new TabHome();
    #settings;
    /** @type {Map<string, Blob>} */
    #sounds = new Map();
    #claimed = "";
    #release = () => {};

    /** @param {import("../settings.js").Settings} settings whose `keep` decides where transcripts go */
    constructor(settings) {
        this.#settings = settings;
    }

    /** Where a new transcript is kept. @returns {BrowserHome | TabHome} */
    get home() {
        return this.#settings.get("keep") ? this.#browser : this.#tab;
    }

    /** Where transcripts are kept if the browser has no space for them. They exist while the tab is open. */
    get tab() {
        return this.#tab;
    }

    /** @returns {Promise<(Kept & {kept: boolean})[]>} the newest first; `kept`: it exists longer than the tab */
    async list() {
        const kept = await this.#browser.records().catch(() => []);
        const found = new Map(kept.map((record) => [record.id, {...record, kept: true}]));
        for (const record of await this.#tab.records()) found.set(record.id, {...record, kept: false});
        return [...found.values()].sort((a, b) => b.beganAt - a.beganAt);
    }

    /**
     * Finds the transcripts with all of these words in their name or text.
     * @param {string} wanted @param {AbortSignal} signal
     */
    async search(wanted, signal) {
        const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
        const found = [];
        for (const record of await this.list()) {
            if (signal.aborted) return [];
            const segments = words.length ? await this.#homeOf(record).rows("segments", record.id) : [];
            const text = [record.name, ...segments.map((segment) => segment.text)].join(" ").toLowerCase();
            if (words.every((word) => text.includes(word))) found.push(record);
        }
        return found;
    }

    /** Finds where this transcript is kept; null if it does not exist. @param {string} id */
    async whereabouts(id) {
        if (await this.#tab.record(id)) return this.#tab;
        return (await this.#browser.record(id).catch(() => null)) ? this.#browser : null;
    }

    /** @param {string} id @returns {Promise<{sheet: Sheet, source: Blob | null, picture: any, home: any} | null>} */
    async open(id) {
        const home = await this.whereabouts(id);
        if (!home) return null;
        const [record, segments, [picture = null]] = await Promise.all([
            home.record(id), home.rows("segments", id), home.rows("picture", id),
        ]);
        const source = this.#sounds.get(id) ?? (await soundOf(home, record));
        return {sheet: Sheet.of(record, segments, record.file ? null : source), source, picture, home};
    }

    /**
     * Reserves this transcript for this tab, until the tab claims another one. So a duplicated tab does not write
     * where the first one does.
     * @param {string} id @returns {Promise<boolean>}
     */
    claim(id) {
        if (this.#claimed === id) return Promise.resolve(true);
        this.#release();
        [this.#claimed, this.#release] = [id, () => {}];
        if (!navigator.locks) return Promise.resolve(true); // a page that is not secure has no locks
        return new Promise((resolve) => {
            const held = () => {
                if (this.#claimed !== id) return resolve(false); // another one was claimed in the meantime
                resolve(true);
                return new Promise((release) => (this.#release = () => release(null)));
            };
            // A page that was just reloaded may still hold the lock.
            navigator.locks.request(`streamer ${id}`, {signal: AbortSignal.timeout(CLAIM_MS)}, held)
                .catch(() => resolve(false));
        });
    }

    /** Makes the sound of this transcript available for some time. @param {string} id @param {Blob | null} sound */
    lay(id, sound) {
        this.#sounds.delete(id);
        if (sound) this.#sounds.set(id, sound);
        const [oldest] = this.#sounds.keys();
        if (this.#sounds.size > SOUNDS_AT_HAND) this.#sounds.delete(oldest);
    }

    /** Adds a transcript. @param {Sheet} sheet @returns {Promise<void>} */
    async add(sheet) {
        const rows = sheet.segments.map((segment, number) => /** @type {any} */ (["segments", [sheet.id, number], segment]));
        const entries = /** @type {any} */ ([["records", sheet.id, sheet.record], ...rows]);
        // Without space in the browser, it exists as long as the tab.
        await this.home.write(entries).catch(() => this.#tab.write(entries));
    }

    /** @param {string} id @returns {Promise<() => Promise<void>>} which brings it back while the tab is open */
    async remove(id) {
        const home = await this.whereabouts(id);
        if (!home) return async () => {};
        const record = await home.record(id);
        /** @type {import("./browser-home.js").Entry[]} */
        const entries = [["records", id, record]];
        for (const store of ["segments", "sound", "picture"]) {
            const rows = await home.rows(store, id);
            entries.push(...rows.map((row, number) => /** @type {any} */ ([store, [id, number], row])));
        }
        const sound = this.#sounds.get(id);
        await home.erase(id);
        this.#sounds.delete(id);
        return async () => {
            await home.write(entries);
            this.lay(id, sound ?? null);
        };
    }

    /** @param {{kept: boolean}} record */
    #homeOf({kept}) {
        return kept ? this.#browser : this.#tab;
    }
}

/** @param {BrowserHome | TabHome} home @param {Kept} record */
async function soundOf(home, record) {
    if (!record.kind) return null;
    const pieces = await home.rows("sound", record.id);
    if (!pieces.length) return null;
    return record.kind === "file" ? pieces[0] : wav(pieces);
}
