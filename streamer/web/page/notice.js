// Shows messages: what went wrong and what to do, with buttons for it.

const SVG = "http://www.w3.org/2000/svg";
/** A recording that is nowhere louder than this part of full scale is silent. */
const INAUDIBLE = 0.002;
const MOST_NAMES = 5;

/** By the code of a StreamerError: title, what to do (unless the error itself says it), and the offered buttons. */
const MEANINGS = {
    no_microphone: {
        title: "There is no microphone",
        text: "Connect one and try again, or choose a recording instead.",
        deeds: ["again", "choose"],
    },
    no_permission: {
        title: "The microphone is blocked",
        text: "Allow it with the sign left of the address, or in the browser’s settings. Then try again.",
        deeds: ["again", "choose"],
    },
    insecure_page: {
        title: "A microphone needs a secure page",
        text: "Browsers allow it only for https:// addresses and on this machine itself. Recordings work without it.",
        deeds: ["choose"],
    },
    microphone_busy: {
        title: "The microphone cannot be opened",
        text: "Another program may be using it. Close that program or choose another microphone, then try again.",
        deeds: ["again", "options"],
    },
    unsupported: {
        title: "This browser cannot listen",
        text: "Use a newer one. Recordings may still work.",
        deeds: ["choose"],
    },
    unsupported_audio: {title: "This file cannot be read", deeds: ["choose"]},
    unreadable_file: {title: "This file cannot be read", deeds: ["choose"]},
    recording_gone: {title: "The recording cannot be read to its end", deeds: ["resume"]},
    another_recording: {title: "This is another recording", deeds: ["resume"]},
    full: {title: "The service is full", deeds: ["again"], waits: true},
    not_ready: {title: "The service is not ready", deeds: ["again"], waits: true},
    key_needed: {title: "A key is needed", text: "The operator of this service can give you one.", deeds: ["key"]},
    unreachable: {
        title: "The service cannot be reached",
        text: "Check that it is running and that this machine is connected, then try again. Nothing is lost.",
        deeds: ["again"],
    },
    lost: {
        title: "The connection is lost",
        text: "The page could not reconnect in time. What you said is kept: try again to get the remaining words.",
        deeds: ["again"],
    },
    refused: {title: "The service refuses this", deeds: ["options"]},
    failed: {title: "The recogniser has failed", deeds: ["again"]},
};

const DEEDS = {
    again: "Try again",
    choose: "Choose a recording",
    options: "Open the options",
    back: "Restore",
    history: "Open the history",
    onward: "Go on with the next",
    resume: "Choose it again",
    apart: "Write them apart",
    sound: "Choose its sound",
};

export class Notice {
    #place;
    #aloud;
    #timer = 0;
    #does;

