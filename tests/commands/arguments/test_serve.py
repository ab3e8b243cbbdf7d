"""The flags of `serve`, made from its settings, including all flags of earlier versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamer.commands.arguments.parser import Parser
from streamer.commands.arguments.serve import add_setting_arguments, flag_values
from streamer.settings.configuration import configure
from streamer.settings.serve import SETTINGS, ServeSettings
from streamer.settings.served_models import ServedModel


def changed(*arguments: str) -> dict[str, Any]:
    """The settings that differ from the defaults with these flags."""
    parser = Parser(prog="streamer serve")
    add_setting_arguments(parser)
    settings = configure(flag_values(parser.read(arguments)), {}).settings
    return {name: value for name in SETTINGS if (value := getattr(settings, name)) != getattr(ServeSettings(), name)}


TRUSTED = ("10.1.0.0/16", "::1/128")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--host 0.0.0.0 --port 0", {"host": "0.0.0.0", "port": 0}),
        ("--triton a:1,b:2 --resolve-every 0.5", {"triton": ("a:1", "b:2"), "resolve_every": 0.5}),
        ("--model m_2 --repository models", {"model": (ServedModel("m_2"),), "repository": Path("models")}),
        ("--instances 2 --slots 3 --sessions 4", {"instances": 2, "slots": 3, "sessions": 4}),
        ("--sessions auto", {"sessions": "auto"}),
        ("--drain-limit 0 --control c", {"drain_limit": 0.0, "control": Path("c")}),
        ("--log-format json --log-level debug", {"log_format": "json", "log_level": "debug"}),
        ("--traces http://c:4317 --keys k --open", {"traces": "http://c:4317", "keys": Path("k"), "open": True}),
        ("--origin https://A.org:443/ --origin null", {"origin": ("https://a.org", "null")}),
        ("--tls-cert c --tls-key k", {"tls_cert": Path("c"), "tls_key": Path("k")}),
        ("--behind-proxy", {"behind_proxy": 1}),
        ("--trust-proxy 10.1.0.0/16,::1 --proxy-protocol", {"trust_proxy": TRUSTED, "proxy_protocol": True}),
        ("--behind-proxy 2 --open-metrics", {"behind_proxy": 2, "open_metrics": True}),
        ("--per-key 2 --per-address 3", {"per_key": 2, "per_address": 3}),
        ("--audio-per-key 90.5 --max-message 65536", {"audio_per_key": 90.5, "max_message": 65536}),
        ("--handshake-limit 1 --start-limit 2", {"handshake_limit": 1.0, "start_limit": 2.0}),
        ("--idle-limit 3 --resume-limit 0", {"idle_limit": 3.0, "resume_limit": 0.0}),
        ("--triton-tls --triton-ca a", {"triton_tls": True, "triton_ca": Path("a")}),
        ("--triton-cert b --triton-key c", {"triton_cert": Path("b"), "triton_key": Path("c")}),
        ("--triton-metadata d", {"triton_metadata": Path("d")}),
        ("--open --no-open", {}),
        ("--port 1 --port 2 --triton=a:1 --triton=b:2", {"port": 2, "triton": ("a:1", "b:2")}),
    ],
)
def test_flags(line: str, expected: dict[str, Any]) -> None:
    """Each flag changes its own setting and nothing else."""
    assert changed(*line.split()) == expected
