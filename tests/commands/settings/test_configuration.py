"""Sources of values, their precedence, mistakes, and a configuration as a file that can be used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.commands.settings.configuration import as_toml, configure
from streamer.commands.settings.kinds import SettingsError
from streamer.commands.settings.serve import SETTINGS, ServeSettings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a settings file."""
    return tmp_path / "streamer.toml"


def mistakes(flags: dict[str, Any], environment: dict[str, str], config: Path | None = None) -> list[str]:
    """Return the messages about such settings, without the folder of the file."""
    with pytest.raises(SettingsError) as caught:
        configure(flags, environment, config)
    return [line.replace(f"{config.parent}/", "") if config else line for line in str(caught.value).splitlines()]


def test_nothing_is_said() -> None:
    """Without any source all values are the defaults."""
    configuration = configure({}, {"STREAMER_PORT": "tcp://10.0.0.1:80"})
    assert configuration.settings == ServeSettings()
    assert configuration.entries == {}
    assert configuration.label("tls_key") == "--tls-key"


def test_the_strongest_source_wins(file: Path) -> None:
    """A flag precedes a variable, and a variable the file; each setting separately, and a list as a whole."""
    file.write_text('port = 1\nhost = "a"\nslots = 1\norigin = ["https://a.org"]\nopen = true\n')
    variables = {"STREAMER_SERVE_PORT": "2", "STREAMER_SERVE_HOST": "b", "STREAMER_SERVE_ORIGIN": "null,*"}
    configuration = configure({"port": "3", "origin": ["https://c.org", "https://d.org"]}, variables, file)
    settings = configuration.settings
    assert (settings.port, settings.host, settings.slots, settings.open) == (3, "b", 1, True)
    assert settings.origin == ("https://c.org", "https://d.org")
    assert configuration.label("port") == "--port"
    assert configuration.label("host") == "STREAMER_SERVE_HOST"
    assert configuration.label("slots") == f"slots in {file}, line 3,"


def test_what_a_file_switches_on_can_be_switched_off(file: Path) -> None:
    """A variable can switch a setting of a file off, and a flag can switch it on again."""
    file.write_text("open = true\nbehind-proxy = 2\n")
    off = {"STREAMER_SERVE_OPEN": "false", "STREAMER_SERVE_BEHIND_PROXY": "0"}
    assert not configure({}, off, file).settings.open
    assert configure({}, off, file).settings.behind_proxy == 0
    assert not configure({"open": False}, {}, file).settings.open
    assert configure({"open": True}, off, file).settings.open


def test_an_empty_variable_is_none() -> None:
    """An empty variable counts as not set, because container templates leave such variables behind."""
    assert configure({}, {"STREAMER_SERVE_PORT": "", "STREAMER_SERVE_CONFIG": ""}).settings == ServeSettings()


def test_the_environment_may_name_the_file(file: Path) -> None:
    """The variable names the file unless the flag does; paths in the file are relative to its folder."""
    file.write_text('keys = "keys"\n')
    variables = {"STREAMER_SERVE_CONFIG": str(file)}
    assert configure({}, variables).settings.keys == file.parent / "keys"
    other = file.with_name("other.toml")
    other.write_text("\ufeffport = 9\n", encoding="utf-8")
    settings = configure({}, variables, other).settings
    assert (settings.keys, settings.port) == (None, 9)


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_can_be_given_in_each_way(file: Path, name: str) -> None:
    """The documentation's example, or the default, gives the same value from file, variable and flag."""
    setting = SETTINGS[name]
    toml = setting.example or setting.kind.to_toml(setting.default)
    file.write_text(f"{setting.key} = {toml}\n")
    value = getattr(configure({}, {}, file).settings, name)
    text = setting.kind.to_text(value)
    assert value not in (None, ())
    assert getattr(configure({}, {setting.variable: text}).settings, name) == value
    assert getattr(configure({name: text}, {}).settings, name) == value


def test_unknown_names_are_answered_with_the_nearest(file: Path) -> None:
    """A message has the line in the file; no name is suggested if none is similar."""
    file.write_text('prt = 9000\n\n[tls]\ncert = "a"\n')
    assert mistakes({}, {"STREAMER_SERVE_LOGLEVEL": "info", "STREAMER_SERVE_XYZ": "1"}, file) == [
        "unknown setting 'prt' in streamer.toml, line 1; did you mean 'port'?",
        "unknown setting 'tls' in streamer.toml, line 3.",
        "unknown variable STREAMER_SERVE_LOGLEVEL; did you mean STREAMER_SERVE_LOG_LEVEL?",
        "unknown variable STREAMER_SERVE_XYZ.",
    ]


def test_wrong_values_are_named_with_their_source(file: Path) -> None:
    """All mistakes are reported at once, also in sources that others override."""
    file.write_text('open = "yes"\nport = 99999\n')
    assert mistakes({"port": "x"}, {"STREAMER_SERVE_PORT": "-1"}, file) == [
        "--port must be a whole number from 0 to 65535, not 'x'.",
        "STREAMER_SERVE_PORT must be a whole number from 0 to 65535, not -1.",
        "port in streamer.toml, line 2, must be a whole number from 0 to 65535, not 99999.",
        'open in streamer.toml, line 1, must be true or false, not "yes".',
    ]


@pytest.mark.parametrize(
    "address", ["http://c:4317", "https://c", "http://me:secret@c:4317/", "http://[::1]:4317", "c:4317"]
)
def test_addresses_of_collectors(address: str) -> None:
    """Traces go to a URL, or to a host and port."""
    assert configure({"traces": address}, {}).settings.traces == address


@pytest.mark.parametrize("address", ["nonsense", "http://", "http://:4317", "ftp://c:4317", "http://c:x", "http://a b"])
def test_what_is_no_address_of_a_collector(address: str) -> None:
    """A wrong address is refused, because otherwise the service would start and trace nothing."""
    right = "an address such as http://collector:4317"
    assert mistakes({"traces": address}, {}) == [f"--traces must be {right}, not '{address}'."]


def test_variables_of_kubernetes_are_explained() -> None:
    """The message about variables that Kubernetes sets for a service called streamer-serve says so."""
    links = {
        "STREAMER_SERVE_PORT": "tcp://10.0.0.7:80",
        "STREAMER_SERVE_PORT_80_TCP_ADDR": "10.0.0.7",
        "STREAMER_SERVE_SERVICE_HOST": "10.0.0.7",
    }
    found = mistakes({}, links)
    assert len(found) == 3
    assert all("set enableServiceLinks to false" in line for line in found)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"port = \n", "streamer.toml is not valid TOML: Invalid value (at line 1, column 8)."),
        (b"port = 1\nport = 2\n", "streamer.toml is not valid TOML: Cannot overwrite a value (at line 2, column 9)."),
        (b"# \xff\n", "streamer.toml cannot be read: it is not UTF-8 text."),
        (None, "streamer.toml cannot be read: No such file or directory."),
    ],
)
def test_a_file_that_cannot_be_read(file: Path, content: bytes | None, sentence: str) -> None:
    """One sentence says why, for invalid TOML with the place."""
    if content is not None:
        file.write_bytes(content)
    assert mistakes({}, {}, file) == [sentence]


def test_a_key_within_a_text_is_no_line_of_it(file: Path) -> None:
    """If it is unclear which line sets the key, the message has none."""
    file.write_text('host = """\nport = 5\n"""\nport = "x"\n')
    assert mistakes({}, {}, file) == ['port in streamer.toml must be a whole number from 0 to 65535, not "x".']


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
