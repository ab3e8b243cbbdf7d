/**
 * A session with a Streamer service: audio in, text out. docs/how-to/javascript.md shows its use.
 *
 *     const session = new Session({url: "wss://speech.example.org"});
 *     session.addEventListener("final", (event) => console.log(event.detail.text));
 *     session.send(samples);   // Int16Array, 16 kHz, mono
 *     await session.stop();
 *
 * Events have the names of the protocol's messages, and the message as `detail`: `starting`, `ready`, `partial`,
 * `final`, `speech`, `turn`, `head`, `heard`, `flushed`, `recovered`, `done`, `error`. These events come from the
 * client itself:
 * - `state`: {state, reason, code, retryMs}, see `Session.state`
 * - `restarted`: {fromMs, segment}: the service has lost the session, and another one goes on from there. Times,
 *   segments and numbers go on too. Partials of this segment and of later ones come again. With `multichannel`
 *   there is one event for each `channel`.
 * - `overflow`: {ms, totalMs}: the client has dropped this much audio, because it could not send it in time
 *
 * If the connection is lost, the client connects again and resumes the session. If the service was restarted in the
 * meantime, a new session recognises the audio without a final again.
 */

import {Connection, websocketUrl} from "./connection.js";
import {Delay} from "./delay.js";
import {StreamerError, asError, forgotten} from "./errors.js";
import {KeptAudio, MOST_UNHEARD_MS} from "./kept-audio.js";
import {Progress} from "./progress.js";
import {Waiting} from "./waiting.js";

export {StreamerError};

/** @typedef {import("./connection.js").Message} Message */
/** @typedef {"connecting" | "open" | "resuming" | "closed"} State */

/** How many bytes may wait in the browser's socket. The client holds back the rest. */
const SOCKET_MARK_BYTES = 65_536;
/** There is room for more of a recording if less than this waits, or waits for its result. */
const ROOM_MS = 30_000;
/** The service closes a live session when 20 s wait there. */
const MOST_LIVE_MS = 15_000;
/** How long the client tries to reconnect by default, with growing pauses. */
const PATIENCE_MS = 60_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 3_000;
/** The service sends a message about audio twice a second. After a longer silence, the connection counts as lost. */
const SILENT_MS = 25_000;
/** A service that owes an answer, and sends messages for this long that bring it no further, will never answer. */
const STUCK_MS = 90_000;
const LONGEST_STEP_MS = 1_000;
const KEEPALIVE_MS = 5_000;
const TICK_MS = 50;
/** Errors that pass, so that the client tries again; and errors after which it opens a new session. */
const PASSING = ["lost", "unreachable", "full", "not_ready", "no_start"];
const FORGOTTEN = ["unknown_token", "bad_resume"];
/** If the recogniser fails on some audio again and again, the client gives up after this many new sessions. */
const MOST_FAILURES = 3;

export class Session extends EventTarget {
    /** Resolves with the service's `ready`. Rejects with a StreamerError. @type {Promise<Message>} */
    ready;
    /** @type {State} */
    state = "connecting";
    /** How much audio the client has dropped, in milliseconds. */
    overflowedMs = 0;
    /** The addresses of the service, and which one is in use. @type {string[]} */
    #urls;
    #at = 0;
    #key;
    #options;
    #resume;
    #restart;
    #patienceMs;
    /** @type {Connection | null} */
    #connection = null;
    #kept;
    #progress;
    #delay = new Delay();
    #token = "";
    #lastSentAt = performance.now();
    #stopping = false;
    #reached = ""; // how far the service is, in audio and flushes
    #reachedAt = 0;
    #endAskedAt = 0; // when the caller last asked for the end of a segment
    /** @type {StreamerError | null} */
    #error = null;
    #waiting = new Waiting();
    #ticking;

