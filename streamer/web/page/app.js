// The page: connects the elements of index.html with the desk, and shows the state of the desk.

import {Microphone} from "../microphone.js";
import {Dialogs, Menu, dropping} from "./controls.js";
import {Sharing} from "./captions/sharing.js";
import {Desk} from "./desk.js";
import {Archive} from "./history/archive.js";
import {HistoryList} from "./history/history-list.js";
import {History} from "./history/history.js";
import {Notice} from "./notice.js";
import {Progress} from "./progress.js";
import {Reading} from "./reading.js";
import {Settings} from "./settings.js";
import {Player} from "./sound/player.js";
import {Waveform} from "./sound/waveform.js";
import {Standing} from "./standing.js";
import {copy, save, savePage} from "./transcript/export.js";
import {shortClock, stopText} from "./transcript/formats.js";
import {FindBar} from "./transcript/find-bar.js";
import {SegmentMenu} from "./transcript/segment-menu.js";
import {WordEditor} from "./transcript/word-editor.js";
import {Words} from "./transcript/words.js";
import {Undo} from "./undo.js";

const NEAR_THE_END = 40; // pixels
const BUTTON = {
    nothing: "Speak", listening: "Stop listening", opening: "Stop", transcribing: "Stop", finishing: "Stop waiting",
};
const CONTROLS = "button, input, select, textarea, a, summary, label, pre";
/** The name under which the tab stores its sheet for a reload. */
const PRESENT = "streamer.sheet";

/** @param {string} id @returns {any} an element of the page */
const at = (id) => document.getElementById(id);

const settings = new Settings();
const undo = new Undo();
const history = new History(settings);
const player = new Player();
const wave = new Waveform(at("wave"));
const words = new Words(at("finals"), at("partial"), at("tip"));
const standing = new Standing(at("state"), at("latency"));
const desk = new Desk(settings, history, undo, {player, wave, words, standing});
const list = new HistoryList(at("history"), history, desk.sheets, undo, settings);
const archive = new Archive(history);
const dialogs = new Dialogs(settings, () => Microphone.devices(), list);
const progress = new Progress(at("progress"), desk);
const menu = new Menu(at("save"), at("formats"), (format) => {
    if (format === "copy-times") void take("times");
    else if (format === "html") void keepPage();
    else at("spoken").textContent = `Saved as ${save(desk.sheet, format)}.`;
});
const sharing = new Sharing(at("captions"), settings, () => desk.sheet.sessionSpeakerNames);
const notice = new Notice(at("notice"), at("alarm"), {
    again: () => desk.again(),
    choose: () => at("file").click(),
    options: () => dialogs.open("options"),
    history: () => dialogs.open("history"),
    onward: () => desk.goOn(),
    resume: () => void resume(),
    apart: () => void desk.apart(),
    sound: () => choose((files) => void desk.give(files[0])),
    back: () => void bringBack(),
    key(key, keep) {
        settings.set("keepKey", keep);
        settings.key = key;
        desk.again();
    },
});
new FindBar(at("find"), at("find-open"), desk.sheets, words);
const segmentMenu = new SegmentMenu(at("segment-open"), at("deeds"), at("finals"), desk.sheets, words, at("names"));
const reading = new Reading(at("large"), settings);
/** What happens with the files that are chosen next. @type {(files: File[]) => void} */
let chosen = transcribe;
new WordEditor(at("finals"), (element, text) => desk.sheets.reword(...words.placeOf(element), text));

/** Shows everything that depends on the state of the desk. */
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
    if (blank && reading.large) reading.large = false;
    at("clear").disabled = doing !== "nothing" || blank;
    at("speak").ariaLabel = BUTTON[doing];
    showClock("length", wave.durationMs);
    showStop();
    if (document.activeElement !== at("name")) at("name").value = sheet.name;
    const named = blank || doing === "opening" ? "Streamer" : `${sheet.name} · Streamer`;
    document.title = doing === "listening" ? "Listening · Streamer" : named;
    if (doing !== "listening") showLevel({rms: 0, peak: 0});
    progress.show();
}

/** Saves a page for reading, and says whether it has the sound. */
async function keepPage() {
    const {sheet, sheets} = desk;
    const {file, sounds} = await savePage(sheet, sheets.source);
    at("spoken").textContent = `Saved as ${file}${sounds ? "" : ", without the sound"}.`;
}

