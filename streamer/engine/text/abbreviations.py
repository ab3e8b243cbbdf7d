"""Abbreviations: U.S., Mr., and letters that are said one by one. A stage of the written form. Pure."""

from __future__ import annotations

from streamer.engine.text.spoken_numbers import TrackedWords

# These are written like this before a name. Whether a name follows is known from its capital.
TITLES = {"mister": "Mr.", "missus": "Mrs.", "doctor": "Dr.", "saint": "St."}

_ALWAYS = {"mr": "Mr.", "mrs": "Mrs.", "ms": "Ms."}
_LETTERS = {"us": "U.S.", "uk": "U.K.", "un": "U.N.", "dc": "D.C.", "eu": "EU", "tv": "TV", "phd": "PhD"}
_PRONOUNS = ("a", "i")  # these letters are also words
_LONGEST = 6  # letters


def abbreviation_at(words: TrackedWords, at: int) -> tuple[str, int] | None:
    """The abbreviation that begins here, and the position after its last word."""
    word = words.at(at)
    if word in _ALWAYS:
        return _ALWAYS[word], at + 1
    letters = ""
    while len(letters) < _LONGEST and len(letter := words.at(at + len(letters))) == 1 and letter.isalpha():
        letters += letter
    if letters in _LETTERS:
        return _LETTERS[letters], at + len(letters)
    if len(letters) > 3 and letters[-1] == letters[-2] and letters[-1] in _PRONOUNS:
        letters = letters[:-1]  # "the f b i | i think": the second one is a word
    # Three letters or more in a row are spelled, like FBI. "I" and "a" before them are words, unless two others follow.
    consonants = sum(letter not in _PRONOUNS for letter in letters)
    article = letters[:1] == "a" and letters[1:] in _LETTERS
    if len(letters) >= 3 and not article and (letters[0] not in _PRONOUNS or consonants >= 2):
        return letters.upper(), at + len(letters)
    return None
