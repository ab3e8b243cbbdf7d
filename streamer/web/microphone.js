/**
 * The microphone as a source for a session.
 *
 *     const microphone = new Microphone();
 *     microphone.addEventListener("audio", (event) => session.send(event.detail));
 *     await microphone.start();
 *     …
 *     await microphone.stop();   // delivers the last sound, then closes it
 *
 * Events: `audio` (an Int16Array, 16 kHz, mono); `level` ({rms, peak}, 0 to 1) with each of them; `ended` ({reason})
 * when the device is disconnected; `overflow` ({ms}) when sound was dropped because the page took none for a minute.
 */

import {StreamerError} from "./errors.js";

const CHUNK_MS = [20, 100];
/** Some sound systems begin slowly. The microphone waits for them at most this time. */
const BEGIN_MS = 10_000;
const REST_MS = 1_000;

/** Our codes for the names that browsers give to the reasons why there is no sound. */
const REASONS = new Map(Object.entries({
    NotAllowedError: ["no_permission", "This page may not use the microphone: allow it beside the browser's address."],
    SecurityError: ["no_permission", "This page may not use the microphone: the browser's settings forbid it."],
    NotFoundError: ["no_microphone", "There is no microphone: connect one."],
    OverconstrainedError: ["no_microphone", "The chosen microphone is not connected any more: choose another one."],
    NotReadableError: ["microphone_busy", "The microphone gives no sound: another program may be using it."],
    AbortError: ["microphone_busy", "The microphone gives no sound: another program may be using it."],
}));

export class Microphone extends EventTarget {
    /** @type {MediaStream | null} */
    #stream = null;
    /** @type {AudioContext | null} */
    #context = null;
    /** @type {AudioWorkletNode | null} */
    #worklet = null;
    /** @type {Map<string, () => void>} called when the last sound was delivered */
    #resting = new Map();
    #starting = false;
    #unwanted = false; // stopped while the browser asked for permission
    paused = false;

    /** Whether the microphone is open. It may be paused. */
    get running() {
        return this.#worklet !== null;
    }

    /**
     * Lists the microphones. They have names only if the page may use one of them.
     * @returns {Promise<{deviceId: string, label: string}[]>}
     */
    static async devices() {
        check();
        const devices = await navigator.mediaDevices.enumerateDevices();
        return devices
            .filter((device) => device.kind === "audioinput" && device.deviceId !== "")
            .map(({deviceId, label}) => ({deviceId, label}));
    }

