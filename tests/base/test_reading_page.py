"""The page for reading: its paragraphs, words, chapters and sound. The browser tests open it."""

from __future__ import annotations

import re
from base64 import b64encode
from html.parser import HTMLParser

from streamer.base.reading_page import Sound, reading_page
from tests.transcript_events import final, speech, word


class Text(HTMLParser):
    """The text in the main part of a page, paragraph by paragraph, and the elements that are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self.words: list[tuple[int, int]] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("meta", "input"):
            return
        self._open.append(tag)
        values = dict(attrs)
        if tag == "p" and "main" in self._open and "hidden" not in values:
            self.paragraphs.append("")
        if "data-to" in values:
            self.words.append((int(values["data-at"] or ""), int(values["data-to"] or "")))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "p" in self._open and "main" in self._open and self.paragraphs:
            self.paragraphs[-1] += data


def test_words_are_in_paragraphs_with_their_times() -> None:
    """A paragraph has its time and its words as text, and each word its own time."""
    first = final(word("How", 400, 700), word("are", 700, 1000), word("you?", 1000, 1300))
    later = final(word("Fine.", 9000, 9500))
    text = Text(reading_page("talk.wav", [first, later]))
    assert text.paragraphs == ["0:00 How are you?", "0:09 Fine."]
    assert text.words == [(400, 700), (700, 1000), (1000, 1300), (9000, 9500)]


def test_text_without_words_is_played_as_a_whole() -> None:
    """A segment that was edited until its words did not match has one time."""
    page = reading_page("a", [{**final(word("a", 100, 900)), "words": None, "text": "edited text"}])
    text = Text(page)
    assert text.paragraphs == ["0:00 edited text"]
    assert (text.words[0][0], text.words[-1][1]) == (100, 900)


def test_nothing_of_a_transcript_is_markup() -> None:
    """Words, names and the title come from anybody: none of them can end its element, or hide something."""
    hostile = "</script><!--TEXT--><img src=x onerror=alert(1)>&amp;\u202e"
    segment = {**final(word(hostile, 0, 400)), "channel": 0}
    page = reading_page(hostile, [segment], [hostile], hostile, Sound('audio/x"><b>', b"\xff"))
    assert "<img" not in page
    assert "\u202e" not in page
    assert page.count("<script") == page.count("</script>") == 2
    shown = hostile.replace("\u202e", "")
    assert Text(page).paragraphs == [f"0:00 {shown} {shown}", f"[{shown}]"]


def test_chapters_begin_after_long_pauses() -> None:
    """A long pause begins a chapter if the one before it has a minute; the contents link each by its first words."""
    early = final(*speech(10, text="Early"))
    long = final(*speech(240, start_ms=8_000, text="Long."))
    late = final(*speech(3, start_ms=90_000, text="Late"))
    page = reading_page("a", [early, long, late])
    assert re.findall(r"<h2.*</h2>", page) == [
        '<h2 id="chapter-1">0:00 Early Early Early Early Early Early…</h2>',
        '<h2 id="chapter-2">1:30 Late Late Late</h2>',
    ]
    links = ["chapter-1", "chapter-2"]
    assert re.findall(r'<li><a href="#(.*?)">', page) == links
    assert "<nav" not in reading_page("a", [early, final(*speech(10, start_ms=8_000))])


def test_the_sound_is_in_the_page() -> None:
    """The sound stands in the page with its type; without it, the page has none."""
    page = reading_page("a", [final(word("a", 0, 1))], sound=Sound("audio/mpeg", b"sound"))
    assert f'data-type="audio/mpeg">{b64encode(b"sound").decode()}</script>' in page
    assert 'id="sound"' not in reading_page("a", [])


def test_who_speaks_and_where_it_stops() -> None:
    """A paragraph names its channel, and the last line says where the text stops."""
    words = final(word("yes", 0, 300))
    page = Text(reading_page("a", [{**words, "channel": 1}], ["Ann", "Bob"], "stopped at 0:01"))
    assert page.paragraphs == ["0:00 Bob yes", "[stopped at 0:01]"]
