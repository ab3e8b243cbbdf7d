// The page: what stands in index.html is connected with the desk here, and shows what is done on it.

import {Microphone} from "../microphone.js";
import {Dialogs, SaveMenu, copyText, dropping} from "./controls.js";
import {Desk} from "./desk.js";
import {FORMATS, shortClock} from "./formats.js";
import {Notice} from "./notice.js";
import {Player} from "./player.js";
import {Settings} from "./settings.js";
import {Standing} from "./standing.js";
import {Waveform} from "./waveform.js";
import {Words} from "./words.js";

const NEAR_THE_END = 160; // pixels
const BUTTON = {nothing: "Speak", listening: "Stop listening", transcribing: "Stop", finishing: "Stop waiting"};
const CONTROLS = "button, input, select, textarea, a, summary, label, pre";

/** @param {string} id @returns {any} an element of the page */
const at = (id) => document.getElementById(id);

const settings = new Settings();
const player = new Player();
const wave = new Waveform(at("wave"));
const words = new Words(at("finals"), at("partial"), at("tip"));
const standing = new Standing(at("state"), at("latency"));
const desk = new Desk(settings, {player, wave, words, standing});
const dialogs = new Dialogs(settings, () => Microphone.devices());
const menu = new SaveMenu(at("save"), at("formats"), save);
const notice = new Notice(at("notice"), at("alarm"), {
    again: () => desk.again(),
    choose: () => at("file").click(),
    options: () => dialogs.open("options"),
    back: () => desk.bringBack(),
    key(key, keep) {
        settings.set("keepKey", keep);
        settings.key = key;
        desk.again();
    },
});

/** Everything that depends on what is being done. */
function show() {
    const {doing, blank, sheet} = desk;
    const empty = sheet.segments.length === 0;
    document.body.dataset.doing = doing;
    at("welcome").hidden = !blank || notice.troubled;
    at("transcript").hidden = blank;
    at("stage").hidden = doing !== "listening" && wave.durationMs === 0;
    at("level").hidden = doing !== "listening";
    at("play").hidden = !player.loaded;
    for (const id of ["copy", "save"]) at(id).disabled = empty;
    at("clear").disabled = doing !== "nothing" || blank;
    at("speak").ariaLabel = BUTTON[doing];
    at("length").textContent = shortClock(wave.durationMs);
    document.title = doing === "listening" ? "Listening · Streamer" : "Streamer";
    if (doing !== "listening") showLevel({rms: 0, peak: 0});
}

function showLevel({rms, peak}) {
    // Decibels from -60 to 0, as people hear.
    const level = Math.max(0, Math.min(1, 1 + Math.log10(Math.max(rms, 1e-6)) / 3));
    document.documentElement.style.setProperty("--level", level.toFixed(3));
    at("level").ariaValueNow = String(Math.round(level * 100));
    at("level").ariaValueText = peak >= 0.99 ? "too loud" : `${Math.round(level * 100)} %`;
}

/** New words are kept in sight, but not for who has scrolled up to read. */
function followWords() {
    const {scrollHeight} = document.documentElement;
    if (desk.doing !== "nothing" && innerHeight + scrollY > scrollHeight - NEAR_THE_END) scrollTo({top: scrollHeight});
}

function save(format) {
    const {ending, type, write} = FORMATS[format];
    const {file, title, segments, durationMs} = desk.sheet;
    const content = write({file: file || title, durationMs: Math.round(durationMs), segments});
    const url = URL.createObjectURL(new Blob([content], {type: `${type};charset=utf-8`}));
    Object.assign(document.createElement("a"), {href: url, download: `${title}.${ending}`}).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    at("spoken").textContent = `Saved as ${title}.${ending}.`;
}

async function copy() {
    const copied = await copyText(FORMATS.text.write(desk.sheet));
    const label = at("copy").querySelector("span");
    label.textContent = copied ? "Copied" : "Not allowed";
    at("spoken").textContent = copied ? "Copied." : "The browser does not allow to copy.";
    setTimeout(() => (label.textContent = "Copy"), 2000);
}

function press() {
    if (desk.doing === "nothing") void desk.listen();
    else void desk.stop();
}

function seek({detail: {ms, play}}) {
    player.seek(ms);
    if (play) void player.play();
}

function key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || dialogs.opened) return;
    if (event.key === "Escape") {
        if (menu.opened) menu.close();
        else if (desk.doing === "listening" || desk.doing === "transcribing") press();
        else player.pause();
    } else if (event.key === " " && !event.target.closest(CONTROLS)) {
        event.preventDefault(); // it would scroll
        if (desk.doing === "nothing" && player.loaded) player.toggle();
        else if (!event.repeat) press();
    }
}

desk.addEventListener("begin", () => notice.clear());
desk.addEventListener("change", show);
desk.addEventListener("level", ({detail}) => showLevel(detail));
desk.addEventListener("sound", ({detail}) => (at("length").textContent = shortClock(detail)));
desk.addEventListener("trouble", ({detail}) => {
    notice.explain(detail, settings.key !== "");
    at("welcome").hidden = true;
    void standing.ask();
});
desk.addEventListener("lost", () => {
    notice.offer("The connection is lost for now. What comes is kept until it is back.");
});
desk.addEventListener("found", () => notice.troubled || notice.clear());
desk.addEventListener("overflow", ({detail: {ms}}) => {
    notice.say("Some sound is lost", `${shortClock(ms, true)} could not be kept, because nobody took it for too long.`);
});
desk.addEventListener("silent", () => {
    const text = "It takes English, spoken close to the microphone. Is it the right one?";
    notice.say("No words were heard", text, ["options"]);
});
new MutationObserver(followWords).observe(at("transcript"), {childList: true, subtree: true});

at("speak").addEventListener("click", press);
at("copy").addEventListener("click", () => void copy());
at("play").addEventListener("click", () => player.toggle());
at("clear").addEventListener("click", () => {
    const used = desk.clear();
    standing.forget();
    if (used) notice.offer("The sheet is clear.", "back");
    at("speak").focus();
});
at("file").addEventListener("change", ({target}) => {
    const [file] = target.files;
    if (file) void desk.transcribe(file);
    target.value = ""; // so that the same file can be chosen again
});
for (const input of at("pace").querySelectorAll("input")) {
    input.checked = input.value === settings.get("pace");
    input.addEventListener("change", () => settings.set("pace", input.value));
}
dropping(at("drop"), (file) => void desk.transcribe(file));
addEventListener("keydown", key);
addEventListener("pagehide", () => desk.halt()); // the place at the service is free at once

words.addEventListener("seek", seek);
wave.addEventListener("seek", seek);
player.addEventListener("place", ({detail: {ms}}) => {
    wave.placeMs = ms;
    at("place").textContent = shortClock(ms);
    words.follow(player.loaded && ms > 0 ? ms : null);
});
player.addEventListener("change", () => {
    at("play").toggleAttribute("data-playing", player.playing);
    at("play").ariaLabel = player.playing ? "Pause" : "Play";
});

show();
void standing.ask();
document.body.dataset.ready = ""; // for those who look from outside: all is connected
