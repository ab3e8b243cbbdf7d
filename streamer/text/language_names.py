"""Names of languages, such as `de` and `de-DE`: which of a model's names a client means."""

from __future__ import annotations

from collections.abc import Iterable


def same_language(wanted: str, names: Iterable[str]) -> str | None:
    """Return the one of these names that is meant; None if there is none.

    `en_us` is as good as `en-US`. A language without its region means the first region that there is.
    """
    plain = _plain(wanted)
    known = {_plain(name): name for name in sorted(names, reverse=True)}
    regions = (name for found, name in sorted(known.items()) if found.startswith(f"{plain}-"))
    return known.get(plain, next(regions, None))


def _plain(language: str) -> str:
    return language.strip().replace("_", "-").lower()
