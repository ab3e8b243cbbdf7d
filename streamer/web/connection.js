/** One websocket to a service, from the first attempt to its end. A session may use several, one after another. */

import {StreamerError, closedBecause} from "./errors.js";

const CONNECT_MS = 10_000;
// If the service must load the model first, it says so, and then this longer limit counts.
const LOADING_MS = 30_000;
/** How long to wait after a fatal error for the close, which says when to try again. */
const CLOSE_MS = 2_000;

/** @typedef {Record<string, any> & {type: string}} Message */

export class Connection {
    /** @type {(message: Message) => void} */
    onmessage = () => {};
    /** @type {(error: StreamerError) => void} called once, when the connection has ended */
    onend = () => {};
    /** When the last message came. */
    receivedAt = performance.now();
    /** @type {WebSocket} */
    #websocket;
    /** @type {{code?: string, message?: string} | null} the protocol's fatal error */
    #error = null;

    /**
     * Connects, begins or resumes a session, and waits for `ready`.
     * @param {string} url
     * @param {string} key
     * @param {object} start the protocol's `start`
     * @param {(message: Message) => void} onstarting called if the service loads the model first
     * @returns {Promise<{connection: Connection, ready: Message}>} rejects with a StreamerError
     */
    static open(url, key, start, onstarting) {
        return new Promise((resolve, reject) => {
            const connection = new Connection(url, key);
            /** @param {number} limit */
            const expect = (limit) => setTimeout(() => {
                connection.leave();
                reject(new StreamerError("unreachable", `${url} did not answer within ${limit / 1000} s.`));
            }, limit);
            let timer = expect(CONNECT_MS);
            connection.#websocket.onopen = () => connection.send(JSON.stringify({type: "start", ...start}));
            connection.onmessage = (message) => {
                clearTimeout(timer);
                if (message.type === "starting") {
                    timer = expect(LOADING_MS);
                    onstarting(message);
                    return;
                }
                connection.onmessage = () => {};
                if (message.type === "ready") {
                    resolve({connection, ready: message});
                } else {
                    connection.leave();
                    reject(new StreamerError("refused", `${url} does not speak Streamer's protocol.`));
                }
            };
            connection.onend = (error) => {
                clearTimeout(timer);
                // A browser does not let a page know why a connection failed.
                const nobody = new StreamerError("unreachable", `No service answers at ${url}.`);
                reject(error.code === "lost" ? nobody : error);
            };
        });
    }

    /** @param {string} url @param {string} key */
    constructor(url, key) {
        try {
            this.#websocket = new WebSocket(url, key ? ["streamer", `streamer.key.${key}`] : ["streamer"]);
        } catch (error) {
            if (key && !/^[\w.~+-]+$/.test(key)) {
                throw new StreamerError("key_needed", "This is not a key: some of its characters are not allowed.");
            }
            throw new StreamerError("unreachable", `${url} cannot be used from this page: ${String(error)}`);
        }
        this.#websocket.binaryType = "arraybuffer";
        this.#websocket.onmessage = (event) => this.#receive(event.data);
        this.#websocket.onclose = (event) => this.onend(closedBecause(this.#error, event, url));
    }

    /** How many bytes have not left the browser. */
    get bufferedAmount() {
        return this.#websocket.bufferedAmount;
    }

    /** @param {string | Uint8Array<ArrayBuffer>} data */
    send(data) {
        if (this.#websocket.readyState === WebSocket.OPEN) this.#websocket.send(data);
    }

    /**
     * Ends the connection. Nothing more is reported.
     * @param {number} [code] 1000 also ends the session; without a code the connection counts as lost
     */
    leave(code = 4000) {
        this.onmessage = () => {};
        this.onend = () => {};
        this.#websocket.onopen = this.#websocket.onmessage = this.#websocket.onclose = null;
        this.#websocket.close(code);
    }

    /** @param {unknown} data */
    #receive(data) {
        this.receivedAt = performance.now();
        let message = null;
        try {
            message = JSON.parse(String(data));
        } catch {
            // the code below reports it
        }
        if (typeof message?.type !== "string") {
            const sentence = "The server there does not speak Streamer's protocol.";
            message = {type: "error", code: "not_understood", message: sentence};
        }
        if (message.type === "error" && (message.fatal ?? true)) {
            this.#error = message;
            this.#websocket.onmessage = null;
            setTimeout(() => this.#websocket.close(1000), message.code === "not_understood" ? 0 : CLOSE_MS);
            return;
        }
        this.onmessage(message);
    }
}

/**
 * Returns the address of the websocket of this service, or of the service that these modules came from.
 * @param {string} [given]
 */
export function websocketUrl(given) {
    const url = new URL(given ?? "v1/stream", given ? globalThis.location?.href : import.meta.url);
    url.protocol = url.protocol.replace("http", "ws");
    if (url.pathname === "/") url.pathname = "/v1/stream";
    url.hash = "";
    return url.href;
}
