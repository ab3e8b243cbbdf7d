"""A reader of many languages: Whisper in the format of CTranslate2, which computes it.

Whisper was taught with sound of 30 s. Here it hears a little more than the segment, but half of that at least: it costs
a third, and reads nearly as well.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.reader.network import Change, TokenRun, repeated
from streamer.engine.reader.pieces import Pieces, PiecesError
from streamer.engine.reader.reading import USUAL, ReadingOptions, TimedWord
from streamer.models.whisper_folder import END, UnknownWhisper, language_code, languages_in, whisper_vocabulary

WHOLE: Final = 3_000  # frames of sound: the most that Whisper hears
_FEWEST: Final = 1_500  # frames that it hears at least
_BEYOND: Final = 100  # frames of silence after a segment
_FRAME_MS: Final = 20  # of the frames in which words are found
_MOST_TOKENS: Final = 448  # with the prompt
_MOST_PROMPT: Final = 223
_LONGEST_LINE: Final = 440  # tokens of a text that is compared, with those before it; there is one more after it
# What is likely no speech is left out if the text is unlikely as well, as Whisper's authors do.
_NO_SPEECH: Final = 0.6
_UNLIKELY: Final = -1.0
_CIRCLES: Final = 2.4  # text that is compressed by more runs in circles
_LEAST: Final = 1e-9  # of a probability
_SPACELESS: Final = ("zh", "ja", "th", "lo", "my", "yue")
_OPENING: Final = "\"'\u201c\u00bf([{-\u00ab\u300c"
# A first word, or one after a sentence, is not longer than this: Whisper's words begin where those before them end.
_LONGEST_WORD_MS: Final = 800
_SENTENCE_ENDS: Final = ".!?\u3002\uff01\uff1f"


class WhisperNetwork:
    """A Whisper model."""

    tokens_a_second = 25.0  # scripts without pieces of their own take a token for each byte

    def __init__(self, model: Any, vocabulary: Sequence[str], pieces: Pieces, *, whole: bool = False) -> None:
        """`whole`: let it hear 30 s for each segment, as it was taught."""
        self._model, self._pieces, self._whole = model, pieces, whole
        self.languages = languages_in(vocabulary)
        self._numbers = {token: number for number, token in enumerate(vocabulary) if token.startswith("<|")}
        [_, _, self.width] = self._hear(np.zeros(RATE, np.float32)).shape

    def read(self, samples: Floats, most_tokens: int, options: ReadingOptions = USUAL) -> WhisperSound:
        """Read the most likely tokens in a segment of sound between -1 and 1. ValueError for a language it lacks."""
        heard = self._hear(samples)
        language = self._language(heard, options.language)
        start = self._start(language, translate=options.translate)
        prompt = [*self._prompt(options.prompt), *start, self._numbers["<|notimestamps|>"]]
        # CTranslate2 allows as many new tokens as half of this, or as are left after the prompt.
        length = min(_MOST_TOKENS, max(2 * most_tokens, len(prompt) + most_tokens))
        [result] = self._model.generate(
            heard,
            [prompt],
            beam_size=1,
            max_length=length,
            return_scores=True,
            return_no_speech_prob=True,
        )
        end = self._numbers[END]
        tokens = tuple(token for token in result.sequences_ids[0] if token < end)
        complete = len(result.sequences_ids[0]) < min(length // 2, length - len(prompt))
        if circles := _circles(tokens):
            tokens, complete = tokens[:circles], False
        text = "".join(self._pieces.texts(tokens)).encode()
        limited = not complete and not circles
        if len(text) > _CIRCLES * len(zlib.compress(text)):
            complete = limited = False
        sound = WhisperSound(self._model, heard, start, end, len(samples), language)
        if result.no_speech_prob > _NO_SPEECH and result.scores[0] < _UNLIKELY:
            return sound.with_run(TokenRun((), (min(0.0, result.scores[0]),), complete=True))
        return sound.with_tokens(tokens, complete=complete, limited=limited, pieces=self._pieces)

    def _hear(self, samples: Floats) -> Any:
        from ctranslate2 import StorageView

        sound = spectrum(samples, self._model.n_mels)[:, :WHOLE]
        frames = WHOLE if self._whole else min(WHOLE, max(_FEWEST, sound.shape[1] + _BEYOND))
        padded = np.pad(sound, ((0, 0), (0, frames - sound.shape[1])))
        return self._model.encode(StorageView.from_array(padded[None]))

    def _language(self, heard: Any, wanted: str) -> str:
        """Return the code of the language that is wanted or, with `auto`, likeliest."""
        if len(self.languages) == 1:
            return self.languages[0]
        if wanted == "auto":
            [[(token, _), *_]] = self._model.detect_language(heard)
            return str(token[2:-2])
        code = language_code(wanted, self.languages)
        if code is None:
            raise ValueError(f"this reader has no language {wanted!r}; it has {', '.join(self.languages)}")
        return code

    def _start(self, language: str, *, translate: bool) -> list[int]:
        start = [self._numbers["<|startoftranscript|>"]]
        if len(self.languages) > 1:
            task = "<|translate|>" if translate else "<|transcribe|>"
            start += [self._numbers[f"<|{language}|>"], self._numbers[task]]
        return start

    def _prompt(self, text: str) -> list[int]:
        """Return what comes before the start: the end of the prompt, as if it had been said."""
        try:
            tokens = self._pieces.tokens(text)
        except PiecesError:
            return []
        return [self._numbers["<|startofprev|>"], *tokens[-_MOST_PROMPT:]] if tokens else []


class WhisperSound:
    """A segment that was heard, with all that is needed to say how likely a text is, and when its words were said."""

    run = TokenRun((), (), complete=True)
    words: tuple[TimedWord, ...] = ()

    def __init__(self, model: Any, heard: Any, start: Sequence[int], end: int, samples: int, language: str) -> None:
        self._model, self._heard, self._start, self._end = model, heard, list(start), end
        self._frames, self.language = max(1, samples // HOP), language

    def with_run(self, run: TokenRun) -> WhisperSound:
        """Return this segment with this reading."""
        self.run = run
        return self

    def with_tokens(self, tokens: Sequence[int], *, complete: bool, limited: bool, pieces: Pieces) -> WhisperSound:
        """Return this segment with these tokens, their probabilities and the times of their words."""
        if not tokens:
            return self.with_run(TokenRun((), (), complete=complete))
        found = self._aligned(tokens)
        chances = tuple(_logarithms(found.text_token_probs))
        texts = pieces.texts(tokens)
        begins = [frame * _FRAME_MS for frame in _first_frames(found.alignments, len(tokens))]
        self.words = tuple(_words(texts, chances, begins, spaceless=self.language in _SPACELESS))
        return self.with_run(TokenRun(tuple(tokens), chances, complete, limited))

    def compare(self, changes: Sequence[Change]) -> list[Floats]:
        """Return the log-probability of each token of these changes, after the tokens before them.

        That of the end of a text is not known, and counts as certain.
        """
        return [np.array(self._compared(change), np.float32) for change in changes]

    def _compared(self, change: Change) -> list[float]:
        line = [*self.run.tokens[: change.place], *self._text(change)]
        if len(self._start) + len(line) > _LONGEST_LINE:  # nobody says so much in 30 s
            return [math.log(_LEAST)] * len(change.tokens)
        own = _logarithms(self._aligned(line).text_token_probs)[change.place :] if line else []
        return own + [0.0] * (len(change.tokens) - len(own))

    def _text(self, change: Change) -> list[int]:
        return [token for token in change.tokens if token < self._end]

    def _aligned(self, line: Sequence[int]) -> Any:
        # One line at a time: what is known of the sound would have to be copied for each.
        return self._model.align(self._heard, self._start, [list(line)], self._frames)[0]


def load_whisper(folder: Path, *, threads: int = 1, whole: bool = False) -> tuple[WhisperNetwork, Pieces]:
    """Return the model in this folder, and its pieces. Raise UnknownWhisper if it cannot be used."""
    vocabulary = whisper_vocabulary(folder)
    try:
        import ctranslate2
    except ImportError as error:
        raise UnknownWhisper("Whisper needs the package ctranslate2: pip install 'streamer-asr[whisper]'") from error
    try:
        model = ctranslate2.models.Whisper(str(folder), device="cpu", compute_type="int8", intra_threads=threads)
    except (RuntimeError, ValueError) as error:
        raise UnknownWhisper(f"{folder} is no model that CTranslate2 can use: {error}") from error
    pieces = Pieces(list(_bytes_of(vocabulary)))
    return WhisperNetwork(model, vocabulary, pieces, whole=whole), pieces


def _bytes_of(vocabulary: Sequence[str]) -> list[bytes]:
    """Return the bytes of each token. A vocabulary has a printable character for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    bytes_of = {chr(byte): byte for byte in printable}
    bytes_of |= {chr(0x100 + place): byte for place, byte in enumerate(others)}
    end = vocabulary.index(END)
    return [
        bytes(bytes_of[character] for character in token if character in bytes_of) if number < end else b""
        for number, token in enumerate(vocabulary)
    ]


