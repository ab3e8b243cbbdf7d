/** The errors of the client. Each has a code for programs and a sentence for people. */

/**
 * Codes of a session: `key_needed` (no key, or an unknown one), `full` (try again after `retryMs`), `not_ready` (the
 * service starts or ends; try again after `retryMs`), `unreachable` (no answer), `lost` (the connection, for too long),
 * `overdue` (the service sends messages, but recognises nothing),
 * `refused` (the request is wrong or not allowed), `failed` (the recogniser), `closed` (by close()).
 * Codes of a microphone: `no_microphone`, `no_permission`, `insecure_page`, `microphone_busy`, `unsupported`, and
 * `unreachable` (the script for the microphone could not be loaded).
 * Codes of a recording: `unsupported_audio`, `unreadable_file`. Others are the protocol's own.
 */
export class StreamerError extends Error {
    /**
     * @param {string} code
     * @param {string} message
     * @param {{reported?: string, retryMs?: number}} [more] `reported`: the code that the service sent
     */
    constructor(code, message, {reported = "", retryMs = 0} = {}) {
        super(message);
        this.name = "StreamerError";
        this.code = code;
        this.reported = reported;
        this.retryMs = retryMs;
    }
}

/** The client's code for several codes of the protocol that mean the same to the user. */
const CODES = new Map(Object.entries({
    unauthorized: "key_needed",
    bad_origin: "refused",
    too_many_sessions: "full",
    audio_used_up: "full",
    hotwords_used_up: "full",
    shutting_down: "not_ready",
    bad_json: "refused",
    bad_message: "refused",
    bad_option: "refused",
    unknown_option: "refused",
    unknown_type: "refused",
    unexpected: "refused",
}));

/** Close codes of a lost connection. The service itself uses none of them. */
const LOST_ON_THE_WAY = [1001, 1006, 1012, 1014];

/**
 * Turns the close of a websocket into an error.
 * @param {{code?: string, message?: string} | null} error the protocol's fatal error before the close, if there was one
 * @param {{code: number, reason: string}} close
 * @param {string} url
 * @returns {StreamerError}
 */
export function closedBecause(error, close, url) {
    const seconds = /(\d+) s\b/.exec(close.reason);
    const retryMs = close.code === 1013 ? 1000 * Number(seconds ? seconds[1] : 5) : 0;
    if (error?.code) {
        const code = CODES.get(error.code) ?? error.code;
        return new StreamerError(code, error.message ?? close.reason, {reported: error.code, retryMs});
    }
    if (LOST_ON_THE_WAY.includes(close.code)) return new StreamerError("lost", `The connection to ${url} was lost.`);
    if (close.code === 1013) return new StreamerError("full", `The service is full: ${close.reason}`, {retryMs});
    if (close.code === 1011) return new StreamerError("failed", `The service failed (${close.reason || "no reason"}).`);
    if (close.code === 4010) {
        return new StreamerError("taken_over", "This session goes on over another connection.");
    }
    const reason = close.reason ? `${close.reason} (code ${close.code})` : `code ${close.code}`;
    return new StreamerError("refused", `The service closed the session: ${reason}.`);
}

/** @param {unknown} error @returns {StreamerError} */
export function asError(error) {
    return error instanceof StreamerError ? error : new StreamerError("failed", String(error));
}

/** Says that the service does not know the token. @param {StreamerError} error @returns {StreamerError} for people */
export function forgotten({reported}) {
    const why = "it was restarted, or too much time has passed";
    return new StreamerError("lost", `The service does not know this session any more: ${why}.`, {reported});
}
