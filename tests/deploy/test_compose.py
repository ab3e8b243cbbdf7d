"""compose.yaml: its commands are those of the service, its files exist, and only this machine reaches it."""

from __future__ import annotations

import subprocess
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from streamer import __version__
from streamer.commands.cli import parser_of
from streamer.commands.serve import flag_values
from streamer.commands.settings.configuration import configure
from tests.deploy.shipped_proxies import program_of
from tests.project import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    """Reads the tag `!reset`, by which a second file empties what the first one has."""


_Loader.add_constructor("!reset", lambda loader, node: loader.construct_sequence(node))
SEVERAL = yaml.load((DEPLOY / "compose/several.yaml").read_text(encoding="utf-8"), _Loader)  # a safe one
OF_SEVERAL: dict[str, dict[str, Any]] = SEVERAL["services"]
ALIAS = "recognisers"
AFTER_DRAIN_S = 25


def test_the_bridge_finds_the_recognisers() -> None:
    """Its arguments are settings; it looks up the name that all recognisers have, and its drain fits."""
    bridge = SERVICES["bridge"]
    command, *arguments = bridge["command"]
    settings = configure(flag_values(parser_of(command).parse_args(arguments)), {}).settings
    assert settings.triton == (f"{ALIAS}:8001",)
    assert float(bridge["stop_grace_period"].removesuffix("s")) >= settings.drain_limit + AFTER_DRAIN_S
    for name in ("triton", "triton-gpu"):
        assert SERVICES[name]["networks"] == {"recognisers": {"aliases": [ALIAS]}}
    assert SERVICES["triton"]["deploy"]["replicas"] == 2
    assert SERVICES["triton-gpu"]["profiles"] == ["gpu"]


def test_only_this_machine_reaches_it() -> None:
    """Every port is published on loopback, because the bridge has no keys, and the recognisers publish none."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert COMPOSE["networks"]["recognisers"] == {"internal": True}
    assert not [name for name in ("triton", "triton-gpu") if "ports" in SERVICES[name]]


@pytest.mark.parametrize("name", [*SERVICES, *(name for name in OF_SEVERAL if name not in SERVICES)])
def test_services_have_no_rights(name: str) -> None:
    """No container writes its own files, has capabilities or gains rights; no image is `latest`."""
    service = SERVICES.get(name) or OF_SEVERAL[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    _, _, tag = service["image"].rpartition(":")
    assert tag != "latest"
    assert "build" not in service or tag.startswith(__version__)
    assert set(service["networks"]) <= {*COMPOSE["networks"], *SEVERAL["networks"]}


def test_several_bridges_share_a_store() -> None:
    """The second file gives the bridges a store that only they reach, and their port to a balancer."""
    bridge, store, balancer = (OF_SEVERAL[name] for name in ("bridge", "store", "balancer"))
    command, *arguments = bridge["command"]
    settings = configure(flag_values(parser_of(command).parse_args(arguments)), {}).settings
    assert settings.triton == (f"{ALIAS}:8001",)
    assert urlsplit(settings.store or "").hostname == "store"
    [secret] = [volume.split(":") for volume in bridge["volumes"]]
    assert settings.store_secret is not None
    assert str(settings.store_secret.parent) == secret[1]
    assert f'{secret[1]}/{settings.store_secret.name}"' in OF_SEVERAL["secret"]["command"][0]
    assert SEVERAL["networks"]["stores"] == {"internal": True}
    assert store["networks"] == ["stores"]
    assert [name for name in ("bridge", "balancer") if "stores" in OF_SEVERAL[name]["networks"]] == ["bridge"]
    assert bridge["deploy"]["replicas"] == 3
    assert (bridge["ports"], balancer["ports"]) == ([], SERVICES["bridge"]["ports"])
    assert {"recognisers", "clients", "monitoring"} <= set(bridge["networks"])


def test_the_balancer_knows_the_bridges() -> None:
    """HAProxy accepts its configuration, which looks up the name of the bridges and has their port."""
    path = DEPLOY / "compose/haproxy.cfg"
    program, environment = program_of("haproxy")
    done = subprocess.run([program, "-c", "-f", path], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " bridge:8080\n" in path.read_text(encoding="utf-8")


def test_files_exist() -> None:
    """Mounted files and recipes are there; other volumes are declared."""
    for service in (*SERVICES.values(), *OF_SEVERAL.values()):
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (
                (DEPLOY / source).is_file()
                if source.startswith("./")
                else source
                in {
                    *COMPOSE["volumes"],
                    *SEVERAL["volumes"],
                }
            )


def test_prometheus_has_the_same_jobs() -> None:
    """The jobs are those of the example, which the alerts and the dashboard name."""
    jobs = []
    for path in ("prometheus/prometheus.yml", "compose/prometheus.yml"):
        told = yaml.safe_load((DEPLOY / path).read_text(encoding="utf-8"))
        assert told["rule_files"] == ["alerts.yml"]
        jobs.append([job["job_name"] for job in told["scrape_configs"]])
    assert jobs[0] == jobs[1]
    names = {job["job_name"]: job["dns_sd_configs"][0]["names"] for job in told["scrape_configs"]}
    assert names == {"streamer": ["bridge"], "triton": [ALIAS]}
    assert f"http://prometheus:{9090}" in (DEPLOY / "compose/grafana-datasource.yml").read_text(encoding="utf-8")


def test_the_dashboard_finds_its_data() -> None:
    """The dashboard that is mounted asks for the kind of data source that is provisioned."""
    source = yaml.safe_load((DEPLOY / "compose/grafana-datasource.yml").read_text(encoding="utf-8"))["datasources"][0]
    dashboard = yaml.safe_load((DEPLOY / "grafana/streamer.json").read_text(encoding="utf-8"))
    [chosen] = [variable for variable in dashboard["templating"]["list"] if variable["type"] == "datasource"]
    assert chosen["query"] == source["type"]