/** Says where the transcript stops, and offers to go on there. */
function showStop() {
    const {doing, sheet, resumable} = desk;
    // A message about a problem offers what to do itself.
    const stopped = doing === "nothing" && !notice.troubled && !sheet.complete && !(sheet.empty && !sheet.file);
    at("stopped").hidden = !stopped;
    at("continue").hidden = !resumable;
    if (!stopped) return;
    const text = stopText(sheet);
    const where = `${text[0].toUpperCase()}${text.slice(1)}.`;
    const again = resumable && !desk.sheets.source ? ` To continue, choose ${sheet.file} again.` : "";
    at("stopped").querySelector("p").textContent = where + again;
}

/** Shows a time. It is called many times a second, but the text changes once. @param {string} id @param {number} ms */
function showClock(id, ms) {
    const told = shortClock(ms);
    if (at(id).textContent !== told) at(id).textContent = told;
}

function showLevel({rms, peak}) {
    // Decibels from -60 to 0, because people perceive loudness in this way.
    const level = Math.max(0, Math.min(1, 1 + Math.log10(Math.max(rms, 1e-6)) / 3));
    const told = peak >= 0.99 ? "too loud" : `${Math.round(level * 100)} %`;
    if (at("level").ariaValueText === told) return;
    // Only for this element: for the whole page, the browser would compute the style of every word many times a second.
    at("dock").style.setProperty("--level", level.toFixed(2));
    at("level").ariaValueNow = String(Math.round(level * 100));
    at("level").ariaValueText = told;
}

/** Keeps new words visible, but not if the user has scrolled up to read. */
function followWords() {
    const last = at("partial").childElementCount ? at("partial") : at("finals").lastElementChild;
    if (desk.doing === "nothing" || !last) return;
    if (last.getBoundingClientRect().top < innerHeight + NEAR_THE_END) last.scrollIntoView({block: "end"});
}

function remember({id, empty}) {
    try {
        if (empty) sessionStorage.removeItem(PRESENT);
        else sessionStorage.setItem(PRESENT, id);
    } catch {
        // The sheet is in the history anyway.
    }
}

/** Shows the sheet that this tab had before it was reloaded. */
async function restore() {
    try {
        const id = sessionStorage.getItem(PRESENT);
        if (id) await desk.sheets.open(id);
    } catch {
        // The user can open it from the history.
    }
    desk.addEventListener("change", () => remember(desk.sheet));
    remember(desk.sheet);
}

async function take(format = "text") {
    const copied = await copy(desk.sheet, format);
    const label = at("copy").querySelector("span");
    label.textContent = copied ? "Copied" : "Not allowed";
    at("spoken").textContent = copied ? "Copied." : "The browser does not allow copying.";
    setTimeout(() => (label.textContent = "Copy"), 2000);
}

async function bringBack() {
    const undone = await undo.back();
    notice.troubled || notice.clear();
    show();
    at("spoken").textContent = undone ? `Undone: ${undone}` : "There is nothing to undo.";
}

/** Takes files: recordings to transcribe, and transcripts that were saved. @param {File[]} files */
async function transcribe(files) {
    const taken = await archive.take(files);
    dialogs.close("history");
    if (taken.single) await desk.take(taken.single);
    notice.taken(taken);
    if (!taken.recordings.length) return;
    const refused = await desk.transcribe(taken.recordings);
    if (refused) notice.say("Too many recordings", `${refused} of them did not fit: drop them again later.`);
}

/** Goes on where the transcript stopped; asks for its recording first if the tab does not have it. */
async function resume() {
    const there = await desk.resume();
    if (!there) choose((files) => void desk.resume(files[0]));
}

/** Lets the user choose files for this. @param {(files: File[]) => void} take */
function choose(take) {
    chosen = take;
    at("file").click();
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
    if (event.defaultPrevented || dialogs.opened) return;
    const writing = event.target.closest("input:not([type=radio]), textarea, [contenteditable]");
    if (event.key === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && !writing) {
        event.preventDefault();
        void bringBack();
    }
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") {
        if (menu.opened) menu.close();
        else if (segmentMenu.opened) segmentMenu.close();
        else if (reading.large) reading.large = false;
        else if (!["nothing", "finishing"].includes(desk.doing)) press();
        else player.pause();
    } else if (event.key === "?" && !writing) {
        dialogs.open("keys");
    } else if (event.key === " " && !event.target.closest(CONTROLS)) {
        event.preventDefault(); // otherwise it would scroll
        if (desk.doing === "nothing" && player.loaded) player.toggle();
        else if (!event.repeat) press();
    }
}

