"""The manifests in deploy/kubernetes: valid for several Kubernetes versions, and true about the service."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

from streamer import __version__
from streamer.base.limits import RETIRE_LIMIT_S
from streamer.bridge.upstreams.supervision import RESOLVE_LIMIT_S
from streamer.commands.cli import parser_of
from streamer.commands.serve import flag_values
from streamer.commands.settings.configuration import Configuration, configure
from tests.deploy.known_metrics import samples, selectors
from tests.deploy.kustomization import KUBERNETES, Manifest, manifests_in, rendered
from tests.project import ROOT

VERSIONS = ("1.28", "1.32", "1.36")
OVERLAYS = ("cpu", "gpu", "small")
# Each overlay, and that for processors with one of the components that no overlay has.
COMBINATIONS = (*OVERLAYS, "keda", "tls")
AUTOSCALED = ("cpu", "gpu")
# Kinds of the Prometheus operator and of KEDA, whose schemas Kubernetes does not have.
OF_OTHERS = {"ServiceMonitor", "ScaledObject"}
GUIDE = (ROOT / "docs/how-to/deployment.md").read_text(encoding="utf-8")
UPGRADES = (ROOT / "docs/how-to/upgrades.md").read_text(encoding="utf-8")
AFTER_DRAIN_S = 25  # "at the latest 25 s after the drain limit"
NAME_CACHE_S = 30  # CoreDNS keeps an answer that long
# The labels that the Prometheus operator adds to what it scrapes.
ADDED = {"namespace", "pod", "job"}


@pytest.fixture(scope="module", params=COMBINATIONS)
def manifests(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """What each combination makes."""
    return overlay(request.param, tmp_path_factory.mktemp("kubernetes"))


def overlay(name: str, folder: Path) -> list[Manifest]:
    """The manifests of an overlay, or of the one that the document describes for this component."""
    if name in OVERLAYS:
        return rendered(KUBERNETES / "overlays" / name)
    made = yaml.safe_load((KUBERNETES / "overlays/cpu/kustomization.yaml").read_text(encoding="utf-8"))
    components = ["monitoring", "keda", "store"] if name == "keda" else ["monitoring", "autoscaling", "store", name]
    made["resources"] = [str(KUBERNETES / "base")]
    made["components"] = [str(KUBERNETES / "components" / each) for each in components]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(made), encoding="utf-8")
    return rendered(folder)


def one(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    [found] = [each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pod(manifests: list[Manifest], name: str) -> dict[str, Any]:
    """What a deployment's pods are."""
    spec: dict[str, Any] = one(manifests, "Deployment", name)["spec"]["template"]["spec"]
    return spec


def configuration(manifests: list[Manifest]) -> Configuration:
    """The settings of the bridges, read as the service reads them. A mistake is a SettingsError."""
    [container] = pod(manifests, "bridge")["containers"]
    command, *arguments = container["args"]
    options = parser_of(command).parse_args(arguments)
    variables = one(manifests, "ConfigMap", container["envFrom"][0]["configMapRef"]["name"])["data"]
    return configure(flag_values(options), variables)


@pytest.mark.parametrize("version", VERSIONS)
def test_schemas(version: str, tmp_path: Path) -> None:
    """Every manifest of every overlay is valid for this Kubernetes version, and has no field that it does not know."""
    made = [manifest for name in COMBINATIONS for manifest in overlay(name, tmp_path)]
    # Most manifests are the same in several overlays.
    for manifest in {json.dumps(each): each for each in made}.values():
        if manifest["kind"] not in OF_OTHERS:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_an_invented_field_is_found() -> None:
    """The schemas are strict."""
    manifest = one(rendered(KUBERNETES / "overlays/small"), "Service", "streamer")
    manifest["spec"]["portz"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[0], strict=True)


def test_every_file_is_used() -> None:
    """No manifest lies beside the kustomizations without being named by one."""
    for folder in {path.parent for path in KUBERNETES.rglob("*.yaml")}:
        [told] = manifests_in(folder / "kustomization.yaml")
        named = {*told.get("resources", ()), *(patch["path"] for patch in told.get("patches", ()))}
        files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
        assert files == {name for name in named if name.endswith(".yaml")}


