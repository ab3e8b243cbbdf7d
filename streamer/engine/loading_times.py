"""What takes how long while a model is loaded in its process, from the start of the process until it is ready."""

from __future__ import annotations

from typing import Final

from streamer.base.timing import Timing

LOADING: Final = Timing()
"""The moments of the load. Its parts are marked by the modules that load them."""


def loading_line(instance: str) -> str:
    """Return a line for the log: how long each part of the load of this instance took."""
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in LOADING.parts())
    return f"{instance} took {LOADING.moments[-1][1]:.2f} s to load: {parts}"
