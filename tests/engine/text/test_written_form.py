"""The written form: a table of examples, and rules that hold for any words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from streamer.base.text import joined
from streamer.engine.search.search import Hotword
from streamer.engine.text import figures as numbers
from streamer.engine.text.hotword_spelling import spellings_of
from streamer.engine.text.marks import Case, Mark, MarkedWord
from streamer.engine.text.written_form import Form, WrittenToken, read_tokens, settled_tokens, written_tokens
from tests.engine.text.plain_form import settled, written
from tests.engine.text.written_form_table import ROWS

VOCABULARY = sorted(
    {word for spoken, _ in ROWS for word in spoken.split()}
    | numbers.BEGINNINGS
    | numbers.MULTIPLIERS
    | {"", "'", "I", "May", "21", "ß", "一", "o\u2019clock", "twenty-", "p.m.", "a.m.", "am", "-"}
)


def text(words: str, *, begins: bool = False) -> str:
    return " ".join(piece.text for piece in written(words.split(), begins=begins))


def sentences(number: int, longest: int) -> Iterator[list[str]]:
    """Yield words of the table in random order, and rows of it one after another."""
    dice = random.Random(5)
    for turn in range(number):
        if turn % 2:
            yield dice.choices(VOCABULARY, k=dice.randint(0, longest))
        else:
            yield " ".join(dice.choice(ROWS)[0] for _ in range(dice.randint(1, 4))).split()[:longest]


@pytest.mark.parametrize(("spoken", "expected"), ROWS)
def test_what_is_written_how(spoken: str, expected: str) -> None:
    """Every row of the table is written as the table says."""
    assert text(spoken) == expected


@pytest.mark.parametrize(
    ("spoken", "expected"),
    [
        ("the cat", "The cat"),
        ("five people", "Five people"),
        ("twenty people", "20 people"),
        ("école", "École"),
        ("i see", "I see"),
        ("'tis", "'tis"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital(spoken: str, expected: str) -> None:
    """The first word gets a capital only if it opens a sentence."""
    assert text(spoken, begins=True) == expected


def test_a_piece_tells_its_words() -> None:
    """Every token knows which spoken words it stands for."""
    assert written(["it", "costs", "five", "dollars", "and", "ten", "cents", "today"]) == [
        WrittenToken("It", 0, 1),
        WrittenToken("costs", 1, 2),
        WrittenToken("$5.10", 2, 7),
        WrittenToken("today", 7, 8),
    ]


def test_pieces_cover_all_words() -> None:
    """For any words the tokens are in order and without gaps, and single words are kept."""
    for words in sentences(1000, 24):
        pieces = written(words)
        assert [piece.first for piece in pieces] == [0, *(piece.end for piece in pieces)][: len(pieces)]
        assert (pieces[-1].end if pieces else 0) == len(words)
        assert all(piece.first < piece.end for piece in pieces)


def test_what_is_written_stays_written() -> None:
    """The written form of a written form is the same."""
    for words in sentences(2000, 12):
        once = " ".join(piece.text for piece in written(words, begins=False))
        assert text(once) == " ".join(once.split())


def test_settled_pieces_never_change() -> None:
    """Settled tokens stay the same, whatever follows the stable words."""
    dice = random.Random(6)
    shown = 0
    for words in sentences(600, 10):
        stable = dice.randint(0, len(words))
        pieces = written(words)
        count = settled(words, stable)
        shown += count
        for _ in range(10):
            continuation = dice.choices(VOCABULARY, k=dice.randint(0, 6))
            assert written([*words[:stable], *continuation])[:count] == pieces[:count]
    assert shown > 800


def test_any_single_word_may_follow_a_settled_piece() -> None:
    """Settled tokens stay the same for each row cut anywhere and each word of the vocabulary after it."""
    for spoken, _ in ROWS[::16]:
        words = spoken.split()
        for stable in range(len(words) + 1):
            count = settled(words, stable)
            before = written(words, begins=False)[:count]
            for word in VOCABULARY:
                assert written([*words[:stable], word], begins=False)[:count] == before


@pytest.mark.parametrize(
    ("spoken", "pieces"),
    [
        ("the cat sat", 3),
        ("the cat sat on may", 4),
        ("twenty", 0),
        ("twenty people", 2),
        ("twenty five", 0),
        ("it costs five dollars and ten", 2),
        ("it costs five dollars and a", 4),
        ("it costs five dollars and ten cents", 3),
        ("a", 0),
        ("a dog", 2),
        ("november twenty first", 0),
        ("november twenty first and", 2),
        ("i'm here", 2),
        ("five five five", 0),
    ],
)
def test_pieces_settle_soon(spoken: str, pieces: int) -> None:
    """Plain words settle at once, a number with the word after it."""
    words = spoken.split()
    assert settled(words, len(words)) == pieces


def test_no_number_grows_for_ever() -> None:
    """Dictated digits settle while they are dictated."""
    words = ["seven", "five"] * 30
    assert settled(words, len(words)) == len(words) // numbers.LONGEST_RUN - 1
    assert all(piece.end - piece.first <= numbers.LONGEST_RUN for piece in written(words))


def test_stable_beyond_the_words() -> None:
    """A stable count out of range counts as all of the words or none."""
    assert settled(["the", "cat"], 9) == 2
    assert settled(["the", "cat"], -1) == 0
    assert settled([], 0) == 0


def marked(said: str, **form: Any) -> str:
    """Return the written form of words after which these marks are decided, and with capitals where words have them."""
    words = said.split()
    marks = [
        MarkedWord(
            Mark(word[-1]) if word[-1] in ",.?" else Mark.NONE,
            Case.ALL if word[:3].isupper() else Case.FIRST if word[0].isupper() else Case.LOWER,
        )
        for word in words
    ]
    read = read_tokens([word.rstrip(",.?").lower() for word in words], Form(**form))
    return joined([token.text for token in written_tokens(read, begins=True, marks=marks)])


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        ("yes, i do. do you?", "Yes, I do. Do you?"),
        ("it was in nineteen eighty four. then", "It was in 1984. Then"),
        ("in nineteen, eighty. four, five", "In 1984, five"),
        ("he paid twenty dollars, not ten.", "He paid $20, not 10."),
        ("at five p m. we left", "At 5 PM. We left"),
        ("in the u s. we", "In the U.S. We"),
        ("in the u s, we", "In the U.S., we"),
        ("NASA and NASA's", "NASA and NASA's"),
        ("O'brien met Mccarthy", "O'Brien met McCarthy"),
        ("we may. May came", "We may. May came"),
    ],
)
def test_marks_join_what_is_written(decided: str, expected: str) -> None:
    """A mark follows the whole token, its inner ones are left out, and a sentence begins with a capital."""
    assert marked(decided) == expected


def test_hotwords_keep_their_capitals() -> None:
    """Hotwords keep their letters, also at the start of a sentence, and marks come after them."""
    hotwords = [Hotword("iPhone"), Hotword("New York"), Hotword("quilter"), Hotword("k eight s", written="K8s")]
    spellings = spellings_of(hotwords, capitals=True)
    said = "iphone. iphone's in new york, and k eight s? Quilter"
    assert marked(said, spellings=spellings) == "iPhone. iPhone's in New York, and K8s? Quilter"
    assert marked("new york is new.", spellings=spellings_of(hotwords, capitals=False)) == "New york is new."


def test_a_token_is_settled_with_its_marks() -> None:
    """Stable words wait until their marks are decided, and none is before its number is."""
    read = read_tokens(["so", "it", "was", "nineteen", "eighty", "four", "then"], Form())
    assert [settled_tokens(read, 7, decided) for decided in range(8)] == [0, 1, 2, 3, 3, 3, 4, 5]
    assert settled_tokens(read_tokens(["so", "nineteen", "eighty", "four"], Form()), 4, 4) == 1


DICTATED = Form(dictation=True)


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("hello comma how are you question mark fine full stop", "Hello, how are you? Fine."),
        ("stop exclamation mark go exclamation point", "Stop! Go!"),
        ("two things colon salt semicolon pepper semi colon oil period", "Two things: salt; pepper; oil."),
        ("dear ada comma new line thanks full stop new paragraph bye", "Dear ada,\nThanks.\n\nBye"),
        ("new line", "\n"),
        ("comma and so on", ", And so on"),
        ("the full story of a new year", "The full story of a new year"),
        ("twenty comma five", "20, five"),
        ("it is five p m full stop and then", "It is 5 PM. And then"),
    ],
)
def test_what_is_written(said: str, written: str) -> None:
    """A mark joins the word before it, and after the end of a sentence the next word has a capital."""
    tokens = written_tokens(read_tokens(said.split(), DICTATED), begins=True)
    assert joined([token.text for token in tokens]) == written


def test_it_is_off_by_default() -> None:
    """Without the option, the words of marks stay words."""
    tokens = written_tokens(read_tokens(["hello", "comma"], Form()), begins=False)
    assert [token.text for token in tokens] == ["hello", "comma"]


def test_a_mark_belongs_to_its_word() -> None:
    """The token has the spoken words of both; a line break is a token of its own."""
    tokens = written_tokens(read_tokens(["hello", "full", "stop", "new", "line", "so"], DICTATED), begins=False)
    assert [(token.text, token.first, token.end) for token in tokens] == [("hello.", 0, 3), ("\n", 3, 5), ("So", 5, 6)]


def test_a_word_waits_for_the_mark_that_may_follow() -> None:
    """A word is settled when the next one is known, or two if that may begin a mark."""
    words = ["hello", "full", "stop", "so"]
    counts = [settled_tokens(read_tokens(words[:known], DICTATED), known) for known in range(5)]
    assert counts == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("the u s and the u k", "the U.S. and the U.K."),
        ("the u n in washington d c", "the U.N. in washington D.C."),
        ("a ph d", "a ph d"),
        ("a p h d on t v in the e u", "a PhD on TV in the EU"),
        ("a t v show", "a TV show"),
        ("the f b i and i b m", "the FBI and IBM"),
        ("the f b i i think", "the FBI I think"),
        ("the f b i one day", "the FBI one day"),
        ("the c i a", "the CIA"),
        ("plan b i think", "plan b I think"),
        ("vitamin b twelve", "vitamin b 12"),
        ("i a m here", "I a m here"),
        ("my name is b r a m a n i a n", "my name is BRAMANIAN"),
        ("h e double l o", "HELLO"),
        ("double oh seven", "007"),
        ("oh b c d e", "oh BCDE"),
    ],
)
def test_letters_in_a_row(said: str, expected: str) -> None:
    """Three or more letters in a row are one word; letters that are words stay words where they may be."""
    assert " ".join(token.text for token in written(said.split(), begins=False)) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("b seven k two nine", "B7K29"),
        ("b a two four nine i think", "BA249 I think"),
        ("b seven o nine", "B709"),
        ("s w one a two a a", "SW1A2AA"),
        ("seven a b c one two three", "7ABC123"),
        ("a b c five hundred", "ABC 500"),
        ("a b c five point two", "ABC 5.2"),
        ("five five five one two three four", "5551234"),
        ("gate b two", "gate b two"),
        ("at five oh five p m", "at 5:05 PM"),
    ],
)
def test_codes(said: str, expected: str) -> None:
    """Letters with digits among them are one code, but a number stays a number."""
    assert " ".join(token.text for token in written(said.split(), begins=False)) == expected


def test_a_long_name_settles_in_time() -> None:
    """After twenty letters the first part of a spelled name is settled, though the name goes on."""
    words = ["b", "c"] * 15
    assert [token.text for token in read_tokens(words, Form())] == ["BC" * 10, "BC" * 5]
    assert [settled(words, stable) for stable in (19, 21, 30)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("mr smith", "Mr. smith"),
        ("mister smith", "mister smith"),
        ("the doctor", "the doctor"),
    ],
)
def test_titles_what_is_written(said: str, expected: str) -> None:
    """Titles that are never words are always abbreviated, and others only before a name."""
    assert " ".join(token.text for token in written(said.split(), begins=False)) == expected


def marks(*cases: Case, mark: Mark = Mark.NONE) -> list[MarkedWord]:
    return [MarkedWord(mark, case) for case in cases]


def test_a_title_before_a_name() -> None:
    """Mister, missus, doctor and saint are abbreviated before a word with a capital, and only there."""
    words = ["mister", "brown", "saw", "the", "doctor", "in", "saint", "louis"]
    lower, first = Case.LOWER, Case.FIRST
    cases = marks(first, first, lower, lower, lower, lower, lower, first)
    found = written_tokens(read_tokens(words, Form()), begins=True, marks=cases)
    assert " ".join(token.text for token in found) == "Mr. Brown saw the doctor in St. Louis"
    cases[4] = MarkedWord(Mark.COMMA, Case.LOWER)
    cases[5] = MarkedWord(Mark.NONE, Case.FIRST)
    found = written_tokens(read_tokens(words, Form()), begins=True, marks=cases)
    assert " ".join(token.text for token in found) == "Mr. Brown saw the doctor, In St. Louis"


def test_a_title_waits_for_the_case_of_the_next_word() -> None:
    """A title is settled when it is decided whether a name follows."""
    read = read_tokens(["so", "doctor", "brown"], Form())
    assert [settled_tokens(read, 3, decided) for decided in range(4)] == [0, 1, 1, 3]
    assert settled_tokens(read_tokens(["so", "doctor"], Form()), 2) == 1


def test_a_title_before_a_hotword() -> None:
    """A hotword with a capital counts as a name after a title."""
    form = Form(spellings_of([Hotword("Quilter"), Hotword("iPhone")], capitals=True))
    for said, expected in (("mister quilter", "Mr. Quilter"), ("doctor iphone", "doctor iPhone")):
        found = written_tokens(read_tokens(said.split(), form), begins=False)
        assert " ".join(token.text for token in found) == expected
