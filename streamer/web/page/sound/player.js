// Plays the sound, and says which time it plays.

const TELL_EVERY_MS = 25; // with the next frame of the screen, that is 30 times a second

/** Events: "place" with the time, many times a second while playing; "change" when it begins, pauses or ends. */
export class Player extends EventTarget {
    #sound = new Audio();
    #url = "";
    #following = false;

    constructor() {
        super();
        this.#sound.preload = "auto";
        for (const type of ["play", "pause", "ended"]) this.#sound.addEventListener(type, () => this.#changed());
        this.#sound.addEventListener("seeked", () => this.#tell());
        this.#sound.addEventListener("error", () => this.#url && this.dispatchEvent(new Event("unplayable")));
    }

    get loaded() {
        return this.#url !== "";
    }

    get playing() {
        return this.loaded && !this.#sound.paused && !this.#sound.ended;
    }

    get placeMs() {
        return this.#sound.currentTime * 1000;
    }

    load(blob) {
        this.unload();
        this.#url = URL.createObjectURL(blob);
        this.#sound.src = this.#url;
    }

    unload() {
        this.#sound.pause();
        if (!this.#url) return;
        URL.revokeObjectURL(this.#url);
        this.#url = "";
        this.#sound.removeAttribute("src");
        this.#sound.load();
    }

    async play() {
        // This rejects if the sound is paused or unloaded before it begins. Then there is nothing to do.
        if (this.loaded) await this.#sound.play().catch(() => {});
    }

    pause() {
        this.#sound.pause();
    }

    toggle() {
        if (this.playing) this.pause();
        else void this.play();
    }

    seek(ms) {
        if (!this.loaded) return;
        this.#sound.currentTime = ms / 1000;
        this.#tell();
    }

    #changed() {
        this.dispatchEvent(new Event("change"));
        this.#tell();
        if (this.playing && !this.#following) this.#follow();
    }

    #follow() {
        this.#following = this.playing;
        if (!this.#following) return;
        setTimeout(() => requestAnimationFrame(() => {
            this.#tell();
            this.#follow();
        }), TELL_EVERY_MS);
    }

    #tell() {
        this.dispatchEvent(new CustomEvent("place", {detail: {ms: this.placeMs}}));
    }
}
