"""Renders our kustomize overlays as kustomize would: the few features that they use, and an error for any other."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from tests.project import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"
Manifest = dict[str, Any]
# Lists that are merged by a key of their entries. All others are replaced as a whole.
MERGED = {"containers": "name", "initContainers": "name", "volumes": "name", "volumeMounts": "mountPath"}
PORTS = {"Deployment": "containerPort", "Service": "port"}
KNOWN = {"apiVersion", "kind", "namespace", "labels", "resources", "components", "patches", "images"}
WITHOUT_NAMESPACE = {"Namespace"}


def rendered(folder: Path) -> list[Manifest]:
    """The manifests of an overlay."""
    return _added([], folder)


def manifests_in(path: Path) -> list[Manifest]:
    """The manifests of one file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def _added(manifests: list[Manifest], folder: Path) -> list[Manifest]:
    """What a kustomization or a component makes of these manifests."""
    [told] = manifests_in(folder / "kustomization.yaml")
    assert set(told) <= KNOWN, f"{folder}: {set(told) - KNOWN}"
    for name in told.get("resources", ()):
        path = (folder / name).resolve()
        manifests = [*manifests, *(_added([], path) if path.is_dir() else manifests_in(path))]
    for name in told.get("components", ()):
        manifests = _added(manifests, (folder / name).resolve())
    for patch in told.get("patches", ()):
        assert set(patch) == {"path"}
        for change in manifests_in(folder / patch["path"]):
            manifests = _patched(manifests, change, folder)
    for manifest in manifests:
        if "namespace" in told and manifest["kind"] not in WITHOUT_NAMESPACE:
            manifest["metadata"]["namespace"] = told["namespace"]
        for label in told.get("labels", ()):
            manifest["metadata"].setdefault("labels", {}).update(label["pairs"])
        for image in told.get("images", ()):
            _name_image(manifest, image)
    names = [identity(manifest) for manifest in manifests]
    assert len(names) == len(set(names))
    return manifests


def identity(manifest: Manifest) -> tuple[str, str]:
    """What a patch names its target by."""
    return manifest["kind"], manifest["metadata"]["name"]


def _patched(manifests: list[Manifest], change: Manifest, folder: Path) -> list[Manifest]:
    targets = [manifest for manifest in manifests if identity(manifest) == identity(change)]
    assert len(targets) == 1, f"{folder}: the patch of {identity(change)} has {len(targets)} targets"
    assert targets[0]["apiVersion"] == change["apiVersion"]
    return [_merged(each, change, change["kind"]) if each is targets[0] else each for each in manifests]


def _merged(before: Any, change: Any, kind: str, field: str = "") -> Any:
    if isinstance(before, dict) and isinstance(change, dict):
        result = dict(before)
        for name, value in change.items():
            if value is None:
                assert name in before, f"{name} is removed but not there"
                del result[name]
            else:
                result[name] = _merged(before.get(name), value, kind, name)
        return result
    key = PORTS.get(kind) if field == "ports" else MERGED.get(field)
    if isinstance(before, list) and isinstance(change, list) and key:
        result = {entry[key]: entry for entry in before}
        # kustomize puts new entries first.
        new = [copy.deepcopy(entry) for entry in change if entry[key] not in result]
        for entry in change:
            if entry.get("$patch") == "delete":
                del result[entry[key]]
            elif entry[key] in result:
                result[entry[key]] = _merged(result[entry[key]], entry, kind)
        return [*new, *result.values()]
    return copy.deepcopy(change)


def _name_image(manifest: Manifest, image: dict[str, str]) -> None:
    pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
    for container in (*pod.get("initContainers", ()), *pod.get("containers", ())):
        if container["image"] == image["name"]:
            container["image"] = f"{image['newName']}:{image['newTag']}"
