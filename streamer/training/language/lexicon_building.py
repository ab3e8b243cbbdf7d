"""Builds the letter-to-sound model, trained on CMUdict, and the lexicon of the language model's words.

A word has all of its pronunciations in CMUdict. Pronunciations of other words are made from known words, or guessed
from the letters.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.training.acoustic.units import PHONE_NUMBER, errors
from streamer.training.data.corpus import CorpusError
from streamer.training.data.replaced_file import replacing
from streamer.training.language.graphones import estimate
from streamer.training.language.pronunciation import Dictionary, Pronunciations

ORDER = 6
LEAST_GAIN = 1.3
HELD_OUT = 0.05
GUESSES = 2
FIRST_WORD = 3
"""Before it come the language model's marks."""


def build(bundle: Path, dictionary: Dictionary, tell: Callable[[str], None], *, letters_only: bool = False) -> None:
    """Train, evaluate and write both files, or only the letter-to-sound model. Reports the results."""
    if not bundle.is_dir():
        raise CorpusError(f"there is no folder {bundle}: give the folder of the model")
    language = bundle / "language.safetensors"
    if not (letters_only or language.is_file()):
        raise CorpusError(
            f"{language} is missing: run scripts/train/build_language_model.py first, or add --letters-only"
        )
    kept, held_out = divided(dictionary)
    tell(judgement(trained(kept), held_out))
    letters = trained(dictionary)
    with replacing(bundle / "letters.safetensors", "wb") as stream:
        stream.write(letters.to_bytes())
    tell(_written(bundle / "letters.safetensors"))
    if not letters_only:
        tell(write_lexicon(bundle, Pronunciations(dictionary, letters)))


def write_lexicon(bundle: Path, pronunciations: Pronunciations) -> str:
    """Write the trie of the language model's words. Returns a line about its content."""
    language = LanguageModel.load(bundle / "language.safetensors")
    entries = list(pronounced(language.words, pronunciations))
    lexicon = Lexicon.build(entries, language.unigrams, language.vocabulary)
    lexicon.save(bundle / "lexicon.safetensors")
    words = {word for word, _ in entries}
    number = sum(pronunciations.knows(language.words[word]) for word in words)
    return (
        f"{_written(bundle / 'lexicon.safetensors')}, {len(lexicon)} nodes, {len(words)} words, "
        f"{number} of them in CMUdict, {len(entries)} pronunciations, up to {lexicon.homophones} words alike"
    )


def pronounced(words: list[str], pronunciations: Pronunciations) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield every pronunciation of every word: the number of the word, and the units."""
    for number, word in enumerate(words[FIRST_WORD:], start=FIRST_WORD):
        for phones in pronunciations.variants(word, GUESSES):
            yield number, tuple(PHONE_NUMBER[phone] for phone in phones)


def trained(dictionary: Dictionary) -> LetterToSound:
    """Return the model of all words of a dictionary."""
    return estimate(((word, phones) for word, variants in dictionary.items() for phones in variants), ORDER, LEAST_GAIN)


def divided(dictionary: Dictionary) -> tuple[Dictionary, Dictionary]:
    """Return most of the words, and a few others for evaluation."""
    words = sorted(dictionary)
    random.Random(1).shuffle(words)
    few = int(HELD_OUT * len(words))
    held_out = {word: dictionary[word] for word in words[:few]}
    return {word: dictionary[word] for word in words[few:]}, held_out


def judgement(letters: LetterToSound, held_out: Dictionary) -> str:
    """Return how often a guess is none of the dictionary's pronunciations, and how far it is from the nearest one."""
    wrong = wrong_twice = edits = phones = 0
    began = time.process_time()
    for word, variants in held_out.items():
        guesses = [tuple(guess) for guess in letters.pronounce(word, GUESSES)] or [()]
        wrong += guesses[0] not in variants
        wrong_twice += not set(guesses) & set(variants)
        nearest, length = min((errors(variant, guesses[0]), len(variant)) for variant in variants)
        edits, phones = edits + nearest, phones + length
    milliseconds = 1000 * (time.process_time() - began) / len(held_out)
    return (
        f"{len(held_out)} words that were not trained: {100 * wrong / len(held_out):.1f} % guessed wrong "
        f"({100 * wrong_twice / len(held_out):.1f} % with {GUESSES} guesses), {100 * edits / phones:.1f} % of phones "
        f"wrong, {milliseconds:.1f} ms per word"
    )


def _written(path: Path) -> str:
    return f"{path}: {path.stat().st_size / 1e6:.2f} MB"
