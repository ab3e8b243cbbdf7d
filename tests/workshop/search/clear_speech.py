"""Utterances of a few words whose phones are clear."""

from __future__ import annotations

import torch

from workshop.acoustic import units
from workshop.data.corpus import Utterance
from workshop.search.trials import EmittedUtterance

WAYS = {"cat": "K AE T", "dog": "D AO G", "cats": "K AE T S", "a": "AH"}


def said(text: str, corpus: str = "one") -> EmittedUtterance:
    """Return an utterance with clear phones, two frames each, and a boundary after every word."""
    named = [unit for word in text.split() for unit in [*WAYS[word].split(), units.BOUNDARY]]
    path = [units.PHONE_NUMBER[unit] for unit in named for _ in range(2)]
    emissions = torch.full((len(path), len(units.PHONE_UNITS)), -7.0)
    emissions[torch.arange(len(path)), path] = -0.05
    return EmittedUtterance(emissions, Utterance(text, 0, 0, corpus, "somebody", text))
