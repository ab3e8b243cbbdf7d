// Shows the sound as a picture, with the segments below it. The picture scrolls during a recording.

const SLIDER = ["tabindex", "aria-valuemin", "aria-valuemax", "aria-valuenow", "aria-valuetext"];
const KEYS = {ArrowRight: 1000, ArrowUp: 1000, ArrowLeft: -1000, ArrowDown: -1000, PageUp: 10000, PageDown: -10000};
const BUCKET_MS = 40;
const RATE = 16000;
const PEAKS = 2000; // of a recording: more than a wide screen has bars
const FINEST_MS = 20;
const SHOWN_MS = 12000; // how much is visible while it is recorded
const BAR = 3; // pixels of a bar and the gap after it
const BENEATH = 14; // pixels for the segments
const MOVING_EVERY_MS = 25; // a moving picture; with the next frame of the screen, that is 30 times a second
const STILL_EVERY_MS = 250; // the same for users who do not want to see movement

/** Draws on a canvas. The element around it is a slider if the sound can be played. Event: "seek" with the time. */
export class Waveform extends EventTarget {
    #place;
    #canvas;
    #colours = {};
    #peaks = [];
    #bucketMs = BUCKET_MS;
    #rest = {samples: 0, peak: 0};
    #finals = []; // {startMs, endMs}
    #open = new Map(); // for each channel its open segment
    #channels = 1; // of the pushed sound, interleaved
    #pushedAt = 0;
    #rolling = false;
    #drawing = false;
    #waiting = 0; // the timer until the moving picture is drawn again
    #still = matchMedia("(prefers-reduced-motion: reduce)");
    #seekable = false;
    #durationMs = 0;
    #soundMs = 0; // of the pushed sound
    #heardMs = 0; // how much the recogniser has recognised
    #placeMs = 0; // the time that is being played