    /**
     * Connects at once.
     * @param {object} [settings]
     * @param {string | string[]} [settings.url] of the service, or several of bridges that serve the same: if one is
     *     away or refuses, the session goes on at the next one. The default is the service that this module came from
     * @param {string} [settings.key] the key, if the service needs one
     * @param {import("./options.js").Options} [settings.options] the options of the protocol's `start`
     * @param {boolean} [settings.resume] whether the session goes on when its connection is lost
     * @param {boolean} [settings.restart] whether it also goes on when the service was restarted
     * @param {number} [settings.patienceMs] how long the client tries to reconnect
     */
    constructor({url, key = "", options = {}, resume = true, restart = resume, patienceMs = PATIENCE_MS} = {}) {
        super();
        this.#urls = Array.isArray(url) ? url.map(websocketUrl) : [websocketUrl(url)];
        this.#key = key;
        this.#options = {...options};
        this.#resume = resume;
        this.#patienceMs = patienceMs;
        this.#restart = restart;
        this.#progress = new Progress(options);
        this.#kept = new KeptAudio(options);
        this.#ticking = setInterval(() => this.#tick(), TICK_MS);
        this.ready = this.#begin();
        this.ready.catch(() => {}); // errors are also an event
    }

    /** The secret with which this session can be resumed or shared; empty before it is ready. */
    get token() {
        return this.#token;
    }

    /** How much audio has not left the browser, in milliseconds. */
    get bufferedMs() {
        const {givenMs, sentMs} = this.#kept;
        return givenMs - sentMs + this.#kept.milliseconds(this.#connection?.bufferedAmount ?? 0);
    }

    /** How much audio the caller has sent, in milliseconds. */
    get sentMs() {
        return this.#kept.givenMs;
    }

    /**
     * Returns what another session needs in its option `context` to go on after this final (its detail), at its
     * `cut_ms`, with the same marks and capitals. Null if the service has sent nothing.
     * @param {Message} final @returns {object | null}
     */
    contextOf(final) {
        return this.#progress.contextOf(final);
    }

    /** How far the text is behind the audio: the median of the last results, in milliseconds. */
    get latencyMs() {
        return this.#delay.median;
    }

    /**
     * Sends audio: 16-bit samples, 16 kHz, mono, unless the options say otherwise. Never waits. Audio that cannot be
     * sent now is kept, up to five minutes: see `room` and `overflowedMs`.
     * @param {Int16Array | Float32Array | ArrayBuffer} audio fractions only with the encoding pcm_f32le
     */
    send(audio) {
        if (audio instanceof Float32Array && this.#options.encoding !== "pcm_f32le") {
            throw new TypeError("a Float32Array needs the encoding pcm_f32le: give an Int16Array");
        }
        if (this.#stopping || this.state === "closed") return;
        const bytes = ArrayBuffer.isView(audio)
            ? new Uint8Array(audio.buffer, audio.byteOffset, audio.byteLength)
            : new Uint8Array(audio);
        const ms = this.#kept.milliseconds(bytes.length);
        if (this.#unheardMs + ms > MOST_UNHEARD_MS) {
            this.overflowedMs += ms;
            this.#dispatch("overflow", {ms, totalMs: this.overflowedMs});
            return;
        }
        this.#kept.add(bytes);
        this.#delay.given(this.sentMs, performance.now());
        this.#pump();
    }

    /** Resolves when there is room for more of a recording. Rejects if the session ends. @returns {Promise<void>} */
    room() {
        return this.#until(() => !this.#error && this.#unheardMs < ROOM_MS && this.bufferedMs < ROOM_MS / 10);
    }

    /**
     * Names the speakers, for captions of this session. Finals have their numbers only.
     * @param {string[]} names by their numbers; empty for a speaker without a name
     */
    nameSpeakers(names) {
        this.#options.speaker_names = names;
        this.#sendNames();
    }

    /** Asks for the final of all audio so far. @returns {Promise<void>} resolves when this has happened */
    flush() {
        if (this.#stopping) return this.stop().then(() => {});
        const number = this.#kept.flush();
        this.#endAskedAt = performance.now();
        this.#pump();
        return this.#until(() => this.#progress.flushes > number || this.#progress.done !== null);
    }

    /**
     * Says that there is no more audio.
     * @returns {Promise<Message>} resolves with `done` after the last finals; rejects with a StreamerError
     */
    stop() {
        if (!this.#stopping) {
            this.#stopping = true;
            this.#kept.stop();
            this.#endAskedAt = performance.now();
            this.#pump();
        }
        return this.#until(() => this.#progress.done !== null).then(() => /** @type {Message} */ (this.#progress.done));
    }

    /** Ends the session at once, even if messages are still on their way. */
    close() {
        this.#end(new StreamerError("closed", "The session was closed."), true);
    }

    /** @returns {Promise<Message>} */
    async #begin() {
        try {
            const {connection, ready} = await this.#openAnywhere();
            if (this.#error) {
                connection.leave(1000);
                throw this.#error;
            }
            this.#token = ready.token ?? "";
            this.#attach(connection);
            this.#dispatch("ready", ready);
            return ready;
        } catch (error) {
            this.#end(asError(error));
            throw this.#error ?? error;
        }
    }

    /** @param {object} start the protocol's `start` */
    #open(start) {
        return Connection.open(this.#url, this.#key, start, (message) => this.#dispatch("starting", message));
    }

    /** Opens the session at the first address that does not refuse it for now. */
    async #openAnywhere() {
        for (let left = this.#urls.length - 1; ; left -= 1) {
            try {
                return await this.#open(this.#options);
            } catch (caught) {
                if (left === 0 || this.#error || !PASSING.includes(asError(caught).code)) throw caught;
                this.#at += 1;
            }
        }
    }

    get #url() {
        return this.#urls[this.#at % this.#urls.length];
    }

