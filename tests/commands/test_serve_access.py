"""The arguments of `serve` and `key` about access, also in real processes, and the flags of earlier versions."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import trustme

from streamer.bridge.access.keys import KeyFile, Role, digest_of
from streamer.bridge.access.quotas import Fetch
from streamer.bridge.access.rules import WebhookRules
from streamer.bridge.triton.server import TritonServer
from streamer.commands.arguments import USAGE, Parser
from streamer.commands.cli import run
from streamer.commands.serve import add_setting_arguments, flag_values
from streamer.commands.settings.configuration import configure
from streamer.commands.settings.port_policy import is_local, port_policy
from streamer.commands.settings.serve import SETTINGS, ServeSettings
from streamer.commands.settings.served_models import ServedModel
from tests.command_run import Said
from tests.project import ROOT
from tests.pseudo_terminal import COMMAND


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 can be reached from other machines, .* give --keys FILE, or --open"),
        (["--host", "::"], ":: can be reached from other machines"),
        (["--host", ""], "can be reached from other machines"),
        (["--per-key", "2"], "--per-key is a limit for each key: give --keys too"),
        (["--audio-per-key", "60"], "--audio-per-key is a limit for each key: give --keys too"),
        (["--tls-key", "key.pem"], "give --tls-cert too"),
        (["--trust-proxy", "::1", "--behind-proxy"], "--behind-proxy counts proxies whose addresses are not known"),
        (["--proxy-protocol"], "--proxy-protocol is believed only from known proxies: give .* with --trust-proxy"),
        (["--tls-cert", "no.pem"], "no.pem cannot be read: No such file"),
        (["--keys", "none"], "none cannot be read: No such file"),
        (["--wyoming-port", "0", "--wyoming-host", "0.0.0.0"], "Wyoming has no keys, .* give --open too"),
        (["--wyoming-port", "0", "--wyoming-host", "", "--keys", "none"], "every address can be reached"),
        (["--grpc-port", "0", "--grpc-host", "0.0.0.0"], "anybody there could use the service: give --keys FILE"),
        (
            ["--grpc-port", "0", "--proxy-protocol", "--trust-proxy", "10.1.0.7"],
            "--grpc-port: gRPC cannot read headers of the PROXY protocol, so .* without --proxy-protocol",
        ),
        (["--grpc-host", "127.0.0.1"], "--grpc-host is the address of another port: give --grpc-port too"),
        (["--wyoming-host", "127.0.0.1"], "--wyoming-host is the address of another port: give --wyoming-port too"),
        (["--twilio-url", "wss://a.example/twilio"], "what signatures are over: give --twilio-tokens too"),
        (["--twilio-tokens", "none"], "none cannot be read: No such file"),
        (["--webhook", "https://a.example/"], "--webhook needs secrets .* give --webhook-secrets too"),
        (["--webhooks", "public"], "--webhooks needs secrets for its signatures: give --webhook-secrets too"),
        (["--webhook-secrets", "none"], "none cannot be read: No such file"),
        (["--triton-tls"], "--triton-tls is only for Tritons that run elsewhere: give --triton too"),
        (["--triton", "a:1", "--triton-metadata", "f"], "--triton-metadata needs TLS: give --triton-tls too"),
        (["--triton", "a:1", "--repository", "models"], "--repository is only for the embedded Triton"),
        (["--triton", "a:1", "--triton-tls", "--triton-key", "f"], "belong together: give both"),
        (["--triton", "a:1", "--triton-tls", "--triton-ca", "none"], "none cannot be read: No such file"),
    ],
)
def test_an_unsafe_or_impossible_port_policy_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unsafe or impossible settings are refused with one sentence before anything is started."""
    assert run(["serve", *arguments]) == 2
    assert re.search(words, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "wyoming"),
    [
        ([], None),
        (["--wyoming-port", "10300"], ("127.0.0.1", 10300)),
        (["--wyoming-port", "0", "--wyoming-host", "0.0.0.0", "--open"], ("0.0.0.0", 0)),
    ],
)
def test_the_port_for_wyoming(arguments: list[str], wyoming: tuple[str, int] | None) -> None:
    """There is none by default; it is on loopback unless the operator says otherwise, twice."""
    parser = Parser(prog="streamer serve")
    add_setting_arguments(parser)
    assert port_policy(configure(flag_values(parser.read(arguments)), {})).wyoming == wyoming


