"""The systemd unit: its command is one of the service, and its times fit."""

from __future__ import annotations

import re
from pathlib import Path

from streamer.commands.cli import parser_of
from streamer.commands.serve import flag_values
from streamer.commands.settings.configuration import Configuration, configure
from streamer.commands.settings.kinds import PREFIX
from tests.project import ROOT

UNIT = (ROOT / "deploy/systemd/streamer.service").read_text(encoding="utf-8")
SETTINGS_FILE = ROOT / "deploy/systemd/streamer.toml"
GUIDE = (ROOT / "docs/how-to/deployment.md").read_text(encoding="utf-8")
AFTER_DRAIN_S = 25


def told(name: str) -> list[str]:
    """The values of a setting of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def configuration(file: Path = SETTINGS_FILE) -> Configuration:
    """The settings of the command, with the settings file beside the unit."""
    [command] = told("ExecStart")
    program, name, *arguments = command.split()
    assert program in GUIDE
    options = parser_of(name).parse_args(arguments)
    assert str(options.config) == "/etc/streamer/streamer.toml"
    variables = dict(value.split("=", 1) for line in told("Environment") for value in line.split())
    streamers = {name: value for name, value in variables.items() if name.startswith(PREFIX)}
    return configure(flag_values(options), streamers, file)


def test_the_command() -> None:
    """The flags of the unit, and the settings beside it, are settings of the service; it requires keys."""
    settings = configuration().settings
    assert str(settings.keys) == "%d/keys"
    assert [value.partition(":")[0] for value in told("LoadCredential")] == ["keys"]
    assert str(settings.control).startswith(f"/run/{told('RuntimeDirectory')[0]}/")


def test_what_is_commented_out(tmp_path: Path) -> None:
    """Each setting that the file offers as a comment is one of the service, with a value that it takes."""
    written = re.sub(r"^# ([a-z-]+ = )", r"\1", SETTINGS_FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (tmp_path / "streamer.toml").write_text(written, encoding="utf-8")
    entries = configuration(tmp_path / "streamer.toml").entries
    assert {"origin", "instances", "model", "reader", "audio_per_key", "log_level", "traces"} <= set(entries)


def test_the_service_can_write_the_usage() -> None:
    """The file is in the folder that the unit makes, and what the document says to back up is what the unit uses."""
    usage_file = str(configuration().settings.usage_file)
    assert usage_file.startswith(f"/var/lib/{told('StateDirectory')[0]}/")
    backed_up = GUIDE.partition("### Back up")[2]
    for path in (usage_file, "/etc/streamer/keys", "/etc/streamer/streamer.toml"):
        assert f"`{path}`" in backed_up


def test_a_drain_fits_into_the_time_to_stop() -> None:
    """systemd kills the service only after its sessions had the time that --drain-limit gives them."""
    drain = configuration().settings.drain_limit
    assert int(told("TimeoutStopSec")[0]) >= drain + AFTER_DRAIN_S
    # SIGTERM for all processes would end Triton while sessions are drained.
    assert told("KillMode") == ["mixed"]


def test_the_service_reports() -> None:
    """The unit waits for the messages that streamer/bridge/telemetry/supervisor_messages.py sends."""
    assert told("Type") == ["notify"]
    assert int(told("WatchdogSec")[0]) >= 10
    assert int(told("TimeoutStartSec")[0]) >= 240


def test_it_has_no_rights() -> None:
    """The service runs as a user of its own, and can write only its own folders."""
    assert told("User") == ["streamer"]
    assert told("NoNewPrivileges") == ["yes"]
    assert told("ProtectSystem") == ["strict"]
    assert told("CapabilityBoundingSet") == [""]
    assert {"AF_UNIX", "AF_INET", "AF_INET6"} <= set(told("RestrictAddressFamilies")[0].split())
