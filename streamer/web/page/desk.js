// The desk: a sheet, and the work on it, with the microphone or with recordings.

import {StreamerError} from "../errors.js";
import {Microphone} from "../microphone.js";
import {Recording} from "../recording.js";
import {Session} from "../streamer.js";
import {Queue} from "./queue.js";
import {Sheets} from "./sheets.js";
import {SheetSound} from "./sound/sheet-sound.js";

const CHUNK_MS = 60;
/** Errors of a file. Any other error is a problem of the service, so the next recordings would fail too. */
const OF_THE_FILE = ["unsupported_audio", "unreadable_file"];

/**
 * The desk does one thing at a time: `doing` is nothing, listening, opening, transcribing or finishing. Events: "begin"
 * before something new; "change" when `doing` or the content has changed; "progress" with each result; "sound" with the
 * length in milliseconds, and "level", while listening; "lost" and "found" when the connection is lost and back;
 * "overflow" ({ms}) when sound was dropped; "trouble" with a StreamerError; "silent" when no words were recognised;
 * "paused" when recordings still wait after a stop; "finished" ({total, unread, silent}) after the last of several;
 * "session" with each session that is opened; "call" when the recording has two voices on two channels, which are mixed.
 */
export class Desk extends EventTarget {
    doing = "nothing";
    queue = new Queue();
    /** @type {Sheets} */
    sheets;
    #views;
    #settings;
    /** @type {SheetSound} */
    #sound;
    #microphone = null;
    #session = null;
    #sending = null; // stops sending the recording
    #broken = false; // the user has stopped the recording before its end
    #turns = 0;
    /** @type {() => any} */
    #again = () => this.listen();

