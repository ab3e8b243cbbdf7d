"""Writes a transcript as a page for reading: one HTML file that opens from disk, with the sound in it. Pure.

The text stands in the file as it is, in paragraphs, each word with its time. `web/reading.html` has the rest: how it
looks, and the script that plays a word, follows the sound and searches. The page of the service writes the same file
(`web/page/transcript/reading-page.js`).
"""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streamer.base.cues import SessionEvent, voice_name
from streamer.base.package import PACKAGE
from streamer.base.paragraphs import ParagraphRule, Sentence
from streamer.base.text import printable, printable_lines, separator, words_of

TEMPLATE: Final = PACKAGE / "web" / "reading.html"
# A paragraph after such a pause begins a chapter, if the chapter before it is long enough.
CHAPTER_PAUSE_MS: Final = 4_000
SHORTEST_CHAPTER_MS: Final = 60_000
HEADING_WORDS: Final = 6  # of a chapter, after its time
_MARKER: Final = re.compile(r"<!--(TITLE|CONTENTS|TEXT|SOUND)-->")


@dataclass(frozen=True)
class Sound:
    """The sound of a transcript, as a browser plays it."""

    type: str
    content: bytes


class Names(NamedTuple):
    """The names of who speaks."""

    channels: Sequence[str]
    speakers: Sequence[str]


@dataclass
class _Paragraph:
    first: Sentence
    sentences: list[Sentence] = field(default_factory=list)

    @property
    def end_ms(self) -> int:
        """The time at which it ends."""
        return self.sentences[-1].end_ms


def reading_page(
    title: str,
    segments: Sequence[SessionEvent],
    names: Sequence[str] = (),
    stopped: str = "",
    sound: Sound | None = None,
    speakers: Sequence[str] = (),
) -> str:
    """Return the page. `names`: those of the channels. `stopped`: what the last line says about where it stops.

    `speakers`: the names of the speakers.
    """
    chapters = _chapters(_paragraphs(segments))
    parts = {
        "TITLE": _escaped(title),
        "CONTENTS": _contents(chapters),
        "TEXT": _text(chapters, Names(names, speakers), stopped),
        "SOUND": _sound(sound),
    }
    return _MARKER.sub(lambda found: parts[found[1]], TEMPLATE.read_text(encoding="utf-8"))


def clock(milliseconds: int) -> str:
    """Return a time for people: 1:23, or 1:02:03 from an hour on."""
    seconds = milliseconds // 1000
    hours = f"{seconds // 3600}:{seconds // 60 % 60:02}" if seconds >= 3600 else f"{seconds // 60}"
    return f"{hours}:{seconds % 60:02}"


def _paragraphs(segments: Sequence[SessionEvent]) -> list[_Paragraph]:
    rule = ParagraphRule()
    paragraphs: list[_Paragraph] = []
    for segment in segments:
        for sentence in rule.sentences(segment):
            if rule.begins(sentence):
                paragraphs.append(_Paragraph(sentence))
            paragraphs[-1].sentences.append(sentence)
    return paragraphs


def _chapters(paragraphs: Sequence[_Paragraph]) -> list[list[_Paragraph]]:
    """Divide paragraphs into chapters, at long pauses."""
    chapters: list[list[_Paragraph]] = []
    end_ms = 0
    for paragraph in paragraphs:
        start_ms = paragraph.first.start_ms
        if not chapters or (
            start_ms - end_ms >= CHAPTER_PAUSE_MS and end_ms - chapters[-1][0].first.start_ms >= SHORTEST_CHAPTER_MS
        ):
            chapters.append([])
        chapters[-1].append(paragraph)
        end_ms = max(end_ms, paragraph.end_ms)
    return chapters


def _contents(chapters: Sequence[Sequence[_Paragraph]]) -> str:
    if len(chapters) < 2:
        return ""
    links = "\n".join(
        f'<li><a href="#chapter-{number}">{_heading(chapter)}</a></li>' for number, chapter in enumerate(chapters, 1)
    )
    return f'<nav aria-label="Chapters">\n<ol>\n{links}\n</ol>\n</nav>'


def _text(chapters: Sequence[Sequence[_Paragraph]], names: Names, stopped: str) -> str:
    lines = []
    for number, chapter in enumerate(chapters, 1):
        if len(chapters) > 1:
            lines.append(f'<h2 id="chapter-{number}">{_heading(chapter)}</h2>')
        lines += [_paragraph(paragraph, names) for paragraph in chapter]
    if stopped:
        lines.append(f"<p>[{_escaped(stopped)}]</p>")
    return "\n".join(lines)


def _heading(chapter: Sequence[_Paragraph]) -> str:
    words = [word for paragraph in chapter for sentence in paragraph.sentences for word in words_of(sentence.text)]
    more = "…" if len(words) > HEADING_WORDS else ""
    return f"{clock(chapter[0].first.start_ms)} {_escaped(' '.join(words[:HEADING_WORDS]))}{more}"


def _paragraph(paragraph: _Paragraph, names: Names) -> str:
    first = paragraph.first
    at = clock(first.start_ms)
    name = voice_name(first.channel, names.channels, first.speaker, names.speakers)
    who = f"<b>{_escaped(name)}</b> " if name else ""
    button = f'<button type="button" data-at="{first.start_ms}" aria-label="Play from {at}">{at}</button>'
    return f"<p>{button} {who}{''.join(_words(paragraph))}</p>"


def _words(paragraph: _Paragraph) -> Iterator[str]:
    last = ""
    for sentence in paragraph.sentences:
        for word in _timed(sentence):
            text = str(word["word"])
            gap = separator(last, text)
            written = html.escape(printable_lines(text), quote=False)
            yield f'{gap}<span data-at="{word["start_ms"]}" data-to="{word["end_ms"]}">{written}</span>'
            last = text


def _timed(sentence: Sentence) -> Sequence[Mapping[str, object]]:
    """Return the words of a sentence. One whose words do not match its text is played as a whole."""
    return sentence.words or [{"word": sentence.text, "start_ms": sentence.start_ms, "end_ms": sentence.end_ms}]


def _sound(sound: Sound | None) -> str:
    if sound is None:
        return ""
    content = b64encode(sound.content).decode("ascii")
    return f'<script type="text/plain" id="sound" data-type="{html.escape(sound.type)}">{content}</script>'


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=False)
