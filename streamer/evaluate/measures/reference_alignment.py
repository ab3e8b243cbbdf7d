"""Reads the times of the words of the references, from an external aligner.

Two formats are read: JSON lines with `name` and `words` as [word, start ms, length ms], and NIST's CTM with a line
`name channel start length word` for each word, in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streamer.evaluate.manifest import ManifestError, Utterance
from streamer.evaluate.normalise import normalise

CTM_COLUMNS = (5, 6)  # the last one is a confidence


class AlignedWord(NamedTuple):
    """A normalised word of a reference and its times. `alone`: it is a single word for the aligner too."""

    word: str
    start_ms: int
    end_ms: int
    alone: bool = True


def read_alignment(path: Path, utterances: Sequence[Utterance]) -> dict[str, list[AlignedWord]]:
    """Return the aligned words by utterance, for the utterances whose aligned words are those of the reference."""
    try:
        with path.open(encoding="utf-8") as stream:
            lines = [(number, line) for number, line in enumerate(stream, start=1) if line.strip()]
    except OSError as error:
        raise ManifestError(f"the alignment {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"the alignment {path} is not text in UTF-8: {error}.") from error
    read = _json_line if lines and lines[0][1].lstrip().startswith("{") else _ctm_line
    alignments: dict[str, list[AlignedWord]] = {}
    for number, line in lines:
        try:
            name, words = read(line)
        except (ValueError, KeyError, TypeError):
            raise ManifestError(
                f"{path}, line {number}, is neither JSON with 'name' and 'words' nor a line of CTM."
            ) from None
        alignments.setdefault(name, []).extend(words)
    if not any(utterance.name in alignments for utterance in utterances):
        example = f"'{next(iter(alignments))}'" if alignments else "nothing at all"
        raise ManifestError(
            f"{path} holds no utterance of the manifest: it has {example}, the manifest '{utterances[0].name}'."
        )
    return {
        utterance.name: alignments[utterance.name]
        for utterance in utterances
        if tuple(word.word for word in alignments.get(utterance.name, ())) == utterance.words
    }


def _json_line(line: str) -> tuple[str, list[AlignedWord]]:
    content: dict[str, Any] = json.loads(line)
    if not content.get("aligned", True):
        return str(content["name"]), []
    aligned = [_aligned_words(word, start, start + length) for word, start, length in content["words"]]
    return str(content["name"]), [word for words in aligned for word in words]


def _ctm_line(line: str) -> tuple[str, list[AlignedWord]]:
    columns = line.split()
    if len(columns) not in CTM_COLUMNS:
        raise ValueError(line)
    name, _, start, length, word = columns[:5]
    return name, list(_aligned_words(word, round(1000 * float(start)), round(1000 * (float(start) + float(length)))))


def _aligned_words(word: str, start_ms: int, end_ms: int) -> Iterator[AlignedWord]:
    """Return our words for one word of the aligner. All of them get its times."""
    parts = normalise(word)
    return (AlignedWord(part, int(start_ms), int(end_ms), len(parts) == 1) for part in parts)