@pytest.mark.parametrize(
    ("arguments", "grpc"),
    [
        ([], None),
        (["--grpc-port", "50051"], ("127.0.0.1", 50051)),
        (["--grpc-port", "0", "--grpc-host", "0.0.0.0", "--open"], ("0.0.0.0", 0)),
    ],
)
def test_the_port_for_grpc(arguments: list[str], grpc: tuple[str, int] | None) -> None:
    """There is none by default; it is on loopback unless the operator says otherwise."""
    parser = Parser(prog="streamer serve")
    add_setting_arguments(parser)
    assert port_policy(configure(flag_values(parser.read(arguments)), {})).grpc == grpc


@pytest.mark.parametrize(
    ("arguments", "fetch"), [([], Fetch.OFF), (["--fetch", "public"], Fetch.PUBLIC), (["--fetch", "any"], Fetch.ANY)]
)
def test_what_is_fetched(arguments: list[str], fetch: Fetch) -> None:
    """Nothing is fetched for clients, unless the operator says from where."""
    parser = Parser(prog="streamer serve")
    add_setting_arguments(parser)
    assert port_policy(configure(flag_values(parser.read(arguments)), {})).uploads.fetch is fetch


def test_calls_and_webhooks(tmp_path: Path) -> None:
    """Both are off, unless the operator gives secrets, and says where words are posted."""
    parser = Parser(prog="streamer serve")
    add_setting_arguments(parser)
    assert port_policy(configure(flag_values(parser.read([])), {})).webhooks == WebhookRules()
    (tmp_path / "secrets").write_text("a-secret-of-many-letters\n")
    arguments = ["--webhook", "https://a.example/", "--webhooks", "any", "--webhook-secrets", str(tmp_path / "secrets")]
    rules = port_policy(configure(flag_values(parser.read(arguments)), {})).webhooks
    assert (rules.clients, rules.calls) == (Fetch.ANY, "https://a.example/")
    assert rules.secrets is not None
    assert rules.secrets.of("alice") == (b"a-secret-of-many-letters",)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--webhook", "a.example"], "--webhook must be an address with http or https, not 'a.example'"),
        (["--twilio-url", "ws://a.example"], "--twilio-url must be an address such as wss://voice.example.org/twilio"),
        (
            ["--origin", "example.org"],
            "--origin must be an origin such as https://example.org, without a path",
        ),
        (["--per-address", "0"], "--per-address must be a whole number from 1 to 100000, not 0"),
        (["--max-message", "10"], "--max-message must be a whole number of bytes from 65536 to 67108864, not 10"),
        (["--idle-limit", "nan"], "--idle-limit must be a number of seconds from 1 to 3600, not 'nan'"),
        (["--behind-proxy", "9"], "--behind-proxy must be a whole number from 0 to 8, not 9"),
        (
            ["--trust-proxy", "10.0.0.1/8"],
            "--trust-proxy must be an address or a network such as 10.1.0.0/16, but not all addresses, "
            "not '10.0.0.1/8'",
        ),
        (["--trust-proxy", "0.0.0.0/0"], "but not all addresses, not '0.0.0.0/0'"),
        (["--keys", ""], "--keys must be a path, not ''"),
    ],
)
def test_odd_values_are_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong values are refused with a message that says what is allowed."""
    assert run(["serve", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_what_only_this_machine_reaches() -> None:
    """Loopback addresses are local, by number and by name; an unknown name is not."""
    assert all(map(is_local, ("127.0.0.1", "localhost", "::1", "127.9.9.9")))
    assert not any(map(is_local, ("0.0.0.0", "", "::", "192.0.2.1", "no.such.name.invalid")))


def test_a_key_is_shown_once_and_its_line_can_be_appended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line goes to standard output, the secret to standard error."""
    assert run(["key", "alice"]) == 0
    shown = capsys.readouterr()
    (tmp_path / "keys").write_text(shown.out)
    secret = shown.err.splitlines()[-1]
    assert secret not in shown.out
    entry = KeyFile(tmp_path / "keys").find(digest_of(secret))
    assert entry is not None
    assert (entry.name, entry.role, entry.expires_at) == ("alice", Role.USE, math.inf)
    assert run(["key", "a b"]) == 2


