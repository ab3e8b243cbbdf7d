/**
 * Resamples any rate to 16 kHz, in pieces of any size: a windowed sinc with a table of its phases. Pure.
 *
 * Frequencies up to 7.2 kHz pass unchanged; from 8 kHz on they are 80 dB lower. Sample k of the result belongs to the
 * time k / 16000, so there is no delay. The last 3 ms wait for the next samples, or for `finish`.
 */

export const SAMPLE_RATE = 16_000;
const ATTENUATION_DB = 80;
/** Where the filter begins to fall, as a part of half the lower rate. */
const PASSED = 0.9;

export class Resampler {
    #in; // the rates without their common factor
    #out;
    #half; // input samples on each side of an output sample
    /** @type {Float32Array[]} the weights of each phase */
    #table;
    /** @type {Float32Array} samples that may still be needed */
    #kept;
    #length; // of the kept samples
    #first; // number of the first kept input sample
    #given = 0;
    #made = 0;

    /** @param {number} rate of the input */
    constructor(rate) {
        rate = Math.round(rate);
        const common = divisor(rate, SAMPLE_RATE);
        this.#in = rate / common;
        this.#out = SAMPLE_RATE / common;
        const limit = Math.min(rate, SAMPLE_RATE) / 2 / rate; // as a part of the input rate
        const width = 2 * Math.PI * (1 - PASSED) * limit;
        const same = rate === SAMPLE_RATE;
        this.#half = same ? 1 : Math.ceil((ATTENUATION_DB - 7.95) / (2.285 * width) / 2);
        this.#table = same ? [Float32Array.of(1, 0)] : phases(this.#out, this.#half, (limit * (1 + PASSED)) / 2);
        this.#kept = new Float32Array(4 * this.#half + 4096);
        this.#length = this.#half - 1; // silence before the first sample
        this.#first = 1 - this.#half;
    }

    /** @param {Float32Array} samples @returns {Float32Array} the output that is ready */
    push(samples) {
        this.#given += samples.length;
        return this.#advance(samples);
    }

    /** Ends the input, and returns the rest. @returns {Float32Array} the remaining output */
    finish() {
        return this.#advance(new Float32Array(this.#half));
    }

    /** @param {Float32Array} samples */
    #advance(samples) {
        this.#keep(samples);
        const end = this.#first + this.#length;
        // The outputs that lie before the end of the input and have all samples that they need.
        const due = Math.ceil((this.#given * this.#out) / this.#in);
        const ready = Math.ceil(((end - this.#half) * this.#out) / this.#in);
        const made = new Float32Array(Math.max(0, Math.min(due, ready) - this.#made));
        const kept = this.#kept;
        for (let number = 0; number < made.length; number++) {
            const position = (this.#made + number) * this.#in;
            const sample = Math.floor(position / this.#out);
            const weights = this.#table[position % this.#out];
            const from = sample - this.#half + 1 - this.#first;
            let sum = 0;
            for (let tap = 0; tap < weights.length; tap++) sum += weights[tap] * kept[from + tap];
            made[number] = sum;
        }
        this.#made += made.length;
        this.#drop(Math.floor((this.#made * this.#in) / this.#out) - this.#half + 1);
        return made;
    }

    /** @param {Float32Array} samples */
    #keep(samples) {
        if (this.#length + samples.length > this.#kept.length) {
            const larger = new Float32Array(2 * (this.#length + samples.length));
            larger.set(this.#kept.subarray(0, this.#length));
            this.#kept = larger;
        }
        this.#kept.set(samples, this.#length);
        this.#length += samples.length;
    }

    /** @param {number} before the number of an input sample */
    #drop(before) {
        const dropped = Math.min(Math.max(0, before - this.#first), this.#length);
        this.#kept.copyWithin(0, dropped, this.#length);
        this.#length -= dropped;
        this.#first += dropped;
    }
}

/** @param {Float32Array} samples full scale is 1; louder samples are clipped @returns {Int16Array<ArrayBuffer>} */
export function toInt16(samples) {
    const made = new Int16Array(samples.length);
    for (let number = 0; number < samples.length; number++) {
        made[number] = Math.max(-32768, Math.min(32767, Math.round(samples[number] * 32768)));
    }
    return made;
}

/**
 * Returns the weights of each phase, for samples from the oldest to the newest.
 * @param {number} count @param {number} half @param {number} cutoff as a part of the input rate
 */
function phases(count, half, cutoff) {
    const beta = 0.1102 * (ATTENUATION_DB - 8.7);
    return Array.from({length: count}, (_, phase) => {
        const weights = new Float64Array(2 * half);
        for (let tap = 0; tap < weights.length; tap++) {
            const distance = phase / count + half - 1 - tap;
            const window = bessel(beta * Math.sqrt(Math.max(0, 1 - (distance / half) ** 2)));
            const angle = 2 * Math.PI * cutoff * distance;
            weights[tap] = (angle === 0 ? 1 : Math.sin(angle) / angle) * window;
        }
        // All phases must give a constant the same level. Otherwise their differences would be audible as a tone.
        const sum = weights.reduce((total, weight) => total + weight, 0);
        return Float32Array.from(weights, (weight) => weight / sum);
    });
}

/** Returns the modified Bessel function of order 0. @param {number} x */
function bessel(x) {
    let sum = 1;
    for (let term = 1, number = 1; term > 1e-12 * sum; number++) {
        term *= (x / 2 / number) ** 2;
        sum += term;
    }
    return sum;
}

/** @param {number} a @param {number} b @returns {number} */
function divisor(a, b) {
    return b === 0 ? a : divisor(b, a % b);
}