desk.addEventListener("begin", () => notice.clear());
desk.addEventListener("session", ({detail}) => sharing.follow(detail));
desk.addEventListener("change", show);
desk.addEventListener("progress", () => progress.show());
desk.addEventListener("level", ({detail}) => showLevel(detail));
desk.addEventListener("sound", ({detail}) => showClock("length", detail));
desk.addEventListener("trouble", ({detail}) => {
    notice.explain(detail, settings.key !== "");
    show();
    void standing.ask();
});
desk.addEventListener("lost", () => {
    notice.offer("The connection is lost. What you say is kept until it is back.", "", "lost");
});
desk.addEventListener("found", () => notice.clear("lost"));
desk.addEventListener("overflow", ({detail: {ms}}) => {
    notice.say("Some sound is lost", `${shortClock(ms, true)} were dropped, because they could not be sent in time.`);
});
desk.addEventListener("call", () => {
    notice.offer("Each channel has a voice of its own. Mixed, their words get lost.", "apart");
});
desk.addEventListener("silent", () => notice.silent(desk.sheet.file, wave.loudest));
desk.addEventListener("paused", () => {
    const {length} = desk.queue;
    notice.offer(length === 1 ? "1 recording is still waiting." : `${length} recordings are still waiting.`, "onward");
});
desk.addEventListener("finished", ({detail}) => notice.finished(detail));
desk.sheets.addEventListener("left", ({detail: {name}}) => notice.offer(`“${name}” is in the history.`, "back"));
desk.sheets.addEventListener("full", () => notice.full());
list.addEventListener("open", ({detail: id}) => {
    dialogs.close("history");
    void desk.sheets.open(id).then(() => scrollTo({top: 0}));
});
new MutationObserver(followWords).observe(at("transcript"), {childList: true, subtree: true});

at("speak").addEventListener("click", press);
at("copy").addEventListener("click", () => void take());
at("play").addEventListener("click", () => player.toggle());
at("clear").addEventListener("click", () => {
    const used = desk.clear();
    standing.forget();
    if (used) notice.offer("The sheet is clear.", "back");
    at("speak").focus();
});
at("name").addEventListener("change", () => desk.sheets.rename(at("name").value));
at("name").addEventListener("keydown", (event) => {
    if (event.key === "Escape") at("name").value = desk.sheet.name;
    if (["Enter", "Escape"].includes(event.key)) at("name").blur();
    if (event.key === "Escape") event.preventDefault();
});
at("text").addEventListener("input", () => reading.show());
at("options-reset").addEventListener("click", () => reading.show());
at("import").addEventListener("click", () => choose(transcribe));
at("export-all").addEventListener("click", async () => {
    await desk.sheets.settled();
    at("spoken").textContent = `Saved as ${await archive.save()}.`;
});
at("continue").addEventListener("click", () => void resume());
at("file").addEventListener("change", ({target}) => {
    const files = [...target.files];
    const take = chosen;
    chosen = transcribe;
    if (files.length) void take(files);
    target.value = ""; // so that the same file can be chosen again
});
at("file").addEventListener("cancel", () => (chosen = transcribe));
for (const input of at("pace").querySelectorAll("input")) {
    input.checked = input.value === settings.get("pace");
    input.addEventListener("change", () => settings.set("pace", input.value));
}
dropping(at("drop"), (files) => void transcribe(files));
addEventListener("keydown", key);
// What is said after this would be lost.
addEventListener("beforeunload", (event) => desk.doing === "listening" && event.preventDefault());
addEventListener("pagehide", () => desk.halt()); // so that the service has room for another session at once

words.addEventListener("seek", seek);
wave.addEventListener("seek", seek);
player.addEventListener("place", ({detail: {ms}}) => {
    wave.placeMs = ms;
    showClock("place", ms);
    words.follow(player.loaded && ms > 0 ? ms : null);
});
player.addEventListener("change", () => {
    at("play").toggleAttribute("data-playing", player.playing);
    at("play").ariaLabel = player.playing ? "Pause" : "Play";
});

show();
void standing.ask();
void restore().then(() => (document.body.dataset.ready = "")); // a sign for tests: everything is connected now
