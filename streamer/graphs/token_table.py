"""Reads `tokens.txt`: the token for each number that a public model emits."""

from __future__ import annotations

from pathlib import Path

TOKENS_FILE = "tokens.txt"
BLANKS = ("<blk>", "<eps>", "<blank>")


class TokenTableError(ValueError):
    """The table cannot be used. The message says why."""


def read_tokens(path: Path, count: int) -> tuple[str, ...]:
    """Return the first `count` tokens by number. A line has a token and its number; a number alone means the space."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise TokenTableError(f"{path} is missing: the folder is not complete") from None
    except OSError as error:
        raise TokenTableError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TokenTableError(f"{path} is not UTF-8 text: copy it again") from error
    tokens: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) > 2 or not fields[-1].isdecimal():
            raise TokenTableError(f"{path}, line {number}: expected a token and its number, not {line[:80]!r}")
        tokens[int(fields[-1])] = fields[0] if len(fields) == 2 else " "
    missing = [token for token in range(count) if token not in tokens]
    if missing:
        lack = f"lacks {len(missing)} of the {count} tokens of the model, the first is number {missing[0]}"
        raise TokenTableError(f"{path} {lack}: it is cut off, or belongs to another model")
    return tuple(tokens[token] for token in range(count))


def blank_of(tokens: tuple[str, ...]) -> int | None:
    """Return the number of the blank, which stands for no token; None if there is no blank."""
    return next((tokens.index(name) for name in BLANKS if name in tokens), None)
