"""Reads the text for the language model by source, without the sentences of dev, and turns it into spoken words."""

from __future__ import annotations

import csv
import lzma
import random
import re
import tarfile
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from num2words import num2words  # type: ignore[import-untyped]

from workshop.data.corpus import CorpusError
from workshop.data.synthetic_speech import DICTATION, prompts, transcript

# Turns written text into spoken text: sentences of lower-case words, with numbers and signs as words.

UNKNOWN = "<unk>"

# Abbreviations and their words. A full stop after one of these does not end a sentence.
_ABBREVIATIONS = {
    "mr": "mister",
    "mrs": "missus",
    "dr": "doctor",
    "prof": "professor",
    "capt": "captain",
    "col": "colonel",
    "gen": "general",
    "lt": "lieutenant",
    "sgt": "sergeant",
    "rev": "reverend",
    "hon": "honourable",
    "vs": "versus",
    "esq": "esquire",
    "messrs": "messieurs",
    "etc": "et cetera",
    "jr": "junior",
    "sr": "senior",
    "st": "saint",
    "mt": "mount",
    "ms": "ms",
}
_SIGNS = {"&": "and", "%": "percent", "+": "plus", "°": "degrees"}
_MONEY = {"$": ("dollar", "dollars"), "£": ("pound", "pounds"), "€": ("euro", "euros")}
_ELIDED = frozenset({"em", "tis", "twas", "til", "cause", "twere", "twould", "twill", "bout", "round", "cos"})
# Typographic signs, as the plain ones that they stand for.
_LETTERS = str.maketrans(
    {
        "\u2019": "'",
        "\u2018": "'",
        "`": "'",
        "\u00b4": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "\u2014": " - ",
        "\u2013": " - ",
        "\u2026": " ... ",
        "\u00ad": "",
        "æ": "ae",
        "Æ": "Ae",
        "œ": "oe",
        "Œ": "Oe",
        "ø": "o",
        "Ø": "O",
        "ß": "ss",
        "ł": "l",
        "Ł": "L",
        "đ": "d",
        "_": "",
        "*": " ",
        "=": " ",
        "|": " ",
        "~": " ",
    }
)

_DOTTED = re.compile(r"\b(" + "|".join(_ABBREVIATIONS) + r")\.", re.IGNORECASE)
_INITIALS = re.compile(r"\b((?:[A-Za-z]\.){2,}|[A-HJ-Z]\.(?= [A-Z]))")
_CLOCK = re.compile(r"(?<=\d) ?([ap])\.?m\b\.?", re.IGNORECASE)
_TELEPHONE = re.compile(r"\b\d{3}-\d{3}-\d{4}\b")
_SENTENCE_END = re.compile(r"""(?<=[.?!])["')\]]*\s+(?=["'(\[]*[A-Z0-9])""")
_TOKEN = re.compile(
    r"""(?P<money>[$£€])?(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)(?P<ending>st|nd|rd|th|s)?(?![A-Za-z\d])"""
    r"""|(?P<word>'?[^\W\d_]+(?:'[^\W\d_]+)*(?:(?<=s)'(?=\s)|(?<=in)'(?=\s))?)"""
    r"""|(?P<mixed>[^\W_]+)|(?P<sign>[&%+°])"""
)


def sentences(paragraph: str) -> Iterator[list[str]]:
    """Return the sentences of a paragraph, each as the words that a reader would say."""
    for sentence in _SENTENCE_END.split(without_abbreviations(paragraph)):
        words = [word for _, spoken in spoken_tokens(sentence) for word in spoken]
        if words:
            yield words


def without_abbreviations(paragraph: str) -> str:
    """Return the paragraph in plain letters and signs, without full stops that end no sentence."""
    plain = _plain(paragraph)
    plain = _DOTTED.sub(r"\1 ", plain)
    plain = _CLOCK.sub(r" \1 m", plain)
    plain = _TELEPHONE.sub(lambda match: " ".join(match[0].replace("-", "")), plain)
    return _INITIALS.sub(lambda match: match[0].replace(".", " ") + " ", plain)