@pytest.mark.parametrize(("when", "seconds"), [("30d", 30 * 86400), ("12h", 12 * 3600)])
def test_a_key_that_expires(when: str, seconds: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key has its role and its end in the line for the file."""
    before = time.time()
    assert run(["key", "operator", "--role", "admin", "--expires", when]) == 0
    shown = capsys.readouterr()
    (tmp_path / "keys").write_text(shown.out)
    entry = KeyFile(tmp_path / "keys").find(digest_of(shown.err.splitlines()[-1]))
    assert entry is not None
    assert entry.role is Role.ADMIN
    assert int(before) + seconds <= entry.expires_at <= time.time() + seconds
    assert run(["key", "guest", "--expires", "2187-01-31"]) == 0
    assert capsys.readouterr().out.endswith(" expires=2187-02-01T00:00:00Z\n")


@pytest.mark.parametrize(
    ("when", "sentence"),
    [
        ("2020-01-31", "must be in the future, unlike 2020-01-31"),
        ("tomorrow", "must be a day such as 2027-01-31, or 90d or 12h from now, not 'tomorrow'"),
        ("0d", "or 90d or 12h from now, not '0d'"),
        ("9999-12-31", "must be a day"),
    ],
)
def test_an_odd_end_of_a_key(when: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no time in the future is refused."""
    with pytest.raises(SystemExit) as ending:
        run(["key", "guest", "--expires", when])
    assert ending.value.code == USAGE
    assert sentence in capsys.readouterr().err


def test_a_recording_over_tls_with_a_key(exact_triton: TritonServer, said: Said, tmp_path: Path) -> None:
    """A client without a key is told what to do, and one with a key is served."""
    keys, chain, key, root = (tmp_path / name for name in ("keys", "chain.pem", "key.pem", "root.pem"))
    made = subprocess.run([*COMMAND, "key", "alice"], capture_output=True, text=True, check=True, cwd=ROOT)
    keys.write_text(made.stdout)
    secret = made.stderr.splitlines()[-1]
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(root))
    issued = authority.issue_cert("localhost")
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    guarded = ["--keys", str(keys), "--tls-cert", str(chain), "--tls-key", str(key)]
    serving = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--triton", exact_triton.grpc_address, *guarded],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert serving.stderr is not None
    try:
        log = ""
        while "ready: " not in log:
            line = serving.stderr.readline()
            assert line, log
            log += line
        found = re.search(
            r"ready: wss://127\.0\.0\.1:(\d+)/v1/stream \(page and probes: https://127\.0\.0\.1:\1/\)", log
        )
        assert found, log
        command = [*COMMAND, "--server", f"wss://localhost:{found[1]}", said.talk]
        environment = {**os.environ, "SSL_CERT_FILE": str(root)}
        environment.pop("STREAMER_KEY", None)
        without = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
        assert (without.returncode, without.stdout) == (1, "")
        assert "needs a key: put it into STREAMER_KEY, or into a file for --key-file." in without.stderr
        environment["STREAMER_KEY"] = secret
        with_key = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
        assert with_key.returncode == 0, with_key.stderr
        (tmp_path / "key").write_text(f"{secret}\n")
        environment["STREAMER_KEY"] = "streamer_wrong"
        wrong = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
        assert wrong.stderr.endswith("The key came from STREAMER_KEY or --key-file.\n")
        command += ["--key-file", str(tmp_path / "key")]
        from_file = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
        assert (from_file.returncode, from_file.stdout) == (0, with_key.stdout)
        assert len(with_key.stdout.split()) > 10
    finally:
        serving.send_signal(signal.SIGTERM)
        log += serving.communicate(timeout=60)[1]
    assert serving.returncode == 0
    assert secret not in log
    assert "key=alice" in log


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