    /**
     * Asks the user for permission, opens the microphone and begins. Call this when the user presses a button.
     * Rejects with a StreamerError.
     * @param {object} [settings]
     * @param {string} [settings.deviceId] one of `devices()`, otherwise the browser's choice
     * @param {number} [settings.chunkMs] milliseconds of sound in an `audio` event, 20 to 100
     * @param {MediaTrackConstraints} [settings.constraints] such as `{noiseSuppression: false}`
     */
    async start({deviceId, chunkMs = 40, constraints = {}} = {}) {
        check();
        if (!(chunkMs >= CHUNK_MS[0] && chunkMs <= CHUNK_MS[1])) {
            throw new RangeError(`chunkMs must be ${CHUNK_MS.join(" to ")}, not ${chunkMs}`);
        }
        if (this.#starting || this.running) {
            throw new StreamerError("microphone_busy", "This microphone is running already.");
        }
        [this.#starting, this.#unwanted] = [true, false];
        // Before the question: during it, the browser may forget the press of the button, which permits sound.
        const context = new AudioContext({latencyHint: "interactive"});
        /** @type {MediaStream | null} */
        let stream = null;
        try {
            const device = deviceId ? {deviceId: {exact: deviceId}} : {};
            stream = await navigator.mediaDevices.getUserMedia({audio: {channelCount: 1, ...device, ...constraints}});
            const capture = new URL("capture-worklet.js", import.meta.url);
            await within(loaded(context, capture), "not be loaded");
            await within(context.resume(), "not begin");
            if (this.#unwanted) throw new StreamerError("closed", "The microphone was closed before it was open.");
            this.#capture(context, stream, Math.round(chunkMs));
        } catch (error) {
            stream?.getTracks().forEach((track) => track.stop());
            void context.close();
            throw reason(error);
        } finally {
            this.#starting = false;
        }
    }

    /** Stops recording until `resume`. Delivers the sound until now first. */
    async pause() {
        if (!this.running || this.paused) return;
        this.paused = true;
        await this.#rest("pause");
    }

    /** Records again. */
    resume() {
        if (!this.paused) return;
        this.paused = false;
        this.#worklet?.port.postMessage("resume");
    }

    /** Delivers the remaining sound, then closes the microphone. */
    async stop() {
        this.#unwanted = true;
        if (!this.running) return;
        this.#stream?.getTracks().forEach((track) => (track.onended = null));
        await this.#rest("finish");
        this.#release();
    }

    /** @param {AudioContext} context @param {MediaStream} stream @param {number} chunkMs */
    #capture(context, stream, chunkMs) {
        const worklet = new AudioWorkletNode(context, "streamer-capture", {
            numberOfInputs: 1,
            numberOfOutputs: 1,
            processorOptions: {chunkMs},
        });
        worklet.port.onmessage = ({data}) => this.#receive(data, worklet.port);
        context.createMediaStreamSource(stream).connect(worklet);
        worklet.connect(context.destination); // it gives silence, but without a destination it would not run
        for (const track of stream.getTracks()) {
            track.onended = () => void this.#gone("The microphone was disconnected.");
        }
        worklet.onprocessorerror = () => void this.#gone("The browser stopped taking sound.");
        [this.#context, this.#stream, this.#worklet, this.paused] = [context, stream, worklet, false];
    }

    /** @param {any} data @param {MessagePort} port */
    #receive(data, port) {
        if (data.pcm) {
            port.postMessage("taken");
            this.#dispatch("level", {rms: data.rms, peak: data.peak});
            this.#dispatch("audio", data.pcm);
        } else if (data.rested) {
            this.#resting.get(data.rested)?.();
        } else {
            this.#dispatch("overflow", {ms: data.lostMs});
        }
    }

    /** @param {string} reason */
    async #gone(reason) {
        if (!this.running) return;
        await this.stop();
        this.#dispatch("ended", {reason});
    }

    /** @param {"pause" | "finish"} request @returns {Promise<void>} resolves when all sound before it was delivered */
    #rest(request) {
        return new Promise((resolve) => {
            const timer = setTimeout(resolve, REST_MS);
            this.#resting.set(request, () => {
                clearTimeout(timer);
                resolve();
            });
            this.#worklet?.port.postMessage(request);
        });
    }

    #release() {
        this.#stream?.getTracks().forEach((track) => track.stop());
        this.#worklet?.disconnect();
        if (this.#context?.state !== "closed") void this.#context?.close();
        this.#stream = this.#context = this.#worklet = null;
        this.paused = false;
    }

    /** @param {string} type @param {any} detail */
    #dispatch(type, detail) {
        this.dispatchEvent(new CustomEvent(type, {detail}));
    }
}

function check() {
    if (!globalThis.isSecureContext) {
        const message = "Browsers give the microphone only to pages that come over https, or from this machine.";
        throw new StreamerError("insecure_page", message);
    }
    if (!navigator.mediaDevices?.getUserMedia || !globalThis.AudioWorkletNode) {
        throw new StreamerError("unsupported", "This browser cannot take sound from a microphone: use a newer one.");
    }
}

/** @param {AudioContext} context @param {URL} module the worklet, beside this module */
async function loaded(context, module) {
    try {
        await context.audioWorklet.addModule(module);
    } catch {
        // A browser does not give the reason. The name of its error has another meaning for a microphone.
        const message = `The script for the microphone, ${module}, could not be loaded.`;
        throw new StreamerError("unreachable", message);
    }
}

/** @template T @param {Promise<T>} promise @param {string} what @returns {Promise<T>} */
function within(promise, what) {
    return new Promise((resolve, reject) => {
        const sentence = `The sound of this browser could ${what} within ${BEGIN_MS / 1000} s.`;
        const timer = setTimeout(() => reject(new StreamerError("unsupported", sentence)), BEGIN_MS);
        promise.then(resolve, reject).finally(() => clearTimeout(timer));
    });
}

/** @param {unknown} error @returns {StreamerError} */
function reason(error) {
    if (error instanceof StreamerError) return error;
    const {name = "", message = ""} = /** @type {{name?: string, message?: string}} */ (error);
    const [code, sentence] = REASONS.get(name) ?? ["unsupported", `The microphone cannot be used: ${message || name}.`];
    return new StreamerError(code, sentence);
}