def _plain(text: str) -> str:
    """Replace accents, ligatures and typographic quotes by plain letters and signs."""
    if text.isascii():
        return text.translate(_LETTERS)
    decomposed = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def spoken_tokens(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every word, number and sign of a plain text as it is written, with the words that are said for it."""
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "word":
            yield token[0], _spoken(token["word"].lower())
        elif token["number"]:
            yield token[0], _number(token["number"], token["ending"] or "", token["money"] or "")
        elif kind == "sign":
            yield token[0], (_SIGNS[token["sign"]],)
        else:
            yield token[0], (UNKNOWN,)


@lru_cache(1_000_000)
def _spoken(word: str) -> tuple[str, ...]:
    if word.startswith("'") and word[1:] not in _ELIDED:
        word = word[1:]
    if not word.isascii():
        return (UNKNOWN,)
    return tuple(_ABBREVIATIONS.get(word, word).split())


@lru_cache(100_000)
def _number(digits: str, ending: str, money: str) -> tuple[str, ...]:
    """Return the words of a number: a sum of money, an ordinal, a decade, a year, or a count."""
    digits, grouped = digits.replace(",", ""), "," in digits
    whole, _, fraction = digits.partition(".")
    if len(whole) > 9 or (len(whole) > 1 and whole[0] == "0"):
        spoken = " ".join(num2words(int(digit)) for digit in whole + fraction)
    elif money:
        one, many = _MONEY[money]
        spoken = f"{num2words(int(whole))} {one if int(whole) == 1 else many}"
        if fraction:
            spoken += f" {num2words(int(fraction))}"
    elif ending == "s":
        spoken = _plural(num2words(int(whole), to="year") if len(whole) == 4 else num2words(int(whole)))
    elif ending:
        spoken = num2words(int(whole), to="ordinal")
    elif fraction:
        spoken = f"{num2words(int(whole))} point {' '.join(num2words(int(digit)) for digit in fraction)}"
    elif len(whole) == 4 and not grouped and 1100 <= int(whole) < 2100:
        spoken = num2words(int(whole), to="year").replace("oh-", "o ")
    else:
        spoken = num2words(int(whole))
    return tuple(re.findall(r"[a-z]+", spoken))


def _plural(words: str) -> str:
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


Ids = npt.NDArray[np.int32]

# Texts with one kind of language are one source. Texts that are not listed here belong to the last source.
SOURCES = {
    "novels": ("novels/*.txt",),
    "books": ("books/*.txt",),
    "readings": ("libritts_*", "ljspeech_*"),
    "fiction": ("gutenberg_20c_fiction.txt", "african_storybook.txt"),
    "encyclopaedia": ("wikipedia_*",),
    "examples": ("tatoeba.txt",),
    "prompts": ("commonvoice_prompts.txt",),
    "talk": ("changelog_podcasts.txt", "meetings_qmsum.txt", "earnings_calls.txt", "primock57_*", "nasa_spacelog.txt"),
    "speeches": ("us_presidents.txt",),
    "dialogue": ("sgd_dialogue.txt", "synthetic_persona_chat.txt", "taskmaster.txt"),
    "commands": ("snips_commands.txt", "clinc150_queries.txt", "assistant_requests.txt"),
    "web": ("*",),
}
TRANSCRIPTS = "transcripts"
DICTATED = "dictated"
DICTATED_SHARE = 0.02  # of the words of all other text: nobody writes down how names and numbers are spelled
FEWEST_TIMES = 5  # only words that occur this often in the other text are spelled
FEWEST_SPELLED = 100  # with fewer words to spell, the same names would come again and again
SHARE_ALIKE = (
    "wikipedia_*",
    "changelog_podcasts.txt",
    "earnings_calls.txt",
    "ud_english_ewt.txt",
    "gum.txt",
    "sgd_dialogue.txt",
)
NOT_TEXT = ("SOURCE.md", "novels_by_year.tsv")
# A sentence that shares this many consecutive words with a reference of dev counts as that reference.
LEAK = 8
SENTENCE_END = -1


@dataclass
class Reference:
    """One utterance of dev: the words that were said, and the corpus."""

    corpus: str
    words: list[str]


@dataclass
class Texts:
    """All sentences by source, as numbers of words. SENTENCE_END follows each sentence."""

    words: list[str] = field(default_factory=lambda: [UNKNOWN])
    sources: dict[str, Ids] = field(default_factory=dict)
    left_out: int = 0


def read_transcripts(manifest: Path) -> list[Reference]:
    """Read the texts of a manifest of speech."""
    if not manifest.is_file():
        raise CorpusError(f"{manifest} is missing: give the manifest of a speech corpus")
    with manifest.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        if not {"corpus", "text"} <= set(reader.fieldnames or ()):
            raise CorpusError(f"{manifest} is not a manifest of speech: it has no columns 'corpus' and 'text'")
        references = [Reference(row["corpus"], (row["text"] or "").lower().split()) for row in reader]
    if not any(reference.words for reference in references):
        raise CorpusError(f"{manifest} contains no text")
    return references


def read_texts(archives: Iterable[Path], train: Path | None, dev: list[Reference], share_alike: bool = True) -> Texts:
    """Read all texts without the sentences of dev. The source `dictated` is made from the words of the others."""
    texts = Texts()
    numbers = {UNKNOWN: 0}
    leaks = LeakGuard(dev)
    collected: dict[str, array[int]] = {}

    def collect(source: str, sentence: list[str]) -> None:
        if leaks.holds(sentence):
            texts.left_out += 1
            return
        ids = collected.setdefault(source, array("i"))
        ids.extend(numbers.setdefault(word, len(numbers)) for word in sentence)
        ids.append(SENTENCE_END)

    for source, sentence in _labelled(archives, train, share_alike):
        collect(source, sentence)
    for sentence in _dictated(list(numbers), list(collected.values())):
        collect(DICTATED, sentence)
    texts.words = list(numbers)
    texts.sources = {name: np.frombuffer(ids, dtype=np.int32) for name, ids in sorted(collected.items())}
    return texts


def _labelled(archives: Iterable[Path], train: Path | None, share_alike: bool) -> Iterator[tuple[str, list[str]]]:
    for archive in archives:
        for name, content in members(archive):
            if share_alike or not _matches(name, SHARE_ALIKE):
                for paragraph in paragraphs(name, content):
                    for sentence in sentences(paragraph):
                        yield source_of(name), sentence
    if train:
        for transcript in read_transcripts(train):
            yield TRANSCRIPTS, transcript.words


def _dictated(words: list[str], texts: list[array[int]]) -> Iterator[list[str]]:
    """Make sentences that people dictate: DICTATED_SHARE of the texts. The same texts give the same sentences."""
    ids = np.concatenate([np.frombuffer(text, dtype=np.int32) for text in texts]) if texts else np.zeros(0, np.int32)
    times = np.bincount(ids[ids >= 0], minlength=len(words))
    spelled = [word for word, often in zip(words, times, strict=True) if often >= FEWEST_TIMES and word.isalpha()]
    missing = int(DICTATED_SHARE * np.count_nonzero(ids >= 0)) if len(spelled) >= FEWEST_SPELLED else 0
    endless = prompts(spelled, random.Random(1), DICTATION)
    while missing > 0:
        sentence = transcript(next(endless)).split()
        missing -= len(sentence)
        yield sentence


def members(archive: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and the contents of the text files in an archive."""
    if not archive.is_file():
        raise CorpusError(f"{archive} is missing: give a tar archive of text files")
    has_files = False
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile() and member.name not in NOT_TEXT:
                    stream = tar.extractfile(member)
                    assert stream is not None  # a regular file has content
                    yield member.name.removeprefix("./"), stream.read().decode("utf-8", errors="replace")
                    has_files = True
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise CorpusError(f"{archive} is not a complete tar archive") from error
    if not has_files:
        raise CorpusError(f"{archive} contains no text files")


def source_of(name: str) -> str:
    """Return the source that a text file belongs to."""
    return next(source for source, patterns in SOURCES.items() if _matches(name, patterns))


def paragraphs(name: str, content: str) -> Iterator[str]:
    """Yield the paragraphs: of running text without its line breaks, of other files one for each line."""
    if name.startswith("novels/"):
        for block in re.split(r"\n\s*\n", content.replace("\r", "")):
            yield re.sub(r"(?<=[a-z])-\n\s*(?=[a-z])", "", block).replace("\n", " ")
    elif name.endswith(".tsv"):
        yield from (line.rsplit("\t", 1)[-1] for line in content.splitlines())
    else:
        yield from content.splitlines()


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


class LeakGuard:
    """Recognises sentences that are a reference of dev, or share a long stretch with one."""

    def __init__(self, dev: list[Reference]) -> None:
        self._whole = {tuple(reference.words) for reference in dev}
        self._stretches = {stretch for reference in dev for stretch in _stretches(reference.words)}

    def holds(self, sentence: list[str]) -> bool:
        """Return whether the sentence is one of these."""
        return tuple(sentence) in self._whole or any(stretch in self._stretches for stretch in _stretches(sentence))


def _stretches(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(LEAK)), strict=False)
