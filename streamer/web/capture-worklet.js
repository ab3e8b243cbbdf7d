/** Records the microphone in its own thread: one channel, 16 kHz, 16 bit, in chunks of the same length. */

import {Resampler, SAMPLE_RATE, toInt16} from "./resampler.js";

/** If the page takes nothing for this time, further sound is dropped. The page then learns how much. */
const MOST_UNTAKEN_MS = 60_000;

class Capture extends AudioWorkletProcessor {
    #resampler = new Resampler(sampleRate);
    #chunk;
    #filled = 0;
    #paused = false;
    #finished = false;
    #untaken = 0; // chunks
    #mono = new Float32Array(128);

    /** @param {{processorOptions: {chunkMs: number}}} options */
    constructor({processorOptions: {chunkMs}}) {
        super();
        this.chunkMs = chunkMs;
        this.#chunk = new Float32Array((SAMPLE_RATE * chunkMs) / 1000);
        this.port.onmessage = ({data}) => {
            if (data === "taken") this.#untaken -= 1;
            else if (data === "resume") this.#paused = false;
            else this.#rest(data);
        };
    }

    /** @param {Float32Array[][]} inputs */
    process([channels]) {
        const wanted = channels.length > 0 && !this.#paused && !this.#finished;
        if (wanted) this.#add(this.#resampler.push(this.#mix(channels)));
        return !this.#finished;
    }

    /** @param {Float32Array[]} channels @returns {Float32Array} their mean */
    #mix(channels) {
        if (channels.length === 1) return channels[0];
        if (this.#mono.length !== channels[0].length) this.#mono = new Float32Array(channels[0].length);
        this.#mono.fill(0);
        for (const channel of channels) {
            for (let at = 0; at < channel.length; at++) this.#mono[at] += channel[at] / channels.length;
        }
        return this.#mono;
    }

    /** Delivers the sound before a pause or the end, even if it is less than a chunk. @param {string} request */
    #rest(request) {
        if (!this.#paused && !this.#finished) {
            this.#add(this.#resampler.finish());
            this.#post(this.#chunk.subarray(0, this.#filled));
            this.#filled = 0;
            this.#resampler = new Resampler(sampleRate);
        }
        this.#paused = true;
        this.#finished = request === "finish";
        this.port.postMessage({rested: request});
    }

    /** @param {Float32Array} samples */
    #add(samples) {
        for (let place = 0; place < samples.length; ) {
            const part = samples.subarray(place, place + this.#chunk.length - this.#filled);
            this.#chunk.set(part, this.#filled);
            this.#filled += part.length;
            place += part.length;
            if (this.#filled === this.#chunk.length) {
                this.#post(this.#chunk);
                this.#filled = 0;
            }
        }
    }

    /** @param {Float32Array} chunk */
    #post(chunk) {
        if (chunk.length === 0) return;
        if (this.#untaken * this.chunkMs >= MOST_UNTAKEN_MS) {
            this.port.postMessage({lostMs: (chunk.length / SAMPLE_RATE) * 1000});
            return;
        }
        let peak = 0;
        let power = 0;
        for (const sample of chunk) {
            peak = Math.max(peak, Math.abs(sample));
            power += sample * sample;
        }
        const pcm = toInt16(chunk);
        this.#untaken += 1;
        const rms = Math.min(1, Math.sqrt(power / chunk.length));
        this.port.postMessage({pcm, peak: Math.min(1, peak), rms}, [pcm.buffer]);
    }
}

registerProcessor("streamer-capture", Capture);
