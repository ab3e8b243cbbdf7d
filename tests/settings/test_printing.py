"""A configuration as a file that can be used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.settings.configuration import configure
from streamer.settings.printing import as_toml
from streamer.settings.serve import SETTINGS, ServeSettings

NAMES = st.text("ab\"'\\ \n\t\x7f é=#[]", min_size=1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "host": NAMES,
    "port": st.integers(0, 65535).map(str),
    "sessions": st.just("auto") | st.integers(1, 999).map(str),
    "keys": NAMES.map(lambda name: f"/{name}"),
    "open": st.booleans(),
    "origin": st.lists(st.sampled_from(["https://a.org", "null", "*"]), min_size=1),
    "idle_limit": st.floats(1, 3600).map(repr),
    "log_level": st.sampled_from(["debug", "error"]),
    "traces": st.sampled_from(["http://c:4317", "c:4317"]),
}


def given_back(text: str, folder: Path) -> ServeSettings:
    """Return the settings that a printed file gives."""
    file = folder / "printed.toml"
    file.write_text(text, encoding="utf-8", newline="")
    return configure({}, {}, file).settings


def test_every_setting_is_there(tmp_path: Path) -> None:
    """Every setting is printed with its help and source; one without a value is a comment, so it keeps its default."""
    printed = as_toml(configure({}, {}))
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 100
    words = " ".join(line.removeprefix("# ") for line in lines)
    for setting in SETTINGS.values():
        assert " ".join(setting.help.split()) in words
        assert any(line.removeprefix("# ").startswith(f"{setting.key} = ") for line in lines)
    assert given_back(printed, tmp_path) == ServeSettings()


def test_the_examples_are_right(tmp_path: Path) -> None:
    """With the comment sign removed, the examples give a valid file."""
    printed = as_toml(configure({}, {}))
    examples = [setting for setting in SETTINGS.values() if setting.example]
    for setting in examples:
        printed = printed.replace(f"# {setting.key} = ", f"{setting.key} = ")
    found = given_back(printed, tmp_path)
    assert all(getattr(found, setting.name) not in (None, ()) for setting in examples)


def test_sources_are_told(tmp_path: Path) -> None:
    """The source of each given value is printed."""
    file = tmp_path / "a.toml"
    file.write_text("slots = 3\n")
    printed = as_toml(configure({"port": "9000"}, {"STREAMER_SERVE_OPEN": "yes"}, file))
    assert "# From: --port.\nport = 9000\n" in printed
    assert "# From: STREAMER_SERVE_OPEN.\nopen = true\n" in printed
    assert "line 1.\nslots = 3\n" in printed
    assert '# From: the default.\nhost = "127.0.0.1"\n' in printed


@settings(max_examples=60, deadline=None)
@given(flags=st.fixed_dictionaries({}, optional=VALUES))
def test_what_is_printed_can_be_given_back(tmp_path_factory: Any, flags: dict[str, Any]) -> None:
    """A printed file gives the same settings, whatever the values contain."""
    configuration = configure(flags, {})
    assert given_back(as_toml(configuration), tmp_path_factory.mktemp("printed")) == configuration.settings


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    """A password in a URL, and a key in place of its file, each become a comment that says so."""
    secret = "streamer_" + 30 * "k"
    printed = as_toml(configure({"traces": "http://me:secret@collector:4317", "keys": secret}, {}))
    assert "secret@" not in printed
    assert secret not in printed
    assert '# traces = "http://…@collector:4317"\n' in printed
    assert printed.count("# This value contains a secret") == 2
    assert given_back(printed, tmp_path) == ServeSettings()


def test_a_path_that_is_no_text_is_a_comment(tmp_path: Path) -> None:
    """A path that TOML cannot express is printed as a comment."""
    printed = as_toml(configure({"keys": "/a\udcff"}, {}))
    assert '# keys = "/a\\udcff"\n' in printed
    assert given_back(printed, tmp_path) == ServeSettings()