def test_settings(manifests: list[Manifest]) -> None:
    """The bridges' flags and variables are settings of the service; keys are required beyond loopback."""
    settings = configuration(manifests).settings
    assert settings.keys is not None
    assert not settings.open
    [triton] = settings.triton
    service = one(manifests, "Service", triton.rpartition(":")[0])
    assert service["spec"]["clusterIP"] == "None"
    assert [port["port"] for port in service["spec"]["ports"] if port["name"] == "grpc"] == [8001]


def test_a_drain_fits_into_the_grace_period(manifests: list[Manifest]) -> None:
    """Kubernetes kills a bridge only after its sessions had all the time that --drain-limit gives them."""
    bridge = pod(manifests, "bridge")
    [container] = bridge["containers"]
    waits = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = configuration(manifests).settings.drain_limit
    assert bridge["terminationGracePeriodSeconds"] >= waits + drain + AFTER_DRAIN_S
    assert f"at the latest {AFTER_DRAIN_S} s after the drain limit" in " ".join(UPGRADES.split())


def test_sessions_leave_a_recogniser_before_it_ends(manifests: list[Manifest]) -> None:
    """A recogniser waits until bridges know that it ends, and their sessions have moved at a cut."""
    recogniser = pod(manifests, "recogniser")
    [container] = recogniser["containers"]
    waits = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    looked_up = configuration(manifests).settings.resolve_every + RESOLVE_LIMIT_S
    assert waits >= NAME_CACHE_S + looked_up + RETIRE_LIMIT_S
    assert recogniser["terminationGracePeriodSeconds"] >= waits + exit_timeout()


def exit_timeout() -> float:
    """What the image tells Triton about its own end."""
    entry = (ROOT / "deploy/images/models-entry").read_text(encoding="utf-8")
    return float(entry.partition("--exit-timeout-secs=")[2].split('"')[0].split()[0])


def test_probes_ask_for_paths_that_exist(manifests: list[Manifest]) -> None:
    """Every pod has the three probes, at named ports that its container has."""
    paths = {"bridge": ("/healthz", "/readyz", "/healthz")}
    for name in ("bridge", "recogniser"):
        [container] = pod(manifests, name)["containers"]
        probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
        ready, live = "/v2/health/ready", "/v2/health/live"
        assert tuple(probe["path"] for probe in probes) == paths.get(name, (ready, ready, live))
        assert {probe["port"] for probe in probes} <= {port["name"] for port in container["ports"]}
        secure = name == "bridge" and configuration(manifests).settings.tls_cert is not None
        assert {probe.get("scheme", "HTTP") for probe in probes} == {"HTTPS" if secure else "HTTP"}


def test_pods_have_no_rights(manifests: list[Manifest]) -> None:
    """No container runs as root, writes its own files or gains rights; each has requests and a limit of memory."""
    for name in (each["metadata"]["name"] for each in manifests if each["kind"] == "Deployment"):
        spec = pod(manifests, name)
        assert spec["securityContext"]["runAsNonRoot"]
        assert not spec["automountServiceAccountToken"]
        assert not spec["enableServiceLinks"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]


def test_paths_are_mounted(manifests: list[Manifest]) -> None:
    """Files that settings name are on a mounted secret, and the document says how each secret is made."""
    spec = pod(manifests, "bridge")
    [container] = spec["containers"]
    settings = configuration(manifests).settings
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    for path in filter(None, (settings.keys, settings.tls_cert, settings.tls_key, settings.store_secret)):
        assert str(path.parent) in mounts
    for manifest in manifests:
        for secret in secrets(manifest):
            assert f" {secret} " in GUIDE.replace("\\\n", " "), secret


