// Writes a transcript as a page for reading: one HTML file with the sound in it, like streamer/base/reading_page.py. Pure.

import {escaped, shortClock, stopText} from "./formats.js";
import {separator, wordsOf} from "./joining.js";
import {ParagraphRule} from "./paragraphs.js";
import {printableLines} from "./printable.js";
import {nameOf} from "./speakers.js";

/** A paragraph after such a pause begins a chapter, if the chapter before it is long enough. */
const CHAPTER_PAUSE_MS = 4_000;
const SHORTEST_CHAPTER_MS = 60_000;
const HEADING_WORDS = 6; // of a chapter, after its time

/** @typedef {import("./paragraphs.js").Sentence[]} Paragraph */

/**
 * @param {string} template the content of reading.html
 * @param {import("./formats.js").Transcript} transcript
 * @param {{type: string, content: string} | null} [sound] as a browser plays it; its content is base64
 * @returns {string} the page
 */
export function readingPage(template, transcript, sound = null) {
    const chapters = chaptersOf(paragraphsOf(transcript.segments));
    const type = sound ? escaped(sound.type).replaceAll('"', "&quot;").replaceAll("'", "&#x27;") : "";
    /** @type {Record<string, string>} */
    const parts = {
        TITLE: escaped(transcript.file || "Transcript"),
        CONTENTS: contentsOf(chapters),
        TEXT: textOf(chapters, transcript),
        SOUND: sound ? `<script type="text/plain" id="sound" data-type="${type}">${sound.content}</script>` : "",
    };
    return template.replace(/<!--(TITLE|CONTENTS|TEXT|SOUND)-->/g, (_, name) => parts[name]);
}

/** @param {any[]} segments @returns {Paragraph[]} */
function paragraphsOf(segments) {
    const rule = new ParagraphRule();
    /** @type {Paragraph[]} */
    const paragraphs = [];
    for (const segment of segments) {
        for (const sentence of rule.sentences(segment)) {
            if (rule.begins(sentence)) paragraphs.push([]);
            paragraphs[paragraphs.length - 1].push(sentence);
        }
    }
    return paragraphs;
}

/** Divides paragraphs into chapters, at long pauses. @param {Paragraph[]} paragraphs @returns {Paragraph[][]} */
function chaptersOf(paragraphs) {
    /** @type {Paragraph[][]} */
    const chapters = [];
    let endMs = 0;
    for (const paragraph of paragraphs) {
        const begins = paragraph[0].startMs - endMs >= CHAPTER_PAUSE_MS;
        const last = chapters.at(-1);
        if (!last || (begins && endMs - last[0][0].startMs >= SHORTEST_CHAPTER_MS)) chapters.push([]);
        chapters[chapters.length - 1].push(paragraph);
        endMs = Math.max(endMs, paragraph[paragraph.length - 1].endMs);
    }
    return chapters;
}

/** @param {Paragraph[][]} chapters */
function contentsOf(chapters) {
    if (chapters.length < 2) return "";
    const links = chapters.map((chapter, index) => `<li><a href="#chapter-${index + 1}">${headingOf(chapter)}</a></li>`);
    return `<nav aria-label="Chapters">\n<ol>\n${links.join("\n")}\n</ol>\n</nav>`;
}

/** @param {Paragraph[][]} chapters @param {import("./formats.js").Transcript} transcript */
function textOf(chapters, transcript) {
    const lines = chapters.flatMap((chapter, index) => {
        const heading = chapters.length > 1 ? [`<h2 id="chapter-${index + 1}">${headingOf(chapter)}</h2>`] : [];
        return [...heading, ...chapter.map((paragraph) => paragraphText(paragraph, transcript))];
    });
    if (transcript.stoppedMs !== null) lines.push(`<p>[${escaped(stopText(transcript))}]</p>`);
    return lines.join("\n");
}

/** @param {Paragraph[]} chapter */
function headingOf(chapter) {
    const words = chapter.flatMap((paragraph) => paragraph.flatMap(({text}) => wordsOf(text)));
    const text = escaped(words.slice(0, HEADING_WORDS).join(" "));
    return `${shortClock(chapter[0][0].startMs)} ${text}${words.length > HEADING_WORDS ? "…" : ""}`;
}

/** @param {Paragraph} paragraph @param {import("./formats.js").Transcript} transcript */
function paragraphText(paragraph, transcript) {
    const {startMs} = paragraph[0];
    const at = shortClock(startMs);
    const name = nameOf(transcript, paragraph[0]);
    const who = name ? `<b>${escaped(name)}</b> ` : "";
    const button = `<button type="button" data-at="${startMs}" aria-label="Play from ${at}">${at}</button>`;
    let [words, last] = ["", ""];
    for (const sentence of paragraph) {
        // A sentence whose words do not match its text is played as a whole.
        const {text, startMs: start_ms, endMs: end_ms} = sentence;
        for (const {word, ...time} of sentence.words.length ? sentence.words : [{word: text, start_ms, end_ms}]) {
            const written = escaped(word, printableLines);
            words += `${separator(last, word)}<span data-at="${time.start_ms}" data-to="${time.end_ms}">${written}</span>`;
            last = word;
        }
    }
    return `<p>${button} ${who}${words}</p>`;
}