    /** `views`: words, wave, player and standing, which show the work. */
    constructor(settings, history, undo, views) {
        super();
        [this.#settings, this.#views] = [settings, views];
        this.sheets = new Sheets(settings, history, undo, views);
        this.sheets.addEventListener("replace", () => {
            this.#turns += 1;
            this.halt();
            this.#again = () => this.listen();
            this.#sound.recording = null;
            this.#tell("begin");
        });
        this.sheets.addEventListener("change", () => this.#tell("change"));
        this.sheets.addEventListener("named", () => this.#session?.nameSpeakers(this.sheet.sessionSpeakerNames));
        this.#sound = new SheetSound(this.sheets, views);
        this.#sound.addEventListener("change", () => this.#tell("change"));
    }

    /** The sheet on the desk. */
    get sheet() {
        return this.sheets.present;
    }

    /** Whether there is nothing to show. */
    get blank() {
        return this.doing === "nothing" && this.sheet.empty && !this.#views.player.loaded;
    }

    /** The part of the recording that was recognised, 0 to 1. Null without a recording, or if its length is unknown. */
    get progress() {
        const total = this.doing === "nothing" ? 0 : (this.#sound.recording?.durationMs ?? 0);
        return total > 0 ? Math.min(1, this.sheet.heardMs / total) : null;
    }

    /** The length of the recording, 0 if unknown. */
    get recordingMs() {
        return this.#sound.recording?.durationMs ?? 0;
    }

    /** Begins to listen. New words go below earlier speech; after a recording, they go on a new sheet. */
    async listen() {
        this.#makeReady(() => this.listen());
        this.#sound.recording = null;
        if (this.sheet.file) this.sheets.begin();
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
            if (this.#microphone !== microphone) return; // stopped in the meantime
            this.#release();
            this.#do("nothing");
            this.#tell("trouble", error);
            return;
        }
        if (this.#microphone !== microphone) {
            void microphone.stop(); // stopped while the browser asked for permission
            return;
        }
        this.#views.player.unload();
        this.#views.wave.seekable = false;
        this.sheet.begin();
        this.sheet.options = this.#settings.options;
        this.#open();
        this.#do("listening");
        this.#views.wave.roll(true);
    }

    /** Transcribes these files, each on its own sheet, after those that are waiting already. */
    async transcribe(files) {
        const refused = this.queue.add(files);
        if (this.doing === "listening") await this.stop();
        if (this.doing === "finishing" && !this.sheet.file) this.halt();
        if (this.doing === "nothing") this.goOn();
        else this.queue.busy = true;
        this.#tell("change");
        return refused;
    }

    /** Begins the next recording of the queue. */
    goOn() {
        const file = this.queue.next();
        if (file) void this.#transcribe(file);
    }

    /** Stops, but waits for the remaining words. The second call stops at once. */
    async stop() {
        const session = this.#session;
        if (this.doing === "transcribing" && this.#sending && session?.state !== "connecting") {
            this.queue.busy = false;
            this.#broken = true;
            this.#sending.abort();
            this.#do("finishing");
            this.#views.standing.show("finishing");
        } else if (this.doing !== "listening" || !session) {
            this.halt();
        } else {
            this.#do("finishing");
            this.#views.standing.show("finishing");
            await this.#release();
            await session.stop().catch(() => {}); // the session reports its errors itself
        }
    }

    /** Stops at once. */
    halt() {
        if (this.doing === "nothing") return;
        this.#turns += 1;
        this.queue.busy = false;
        this.#sending?.abort();
        const session = this.#session;
        this.#session = null;
        session?.close();
        void this.#release();
        this.sheets.settle();
        this.#sound.keep();
        this.#do("nothing");
        void this.#views.standing.ask();
        if (this.queue.length) this.#tell("paused");
    }

    /** Repeats the work that has failed. */
    again() {
        void this.#again();
    }

    /** Whether the sheet stopped before its end, and can go on there, perhaps when its recording is chosen again. */
    get resumable() {
        const {sheet} = this;
        return this.doing === "nothing" && !sheet.complete && (sheet.file !== "" || this.sheets.source !== null);
    }

    /**
     * Goes on where the sheet stopped, with the same words as in one go.
     * @param {File | null} [chosen] its recording, if the tab does not have it any more
     * @returns {Promise<boolean>} false if the recording must be chosen
     */
    async resume(chosen = null) {
        const {sheet} = this;
        const source = chosen ?? this.sheets.source;
        if (!this.resumable) return true;
        if (!source) return false;
        if (chosen && sheet.fileBytes && chosen.size !== sheet.fileBytes) {
            const text = `${chosen.name} is not ${sheet.file}: it has another size. Choose the recording again.`;
            this.#tell("trouble", new StreamerError("another_recording", text));
            return true;
        }
        const turn = ++this.#turns;
        this.#makeReady(() => this.resume(chosen));
        const recording = await this.#read(source, turn, sheet.channels > 1);
        if (!recording) return true;
        if (!Object.keys(sheet.options).length) this.#ask(recording); // a transcript that was saved has none
        this.#sound.show(recording, source);
        this.sheets.resume(source);
        await this.#send(recording, this.#settings.get("pace") === "paced");
        return true;
    }

    /** Transcribes the recording once more, with its channels apart, in place of the mixed transcript. */
    async apart() {
        const {sheet} = this;
        const {source} = this.sheets;
        if (!sheet.file || !source) return;
        await this.sheets.remove([sheet.id], "The mixed transcript was deleted.");
        this.queue.busy = true;
        void this.#transcribe(source, true, sheet.file);
    }

    /** Shows a transcript that was saved, with its sound if that is given. */
    async take({sheet, sound}) {
        await this.sheets.take(sheet, sound);
        if (sound) await this.give(sound);
    }

    /** Gives the sheet its sound, to play it. @param {File} sound */
    async give(sound) {
        const {sheet} = this;
        if (this.doing !== "nothing") return;
        await this.#sound.give(sound, () => this.sheet === sheet && this.doing === "nothing");
    }

    /** Begins an empty sheet. Undo brings the last one back. @returns {boolean} whether there was one */
    clear() {
        this.#sound.recording = null;
        return this.sheets.begin(null, "clear");
    }

    #do(what) {
        this.doing = what;
        this.sheets.changed(what !== "nothing");
        this.#tell("change");
    }

    #makeReady(again) {
        this.#again = again;
        this.#views.player.pause();
        this.sheets.settle();
        this.#tell("begin");
        this.#tell("change");
    }

    /** Takes sound of the microphone. */
    #hear(samples) {
        if (!this.#session) return;
        this.#session.send(samples);
        this.sheets.hear(samples);
        this.#views.wave.push(samples);
        this.#tell("sound", this.sheet.durationMs);
    }

    /** Closes the microphone. */
    #release() {
        const microphone = this.#microphone;
        this.#microphone = null;
        this.#views.wave.roll(false);
        return microphone?.stop();
    }

    async #transcribe(file, apart = this.#settings.get("channels") === "apart", name = file.name) {
        const turn = ++this.#turns;
        this.#makeReady(() => {
            this.queue.busy = true;
            void this.#transcribe(file, apart, name);
        });
        const recording = await this.#read(file, turn, apart);
        if (!recording) return;
        this.sheets.begin(file, "", name);
        const {channels, durationMs, call} = recording;
        this.sheet.begin(0, channels);
        this.sheet.recordingMs = durationMs;
        this.#ask(recording);
        this.#sound.show(recording, file);
        if (call && channels === 1 && this.#settings.get("channels") === "ask") this.#tell("call");
        await this.#send(recording, this.#settings.get("pace") === "paced");
    }

    /** Opens a recording. @returns {Promise<Recording | null>} null if something else was begun, or it has no sound */
    async #read(file, turn, apart) {
        this.#do("opening");
        this.#views.standing.show("opening");
        try {
            const recording = await Recording.open(file, {apart});
            return turn === this.#turns ? recording : null;
        } catch (error) {
            if (turn === this.#turns) this.#unread(file, error);
            return null;
        }
    }

    /** Sets what is asked of the service for a recording. */
    #ask({channels}) {
        const apart = channels > 1 ? {channels, multichannel: true} : {};
        this.sheet.options = {...this.#settings.options, ...apart};
    }

    /** Notes that nothing of a file can be read. */
    #unread(file, error) {
        void this.#views.standing.ask();
        this.#do("nothing");
        this.queue.busy &&= this.queue.total > 1; // the next recording begins another series
        this.#blame(file, error);
        this.#next();
    }

    /** Tells why a file cannot be read, or not to its end. Of several recordings, all such files are told at the end. */
    #blame(file, error) {
        const gone = error.code === "unreadable_file" && file === this.sheets.source;
        if (gone) this.sheets.forget(); // the sheet goes on when the recording is chosen again
        if (this.queue.total > 1) this.queue.unread.push({name: file.name, why: error.message});
        else this.#tell("trouble", gone ? new StreamerError("recording_gone", error.message) : error);
    }

    /** Goes on with the next recording, if one is waiting. */
    #next() {
        if (!this.queue.busy) return this.queue.length > 0 && this.#tell("paused");
        const {total, unread, silent} = this.queue;
        if (this.queue.length) return this.goOn();
        this.queue.clear();
        if (total > 1) this.#tell("finished", {total, unread, silent});
        this.#tell("change");
    }

    async #send(recording, paced) {
        const session = this.#open(paced);
        const sending = new AbortController();
        this.#sending = sending;
        this.#do("transcribing");
        try {
            await session.ready;
            if (paced) void this.#views.player.play();
            const onpiece = (samples) => this.#sound.recording === recording && this.#views.wave.push(samples);
            const cutsMs = this.sheet.cuts.map(({ms}) => ms);
            await recording.play(session, {paced, signal: sending.signal, onpiece, cutsMs});
        } catch (error) {
            // The session reports its own errors, and a stop is not an error.
            if (this.#session !== session) return;
            if (OF_THE_FILE.includes(error?.code)) this.#blame(this.sheets.source, error);
            else if (error?.name !== "AbortError") return;
            this.#broken = true;
            this.#views.player.pause();
            this.#do("finishing");
        } finally {
            if (this.#sending === sending) this.#sending = null;
        }
        await session.stop().catch(() => {});
    }

    /** Opens a session for the sheet, which gets the sound from its cuts on. */
    #open(paced = false) {
        const {options, cuts} = this.sheet;
        const contexts = cuts.map(({context}) => context);
        const context = contexts.some(Boolean) ? {context: contexts} : {};
        this.#broken = false;
        const session = new Session({key: this.#settings.key, options: {...options, ...context}});
        this.#session = session;
        let began = false;
        session.ready.then(() => (began = true), () => {});
        this.#views.standing.follow(session, this, paced);
        this.#tell("session", session);
        for (const type of ["partial", "final", "speaker_merge", "speakers", "heard", "done", "restarted"]) {
            session.addEventListener(type, ({detail}) => {
                if (this.#session === session) this.#receive({type, ...detail}, session.contextOf(detail));
            });
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

    #receive(received, context) {
        const {words, wave} = this.#views;
        const {message, at} = this.sheet.take(received, context, this.#broken);
        const channel = message.channel ?? 0;
        if (message.type === "restarted") this.sheets.unshow();
        if (message.type === "partial") {
            words.showPartial(message, this.sheets.who(message));
            wave.open(channel, message.start_ms, message.text && (message.words?.at(-1)?.end_ms ?? message.audio_ms));
            this.sheets.changed();
        }
        if (message.type === "final" && at >= 0) {
            this.sheets.add(message, at);
            this.#tell("change");
        }
        if (message.type === "speakers" || message.type === "speaker_merge") this.sheets.relabelled();
        if (message.audio_ms) wave.heard(message.audio_ms);
        if (message.type === "done") this.#finished();
        else this.#tell("progress");
    }

    /** Ends the work: all words have come. */
    #finished() {
        this.#session = null;
        if (!this.#broken) this.sheet.finish();
        this.sheets.unshow();
        this.#sound.keep();
        this.#do("nothing");
        this.#views.standing.done();
        const silent = !this.sheet.segments.length && !this.#broken; // what was stopped may have words later
        if (silent && this.queue.busy && this.queue.total > 1) this.queue.silent.push(this.sheet.file);
        else if (silent && (this.queue.busy || !this.sheet.file)) this.#tell("silent");
        this.#next();
    }

    /** Ends the work after an error. The words stay, and so does the sound if the session had begun (`began`). */
    #interrupted(error, began) {
        this.#session = null;
        this.queue.busy = false;
        this.#sending?.abort();
        void this.#release();
        const {sheet} = this;
        if (began) this.#again = () => (sheet.file ? this.#resumeSeries() : this.#catchUp());
        if (!sheet.file && !began && sheet.empty) this.sheets.begin();
        this.#sound.keep();
        this.#do("nothing");
        this.#tell("trouble", error);
    }

    /** Goes on with a recording after an error, and then with those that wait. */
    #resumeSeries() {
        this.queue.busy = true;
        return this.resume();
    }

    /** Sends again the kept sound that has not become final. */
    async #catchUp() {
        const rest = this.sheet.unsettled;
        if (!rest.length) return this.listen();
        this.sheets.unshow(); // it comes again
        this.#makeReady(() => this.#catchUp());
        this.sheet.resume();
        const session = this.#open();
        this.#do("finishing");
        try {
            for (const piece of rest) {
                await session.room();
                session.send(piece);
            }
            await session.stop();
        } catch {
            // The session reports its errors itself.
        }
    }

    #tell(type, detail = null) {
        this.dispatchEvent(new CustomEvent(type, {detail}));
    }
}
