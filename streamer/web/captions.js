// The page of captions: shows the words of a session that runs elsewhere. With an `id`, it reads a session that is
// shared; without, that of the page for speaking in this browser. The address says how it looks.

import {CaptionLines, nameShown, partsShown} from "./page/captions/lines.js";
import {CHANNEL} from "./page/captions/channel.js";

const MOST_LINES = 10;
const SIZES = {lines: 40, text: 22};
const QUIET_MS = 8_000; // after this time without words, the lines are cleared
const NEAR_THE_END = 120; // pixels
const ASK_AGAIN_MS = 3_000;

/** The parts of the address that are properties of CSS. */
const PROPERTIES = {color: "color", background: "background-color", font: "font-family"};

/** @typedef {import("./page/captions/lines.js").Shown} Shown */

/** @param {string} id @returns {any} an element of the page */
const at = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search);
const {style} = document.documentElement;
const view = asked.get("lines") === "all" ? "text" : "lines";
const lines = new CaptionLines(whole("lines", 2, MOST_LINES), whole("width", 42, 200));
let quiet = 0;

/**
 * Returns a whole number of the address, from 1 to the most.
 * @param {string} name @param {number} usual @param {number} most
 */
function whole(name, usual, most) {
    const value = Number(asked.get(name) ?? usual);
    return Number.isInteger(value) && value >= 1 && value <= most ? value : usual;
}

/** Takes what the address says about the looks, as far as a browser understands it. */
function dress() {
    const [position, align] = [choice("position", "bottom top middle"), choice("align", "center left right")];
    Object.assign(document.body.dataset, {view, position, align});
    style.setProperty("--size", `${whole("size", SIZES[view], 400)}px`);
    for (const [name, property] of Object.entries(PROPERTIES)) {
        const value = asked.get(name) ?? "";
        const plain = CSS.supports(property, value) && !/[;{}]|url\(/i.test(value);
        if (plain) style.setProperty(`--${name}`, value);
    }
}

/** @param {string} name @param {string} words the values, of which the first is the usual one */
function choice(name, words) {
    const values = words.split(" ");
    const value = asked.get(name) ?? "";
    return values.includes(value) ? value : values[0];
}

/** @param {string} text @param {boolean} [trouble] whether it is shown over a video, too */
function say(text, trouble = false) {
    at("state").textContent = text;
    at("state").toggleAttribute("data-trouble", trouble);
}

/** Shows an event of the session. @param {string} type @param {Shown} event */
function take(type, event) {
    const follows = innerHeight + scrollY >= document.body.scrollHeight - NEAR_THE_END;
    if (type === "final") {
        if (event.text.trim()) at("text").append(...partsShown(event).map(paragraph));
        at("partial").textContent = "";
        lines.final(event);
    } else {
        at("partial").textContent = view === "text" ? event.text : "";
        lines.partial(event);
    }
    draw();
    say("");
    clearTimeout(quiet);
    quiet = setTimeout(hush, QUIET_MS);
    if (view === "text" && follows) scrollTo({top: document.body.scrollHeight});
}

/** @param {Shown} event */
function paragraph(event) {
    const [element, name] = [document.createElement("p"), nameShown(event)];
    element.textContent = name ? `[${name}] ${event.text}` : event.text;
    if (view === "lines" && at("text").childElementCount > 20) at("text").firstChild.remove();
    return element;
}

function draw() {
    if (view === "text") return;
    const rows = lines.shown.map((text) => Object.assign(document.createElement("p"), {textContent: text}));
    at("lines").replaceChildren(...rows);
}

function hush() {
    lines.clear();
    draw();
}

function end() {
    say(view === "text" ? "The session has ended." : "");
    hush();
}

/** @param {string} id */
const pathOf = (id) => `/v1/captions/${encodeURIComponent(id)}`;

/**
 * Reads a session that is shared. The browser connects again by itself, unless the service refuses.
 * @param {string} id
 * @param {Set<string>} [known] the numbers of the finals that are shown, because some come again with another connection
 */
function follow(id, known = new Set()) {
    const source = new EventSource(pathOf(id));
    source.addEventListener("partial", ({data}) => take("partial", JSON.parse(data)));
    source.addEventListener("final", ({data, lastEventId}) => {
        if (!known.has(lastEventId)) take("final", JSON.parse(data));
        known.add(lastEventId);
    });
    source.addEventListener("open", () => say(known.size ? "" : "Waiting for words"));
    source.addEventListener("end", () => {
        source.close();
        end();
    });
    source.addEventListener("error", () => {
        say("Connecting again", true);
        if (source.readyState === EventSource.CLOSED) askAgain(id, known);
    });
}

/**
 * Asks why the service refused, which the browser does not tell. It may have too many listeners, or start again.
 * @param {string} id @param {Set<string>} known
 */
async function askAgain(id, known) {
    const status = await fetch(pathOf(id), {method: "HEAD"}).then((answer) => answer.status, () => 0);
    if (status !== 404) setTimeout(() => follow(id, known), ASK_AGAIN_MS);
    else if (known.size) end();
    else say("This link has ended.", true);
}

/** Reads what the page for speaking says, in another window of this browser. */
function overhear() {
    say("Waiting for words");
    new BroadcastChannel(CHANNEL).addEventListener("message", ({data: {type, event}}) => {
        if (type === "end") end();
        else take(type, event);
    });
}

dress();
const shared = asked.get("id");
if (shared) follow(shared);
else overhear();