    constructor(place) {
        super();
        this.#place = place;
        this.#canvas = place.querySelector("canvas");
        new ResizeObserver(() => this.#draw()).observe(place);
        for (const liking of ["(prefers-color-scheme: dark)", "(prefers-contrast: more)", "(forced-colors: active)"]) {
            matchMedia(liking).addEventListener("change", () => this.#recolour());
        }
        this.#recolour();
        place.addEventListener("pointerdown", (event) => this.#grab(event));
        place.addEventListener("pointermove", (event) => event.buttons && this.#drag(event));
        place.addEventListener("keydown", (event) => this.#key(event));
    }

    get durationMs() {
        return this.#durationMs;
    }

    /** The loudest sample so far, 0 to 1. */
    get loudest() {
        return this.#peaks.reduce((most, each) => Math.max(most, each), this.#rest.peak / 32768);
    }

    /** Everything that is needed to draw the same picture again, without the segments. */
    get picture() {
        return {peaks: this.#peaks, bucketMs: this.#bucketMs, durationMs: this.#durationMs, heardMs: this.#heardMs};
    }

    set picture({peaks, bucketMs, durationMs, heardMs}) {
        this.clear();
        [this.#peaks, this.#bucketMs] = [peaks, bucketMs];
        [this.#durationMs, this.#soundMs, this.#heardMs] = [durationMs, peaks.length * bucketMs, heardMs];
        this.#draw();
    }

    clear() {
        [this.#peaks, this.#finals, this.#bucketMs, this.#channels] = [[], [], BUCKET_MS, 1];
        this.#open.clear();
        this.#rest = {samples: 0, peak: 0};
        [this.#durationMs, this.#soundMs, this.#heardMs, this.#placeMs] = [0, 0, 0, 0];
        this.seekable = false;
        this.roll(false);
    }

    /** Prepares for a recording of this length, with interleaved channels. `push` adds its sound. */
    expect(durationMs, channels = 1) {
        this.clear();
        this.#channels = channels;
        [this.#durationMs, this.#bucketMs] = [durationMs, Math.max(FINEST_MS, durationMs / PEAKS)];
        this.#draw();
    }

    /** Shows sound of which only the length is known. */
    blank(durationMs) {
        this.clear();
        this.#peaks = new Array(Math.ceil(durationMs / BUCKET_MS)).fill(0);
        [this.#durationMs, this.#soundMs, this.#heardMs] = [durationMs, durationMs, durationMs];
        this.#draw();
    }

    /** Adds sound: 16-bit samples at 16 kHz. */
    push(samples) {
        const most = Math.round((this.#bucketMs * RATE) / 1000) * this.#channels;
        for (const sample of samples) {
            this.#rest.peak = Math.max(this.#rest.peak, Math.abs(sample));
            if (++this.#rest.samples < most) continue;
            this.#peaks.push(this.#rest.peak / 32768);
            this.#rest = {samples: 0, peak: 0};
        }
        this.#soundMs += (samples.length * 1000) / RATE / this.#channels;
        this.#durationMs = Math.max(this.#durationMs, this.#soundMs);
        this.#pushedAt = performance.now();
        if (!this.#rolling) this.#draw();
    }

    /** Whether the picture scrolls with the time. If not, all of it is shown. */
    roll(rolling) {
        this.#rolling = rolling;
        clearTimeout(this.#waiting);
        this.#waiting = 0;
        this.#draw();
    }

    /** Shows all final segments. */
    finals(segments) {
        this.#finals = segments.map(({start_ms, end_ms}) => ({startMs: start_ms, endMs: end_ms}));
        this.#draw();
    }

    /** Shows a segment whose end may still move, until the next one of its channel, or removes it. */
    open(channel, startMs = 0, endMs = 0) {
        if (endMs) this.#open.set(channel, {startMs, endMs});
        else this.#open.delete(channel);
        this.#draw();
    }

    /** Removes all segments whose end may still move. */
    shut() {
        this.#open.clear();
        this.#draw();
    }

    /** Sets how much the recogniser has recognised. */
    heard(ms) {
        this.#heardMs = Math.max(this.#heardMs, ms);
        this.#draw();
    }

    /** Shows the time that the player has reached. */
    set placeMs(ms) {
        this.#placeMs = ms;
        this.#announce();
        this.#draw();
    }

    /** Sets whether the user can choose a time in the picture. */
    set seekable(seekable) {
        this.#seekable = seekable;
        this.#place.setAttribute("role", seekable ? "slider" : "img");
        this.#place.ariaLabel = seekable ? "Position in the sound" : "Waveform of the sound, with the segments below";
        if (seekable) this.#place.tabIndex = 0;
        else for (const name of SLIDER) this.#place.removeAttribute(name);
        this.#announce();
    }

    #announce() {
        if (!this.#seekable) return;
        const seconds = (ms) => Math.round(ms / 100) / 10;
        const text = `${seconds(this.#placeMs)} of ${seconds(this.#durationMs)} seconds`;
        if (this.#place.ariaValueText === text) return;
        this.#place.ariaValueMin = "0";
        this.#place.ariaValueMax = String(seconds(this.#durationMs));
        this.#place.ariaValueNow = String(seconds(this.#placeMs));
        this.#place.ariaValueText = text;
    }

    #grab(event) {
        if (!this.#seekable || event.button !== 0) return;
        this.#place.setPointerCapture(event.pointerId);
        this.#drag(event);
    }

    #drag(event) {
        if (!this.#seekable || !this.#place.hasPointerCapture(event.pointerId)) return;
        const box = this.#place.getBoundingClientRect();
        this.#seek(((event.clientX - box.left) / box.width) * this.#durationMs);
    }

    #key(event) {
        const target = {Home: 0, End: this.#durationMs}[event.key] ?? this.#placeMs + KEYS[event.key];
        if (!this.#seekable || Number.isNaN(target)) return;
        event.preventDefault();
        this.#seek(target);
    }

    #seek(ms) {
        const detail = {ms: Math.max(0, Math.min(this.#durationMs, ms)), play: false};
        this.dispatchEvent(new CustomEvent("seek", {detail}));
    }

    #recolour() {
        const style = getComputedStyle(this.#place);
        for (const name of ["accent", "soft", "wave", "line", "live"]) {
            this.#colours[name] = style.getPropertyValue(`--${name}`).trim();
        }
        this.#draw();
    }

    #draw() {
        if (this.#drawing || this.#waiting) return;
        this.#drawing = true;
        requestAnimationFrame(() => {
            this.#drawing = false;
            this.#paint();
            if (this.#rolling && !this.#waiting) this.#drawLater();
        });
    }

    /** Draws the moving picture again. Until then the browser need not make a frame for it. */
    #drawLater() {
        this.#waiting = setTimeout(() => {
            this.#waiting = 0;
            this.#draw();
        }, this.#still.matches ? STILL_EVERY_MS : MOVING_EVERY_MS);
    }

    /** Returns the times at the left and the right edge. */
    #window() {
        if (!this.#rolling) return [0, this.#durationMs];
        // Between two pieces of sound the picture moves on, but only a little.
        const since = Math.min(150, performance.now() - this.#pushedAt);
        if (!this.#still.matches) return [this.#durationMs + since - SHOWN_MS, this.#durationMs + since];
        const half = SHOWN_MS / 2;
        const start = Math.max(0, Math.floor(this.#durationMs / half) - 1) * half;
        return [start, start + SHOWN_MS];
    }

    #paint() {
        const {clientWidth: width, clientHeight: height} = this.#place;
        if (!width) return;
        const ratio = devicePixelRatio;
        const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
        if (this.#canvas.width !== wide) this.#canvas.width = wide;
        if (this.#canvas.height !== high) this.#canvas.height = high;
        const pen = this.#canvas.getContext("2d");
        pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        pen.clearRect(0, 0, width, height);
        const [start, end] = this.#window();
        const scale = width / Math.max(1, end - start);
        this.#paintBars(pen, start, scale, width, height - BENEATH);
        this.#paintSegments(pen, start, scale, width, height);
        if (this.#seekable) {
            pen.fillStyle = this.#colours.accent;
            pen.fillRect(Math.min(width - 2, (this.#placeMs - start) * scale - 1), 0, 2, height);
        }
    }

    #paintBars(pen, start, scale, width, height) {
        // Bars are at multiples of their time, so that they move with the sound and do not flicker.
        const stepMs = Math.max(this.#bucketMs, BAR / scale);
        const middle = height / 2;
        const first = Math.floor(start / stepMs);
        const last = Math.ceil((start + width / scale) / stepMs);
        const known = Math.ceil((this.#peaks.length * this.#bucketMs) / stepMs);
        let colour = "";
        for (let bar = first; bar < last; bar++) {
            const from = Math.max(0, Math.floor((bar * stepMs) / this.#bucketMs));
            const to = Math.max(from + 1, Math.floor(((bar + 1) * stepMs) / this.#bucketMs));
            let peak = 0;
            for (let at = from; at < to && bar >= 0; at++) peak = Math.max(peak, this.#peaks[at] ?? 0);
            // Quiet speech is enlarged, so that it is visible too.
            const half = Math.max(1, Math.min(1, peak) ** 0.6 * middle);
            const ms = bar * stepMs;
            const played = this.#seekable && ms < this.#placeMs;
            const next = bar < 0 || bar >= known ? "line" : played ? "accent" : ms < this.#heardMs ? "soft" : "wave";
            if (next !== colour) {
                // Neighbours of the same colour are filled at once, because hundreds of small fills are slow.
                if (colour) pen.fill();
                colour = next;
                pen.fillStyle = this.#colours[colour];
                pen.beginPath();
            }
            pen.roundRect((ms - start) * scale, middle - half, Math.max(1.5, stepMs * scale * 0.62), 2 * half, 1.5);
        }
        if (colour) pen.fill();
    }

    #paintSegments(pen, start, scale, width, height) {
        for (const {startMs, endMs, open} of [...this.#finals, ...[...this.#open.values()].map(opened)]) {
            const left = (startMs - start) * scale;
            const wide = Math.max(4, (endMs - startMs) * scale - 2);
            if (left + wide < 0 || left > width) continue;
            pen.beginPath();
            pen.roundRect(left, height - 6, wide, 5, 2.5);
            // Open segments are hollow, so that they differ not only by colour.
            [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [this.#colours.accent, this.#colours.soft, 1.25];
            if (open) pen.stroke();
            else pen.fill();
        }
    }
}

/** @param {{startMs: number, endMs: number}} segment */
function opened(segment) {
    return {...segment, open: true};
}
