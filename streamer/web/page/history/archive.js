// Saved transcripts: opens those that the page or the command line has written, and saves the whole history in a file.

import {bytesOf} from "../../decoding/bytes.js";
import {StreamerError} from "../../errors.js";
import {download, transcriptOf} from "../transcript/export.js";
import {content} from "../transcript/formats.js";
import {jsonText} from "../transcript/printable.js";
import {SavedError, readTranscripts} from "../transcript/saved.js";
import {Sheet} from "../transcript/sheet.js";

const SAVED = /\.jsonl?$/i;
const LARGEST_BYTES = 256_000_000;

/**
 * @typedef {{saved: number, single: {sheet: Sheet, sound: File | null} | null, added: number, there: number,
 *     unread: string[], recordings: File[]}} Taken
 * what came of files: how many were saved transcripts; the only transcript, with its sound if that was given; how many went into the history, and how
 * many were there already; what cannot be read and why; and the recordings that are to be transcribed
 */

export class Archive {
    #history;

    /** @param {import("./history.js").History} history */
    constructor(history) {
        this.#history = history;
    }

    /** @param {File[]} files @returns {Promise<Taken>} */
    async take(files) {
        /** @type {Taken} */
        const taken = {saved: 0, single: null, added: 0, there: 0, unread: [], recordings: []};
        taken.recordings = files.filter(({name}) => !SAVED.test(name));
        taken.saved = files.length - taken.recordings.length;
        const transcripts = [];
        for (const file of files.filter(({name}) => SAVED.test(name))) {
            try {
                if (file.size > LARGEST_BYTES) throw new SavedError("is too large");
                const text = new TextDecoder().decode(await bytesOf(file));
                transcripts.push(...readTranscripts(text, file.name));
            } catch (error) {
                const {message} = /** @type {Error} */ (error);
                const why = error instanceof SavedError ? message : "cannot be read";
                taken.unread.push(error instanceof StreamerError ? message : `${file.name} ${why}.`);
            }
        }
        if (transcripts.length === 1) {
            const [only] = transcripts;
            const sound = soundOf(only, taken.recordings);
            taken.recordings = taken.recordings.filter((file) => file !== sound);
            taken.single = {sheet: Sheet.from(only, sound), sound};
            return taken;
        }
        for (const transcript of transcripts) {
            const {id} = transcript;
            if (id && (await this.#history.whereabouts(id))) taken.there += 1;
            else await this.#history.add(Sheet.from(transcript, null));
        }
        taken.added = transcripts.length - taken.there;
        return taken;
    }

    /** Saves all transcripts, without their sound, in one file. @returns {Promise<string>} its name */
    async save() {
        const lines = [];
        for (const record of await this.#history.list()) {
            const found = await this.#history.open(record.id);
            if (!found) continue;
            const {id, name, beganAt} = found.sheet;
            const own = {id, name, began_at: new Date(beganAt).toISOString()};
            lines.push(jsonText({...own, ...content(transcriptOf(found.sheet))}));
        }
        const day = new Date().toISOString().slice(0, 10);
        return download(`transcripts ${day}`, "json", "application/json", `[\n${lines.join(",\n")}\n]\n`);
    }
}

/** @param {import("../transcript/formats.js").Transcript} transcript @param {File[]} recordings */
function soundOf({file, name = ""}, recordings) {
    const stem = (/** @type {string} */ path) => path.replace(/\.[^.]+$/, "");
    const same = recordings.find((recording) => recording.name === file);
    return same ?? recordings.find((recording) => [file, name].some((one) => stem(recording.name) === stem(one))) ?? null;
}