def _logarithms(probabilities: Sequence[float]) -> list[float]:
    return [float(min(0.0, np.log(max(_LEAST, probability)))) for probability in probabilities]


def _circles(tokens: Sequence[int]) -> int:
    """Return after how many tokens a text only repeats itself; 0 if it does not."""
    for length in range(1, len(tokens) + 1):
        if copies := repeated(tokens[:length]):
            return length - copies
    return 0


def _first_frames(alignments: Sequence[tuple[int, int]], tokens: int) -> list[int]:
    """Return the first frame of each token, and the one after the last of them."""
    frames: dict[int, int] = {}
    for token, frame in alignments:
        frames.setdefault(token, frame)
    found = [frames.get(token, 0) for token in range(tokens + 1)]
    return list(accumulate(found, max))


def _words(
    texts: Sequence[str], chances: Sequence[float], begins: Sequence[int], *, spaceless: bool
) -> list[TimedWord]:
    """Return the written words of these tokens. A mark belongs to the word before it, unless it opens something."""
    words: list[TimedWord] = []
    text, first = "", 0
    for place, piece in enumerate([*texts, " "]):
        bare = text.strip()
        marks = not any(character.isalnum() for character in piece)
        if bare and (piece.startswith(" ") or (spaceless and piece and not marks)) and bare not in _OPENING:
            own = [chances[at] for at in range(first, place)]
            start, end = begins[first], begins[place]
            after_pause = not words or words[-1].text[-1] in _SENTENCE_ENDS
            start = max(start, end - _LONGEST_WORD_MS) if after_pause else start
            words.append(TimedWord(bare, start, end, float(np.exp(np.mean(own)))))
            text, first = "", place
        text += piece
    return words


