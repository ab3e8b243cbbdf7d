"""A graph has every way to say a text, and no other."""

from __future__ import annotations

from workshop.acoustic import units
from workshop.phones.alignment import START, PronunciationGraph


def said(graph: PronunciationGraph, node: int) -> list[list[str]]:
    """Return all ways to the node, as names of units."""
    if node == START:
        return [[]]
    own = units.PHONE_UNITS[graph.labels[node]]
    return [[*way, own] for before in graph.before[node] for way in said(graph, before)]


def test_each_pronunciation_is_a_branch() -> None:
    """There is a boundary after every word, also after one without known pronunciations."""
    graph = PronunciationGraph.of([[("AH",), ("EY",)], [()], [("K", "AE")]])
    ways = [" ".join(way) for way in said(graph, len(graph) - 1)]
    assert ways == ["AH | | K AE |", "EY | | K AE |"]
    places = [(place.word, place.variant, place.phone) for place in graph.places if place]
    assert places == [(0, 0, 0), (0, 1, 0), (2, 0, 0), (2, 0, 1)]