    /** `does`: a function for each button: those of DEEDS, and key(key, keep). */
    constructor(place, aloud, does) {
        [this.#place, this.#aloud, this.#does] = [place, aloud, does];
    }

    /** Shows an error of the client. `keyed`: a key was sent. */
    explain({code, reported, message, retryMs}, keyed = false) {
        const meaning = MEANINGS[code] ?? {title: "That did not work", deeds: ["again"]};
        const title = reported === "bad_origin" ? "This address may not be used" : meaning.title;
        const text = keyed && code === "key_needed" ? message : meaning.text ?? message;
        this.say(title, text, reported === "bad_origin" ? [] : meaning.deeds, code);
        if (meaning.waits) this.#count(retryMs || 5000);
    }

    /** Shows any other message. `deeds` are names of buttons. */
    say(title, text, deeds = [], code = "") {
        this.clear();
        const heading = document.createElement("h2");
        heading.textContent = title;
        const paragraph = document.createElement("p");
        paragraph.textContent = text;
        this.#place.replaceChildren(mark(), heading, paragraph);
        if (deeds.length) {
            const row = deeds.includes("key") ? this.#keyForm() : document.createElement("div");
            row.classList.add("deeds");
            const others = deeds.filter((deed) => deed !== "key");
            row.append(...others.map((deed, index) => this.#button(deed, index === 0)));
            this.#place.append(row);
        }
        this.#place.dataset.code = code;
        this.#place.classList.remove("quiet");
        this.#place.hidden = false;
        this.#aloud.textContent = `${title}. ${text}`;
        this.#place.querySelector("input")?.focus();
        this.#place.scrollIntoView({block: "nearest"});
    }

    /** Shows that there were no words. @param {string} file the recording, or empty @param {number} loudest 0 to 1 */
    silent(file, loudest) {
        const why = "Perhaps the language is none that this service recognises.";
        const how = "Speak close to the microphone, and check that it is the right one.";
        if (!file) this.say("No words were recognised", `${why} ${how}`, ["options"]);
        else if (loudest < INAUDIBLE) this.say("The recording is silent", `There is no sound in ${file}.`, ["choose"]);
        else this.say("The recording has no words", `No speech was found in ${file}. ${why}`, ["choose"]);
    }

    /**
     * Shows that several recordings are done.
     * @param {{total: number, unread: {name: string, why: string}[], silent: string[]}} done
     */
    finished({total, unread, silent}) {
        const good = total - unread.length - silent.length;
        const parts = [];
        if (unread.length === 1) parts.push(unread[0].why);
        else if (unread.length) parts.push(`Not readable: ${listed(unread.map(({name}) => name))}. Open one to see why.`);
        if (silent.length) parts.push(`Without words: ${listed(silent)}.`);
        if (!parts.length) return this.offer(`${total} recordings are transcribed, and in the history.`, "history");
        this.say(`${good} of ${total} recordings are transcribed`, parts.join(" "), ["history"]);
    }

    /** Shows what came of saved transcripts. @param {import("./history/archive.js").Taken} taken */
    taken({saved, single, added, there, unread}) {
        if (!saved) return;
        const count = (number) => (number === 1 ? "1 transcript" : `${number} transcripts`);
        if (unread.length) this.say("This is no saved transcript", unread.slice(0, MOST_NAMES).join(" "), ["choose"]);
        else if (single && !single.sound) this.offer("To play it, choose its sound.", "sound");
        else if (!single) this.offer(`${count(added)} came into the history, ${there} were there already.`, "history");
    }

    /** Shows that the browser has no more space. */
    full() {
        const text = "New words are kept until this tab is closed. Delete older transcripts to make room.";
        this.say("The browser has no more space", text, ["history"]);
    }

    /** Shows a line that is not about a problem, perhaps with a button. `code` identifies the line. */
    offer(text, deed = "", code = deed) {
        this.clear();
        const paragraph = document.createElement("p");
        paragraph.textContent = text;
        this.#place.replaceChildren(paragraph, ...(deed ? [this.#button(deed, false)] : []));
        this.#aloud.textContent = text;
        this.#place.dataset.code = code;
        this.#place.classList.add("quiet");
        this.#place.hidden = false;
    }

    /** Whether a problem is shown. */
    get troubled() {
        return !this.#place.hidden && !this.#place.classList.contains("quiet");
    }

    /** Removes the message, or only the one with this code. @param {string} [code] */
    clear(code = this.#place.dataset.code) {
        if (code !== this.#place.dataset.code) return;
        clearInterval(this.#timer);
        this.#place.hidden = true;
        this.#place.replaceChildren();
        this.#aloud.textContent = "";
    }

    #button(deed, first) {
        const button = document.createElement("button");
        [button.type, button.className, button.textContent] = ["button", first ? "firm" : "link", DEEDS[deed]];
        button.dataset.deed = deed;
        button.addEventListener("click", () => this.#does[deed]());
        return button;
    }

    #count(ms) {
        const until = performance.now() + ms;
        const line = this.#place.querySelector(".deeds").appendChild(document.createElement("p"));
        line.className = "countdown";
        const tell = () => {
            const seconds = Math.ceil((until - performance.now()) / 1000);
            line.textContent = seconds > 0 ? `Try again in ${seconds} s.` : "You can try again now.";
            if (seconds <= 0) clearInterval(this.#timer);
        };
        this.#timer = setInterval(tell, 250);
        tell();
    }

    #keyForm() {
        const form = document.createElement("form");
        const input = document.createElement("input");
        Object.assign(input, {type: "password", name: "key", required: true, autocomplete: "off", ariaLabel: "Key"});
        const label = document.createElement("label");
        const keep = Object.assign(document.createElement("input"), {type: "checkbox", name: "keep"});
        label.append(keep, " Keep it in this browser");
        const button = Object.assign(document.createElement("button"), {className: "firm", textContent: "Continue"});
        form.append(input, button, label);
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            this.#does.key(input.value, keep.checked);
        });
        return form;
    }
}

/** @param {string[]} names */
function listed(names) {
    const more = names.length - MOST_NAMES;
    return names.slice(0, MOST_NAMES).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function mark() {
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("viewBox", "0 0 24 24");
    picture.ariaHidden = "true";
    const path = picture.appendChild(document.createElementNS(SVG, "path"));
    path.setAttribute("d", "M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M12 7.5v5.5M12 16.4v.1");
    return picture;
}
