/** Recordings that can be read in pieces: which kind a file is, and who reads it. */

import {openMp3} from "./mp3.js";
import {openMp4} from "./mp4.js";
import {openOgg} from "./ogg.js";
import {openWav} from "./wav.js";
import {openWebm} from "./webm.js";

/** A compressed file of this size is not long; all of it is decoded at once, as the browser does it best. */
const SMALL_BYTES = 1_000_000;

/** @param {Blob} file @returns {Promise<import("./wav.js").Source | null>} nothing if it has to be decoded whole */
export async function openInPieces(file) {
    const readers = file.size < SMALL_BYTES ? [openWav] : [openWav, openOgg, openWebm, openMp4, openMp3];
    for (const open of readers) {
        // Whoever decodes all of it says what is wrong with the file.
        const source = await open(file).catch(() => null);
        if (source) return source;
    }
    return null;
}
