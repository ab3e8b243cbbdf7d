// The present sheet, and how another one replaces it without a loss.

import {Keeper} from "./history/keeper.js";
import {merged, replaced, reworded, split} from "./transcript/edits.js";
import {Sheet} from "./transcript/sheet.js";

/**
 * Events: "replace" before a sheet of the history replaces the present one; "change"; "named" with other names; "left" ({sheet}) when another
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
     * @param {Blob | null} [file] @param {string} [why] @param {string} [name] of the file
     * @returns {boolean} whether the one before had content
     */
    begin(file = null, why = "", name = "") {
        const sheet = new Sheet(name);
        sheet.fileBytes = file?.size ?? 0;
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

    /** Removes partials, which come again, or whose words were taken back. */
    unshow() {
        this.present.unshow();
        this.#views.words.clearPartial();
        this.#views.wave.shut();
    }

    /** Makes segments of partials that will never become final. */
    settle() {
        this.#views.words.clearPartial();
        this.#views.wave.shut();
        if (this.present.settle()) this.#showAll(0);
    }

    /** Goes on where the sheet stopped. @param {Blob | null} source its sound */
    resume(source) {
        const {present: sheet} = this;
        sheet.resume();
        if (source) this.source = source;
        if (source && sheet.file) this.#keeper.file(source);
        this.#showAll(0);
    }

    /** Shows a final that came at this place. @param {any} final @param {number} at */
    add(final, at) {
        const {words, wave} = this.#views;
        words.showFinal(final, at, (voice) => this.who(voice));
        wave.finals(this.present.segments);
        wave.open(final.channel ?? 0);
        this.changed();
        this.#keeper.changed(at);
    }

    /** Who speaks, if that is known. @param {{channel?: number, speaker?: number}} voice @returns {string} */
    who({channel, speaker}) {
        const {channelNames, speakerNames} = this.present;
        const names = [];
        if (channel !== undefined) names.push(channelNames[channel] || `Channel ${channel + 1}`);
        if (speaker !== undefined) names.push(speakerNames[speaker] || `Speaker ${speaker + 1}`);
        return names.join(", ");
    }

    /** Shows all segments with the speakers that they have now. */
    relabelled() {
        this.#showAll(0);
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

    /** Replaces a word by another one, by several, or by none. The user can undo this, and all of these. */
    reword(number, index, text) {
        this.#edit("A word was changed.", number, 1, [reworded(this.present.segments[number], index, text)]);
    }

    /** Splits a segment before this word. */
    split(number, index) {
        this.#edit("A segment was split.", number, 1, split(this.present.segments[number], index));
    }

    /** Whether this segment can be merged with the one before it. */
    mergeable(number) {
        const [first, second] = [this.present.segments[number - 1], this.present.segments[number]];
        return Boolean(first && second && first.channel === second.channel);
    }

    /** Merges a segment with the one before it. */
    merge(number) {
        const [first, second] = this.present.segments.slice(number - 1, number + 1);
        this.#edit("Two segments were merged.", number - 1, 2, [merged(first, second)]);
    }

    /** Replaces what was found. @param {import("./transcript/edits.js").Place[]} places @param {string} text */
    replace(places, text) {
        const [at, end] = [places[0].number, places.at(-1).number + 1];
        const fresh = this.present.segments.slice(at, end).map((segment, index) => {
            const own = places.filter(({number}) => number === at + index);
            return own.length ? replaced(segment, own, text) : segment;
        });
        const why = places.length === 1 ? "A text was replaced." : `A text was replaced in ${places.length} places.`;
        this.#edit(why, at, end - at, fresh);
    }

    /** Names whoever speaks. @param {string[]} channels in each channel @param {string[]} speakers by their numbers */
    nameVoices(channels, speakers) {
        const {id, channelNames, speakerNames} = this.present;
        const put = async (/** @type {string[][]} */ [channelNames, speakerNames]) => {
            if (this.present.id !== id && !(await this.open(id, "undo"))) return;
            Object.assign(this.present, {channelNames, speakerNames});
            this.#showAll();
            this.#tell("named");
        };
        void put([channels, speakers]);
        this.#undo.add("Names were changed.", () => put([channelNames, speakerNames]));
    }

    /** Replaces the present sheet by one that was saved. @param {Sheet} sheet @param {Blob | null} sound */
    async take(sheet, sound) {
        this.#tell("replace");
        await this.settled();
        const there = await this.#history.whereabouts(sheet.id);
        if (there || !(await this.#history.claim(sheet.id))) sheet.fork();
        this.#replace(sheet, sound, null, "open");
        if (sound) this.#keeper.file(sound);
        this.#show(null);
        void this.settled();
        this.#tell("change");
    }

    /** Gives the present sheet its sound. @param {Blob} sound */
    give(sound) {
        this.source = sound;
        this.present.fileBytes = sound.size;
        this.#keeper.file(sound);
        this.#views.player.load(sound);
        this.#views.wave.seekable = true;
        this.#tell("change");
    }

    /** Drops the sound of the present sheet, which cannot be read any more. */
    forget() {
        this.source = null;
        this.#views.player.unload();
        this.#views.wave.seekable = false;
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
        if (sheet.settle()) this.#keeper.changed(0);
        words.showAll(sheet.segments, (segment) => this.who(segment));
        if (picture) wave.picture = picture;
        else wave.blank(Math.max(sheet.durationMs, sheet.recordingMs));
        wave.finals(sheet.segments);
        if (source) player.load(source);
        wave.seekable = player.loaded;
    }

    #edit(text, at, count, fresh) {
        const {id, segments} = this.present;
        const before = segments.slice(at, at + count);
        this.#put(at, count, fresh);
        this.#undo.add(text, async () => {
            if (this.present.id !== id && !(await this.open(id, "undo"))) return;
            // New finals may have come before it since.
            const place = this.present.segments.indexOf(fresh[0]);
            this.#put(place < 0 ? at : place, fresh.length, before);
        });
    }

    #put(at, count, fresh) {
        this.present.segments.splice(at, count, ...fresh);
        this.#views.words.splice(at, count, fresh, (segment) => this.who(segment));
        this.#views.wave.finals(this.present.segments);
        this.#keeper.changed(at);
        this.#tell("change");
    }

    /** Shows all segments again. @param {number} [changed] the first one that has changed */
    #showAll(changed) {
        const {words, wave} = this.#views;
        words.showAll(this.present.segments, (segment) => this.who(segment));
        wave.finals(this.present.segments);
        this.#keeper.changed(changed);
        this.#tell("change");
    }

    #tell(type, detail = null) {
        this.dispatchEvent(new CustomEvent(type, {detail}));
    }
}
