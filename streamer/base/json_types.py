"""The types of JSON that this code makes itself, or has checked. Pure.

`dict[str, Any]`, which no type checker looks into, is left where JSON of others enters: before it is checked.
"""

from __future__ import annotations

JsonObject = dict[str, object]
"""An object of JSON."""