# The spectrum that Whisper hears: the logarithm of mel bands, 100 times a second.

RATE: Final = 16_000
HOP: Final = 160  # samples between frames
_WINDOW: Final = 400
_RANGE: Final = 8.0  # powers of ten below the loudest band that are told apart
_FAINTEST: Final = 1e-10
# Slaney's scale of mel: linear up to 1000 Hz, logarithmic above.
_LINEAR_HZ: Final = 200 / 3
_BREAK_HZ: Final = 1000.0
_BREAK: Final = _BREAK_HZ / _LINEAR_HZ
_STEP: Final = np.log(6.4) / 27

Floats = NDArray[np.float32]


def spectrum(samples: Floats, bands: int) -> Floats:
    """Return the spectrum [bands, frames] of sound between -1 and 1 at 16 kHz, in the bits of faster-whisper.

    With weights in int8, the last bit of a number may decide a word.
    """
    padded = np.pad(np.pad(samples, (0, HOP)), _WINDOW // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::HOP][: len(samples) // HOP + 1]
    window = np.hanning(_WINDOW + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(windows * window).T.astype(np.complex64)) ** 2
    logarithms = np.log10(np.maximum(_mel(bands) @ power, np.float32(_FAINTEST)))
    logarithms = np.maximum(logarithms, logarithms.max() - np.float32(_RANGE))
    return np.ascontiguousarray((logarithms + np.float32(4)) / np.float32(4))[:, : max(1, len(samples) // HOP)]


@cache
def _mel(bands: int) -> Floats:
    """Return the weights [bands, frequencies] of triangles of equal area."""
    frequencies = np.fft.rfftfreq(_WINDOW, 1 / RATE)
    corners = _hertz(np.linspace(0, _mels(RATE / 2), bands + 2))
    rising = (frequencies - corners[:-2, None]) / np.diff(corners)[:-1, None]
    falling = (corners[2:, None] - frequencies) / np.diff(corners)[1:, None]
    weights = np.maximum(0, np.minimum(rising, falling)) * (2 / (corners[2:] - corners[:-2]))[:, None]
    return weights.astype(np.float32)


def _mels(hertz: float) -> float:
    return float(_BREAK + np.log(hertz / _BREAK_HZ) / _STEP)


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mels < _BREAK, mels * _LINEAR_HZ, _BREAK_HZ * np.exp(_STEP * (mels - _BREAK)))
