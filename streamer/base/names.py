"""Finds the name of a language, such as `de` or `de-DE`, among the names of a model."""

from __future__ import annotations

from collections.abc import Iterable


def same_language(name: str, names: Iterable[str]) -> str | None:
    """Return the one of these names that means the same language; None if there is none.

    `en_us` means the same as `en-US`. A language without a region means its first region among the names.
    """
    plain = _plain(name)
    by_plain_name = {_plain(each): each for each in sorted(names, reverse=True)}
    regions = (each for key, each in sorted(by_plain_name.items()) if key.startswith(f"{plain}-"))
    return by_plain_name.get(plain, next(regions, None))


def _plain(language: str) -> str:
    return language.strip().replace("_", "-").lower()
