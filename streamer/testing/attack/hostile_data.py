"""Makes hostile data: damaged bytes, and JSON with values that are too large, too deep or of the wrong type."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence
from typing import Any, Final

# The depth at which the parser itself gives up is in this range, for each version of Python and each depth of calls.
DEPTHS: Final = (9, 100, 900, 960, 972, 973, 974, 985, 989, 990, 991, 992, 1000, 20_000)
LONG: Final = "a" * 60_000
ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    2**63,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "\ud800",
    "\0",
    LONG,
    [],
    [[]],
    {},
    {"": ""},
    ["\u202e"],
)
_NOT_JSON: Final = (
    "",
    "null",
    "1" * 5000,
    "-" * 60_000,
    "NaN",
    "\ufeff{}",
    " " * 60_000,
    '"' + "\\u0000" * 1000 + '"',
    '{"type":' * 1000,
    '{"type":"a","type":"b"}',
    '{"type":"\\ud800\\udfff\\ud800"}',
    "{" + ",".join(f'"{number}":0' for number in range(8000)) + "}",
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return the data with some bytes changed, left out, doubled or inserted."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(len(changed) + 1)
        length = rng.choice((0, 1, 1, 4, 30))
        put = rng.choice((b"", rng.randbytes(rng.randrange(4)), bytes(changed[place : place + length]) * 2, b"\r\n"))
        changed[place : place + length] = put
    return bytes(changed)


def nested_json(rng: random.Random) -> tuple[int, str]:
    """Return lists or objects within each other, about as deep as the parser can read: the depth, and the text."""
    depth, (opening, closing) = rng.choice(DEPTHS) + rng.randrange(3), rng.choice((("[", "]"), ('{"a":', "}")))
    return depth, opening * depth + "1" + closing * depth


def wild_json(rng: random.Random, types: Sequence[str], fields: Sequence[str]) -> str:
    """Return the text of a message that nearly has one of these types and these fields, or any other text."""
    how = rng.random()
    if how < 0.15:
        return rng.choice(_NOT_JSON)
    if how < 0.25:
        return "".join(rng.choice(string.printable) for _ in range(rng.randrange(300)))
    if how < 0.4:
        value = nested_json(rng)[1]
        return rng.choice(
            (value, f'{{"type":{value}}}', f'{{"type":"{rng.choice(types)}","{rng.choice(fields)}":{value}}}')
        )
    message: dict[str, Any] = {"type": rng.choice(types) if rng.random() < 0.8 else wild_value(rng)}
    message.update({rng.choice(fields): wild_value(rng, fields) for _ in range(rng.randrange(3))})
    text = json.dumps(message)
    return text[: rng.randrange(len(text))] if how > 0.95 else text


def wild_value(rng: random.Random, fields: Sequence[str] = (), depth: int = 3) -> Any:
    """Return an odd value, or an object or a list of such values, with these names in it."""
    if fields and depth and rng.random() < 0.4:
        return {rng.choice(fields): wild_value(rng, fields, depth - 1) for _ in range(rng.randrange(1, 4))}
    if depth and rng.random() < 0.1:
        return [wild_value(rng, fields, depth - 1) for _ in range(rng.randrange(4))]
    value = rng.choice(ODD)
    return value if value != LONG or rng.random() < 0.1 else "a"