def secrets(manifest: Manifest) -> set[str]:
    """The secrets that a manifest needs."""
    if manifest["kind"] == "ServiceMonitor":
        asked = [endpoint.get("authorization") for endpoint in manifest["spec"]["endpoints"]]
        return {each["credentials"]["name"] for each in asked if each}
    volumes = manifest.get("spec", {}).get("template", {}).get("spec", {}).get("volumes", ())
    return {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}


def test_only_bridges_reach_triton(manifests: list[Manifest]) -> None:
    """The port of inference is open to bridges alone, and recognisers call nobody."""
    policies = [each["spec"] for each in manifests if each["kind"] == "NetworkPolicy"]
    chosen = {"matchLabels": {"app.kubernetes.io/name": "recogniser"}}
    rules = [rule for spec in policies if spec["podSelector"] == chosen for rule in spec["ingress"]]
    bridges = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "bridge"}}}
    for rule in rules:
        assert rule["from"]
        assert rule["from"] == [bridges] or {port["port"] for port in rule["ports"]} == {8002}
    [closed] = [spec for spec in policies if spec["podSelector"] == chosen and "Egress" in spec["policyTypes"]]
    assert closed["egress"] == []


@pytest.mark.parametrize("name", AUTOSCALED)
def test_the_store_is_for_bridges_alone(name: str) -> None:
    """Several bridges share a store, which only they reach, and which calls nobody."""
    made = rendered(KUBERNETES / "overlays" / name)
    settings = configuration(made).settings
    assert settings.store is not None
    address = urlsplit(settings.store)
    service = one(made, "Service", str(address.hostname))["spec"]
    assert [port["port"] for port in service["ports"]] == [address.port]
    labels = one(made, "Deployment", "store")["spec"]["template"]["metadata"]["labels"]
    assert service["selector"] == labels
    bridges = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "bridge"}}}
    stores = {"podSelector": {"matchLabels": labels}}
    of_store, of_bridge = (one(made, "NetworkPolicy", each)["spec"] for each in ("store", "bridge-store"))
    assert of_store["podSelector"] == stores["podSelector"]
    assert of_store["ingress"] == [{"from": [bridges], "ports": [{"port": address.port}]}]
    assert of_store["egress"] == []
    assert of_bridge["podSelector"] == bridges["podSelector"]
    assert of_bridge["egress"] == [{"to": [stores], "ports": [{"port": address.port}]}]


def test_one_bridge_has_no_store() -> None:
    """A single bridge has nobody to share anything with."""
    made = rendered(KUBERNETES / "overlays/small")
    assert configuration(made).settings.store is None
    assert not [each for each in made if each["metadata"]["name"] == "store"]


@pytest.mark.parametrize("kind", ["bridge", "recogniser"])
def test_no_pod_is_missing_during_an_upgrade(manifests: list[Manifest], kind: str) -> None:
    """A new pod is ready before an old one is drained, unless that needs a free GPU. Budgets let one go at a time."""
    deployment = one(manifests, "Deployment", kind)["spec"]
    rolling = deployment["strategy"]["rollingUpdate"]
    needs_gpu = "nvidia.com/gpu" in pod(manifests, kind)["containers"][0]["resources"]["limits"]
    assert rolling == ({"maxUnavailable": 1, "maxSurge": 0} if needs_gpu else {"maxUnavailable": 0, "maxSurge": 1})
    assert one(manifests, "PodDisruptionBudget", kind)["spec"]["maxUnavailable"] == 1
    spread = pod(manifests, kind)["topologySpreadConstraints"]
    assert {each["topologyKey"] for each in spread} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}


def test_images_are_of_this_version(manifests: list[Manifest]) -> None:
    """All images have the version of the code; none is `latest`."""
    for name in ("bridge", "recogniser"):
        spec = pod(manifests, name)
        images = {each["image"] for each in (*spec.get("initContainers", ()), *spec["containers"])}
        assert {image.rpartition(":")[2] for image in images} == {__version__}


