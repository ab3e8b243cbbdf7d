// The sheet that is on the desk, and how another one takes its place: nothing that was on it is lost.

import {Keeper} from "./history/keeper.js";
import {Sheet} from "./transcript/sheet.js";

/**
 * Events: "replace" before a sheet of the history takes the place of the present one; "change"; "left" ({sheet}) when
 * another sheet took the place of one without being asked for; "full" when the browser keeps no more.
 */
export class Sheets extends EventTarget {
    present = new Sheet();
    /** What the player plays: the file, or the sound of the microphone as one. @type {Blob | null} */
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
     * Another sheet, of a recording or for what is spoken.
     * @param {File | null} [file] @param {string} [why] @returns {boolean} whether something was on the one before
     */
    begin(file = null, why = "") {
        const sheet = new Sheet(file?.name);
        void this.#history.claim(sheet.id);
        const used = this.#replace(sheet, file, null, why);
        if (file) this.#keeper.file(file);
        return used;
    }

    /** There is something new on the sheet, or work on it has begun or ended. @param {boolean} [open] */
    changed(open = this.present.open) {
        const ended = this.present.open && !open;
        this.present.open = open;
        if (ended) void this.settled();
        else this.#keeper.changed();
    }

    /** Sound of the microphone. @param {Int16Array<ArrayBuffer>} samples */
    hear(samples) {
        this.present.hear(samples);
        this.#keeper.hear(samples);
    }

    /** What was shown and will not become final stays as it was. */
    settle() {
        const {words, wave} = this.#views;
        words.clearPartial();
        const rest = this.present.settle();
        if (!rest) return;
        words.showFinal(rest);
        wave.segment(rest.segment, rest.start_ms, rest.end_ms, false);
        this.#keeper.changed();
    }

    /** @returns {Promise<void>} when the sheet is kept with all that belongs to it */
    settled() {
        return this.#keeper.settle(this.#views.wave.picture);
    }

    /**
     * A sheet of the history takes the place of this one.
     * @param {string} id @param {string} [why] @returns {Promise<boolean>} whether it was there
     */
    async open(id, why = "open") {
        this.#tell("replace");
        await this.settled();
        if (id === this.present.id && !this.present.empty) return true;
        const found = await this.#history.open(id);
        const alone = found !== null && (await this.#history.claim(id));
        if (!found || this.present.open) return false; // something was begun meanwhile
        const {sheet, source, picture, home} = found;
        if (!alone) sheet.fork();
        this.#replace(sheet, source, alone ? home : null, why);
        this.#show(picture);
        this.#tell("change");
        return true;
    }

    /** Deletes transcripts of the history; that can be undone. @param {string[]} ids @param {string} text what is told */
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
        this.#undo.add(`It is named “${name.trim()}”.`, () => put(before));
    }

    /** Puts another word there, or several, or none; that can be undone. */
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

    /** @param {Sheet} sheet @param {Blob | null} source @param {any} home where it is kept already @param {string} why */
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

    /** @param {Sheet} sheet it is not on the desk any more, but in the history @param {string} why */
    #lay(sheet, why) {
        void this.settled();
        this.#history.lay(sheet.id, this.source);
        const text = why === "clear" ? "The sheet is clear." : `“${sheet.name}” is in the history.`;
        // What is undone leaves a sheet that is in the history, too: that is enough.
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
