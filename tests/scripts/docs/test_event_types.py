"""The types of events that clients have are those of the description."""

from __future__ import annotations

from typing import get_args, get_type_hints

from streamer.base.events import Restarted, ServerMessage, Starting
from streamer.client import events as client
from tests.scripts.program import run_here


def test_the_files_are_what_the_script_would_write() -> None:
    """The types for Python and for JavaScript are made from the description."""
    done = run_here("docs/event_types.py", "--check")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_client_has_a_type_for_each_message() -> None:
    """A client knows every message by its `type`, but for the one before `ready`, and one that it makes itself."""
    kinds = {kind.type for kind in (*get_args(ServerMessage), Restarted)} - {Starting.type}
    assert {get_args(get_type_hints(kind)["type"])[0] for kind in get_args(client.Event)} == kinds
