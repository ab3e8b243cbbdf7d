/** Finds the reader for the kind of a file, if the file can be read in pieces. */

import {asError} from "../errors.js";
import {openMp3} from "./mp3.js";
import {openMp4} from "./mp4.js";
import {openOgg} from "./ogg.js";
import {openWav} from "./wav.js";
import {openWebm} from "./webm.js";

/** A compressed file below this size is short. The browser decodes it at once, which works best. */
const SMALL_BYTES = 1_000_000;

/** @param {Blob} file @returns {Promise<import("./wav.js").Source | null>} null if it has to be decoded as a whole */
export async function openInPieces(file) {
    const readers = file.size < SMALL_BYTES ? [openWav] : [openWav, openOgg, openWebm, openMp4, openMp3];
    for (const open of readers) {
        const source = await open(file).catch((error) => {
            if (asError(error).code === "unreadable_file") throw error;
            return null; // the decoder of whole files will say what is wrong with it
        });
        if (source) return source;
    }
    return null;
}
