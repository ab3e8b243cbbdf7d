// The present sheet, and how another one replaces it without a loss.

import {Keeper} from "./history/keeper.js";
import {Sheet} from "./transcript/sheet.js";

/**
 * Events: "replace" before a sheet of the history replaces the present one; "change"; "left" ({sheet}) when another
 * sheet replaced one although the user did not ask for it; "full" when the browser has no more space.
 */
export class Sheets extends EventTarget {
    present = new Sheet();
    /** What the player plays: the file, or the sound of the microphone as a file. @type {Blob | null} */
    source = null;
    #history;
    #undo;
    #keeper;
    #views;

    /** `views`: words, wave and player. */
    constructor(settings, history, undo, views) {
        super();
        [this.#history, this.#undo, this.#views] = [history, undo, views];
        this.#keeper = new Keeper(history, settings);
        this.#keeper.addEventListener("full", () => this.#tell("full"));
        this.#keeper.follow(this.present);
    }

    /**
     * Begins another sheet, for a recording or for speech.
     * @param {File | null} [file] @param {string} [why] @returns {boolean} whether the one before had content
     */
    begin(file = null, why = "") {
        const sheet = new Sheet(file?.name);
        void this.#history.claim(sheet.id);
        const used = this.#replace(sheet, file, null, why);
        if (file) this.#keeper.file(file);
        return used;
    }

    /** Notes that the sheet has changed, or that work on it has begun or ended. @param {boolean} [open] */
    changed(open = this.present.open) {
        const ended = this.present.open && !open;
        this.present.open = open;
        if (ended) void this.settled();
        else this.#keeper.changed();
    }

    /** Takes sound of the microphone. @param {Int16Array<ArrayBuffer>} samples */
    hear(samples) {
        this.present.hear(samples);
        this.#keeper.hear(samples);
    }

    /** Makes a segment of a partial that will never become final. */
    settle() {
        const {words, wave} = this.#views;
        words.clearPartial();
        const rest = this.present.settle();
        if (!rest) return;
        words.showFinal(rest);
        wave.segment(rest.segment, rest.start_ms, rest.end_ms, false);
        this.#keeper.changed();
    }

    /** @returns {Promise<void>} resolves when the sheet is kept with everything that belongs to it */
    settled() {
        return this.#keeper.settle(this.#views.wave.picture);
    }

    /**
     * Replaces the present sheet by one of the history.
     * @param {string} id @param {string} [why] @returns {Promise<boolean>} whether it was found
     */
    async open(id, why = "open") {
        this.#tell("replace");
        await this.settled();
        if (id === this.present.id && !this.present.empty) return true;
        const found = await this.#history.open(id);
        const alone = found !== null && (await this.#history.claim(id));
        if (!found || this.present.open) return false; // something was begun in the meantime
        const {sheet, source, picture, home} = found;
        if (!alone) sheet.fork();
        this.#replace(sheet, source, alone ? home : null, why);
        this.#show(picture);
        this.#tell("change");
        return true;
    }

    /** Deletes transcripts of the history; undo restores them. @param {string[]} ids @param {string} text its message */
    async remove(ids, text) {
        const present = ids.includes(this.present.id) ? this.present.id : "";
        if (present) {
            this.#tell("replace");
            await this.settled();
        }
        const backs = [];
        for (const id of ids) backs.push(await this.#history.remove(id));
        if (present) this.begin(null, "delete");
        this.#undo.add(text, async () => {
            for (const back of backs) await back();
            if (present) await this.open(present, "undo");
        });
    }

    /** @param {string} name of the present sheet */
    rename(name) {
        const sheet = this.present;
        const before = sheet.name;
        if (!name.trim() || name.trim() === before) return this.#tell("change");
        const put = async (other) => {
            if (this.present !== sheet && !(await this.open(sheet.id, "undo"))) return;
            this.present.name = other;
            this.#keeper.changed();
            this.#tell("change");
        };
        void put(name.trim());
        this.#undo.add(`The name was changed to “${name.trim()}”.`, () => put(before));
    }

    /** Replaces a word by another one, by several, or by none. The user can undo this. */
    reword(number, index, text) {
        const {id} = this.present;
        const before = this.present.reword(number, index, text);
        this.#showSegment(number);
        this.#undo.add("A word was changed.", async () => {
            if (this.present.id !== id && !(await this.open(id, "undo"))) return;
            this.present.segments[number] = before;
            this.#showSegment(number);
        });
    }

    /** @param {Sheet} sheet @param {Blob | null} source @param {any} home where it is already @param {string} why */
    #replace(sheet, source, home, why) {
        const {player, wave, words} = this.#views;
        const left = this.present;
        const used = !left.empty;
        left.open = false;
        if (used && why !== "delete") this.#lay(left, why);
        player.unload();
        wave.clear();
        words.clear();
        [this.present, this.source] = [sheet, source];
        this.#keeper.follow(sheet, home);
        this.#tell("change");
        if (used && !why) this.#tell("left", left);
        return used;
    }

    /** @param {Sheet} sheet that is not on the desk any more, but in the history @param {string} why */
    #lay(sheet, why) {
        void this.settled();
        this.#history.lay(sheet.id, this.source);
        const text = why === "clear" ? "The sheet is clear." : `“${sheet.name}” is in the history.`;
        // After an undo, the other sheet is in the history too, and that is enough.
        if (why !== "undo") this.#undo.add(text, () => this.open(sheet.id, "undo"));
    }

    #show(picture) {
        const {player, wave, words} = this.#views;
        const {present: sheet, source} = this;
        const rest = sheet.settle();
        if (rest) this.#keeper.changed();
        words.showAll(sheet.segments);
        if (picture) wave.picture = picture;
        else wave.blank(sheet.durationMs, sheet.segments);
        if (source) player.load(source);
        wave.seekable = player.loaded;
    }

    #showSegment(number) {
        this.#views.words.replaceFinal(number, this.present.segments[number]);
        this.#keeper.changed([number]);
        this.#tell("change");
    }

    #tell(type, detail = null) {
        this.dispatchEvent(new CustomEvent(type, {detail}));
    }
}
