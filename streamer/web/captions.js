// The page of captions: shows the words of a session that runs elsewhere. With an `id`, it reads a session that is
// shared; without, that of the page for speaking in this browser. The address says how it looks.

import {CaptionLines} from "./page/captions/lines.js";
import {CHANNEL} from "./page/captions/channel.js";

const MOST_LINES = 10;
const SIZES = {lines: 40, text: 22};
const QUIET_MS = 8_000; // after this time without words, the lines are cleared
const NEAR_THE_END = 120; // pixels
const ASK_AGAIN_MS = 3_000;

/** @param {string} id @returns {any} an element of the page */
const at = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search);
const {style} = document.documentElement;
const view = asked.get("lines") === "all" ? "text" : "lines";
const lines = new CaptionLines(whole("lines", 2, MOST_LINES), whole("width", 42, 200));
/** The numbers of the finals that are shown, because some come again with another connection. */
const known = new Set();
let quiet = 0;

/** Returns a whole number of the address, from 1 to the most. */
function whole(name, usual, most) {
    const value = Number(asked.get(name) ?? usual);
    return Number.isInteger(value) && value >= 1 && value <= most ? value : usual;
}

/** Takes what the address says about the looks, as far as a browser understands it. */
function dress() {
    Object.assign(document.body.dataset, {view, position: choice("position", ["bottom", "top", "middle"]), align: choice("align", ["center", "left", "right"])});
    style.setProperty("--size", `${whole("size", SIZES[view], 400)}px`);
    for (const [name, property] of [["color", "color"], ["background", "background-color"], ["font", "font-family"]]) {
        const value = asked.get(name);
        if (value && CSS.supports(property, value) && !/[;{}]|url\(/i.test(value)) style.setProperty(`--${name}`, value);
    }
}

function choice(name, values) {
    return values.includes(asked.get(name)) ? asked.get(name) : values[0];
}

function say(text, trouble = false) {
    at("state").textContent = text;
    at("state").toggleAttribute("data-trouble", trouble);
}

/** Shows an event of the session: a partial or a final, with its number. */
function take(type, {n, ...event}) {
    if (type === "final" && known.has(n)) return;
    const follows = innerHeight + scrollY >= document.body.scrollHeight - NEAR_THE_END;
    if (type === "final") {
        known.add(n);
        if (event.text.trim()) at("text").append(paragraph(event));
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

function paragraph({text, channel}) {
    const element = document.createElement("p");
    element.textContent = channel === undefined ? text : `[${channel + 1}] ${text}`;
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

/** Reads a session that is shared. The browser connects again by itself, unless the service says that it is over. */
function follow(id) {
    const source = new EventSource(`/v1/captions/${encodeURIComponent(id)}`);
    for (const type of ["partial", "final"]) {
        source.addEventListener(type, ({data, lastEventId}) => take(type, {...JSON.parse(data), n: lastEventId}));
    }
    source.addEventListener("open", () => say(known.size ? "" : "Waiting for words"));
    source.addEventListener("end", () => {
        source.close();
        end();
    });
    source.addEventListener("error", () => {
        if (source.readyState !== EventSource.CLOSED) return say("Connecting again", true);
        if (known.size) return end();
        say("Nothing is shared here now.", true);
        setTimeout(() => follow(id), ASK_AGAIN_MS); // there may be too many listeners
    });
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
if (asked.get("id")) follow(asked.get("id"));
else overhear();
