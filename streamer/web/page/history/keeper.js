// Keeps a sheet while it changes, so that no word on the page is lost by a reload or a crash.

/** Sound goes to the history in pieces of this many samples: 5 s. */
const PIECE = 80_000;
/** After this many pieces, a sheet is kept even if it has no words yet. */
const SILENT_PIECES = 12;

/** Keeps one sheet after another. Event: "full" ({error}), once for a sheet for which the browser has no space. */
export class Keeper extends EventTarget {
    #history;
    #settings;
    /** @type {Keeping | null} */
    #keeping = null;

    /** @param {import("./history.js").History} history @param {import("../settings.js").Settings} settings */
    constructor(history, settings) {
        super();
        [this.#history, this.#settings] = [history, settings];
    }

    /**
     * Keeps this sheet from now on.
     * @param {import("../transcript/sheet.js").Sheet} sheet
     * @param {any} [home] where it is kept already; without it, the sheet is kept as soon as it has a word
     */
    follow(sheet, home = null) {
        this.#keeping = new Keeping(sheet, home, this.#history, (error) => {
            this.dispatchEvent(new CustomEvent("full", {detail: {error}}));
        });
    }

    /** Notes that the sheet has new parts, or that segments from this one on have changed. @param {number} [from] */
    changed(from = Infinity) {
        void this.#keeping?.write(from);
    }

    /** Adds sound of the microphone. @param {Int16Array<ArrayBuffer>} samples */
    hear(samples) {
        this.#keeping?.hear(samples, this.#settings.get("keepSound"));
    }

    /** Adds the recording of the sheet. @param {Blob} file */
    file(file) {
        if (this.#settings.get("keepSound")) this.#keeping?.file(file);
    }

    /** @param {any} picture the waveform @returns {Promise<void>} when everything is kept */
    async settle(picture) {
        await this.#keeping?.settle(picture);
    }
}

class Keeping {
    #sheet;
    #home;
    #history;
    #known;
    /** @type {boolean | null} whether the sound is kept, too; all of it or nothing */
    #sounding = null;
    #full;
    #written = 0; // segments that are there as they are now
    #rows = 0; // segments that are there
    /** @type {Blob[]} pieces of sound that are not written yet */
    #pieces = [];
    #soundRows;
    /** @type {Int16Array<ArrayBuffer>[]} sound that is less than a piece */
    #heard = [];
    #heardSamples = 0;
    /** @type {any} */
    #picture = null;
    #again = false;
    /** @type {Promise<void> | null} */
    #writing = null;

    /**
     * @param {any} sheet @param {any} home where it is already, or null @param {import("./history.js").History} history
     * @param {(error: any) => void} full
     */
    constructor(sheet, home, history, full) {
        [this.#sheet, this.#home, this.#known, this.#history, this.#full] = [sheet, home, home !== null, history, full];
        if (home) this.#written = this.#rows = sheet.segments.length;
        this.#soundRows = home ? sheet.kept.soundRows : 0;
    }

    /** @param {number} from the first segment that has changed @returns {Promise<void>} when it is kept */
    write(from = Infinity) {
        this.#written = Math.min(this.#written, from);
        this.#again = true;
        // Only one write at a time. The next write has what changes meanwhile.
        this.#writing ??= this.#writeAll().finally(() => (this.#writing = null));
        return this.#writing;
    }

    /** @param {Int16Array<ArrayBuffer>} samples @param {boolean} wanted */
    hear(samples, wanted) {
        const all = this.#sheet.kept.kind === "pcm" || this.#sheet.spoken.samples === samples.length;
        this.#sounding ??= wanted && all;
        if (!this.#sounding) return;
        this.#heard.push(samples);
        this.#heardSamples += samples.length;
        if (this.#heardSamples >= PIECE) this.#cut();
    }

    /** @param {Blob} file */
    file(file) {
        if (this.#soundRows + this.#pieces.length) return;
        this.#pieces.push(file);
        this.#sheet.kept.kind = "file";
    }

    /** @param {any} picture */
    async settle(picture) {
        if (this.#heardSamples) this.#cut();
        this.#picture = picture;
        await this.write();
    }

    #cut() {
        // A Blob is not in the memory of the page.
        this.#pieces.push(new Blob(/** @type {Int16Array<ArrayBuffer>[]} */ (this.#heard)));
        [this.#heard, this.#heardSamples] = [[], 0];
        this.#sheet.kept.kind = "pcm";
        void this.write();
    }

    async #writeAll() {
        while (this.#again) {
            this.#again = false;
            // The sheet has no words yet, and little sound.
            if (!this.#known && this.#sheet.empty && this.#pieces.length < SILENT_PIECES) return;
            await this.#writeOnce().catch((error) => this.#giveUp(error));
        }
    }

    async #writeOnce() {
        this.#home ??= this.#history.home;
        const {id, segments} = this.#sheet;
        const entries = [];
        const [from, count, pieces, picture] = [this.#written, segments.length, this.#pieces, this.#picture];
        for (let number = from; number < count; number++) entries.push(["segments", [id, number], segments[number]]);
        for (let number = count; number < this.#rows; number++) entries.push(["segments", [id, number], undefined]);
        for (const [index, piece] of pieces.entries()) entries.push(["sound", [id, this.#soundRows + index], piece]);
        if (picture) entries.push(["picture", [id, 0], picture]);
        const bytes = pieces.reduce((sum, piece) => sum + piece.size, 0);
        const record = this.#sheet.record;
        const [soundBytes, soundRows] = [record.soundBytes + bytes, this.#soundRows + pieces.length];
        entries.push(["records", id, {...record, soundBytes, soundRows}]);
        [this.#written, this.#pieces, this.#picture] = [count, [], null];
        try {
            await this.#home.write(entries);
        } catch (error) {
            this.#written = Math.min(this.#written, from);
            [this.#pieces, this.#picture] = [[...pieces, ...this.#pieces], picture];
            throw error;
        }
        this.#known = true;
        this.#rows = count;
        this.#soundRows += pieces.length;
        this.#sheet.kept.soundBytes += bytes;
        this.#sheet.kept.soundRows = this.#soundRows;
    }

    /** Saves space: leaves out the sound. If that is not enough, keeps all in the tab. @param {any} error */
    async #giveUp(error) {
        const sound = this.#pieces.length > 0;
        [this.#pieces, this.#sounding] = [[], false];
        this.#again = true;
        if (!sound && this.#home !== this.#history.tab) {
            // The sheet is written again as a whole. Its rows in the other home stay there.
            [this.#home, this.#written, this.#rows, this.#soundRows] = [this.#history.tab, 0, 0, 0];
            this.#sheet.kept = {kind: "", soundBytes: 0, soundRows: 0};
        } else if (!sound) {
            this.#again = false;
        }
        this.#full(error);
    }
}
