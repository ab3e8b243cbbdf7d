"""The files for Prometheus and Grafana: metrics exist, alerts say what to do, and two documents have all of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from tests.deploy.known_metrics import MODEL, OF_TRITON, families, samples, selectors
from tests.project import ROOT

ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))
SCRAPING = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((ROOT / "deploy/grafana/streamer.json").read_text(encoding="utf-8"))
MONITORING = (ROOT / "docs/how-to/monitoring.md").read_text(encoding="utf-8")
TROUBLESHOOTING = (ROOT / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")
# Labels that Prometheus adds to a sample or makes itself.
ADDED = {"job", "instance"}
OF_PROMETHEUS = {"up"}
ENDINGS = re.compile(r"_(total|bucket|count|sum)$")


def rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


def queries() -> list[tuple[str, str]]:
    """Every query with its place."""
    found = [(rule["alert"], rule["expr"]) for rule in rules()]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            found.append((panel["title"], target["expr"].replace("$__rate_interval", "5m")))
    return found


@pytest.mark.parametrize(("place", "query"), queries())
def test_queries_ask_for_what_exists(place: str, query: str) -> None:
    """Each sample, label and value in a query is one that the service or the model can give."""
    known = samples()
    for selector in selectors(query):
        if selector.name in OF_PROMETHEUS:
            assert {matcher.value for matcher in selector.matchers.matchers} <= jobs()
            continue
        if selector.name in OF_TRITON:
            continue
        assert selector.name in known, place
        for matcher in selector.matchers.matchers:
            if matcher.name not in ADDED:
                assert set(matcher.value.split("|")) <= known[selector.name][matcher.name], place


@pytest.mark.parametrize(("place", "query"), queries())
def test_counters_are_not_shown_bare(place: str, query: str) -> None:
    """Counters and buckets are only used over a time, because their value depends on the start of the service."""
    for selector in selectors(query):
        if ENDINGS.search(selector.name or ""):
            assert re.search(rf"(rate|increase)\({selector.name}\b", query), place


def test_legends_name_labels_that_are_left() -> None:
    """A legend only shows labels that its query keeps."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            for label in re.findall(r"{{\s*(\w+)\s*}}", target["legendFormat"]):
                grouped = re.findall(r"by \(([\w, ]+)\)", target["expr"])
                assert not grouped or any(label in group.split(", ") for group in grouped), panel["title"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alerts_say_what_to_do(rule: dict[str, Any]) -> None:
    """An alert has a severity, a sentence about the problem and one about the remedy, and the document names it."""
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "runbook"}
    for sentence in rule["annotations"].values():
        assert len(sentence.split()) >= 5
        assert sentence.endswith(".")
    kept = re.findall(r"by \(([\w, ]+)\)", rule["expr"])
    for label in re.findall(r"\$labels\.(\w+)", str(rule["annotations"])):
        assert not kept or label in kept[0].split(", ")
    assert f"`{rule['alert']}`" in TROUBLESHOOTING


def test_alerts_have_names_of_their_own() -> None:
    """No two alerts have the same name, and the document names none that does not exist."""
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    assert set(re.findall(r"^\| `([A-Z]\w+)` \|", TROUBLESHOOTING, re.MULTILINE)) == set(names)


def test_every_metric_is_explained() -> None:
    """The document names exactly the metrics of the service and of the model."""
    counters = {ENDINGS.sub("", name) for name in samples() if name.endswith("_total")}
    given = {f"{family.name}_total" if family.name in counters else family.name for family in families()}
    given |= {base for name in samples() for base in (name, ENDINGS.sub("", name)) if f'"{base}"' in MODEL}
    assert set(re.findall(r"`(streamer_\w+)`", MONITORING)) == given


def test_dashboard() -> None:
    """Panels have their own ids and places, a description, and the data source that the user chose."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    for panel in panels:
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["targets"]


def test_every_metric_is_on_the_dashboard() -> None:
    """Every metric is shown on the dashboard."""
    shown = {ENDINGS.sub("", selector.name or "") for _, query in queries() for selector in selectors(query)}
    assert {ENDINGS.sub("", name) for name in samples()} <= shown


def test_scraping() -> None:
    """The example loads these alerts, and has the jobs that they name."""
    assert SCRAPING["rule_files"] == ["alerts.yml"]
    assert jobs() == {"streamer", "triton"}


def jobs() -> set[str]:
    return {job["job_name"] for job in SCRAPING["scrape_configs"]}
