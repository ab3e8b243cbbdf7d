// Finds out whether a recording is a call: two channels with a voice each, which speak in turn, by the rules of
// streamer/audio/two_voices.py. Pure.

const FRAME_MS = 100;
/** What is quieter than this part of the full power, or of the loudest of its channel, is not a voice. */
const QUIETEST = 1e-6;
const QUIET = 1e-3;
/** A channel speaks alone while it has this many times the power of the other one. */
const ALONE = 10;
/** How much of the speech is that of one voice alone, at least: of each, and of both. */
const EACH = 0.1;
const BOTH = 0.6;
/** Each voice must be alone for a second. */
const FEWEST = 10;
/** How much of the beginning of a recording is enough to find out. */
export const LOOKED_MS = 120_000;

/** Takes the sound of two channels piece by piece. */
export class Voices {
    #size;
    #filled = 0;
    #sums = [0, 0];
    /** @type {[number, number][]} the power of both channels in each frame */
    #frames = [];

    /** @param {number} rate samples a second */
    constructor(rate) {
        this.#size = Math.round((rate * FRAME_MS) / 1000);
    }

    /** Takes sound; what comes after the first two minutes changes nothing. @param {Float32Array} left @param {Float32Array} right */
    push(left, right) {
        for (let at = 0; at < left.length && this.heardMs < LOOKED_MS; at++) {
            this.#sums[0] += left[at] * left[at];
            this.#sums[1] += right[at] * right[at];
            if (++this.#filled < this.#size) continue;
            this.#frames.push([this.#sums[0] / this.#size, this.#sums[1] / this.#size]);
            [this.#filled, this.#sums] = [0, [0, 0]];
        }
    }

    /** How much sound has come. */
    get heardMs() {
        return this.#frames.length * FRAME_MS;
    }

    /** Whether each channel has a voice of its own. */
    get apart() {
        const least = [0, 1].map((channel) => {
            const powers = this.#frames.map((frame) => frame[channel]).sort((a, b) => a - b);
            return Math.max(QUIETEST, QUIET * (powers[Math.floor(0.95 * powers.length)] ?? 0));
        });
        let [speech, left, right] = [0, 0, 0];
        for (const [one, other] of this.#frames) {
            if (one < least[0] && other < least[1]) continue;
            speech += 1;
            if (one > ALONE * other) left += 1;
            if (other > ALONE * one) right += 1;
        }
        const each = Math.min(left, right);
        return each >= Math.max(FEWEST, EACH * speech) && left + right >= BOTH * speech;
    }
}
