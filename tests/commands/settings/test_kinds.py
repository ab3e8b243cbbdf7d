"""Values that are read from text and from TOML, and written as TOML again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamer.base.limits import InstanceBounds
from streamer.commands.settings.kinds import (
    Choice,
    FilePath,
    Instances,
    Kind,
    ListOf,
    Number,
    Switch,
    Text,
    Whole,
    WrongValueError,
)

HERE = Path("/etc/streamer")
AUTO = Whole(1, word="auto")
UPPER = ListOf(Text("in capitals", accept=lambda text: text if text.isupper() else None))


@pytest.mark.parametrize(
    ("kind", "text", "toml", "value"),
    [
        (Whole(0, 65535), "8080", 8080, 8080),
        (AUTO, "auto", "auto", "auto"),
        (AUTO, "7", 7, 7),
        (Number(0, 10), "2.5", 2.5, 2.5),
        (Number(0, 10), "2", 2, 2.0),
        (Number(0, 1e9), "1e9", 10**9, 1e9),
        (Choice("text", "json"), "json", "json", "json"),
        (Switch(), "Yes", True, True),
        (Switch(), "0", False, False),
        (UPPER, "A, B", ["A", "B"], ("A", "B")),
        (FilePath(), "/srv/a", "/srv/a", Path("/srv/a")),
        (Instances(), "3", 3, 3),
        (Instances(), "1-4", "1-4", InstanceBounds(1, 4)),
        (Instances(), "2-2", "2-2", 2),
    ],
)
def test_what_is_right(kind: Kind, text: str, toml: Any, value: Any) -> None:
    """Text and TOML give the same value of the same type."""
    for read in (kind.of_text(text), kind.of_toml(toml, HERE)):
        assert read == value
        assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (Whole(0, 65535), "65536", "must be a whole number from 0 to 65535, not 65536"),
        (Whole(0, 65535), "x", "must be a whole number from 0 to 65535, not 'x'"),
        (Whole(0, 65535), "1.5", "must be a whole number from 0 to 65535, not 1.5"),
        (Whole(1), "0", "must be 1 or more, not 0"),
        (Whole(1), "", "must be 1 or more, not ''"),
        (AUTO, "all", "must be 1 or more, or 'auto', not 'all'"),
        (Number(1, 60, unit="seconds"), "nan", "must be a number of seconds from 1 to 60, not 'nan'"),
        (Number(1, 60), "inf", "must be a number from 1 to 60, not 'inf'"),
        (Choice("low", "medium", "high"), "loud", "must be low, medium or high, not 'loud'"),
        (Switch(), "maybe", "must be true or false, not 'maybe'"),
        (UPPER, "A,b", "must be in capitals, not 'b'"),
        (FilePath(), "", "must be a path, not ''"),
        (Instances(), "0", "must be a number from 1 to 1024, or a range such as 1-4, not 0"),
        (Instances(), "4-1", "must be a number from 1 to 1024, or a range such as 1-4, not '4-1'"),
        (Instances(), "0-4", "must be a number from 1 to 1024, or a range such as 1-4, not '0-4'"),
        (Instances(), "1-", "must be a number from 1 to 1024, or a range such as 1-4, not '1-'"),
        (Instances(), "1-5000", "must be a number from 1 to 1024, or a range such as 1-4, not '1-5000'"),
        (Whole(1), "http://me:secret@host", "must be 1 or more, not 'http://…@host'"),
        (Whole(1), "streamer_" + 30 * "k", "must be 1 or more, not 'streamer_…'"),
        (Whole(1), 200 * "x", f"must be 1 or more, not '{79 * 'x'}…'"),
    ],
)
def test_text_that_is_wrong(kind: Kind, text: str, sentence: str) -> None:
    """A message says what is right and what was found, shortened and without secrets."""
    with pytest.raises(WrongValueError) as caught:
        kind.of_text(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("kind", "toml", "sentence"),
    [
        (Whole(0, 65535), "8080", 'must be a whole number from 0 to 65535, not "8080"'),
        (Whole(0, 65535), True, "must be a whole number from 0 to 65535, not true"),
        (Whole(0, 65535), 80.0, "must be a whole number from 0 to 65535, not 80.0"),
        (Number(1, 60), float("nan"), "must be a number from 1 to 60, not nan"),
        (Choice("text", "json"), 1, "must be text or json, not 1"),
        (Switch(), 1, "must be true or false, not 1"),
        (Switch(), "true", 'must be true or false, not "true"'),
        (UPPER, "A", 'must be a list, each in capitals, not "A"'),
        (UPPER, ["A", 1], "must be in capitals, not 1"),
        (Text("a URL"), {"a": 1}, "must be a URL, not a table"),
        (FilePath(), ["a"], "must be a path, not a list"),
        (Instances(), 1.5, "must be a number from 1 to 1024, or a range such as 1-4, not 1.5"),
        (Instances(), True, "must be a number from 1 to 1024, or a range such as 1-4, not true"),
    ],
)
def test_toml_that_is_wrong(kind: Kind, toml: Any, sentence: str) -> None:
    """The type must be right, and the message shows the value as in the file."""
    with pytest.raises(WrongValueError) as caught:
        kind.of_toml(toml, HERE)
    assert str(caught.value) == sentence


def test_a_path_in_a_file_starts_at_the_file() -> None:
    """A path is the same wherever the service is started, and is written in full."""
    assert FilePath().of_toml("keys", HERE) == HERE / "keys"
    assert FilePath().of_text("keys") == Path("keys")
    assert FilePath().to_toml(Path("keys")) == f'"{Path("keys").absolute()}"'
