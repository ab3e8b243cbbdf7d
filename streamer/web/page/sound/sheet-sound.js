// The sound of the sheet on the desk: the recording that it is of, or what the microphone has heard; its waveform, and
// what the player plays.

import {wav} from "../../decoding/wav-writer.js";
import {Recording} from "../../recording.js";

/** Event: "change" when the player plays something else. */
export class SheetSound extends EventTarget {
    /** The recording of the sheet, while this tab has it open. @type {Recording | null} */
    recording = null;
    #playedAnew = false; // as decoded by the page, because the browser does not play the file
    #sheets;
    #player;
    #wave;

    /** @param {import("../sheets.js").Sheets} sheets @param {any} views player and wave, which show and play it */
    constructor(sheets, {player, wave}) {
        super();
        [this.#sheets, this.#player, this.#wave] = [sheets, player, wave];
        player.addEventListener("unplayable", () => void this.#playDecoded());
    }

    /** Shows a recording that is about to be sent. @param {Recording} recording @param {Blob} file */
    show(recording, file) {
        [this.recording, this.#playedAnew] = [recording, false];
        this.#wave.expect(recording.durationMs, recording.channels);
        this.#wave.seekable = true;
        this.#player.load(file);
    }

    /** Shows the sound of a transcript that was saved. @param {File} sound @param {() => boolean} wanted still */
    async give(sound, wanted) {
        const {present: sheet} = this.#sheets;
        this.#sheets.give(sound);
        const recording = await Recording.open(sound).catch(() => null);
        if (!recording || !wanted()) return;
        this.#wave.expect(recording.durationMs);
        this.#wave.heard(sheet.heardMs);
        this.#wave.finals(sheet.segments);
        this.#wave.seekable = true;
        for await (const piece of recording.pieces()) {
            if (!wanted()) return;
            this.#wave.push(piece);
        }
        this.#changed();
    }

    /** Makes the sound of the microphone playable. */
    keep() {
        const {present: sheet} = this.#sheets;
        const {pieces} = sheet.spoken;
        if (sheet.file || !pieces?.length) return;
        this.#sheets.source = wav(pieces);
        this.#player.load(this.#sheets.source);
        this.#wave.seekable = true;
    }

    /** Plays the decoded sound if the browser can decode the file but not play it. */
    async #playDecoded() {
        const [recording, again] = [this.recording, this.#playedAnew];
        this.#player.unload();
        this.#wave.seekable = false;
        this.#playedAnew = true;
        this.#changed();
        if (!recording || again) return; // if even that cannot be played, nothing can
        const sound = await recording.wav().catch(() => null);
        if (!sound || this.recording !== recording) return;
        this.#sheets.source = sound;
        this.#player.load(sound);
        this.#wave.seekable = true;
        this.#changed();
    }

    #changed() {
        this.dispatchEvent(new CustomEvent("change"));
    }
}
