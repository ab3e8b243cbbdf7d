// Shows the state of the service: whether it can be reached, is connected, and how far the words are behind.

const ASK_AGAIN_MS = 3000;
const ASK_IDLE_MS = 30_000;

const TEXTS = {
    starting: "Starting",
    away: "Not reachable",
    ready: "Ready",
    asking: "Waiting for the microphone",
    connecting: "Connecting",
    listening: "Listening",
    opening: "Opening",
    transcribing: "Transcribing",
    finishing: "Finishing",
};

const MEANINGS = {
    voice: "Delay of the words behind the voice",
    recording: "Speed of the transcription",
};

export class Standing {
    #state;
    #latency;
    #timer = 0;
    #busy = false;

    constructor(state, latency) {
        [this.#state, this.#latency] = [state, latency];
        addEventListener("online", () => this.#busy || void this.ask());
        document.addEventListener("visibilitychange", () => document.hidden || this.#busy || void this.ask());
    }

    /** Asks the service whether it is ready, because no session would show it. */
    async ask() {
        this.#busy = false;
        clearTimeout(this.#timer);
        let state = "away";
        try {
            const answer = await fetch("/readyz", {cache: "no-store"});
            state = (await answer.json()).ready ? "ready" : "starting";
        } catch {
            // There is no answer, or it is not from a Streamer service.
        }
        if (this.#busy) return;
        this.#write(TEXTS[state], state === "ready" ? "ready" : "closed");
        clearTimeout(this.#timer);
        const pause = state === "ready" ? ASK_IDLE_MS : ASK_AGAIN_MS;
        this.#timer = setTimeout(() => document.hidden || this.#busy || void this.ask(), pause);
    }

    /** Shows one of the states above. */
    show(text, state = text) {
        this.#busy = true;
        clearTimeout(this.#timer);
        this.#write(TEXTS[text], state);
    }

    /** Shows the state of this session's connection, and how far its words are behind. */
    follow(session, desk, paced) {
        this.show("connecting");
        const began = performance.now();
        session.addEventListener("state", ({detail}) => {
            if (detail.state === "open") this.show(desk.doing, "open");
            if (detail.state === "resuming") this.#write("Reconnecting", "resuming");
        });
        session.addEventListener("starting", ({detail}) => {
            this.#write(`Loading the model ${detail.model}`, "connecting");
        });
        for (const type of ["partial", "final", "heard"]) {
            session.addEventListener(type, () => this.#measure(session, desk, paced, performance.now() - began));
        }
    }

    /** Hides the figures of the last session. */
    forget() {
        this.#latency.hidden = true;
    }

    /** Notes that a session has ended without errors. */
    done() {
        this.show("ready");
        if (this.#latency.dataset.of === "voice") this.#latency.hidden = true;
        void this.ask();
    }

    #measure(session, {doing, sheet}, paced, tookMs) {
        const {latencyMs} = session;
        if (doing === "listening" || paced) {
            if (latencyMs > 0) this.#tell(`${(latencyMs / 1000).toFixed(1)} s behind`, "voice");
        } else if (doing !== "nothing" && sheet.file) {
            this.#tell(`${((sheet.heardMs - sheet.beginMs) / tookMs).toFixed(1)} × as spoken`, "recording");
        }
    }

    #tell(text, of) {
        const meaning = MEANINGS[of];
        const [seen, read] = this.#latency.children;
        [seen.textContent, read.textContent] = [text, `${meaning}: ${text}`];
        this.#latency.title = meaning;
        this.#latency.dataset.of = of;
        this.#latency.hidden = false;
    }

    #write(text, state) {
        if (this.#state.textContent !== text) this.#state.textContent = text;
        this.#state.dataset.state = state;
    }
}
