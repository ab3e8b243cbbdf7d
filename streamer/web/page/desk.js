// The desk: a sheet for what is said, and the work on it, by the microphone or from a recording.

import {Microphone} from "../microphone.js";
import {Recording} from "../recording.js";
import {Session} from "../streamer.js";
import {wav} from "./player.js";
import {Sheet} from "./sheet.js";

const CHUNK_MS = 60;
const PEAK_MS = 20;
const PEAKS = 2000; // as many as a wide screen has bars, and more

/**
 * One thing is done at a time: `doing` is nothing, listening, transcribing or finishing. Events: "begin" before
 * something new; "change" whenever that or what there is has changed; "sound" with the length in milliseconds and
 * "level" while listening; "lost" and "found" when the connection is; "overflow" ({ms}) when sound was; "trouble" with
 * a StreamerError; "silent" when there was no word.
 */
export class Desk extends EventTarget {
    doing = "nothing";
    sheet = new Sheet();
    #views;
    #settings;
    #aside = null; // what was cleared last: {sheet, source, picture}
    #source = null; // what the player plays: the file, or the sound of the microphone as one
    #recording = null;
    #microphone = null;
    #session = null;
    #sending = null; // ends the sending of the recording
    #turns = 0;
    #again = () => this.listen();

    /** `views`: words, wave, player and standing, which show what happens. */
    constructor(settings, views) {
        super();
        [this.#settings, this.#views] = [settings, views];
        views.player.addEventListener("unplayable", () => this.#playDecoded());
    }

    /** Whether there is nothing to be seen. */
    get blank() {
        return this.doing === "nothing" && !this.sheet.segments.length && !this.#views.player.loaded;
    }

    /** Begins to listen, below what was spoken before; after a recording on a sheet of its own. */
    async listen() {
        this.#makeReady(() => this.listen());
        if (this.sheet.file) this.clear();
        const microphone = new Microphone();
        this.#microphone = microphone;
        microphone.addEventListener("audio", ({detail}) => this.#hear(detail));
        microphone.addEventListener("level", ({detail}) => this.#tell("level", detail));
        microphone.addEventListener("overflow", ({detail}) => this.#tell("overflow", detail));
        microphone.addEventListener("ended", () => this.#microphone === microphone && this.stop());
        this.#do("listening");
        this.#views.standing.show("asking");
        try {
            await microphone.start({deviceId: this.#settings.get("device") || undefined, chunkMs: CHUNK_MS});
        } catch (error) {
            if (this.#microphone !== microphone) return; // it was stopped meanwhile
            this.#release();
            this.#do("nothing");
            this.#tell("trouble", error);
            return;
        }
        if (this.#microphone !== microphone) {
            void microphone.stop(); // it was stopped while somebody was asked for permission
            return;
        }
        this.#views.player.unload();
        this.#views.wave.seekable = false;
        this.#open(this.sheet.durationMs);
        this.#do("listening");
        this.#views.wave.roll(true);
    }

    /** Transcribes a file on a sheet of its own. */
    async transcribe(file) {
        const turn = ++this.#turns;
        if (this.doing === "listening") await this.stop();
        this.halt();
        this.#makeReady(() => this.transcribe(file));
        let recording;
        try {
            recording = await Recording.decode(file);
        } catch (error) {
            if (turn === this.#turns) this.#tell("trouble", error);
            return;
        }
        if (turn !== this.#turns) return; // another one was chosen meanwhile
        this.clear();
        this.sheet = new Sheet(file.name);
        [this.#source, this.#recording] = [file, recording];
        const {wave, player} = this.#views;
        const count = Math.max(1, Math.min(PEAKS, Math.ceil(recording.durationMs / PEAK_MS)));
        wave.load(recording.peaks(count), recording.durationMs);
        wave.seekable = true;
        player.load(file);
        await this.#send(recording, this.#settings.get("pace") === "paced");
    }

    /** Ends what is being done; the words of what was heard still come. A second time it ends at once. */
    async stop() {
        const session = this.#session;
        if (this.doing === "transcribing" && this.#sending) {
            this.#sending.abort();
        } else if (this.doing !== "listening" || !session) {
            this.halt();
        } else {
            this.#do("finishing");
            this.#views.standing.show("finishing");
            await this.#release();
            await session.stop().catch(() => {}); // told as an error of the session
        }
    }

    /** Ends what is being done, at once. */
    halt() {
        if (this.doing === "nothing") return;
        this.#sending?.abort();
        const session = this.#session;
        this.#session = null;
        session?.close();
        void this.#release();
        this.#views.words.clearPartial();
        this.#keepSound();
        this.#do("nothing");
        void this.#views.standing.ask();
    }

    /** What failed is tried once more. */
    again() {
        void this.#again();
    }

    /** A clear sheet; what was on the one before can be brought back. @returns {boolean} whether there was anything */
    clear() {
        const {player, wave, words} = this.#views;
        const used = this.sheet.segments.length > 0;
        if (used) this.#aside = {sheet: this.sheet, source: this.#source, picture: wave.picture};
        player.unload();
        [this.sheet, this.#source, this.#recording] = [new Sheet(), null, null];
        wave.clear();
        words.clear();
        this.#tell("change");
        return used;
    }

    /** The sheet that was cleared last. */
    bringBack() {
        if (!this.#aside) return;
        this.halt();
        this.#tell("begin");
        const {player, wave, words} = this.#views;
        words.clear();
        ({sheet: this.sheet, source: this.#source} = this.#aside);
        wave.picture = this.#aside.picture;
        this.#aside = null;
        for (const final of this.sheet.segments) words.showFinal(final);
        if (this.#source) player.load(this.#source);
        wave.seekable = player.loaded;
        this.#do("nothing");
    }

    #do(what) {
        this.doing = what;
        this.#tell("change");
    }

    #makeReady(again) {
        this.#again = again;
        this.#views.player.pause();
        this.#views.words.clearPartial();
        this.#tell("begin");
        this.#tell("change");
    }

    /** Sound of the microphone. */
    #hear(samples) {
        if (!this.#session) return;
        this.#session.send(samples);
        this.sheet.hear(samples);
        this.#views.wave.push(samples);
        this.#tell("sound", this.sheet.durationMs);
    }

    /** Nothing is recorded any more. */
    #release() {
        const microphone = this.#microphone;
        this.#microphone = null;
        this.#views.wave.roll(false);
        return microphone?.stop();
    }

    async #send(recording, paced) {
        const session = this.#open(0, paced);
        const sending = new AbortController();
        this.#sending = sending;
        this.#do("transcribing");
        try {
            await session.ready;
            if (paced) void this.#views.player.play();
            await recording.play(session, {paced, signal: sending.signal});
        } catch (error) {
            // What ends the session is told as its error; that it was stopped is none.
            if (error?.name !== "AbortError" || this.#session !== session) return;
            this.#views.player.pause();
            this.#do("finishing");
        } finally {
            if (this.#sending === sending) this.#sending = null;
        }
        await session.stop().catch(() => {});
    }

    /** A session whose words go on the sheet from this time on. */
    #open(fromMs, paced = false) {
        this.sheet.begin(fromMs);
        const session = new Session({key: this.#settings.key, options: this.#settings.options});
        this.#session = session;
        let began = false;
        session.ready.then(() => (began = true), () => {});
        this.#views.standing.follow(session, this, paced);
        for (const type of ["partial", "final", "heard", "done", "restarted"]) {
            session.addEventListener(type, ({detail}) => this.#session === session && this.#receive({type, ...detail}));
        }
        session.addEventListener("state", ({detail: {state}}) => {
            if (this.#session === session && state === "resuming") this.#tell("lost");
            if (this.#session === session && state === "open") this.#tell("found");
        });
        session.addEventListener("overflow", ({detail}) => this.#tell("overflow", detail));
        session.addEventListener("error", ({detail}) => {
            if (this.#session === session && detail.error) this.#interrupted(detail.error, began);
        });
        return session;
    }

    #receive(received) {
        const {words, wave} = this.#views;
        const message = this.sheet.take(received);
        if (message.type === "restarted") words.clearPartial();
        if (message.type === "partial") {
            words.showPartial(message);
            wave.segment(message.segment, message.start_ms, message.words?.at(-1)?.end_ms ?? message.audio_ms, true);
        }
        if (message.type === "final") {
            words.showFinal(message);
            wave.segment(message.segment, message.start_ms, message.end_ms, false);
            this.#tell("change");
        }
        if (message.audio_ms) wave.heard(message.audio_ms);
        if (message.type === "done") this.#finished();
    }

    /** All words have come. */
    #finished() {
        this.#session = null;
        this.#views.words.clearPartial();
        this.#keepSound();
        this.#do("nothing");
        this.#views.standing.done();
        if (!this.sheet.segments.length) this.#tell("silent");
    }

    /** The session has ended otherwise: what came stays, and so does the sound if the service `began` to hear it. */
    #interrupted(error, began) {
        this.#session = null;
        this.#sending?.abort();
        void this.#release();
        const {sheet} = this;
        if (!sheet.file && began) this.#again = () => this.#catchUp();
        if (!sheet.file && !began && !sheet.segments.length) this.clear();
        this.#keepSound();
        this.#do("nothing");
        this.#tell("trouble", error);
    }

    /** Sends again what did not become final, for it was kept. */
    async #catchUp() {
        const rest = this.sheet.unsettled;
        if (!rest.length) return this.listen();
        this.#makeReady(() => this.#catchUp());
        const session = this.#open(this.sheet.settledMs);
        this.#do("finishing");
        try {
            for (const piece of rest) {
                await session.room();
                session.send(piece);
            }
            await session.stop();
        } catch {
            // Told as the session's error.
        }
    }

    /** What was spoken can be played, too. */
    #keepSound() {
        if (this.sheet.file || !this.sheet.sound?.length) return;
        this.#source = wav(this.sheet.sound);
        this.#views.player.load(this.#source);
        this.#views.wave.seekable = true;
    }

    /** Not all that a browser can decode can it play as well. */
    #playDecoded() {
        const recording = this.#recording;
        this.#recording = null; // if even that is not played, then nothing is
        if (recording) this.#views.player.load((this.#source = wav([recording.samples])));
        else this.#views.player.unload();
        this.#views.wave.seekable = this.#views.player.loaded;
        this.#tell("change");
    }

    #tell(type, detail = null) {
        this.dispatchEvent(new CustomEvent(type, {detail}));
    }
}
