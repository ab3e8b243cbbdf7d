"""The tokens of a public model: their numbers in `tokens.txt`, and how text is divided into them."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count as count_up
from pathlib import Path
from typing import Final

from streamer.models.onnx_file import whole_number
from streamer.models.protobuf import Content, Damaged, fields, number_of, part_of, text_of, values_of

TOKENS_FILE = "tokens.txt"
BLANKS = ("<blk>", "<eps>", "<blank>")
LARGEST_TABLE: Final = 16 << 20  # bytes. The largest tables that were published have a quarter of a million tokens
LONGEST_TOKEN: Final = 256  # characters
_LARGEST_NUMBER: Final = 1 << 62
_TABLE_LIMIT: Final = f"is larger than {LARGEST_TABLE >> 20} MiB, which no table of tokens is"


class TokenTableError(ValueError):
    """The table cannot be used. The message says why."""


def read_tokens(path: Path, count: int) -> tuple[str, ...]:
    """Return the first `count` tokens by number. A line has a token and its number; a number alone means the space.

    The file bounds the memory that this takes, and not `count`: a hostile graph may have any number of tokens.
    """
    try:
        if path.exists() and not path.is_file():
            raise TokenTableError(f"{path} is no file")  # nothing may ever come out of a pipe
        if path.stat().st_size > LARGEST_TABLE:
            raise TokenTableError(f"{path} {_TABLE_LIMIT}")
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise TokenTableError(f"{path} is missing: the folder is not complete") from None
    except OSError as error:
        raise TokenTableError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TokenTableError(f"{path} is not UTF-8 text: copy it again") from error
    tokens: dict[int, str] = {}
    for place, line in enumerate(lines, 1):
        fields = line.split(maxsplit=2)
        if not fields:
            continue
        number = whole_number(fields[-1], _LARGEST_NUMBER) if len(fields) <= 2 else None
        if number is None:
            raise TokenTableError(f"{path}, line {place}: expected a token and its number, not {line[:80]!r}")
        if len(fields[0]) > LONGEST_TOKEN:
            raise TokenTableError(f"{path}, line {place}: the token has more than {LONGEST_TOKEN} characters")
        if number < count:  # others are left out
            tokens[number] = fields[0] if len(fields) == 2 else " "
    if len(tokens) < count:
        first = next(number for number in count_up() if number not in tokens)
        lack = f"lacks {count - len(tokens)} of the {count} tokens of the model, the first is number {first}"
        raise TokenTableError(f"{path} {lack}: it is cut off, or belongs to another model")
    return tuple(tokens[token] for token in range(count))


def blank_of(tokens: tuple[str, ...]) -> int | None:
    """Return the number of the blank, which stands for no token; None if there is no blank."""
    return next((tokens.index(name) for name in BLANKS if name in tokens), None)


# Reads the table by which a model's training divided text into tokens (`bpe.model` or `bpe.vocab`).

PIECE_FILES: Final = ("bpe.model", "bbpe.model", "bpe.vocab", "bbpe.vocab")
_LFS: Final = b"version https://git-lfs"
_BYTE_PAIRS: Final = 2  # the number of this kind of model in SentencePiece
_TEXT_KINDS: Final = (1, 4)  # the kinds of normal pieces, and of pieces that a user has added


class PieceModelError(ValueError):
    """The file cannot be used. The message is a sentence for the user, without its full stop."""


@dataclass(frozen=True)
class PieceModel:
    """The pieces and their scores.

    The division of a text is the one with the greatest sum of scores. With `pairs`, it comes from joining, again and
    again, the two neighbours that make the piece with the greatest score.
    """

    scores: Mapping[str, float]
    pairs: bool = False


def read_pieces(folder: Path) -> PieceModel | None:
    """Return the pieces of this folder's model; None if it has no such file. Raise PieceModelError if it is damaged."""
    path = next((folder / name for name in PIECE_FILES if (folder / name).is_file()), None)
    if path is None:
        return None
    try:
        if path.stat().st_size > LARGEST_TABLE:
            raise PieceModelError(f"{path} {_TABLE_LIMIT}")
        content = path.read_bytes()
        if content.startswith(_LFS):
            raise PieceModelError(f"{path} is only a pointer to a file of Git LFS: run `git lfs pull` beside it")
        return _from_table(content.decode()) if path.suffix == ".vocab" else _from_message(content)
    except OSError as error:
        raise PieceModelError(f"{path} cannot be read: {error.strerror}") from error
    except (Damaged, UnicodeDecodeError, struct.error) as error:
        raise PieceModelError(f"{path} is cut off or does not have the pieces of a model: copy it again") from error


def _from_table(text: str) -> PieceModel:
    scores: dict[str, float] = {}
    for line in text.splitlines():
        try:
            piece, score = line.split(maxsplit=2)
            scores[piece] = float(score)
        except ValueError:
            raise Damaged from None
    return _piece_model(scores, pairs=False)


def _from_message(content: Content) -> PieceModel:
    scores: dict[str, float] = {}
    pairs = False
    for field, value in fields(content, 0, len(content)):
        if field == 1:
            piece = values_of(content, part_of(value), 1, 2, 3)
            if number_of(piece.get(3, 1)) in _TEXT_KINDS:
                begin, end = part_of(piece.get(2, (0, 0)))
                (score,) = struct.unpack("<f", content[begin:end]) if end else (0.0,)
                scores[text_of(content, piece.get(1))] = score
        elif field == 2:
            trainer = values_of(content, part_of(value), 3)
            pairs = number_of(trainer.get(3, 1)) == _BYTE_PAIRS
    return _piece_model(scores, pairs=pairs)


def _piece_model(scores: Mapping[str, float], *, pairs: bool) -> PieceModel:
    if not scores or not all(map(math.isfinite, scores.values())):
        raise Damaged
    return PieceModel(scores, pairs)