    /** @param {Connection} connection that has the session from now on */
    #attach(connection) {
        this.#connection = connection;
        connection.onmessage = (message) => this.#receive(message);
        connection.onend = (error) => this.#lost(error);
        this.#reachedAt = performance.now();
        this.#setState("open");
        this.#sendNames(); // those of `start` may have changed since
        this.#pump();
    }

    #sendNames() {
        const {speaker_names: names} = this.#options;
        if (names && this.state === "open") this.#connection?.send(JSON.stringify({type: "speaker_names", names}));
    }

    /** @param {Message} message */
    #receive(message) {
        this.#tell(this.#progress.receive(message));
        this.#pump();
    }

    /** @param {Message[]} messages */
    #tell(messages) {
        const {heardMs, cutsMs, flushes} = this.#progress;
        const shown = messages.some(({type}) => type === "partial" || type === "final");
        const now = performance.now();
        const reached = `${heardMs} ${flushes}`;
        if (reached !== this.#reached) [this.#reached, this.#reachedAt] = [reached, now];
        this.#delay.heard(heardMs, now, shown);
        this.#kept.answered(flushes);
        this.#kept.letGo(Math.min(...cutsMs));
        for (const message of messages) this.#dispatch(message.type, message);
        if (this.#progress.done) this.#end(null);
    }

    /** Sends as much as the limits allow now. */
    #pump() {
        const connection = this.#connection;
        if (!connection || this.state !== "open") return;
        for (let entry = this.#kept.next(); entry; entry = this.#kept.next()) {
            if ("audio" in entry) {
                if (connection.bufferedAmount > SOCKET_MARK_BYTES) break;
                if (this.#options.live && this.#kept.sentMs - this.#progress.heardMs > MOST_LIVE_MS) break;
                connection.send(/** @type {Uint8Array<ArrayBuffer>} */ (entry.audio));
            } else {
                connection.send(JSON.stringify({type: "stop" in entry ? "stop" : "flush"}));
            }
            this.#kept.sent();
            this.#lastSentAt = performance.now();
        }
        this.#waiting.look(this.#error);
    }

    #tick() {
        const connection = this.#connection;
        if (connection && this.state === "open") {
            const now = performance.now();
            const silentMs = now - connection.receivedAt;
            // With less audio than a step, the service waits for more and owes no answer.
            const waitingMs = this.#unheardMs > LONGEST_STEP_MS ? now - this.#delay.waitingSince : 0;
            const endingMs = this.#endDue ? now - this.#endAskedAt : 0;
            const owedMs = Math.max(waitingMs, endingMs);
            if (Math.min(silentMs, owedMs) > SILENT_MS) {
                connection.leave();
                this.#lost(new StreamerError("lost", `${this.#url} has sent nothing for ${SILENT_MS / 1000} s.`));
            } else if (Math.min(now - this.#reachedAt, owedMs) > STUCK_MS) {
                connection.leave();
                const what = `has sent messages, but recognised nothing for ${STUCK_MS / 1000} s`;
                this.#end(new StreamerError("overdue", `${this.#url} ${what}.`));
            } else if (now - this.#lastSentAt > KEEPALIVE_MS && connection.bufferedAmount === 0 && !this.#stopping) {
                connection.send('{"type":"keepalive"}');
                this.#lastSentAt = now;
            }
        }
        this.#pump();
    }

    /** @param {StreamerError} error why the connection ended */
    #lost(error) {
        this.#connection = null;
        // The service itself ended the session: it shuts down, its recogniser failed, or the network has swallowed what
        // was sent, also the keepalives. Another session may go on.
        if (error.code === "failed") this.#progress.failures += 1;
        if (["not_ready", "failed", "idle"].includes(error.code)) this.#token = "";
        else if (error.code !== "lost") return this.#end(error);
        if (this.#token ? this.#resume : this.#restart) void this.#reconnect(error);
        else this.#end(error);
    }

    /** Makes another connection, or opens another session. @param {StreamerError} error what happened */
    async #reconnect(error) {
        const until = performance.now() + this.#patienceMs;
        let pause = FIRST_PAUSE_MS;
        while (!this.#error) {
            const wait = Math.max(pause, Math.min(error.retryMs, LONGEST_PAUSE_MS));
            if (performance.now() + wait > until) return this.#end(error);
            this.#setState("resuming", error, wait);
            await new Promise((resolve) => setTimeout(resolve, wait));
            if (this.#error) return;
            try {
                await (this.#token ? this.#resumeSession() : this.#restartSession());
                return;
            } catch (caught) {
                const failure = asError(caught);
                if (FORGOTTEN.includes(failure.code) && this.#token && this.#restart) {
                    this.#token = "";
                    pause = FIRST_PAUSE_MS;
                } else if (PASSING.includes(failure.code)) {
                    this.#at += 1;
                    pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
                } else {
                    return this.#end(failure.code === "unknown_token" ? forgotten(failure) : failure);
                }
                error = failure;
            }
        }
    }

    async #resumeSession() {
        const resume = {token: this.#token, after: this.#progress.after};
        const {connection, ready} = await this.#open({resume});
        this.#require(connection, this.#kept.resume(ready.from_sample, ready.flushes ?? 0));
        this.#attach(connection);
    }

    async #restartSession() {
        if (this.#progress.failures > MOST_FAILURES) {
            throw new StreamerError("failed", "The service fails again and again with this audio.");
        }
        const context = this.#progress.contexts;
        const options = context.length > 0 ? {...this.#options, context} : this.#options;
        const {connection, ready} = await this.#open(options);
        const fromMs = this.#kept.restart(this.#progress.cutsMs);
        this.#require(connection, fromMs !== null);
        this.#token = ready.token ?? "";
        for (const event of this.#progress.restart(fromMs ?? 0)) this.#dispatch(event.type, event);
        this.#attach(connection);
    }

    /** @param {Connection} connection @param {boolean} kept whether the audio that it needs first is still kept */
    #require(connection, kept) {
        if (!this.#error && kept) return;
        connection.leave(1000);
        throw this.#error ?? new StreamerError("lost_audio", "The service asks for audio that is not kept any more.");
    }

    /** @param {StreamerError | null} error @param {boolean} [quiet] because the caller knows */
    #end(error, quiet = false) {
        if (this.state === "closed") return;
        for (const message of this.#progress.release()) this.#dispatch(message.type, message);
        this.#error = error ?? new StreamerError("closed", "The session has ended.");
        clearInterval(this.#ticking);
        this.#connection?.leave(1000);
        this.#connection = null;
        this.#setState("closed", error ?? undefined, error?.retryMs);
        if (error && !quiet) {
            const code = error.reported || error.code;
            this.#dispatch("error", {type: "error", code, message: error.message, fatal: true, error});
        }
        this.#waiting.look(this.#error);
    }

    /** Whether the service owes the end of a segment. */
    get #endDue() {
        return this.#stopping || this.#kept.flushes > this.#progress.flushes;
    }

    get #unheardMs() {
        return this.#kept.givenMs - this.#progress.heardMs;
    }

    /** @param {() => boolean} holds @returns {Promise<void>} */
    #until(holds) {
        const promise = this.#waiting.until(holds);
        this.#waiting.look(this.#error);
        return promise;
    }

    /** @param {State} state @param {StreamerError} [error] @param {number} [retryMs] */
    #setState(state, error, retryMs = 0) {
        this.state = state;
        const done = state === "closed" && !error;
        const reason = error?.message ?? (done ? "The session is done." : "");
        this.#dispatch("state", {state, reason, code: error?.code ?? (done ? "done" : ""), retryMs});
    }

    /** @param {string} type @param {object} detail */
    #dispatch(type, detail) {
        this.dispatchEvent(new CustomEvent(type, {detail}));
    }
}