@pytest.mark.parametrize("name", AUTOSCALED)
def test_bridges_never_admit_more_than_there_are_slots(name: str) -> None:
    """At every load, the bridges together admit no more sessions than the recognisers have slots, less a lost one."""
    made = rendered(KUBERNETES / "overlays" / name)
    sessions = configuration(made).settings.sessions
    assert isinstance(sessions, int)
    settings = one(made, "ConfigMap", "recogniser-settings")["data"]
    slots = int(settings["STREAMER_SLOTS"]) * int(settings["STREAMER_INSTANCES"])
    bridges, recognisers = scaling(made, "bridge"), scaling(made, "recogniser")
    assert bridges.target < sessions
    for load in range(bridges.most * sessions + 1):
        # Each bridge's probe takes a slot of each instance for a moment.
        spare = (recognisers.at(load) - 1) * (slots - bridges.at(load))
        assert bridges.at(load) * sessions <= spare, load


class Scaling:
    """How many pods an autoscaler makes for a number of sessions."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.least, self.most = spec["minReplicas"], spec["maxReplicas"]
        [used] = [metric["pods"] for metric in spec["metrics"] if metric["type"] == "Pods"]
        self.target = int(used["target"]["averageValue"])

    def at(self, load: int) -> int:
        return int(min(self.most, max(self.least, math.ceil(load / self.target))))


def scaling(manifests: list[Manifest], name: str) -> Scaling:
    return Scaling(one(manifests, "HorizontalPodAutoscaler", name)["spec"])


def test_autoscalers_use_metrics_of_the_rules() -> None:
    """Every metric of an autoscaler is made by a rule of the adapter, from metrics that exist, and none is unused."""
    made = rendered(KUBERNETES / "overlays/cpu")
    rules = yaml.safe_load(one(made, "ConfigMap", "prometheus-adapter-rules")["data"]["config.yaml"])
    asked = set()
    for manifest in made:
        if manifest["kind"] == "HorizontalPodAutoscaler":
            for metric in manifest["spec"]["metrics"]:
                assert metric["type"] in ("Pods", "External")
                asked.add((metric["type"], metric[metric["type"].lower()]["metric"]["name"]))
    given = {("Pods", rule["name"]["as"]) for rule in rules["rules"]}
    assert asked == given | {("External", rule["name"]["as"]) for rule in rules["externalRules"]}
    for rule in (*rules["rules"], *rules["externalRules"]):
        series = rule["seriesQuery"].partition("{")[0]
        written = rule["metricsQuery"].replace("<<.Series>>", series).replace("<<.GroupBy>>", "pod")
        exists(rule["seriesQuery"])
        exists(written.replace("<<.LabelMatchers>>", 'namespace="streamer"'))


def test_keda_asks_for_what_exists(tmp_path: Path) -> None:
    """KEDA's queries are of metrics that exist, and its numbers are those of the other autoscaler."""
    made, other = overlay("keda", tmp_path), rendered(KUBERNETES / "overlays/cpu")
    for manifest in made:
        if manifest["kind"] == "ScaledObject":
            spec, name = manifest["spec"], manifest["metadata"]["name"]
            assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (
                scaling(other, name).least,
                scaling(other, name).most,
            )
            assert int(spec["triggers"][0]["metadata"]["threshold"]) == scaling(other, name).target
            for trigger in spec["triggers"]:
                exists(trigger["metadata"]["query"])


def exists(query: str) -> None:
    """Check that the service or the model gives the samples and labels of a query."""
    known = samples()
    for selector in selectors(query):
        assert selector.name in known
        for matcher in selector.matchers.matchers:
            if matcher.name not in ADDED:
                assert matcher.value in known[selector.name][matcher.name]


def test_monitors_give_the_jobs_that_alerts_name(manifests: list[Manifest]) -> None:
    """The operator's jobs are called as in prometheus.yml, and its ports are those of the services."""
    monitors = [each for each in manifests if each["kind"] == "ServiceMonitor"]
    scraping = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    jobs = {rule["replacement"] for each in monitors for rule in each["spec"]["endpoints"][0]["relabelings"]}
    assert not monitors or jobs == {job["job_name"] for job in scraping["scrape_configs"]}
