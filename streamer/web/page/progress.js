// Shows the progress of a recording as a bar and in words: which of several it is, and how long it still takes.

import {shortClock} from "./transcript/formats.js";

/** The remaining time is shown after this time. Earlier, it would be a bad guess. */
const GUESSED_AFTER_MS = 3_000;

export class Progress {
    #place;
    #desk;
    #began = 0;
    #from = 0; // the part that was recognised before
    #sheet = null;

    /** @param {HTMLElement} place @param {import("./desk.js").Desk} desk */
    constructor(place, desk) {
        [this.#place, this.#desk] = [place, desk];
    }

    /** Shows the present progress. */
    show() {
        const {doing, progress, queue, sheet} = this.#desk;
        const shown = doing === "opening" || (["transcribing", "finishing"].includes(doing) && sheet.file !== "");
        this.#place.hidden = !shown;
        if (!shown) return;
        if (this.#sheet !== sheet) [this.#sheet, this.#began] = [sheet, performance.now()];
        if (doing === "opening") [this.#began, this.#from] = [performance.now(), progress ?? 0];
        const [bar, text] = this.#place.children;
        const parts = queue.total > 1 ? [`${queue.begun} of ${queue.total}`] : [];
        bar.toggleAttribute("data-open", doing === "opening" || progress === null);
        if (doing === "opening" || progress === null) {
            bar.removeAttribute("aria-valuenow");
            // Some files do not say how long they are.
            parts.push(doing === "opening" ? "opening" : shortClock(sheet.heardMs));
        } else {
            const percent = Math.floor(100 * progress);
            bar.setAttribute("aria-valuenow", String(percent));
            bar.style.setProperty("--far", String(progress));
            parts.push(`${percent} %`);
            const tookMs = performance.now() - this.#began;
            const leftMs = (tookMs / Math.max(progress - this.#from, 1e-6)) * (1 - progress);
            if (tookMs > GUESSED_AFTER_MS && doing === "transcribing") parts.push(`${shortClock(leftMs)} left`);
        }
        const told = parts.join(" · ");
        if (text.textContent !== told) text.textContent = told;
    }
}
