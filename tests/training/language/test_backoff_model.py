"""The model in the format of other tools."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.training.language.made_up_text import TRIPLES, WORDS, mixed


def test_the_arpa_lines_say_the_same() -> None:
    """The ARPA lines, read by the rules of the format, give the same probabilities."""
    model, _, _ = mixed()
    read: dict[tuple[str, ...], tuple[float, float]] = {}
    lines = list(model.arpa())
    for line in lines:
        parts = line.split("\t")
        if len(parts) > 1:
            read[tuple(parts[1].split())] = float(parts[0]), float(parts[2]) if len(parts) > 2 else 0.0
    orders = Counter(len(ngram) for ngram in read)
    assert lines[:4] == ["\\data\\", *(f"ngram {order}={orders[order]}" for order in (1, 2, 3))]
    assert lines[-1] == "\\end\\"

    def look_up(ngram: tuple[str, ...]) -> float:
        if ngram in read:
            return read[ngram][0]
        return read.get(ngram[:-1], (0.0, 0.0))[1] + look_up(ngram[1:])

    found = model.probabilities(TRIPLES)
    for row, value in zip(TRIPLES.tolist(), found, strict=True):
        if row[2] != 1:
            assert look_up(tuple(WORDS[number] for number in row)) == pytest.approx(math.log10(value), abs=5e-4)
