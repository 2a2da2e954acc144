"""Kinds that hold a Pod template: Deployment, ReplicaSet, DaemonSet, StatefulSet, Job.

Rule: upstream's `pkg/apis/apps/validation` and `pkg/apis/batch/validation`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from devkube import selectors
from devkube.builtin.metadata import annotations, label_selector, labels
from devkube.builtin.pods import pod_spec
from devkube.causes import NOT_NEGATIVE, forbidden, invalid, required, unchanged, unsupported
from devkube.errors import Cause
from devkube.kinds import Object

Json = Mapping[str, Any]
_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "parallelism", "completions", "backoffLimit")
_FREE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)


def workload(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Deployment, ReplicaSet, DaemonSet, StatefulSet."""
    spec = new["spec"]
    before = (old or {}).get("spec") or {}
    yield from _numbers(spec)
    if selector := spec.get("selector"):
        yield from label_selector(selector, "spec.selector")
    elif selector is not None:
        yield invalid("spec.selector", selector, f"empty selector is invalid for {new['kind'].lower()}")
    yield from _matching(spec)
    claims = [(one.get("metadata") or {}).get("name") or "" for one in spec.get("volumeClaimTemplates") or ()]
    yield from _template(spec["template"], "spec.template", claims)
    pod = spec["template"]["spec"]
    if pod.get("restartPolicy") in ("OnFailure", "Never"):
        yield unsupported("spec.template.spec.restartPolicy", pod["restartPolicy"], ("Always",))
    yield from _rolling(spec.get("strategy") or {})
    if new["kind"] == "StatefulSet" and old is not None:
        was, now = ({k: v for k, v in one.items() if k not in _FREE} for one in (before, spec))
        if was != now:
            *first, last = (f"'{name}'" for name in _FREE)
            text = f"updates to statefulset spec for fields other than {', '.join(first)} and {last} are forbidden"
            yield forbidden("spec", text)
    elif old is not None:
        yield from unchanged("spec.selector", spec.get("selector"), before.get("selector"))


def _rolling(strategy: Json) -> Iterator[Cause]:
    at, rolling = "spec.strategy.rollingUpdate", strategy.get("rollingUpdate")
    if rolling is None:
        return
    if strategy.get("type") == "Recreate":
        yield forbidden(at, "may not be specified when strategy `type` is 'Recreate'")
        return
    amounts = {key: str(rolling.get(key, 0)) for key in ("maxUnavailable", "maxSurge")}
    for key, text in amounts.items():
        if not re.fullmatch("[0-9]+%?", text):
            told = "must be a number that is not negative, or a percentage such as 25%"
            yield invalid(f"{at}.{key}", rolling[key], told)
    if all(text.strip("0%") == "" for text in amounts.values()):
        yield invalid(f"{at}.maxUnavailable", rolling.get("maxUnavailable"), "may not be 0 when `maxSurge` is 0")


def job(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new["spec"]
    yield from _numbers(spec)
    if spec.get("completionMode") == "Indexed" and "completions" not in spec:
        yield required("spec.completions", "when completion mode is Indexed")
    yield from _template(spec["template"], "spec.template")
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy not in ("OnFailure", "Never"):
        yield required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    yield from label_selector(spec.get("selector") or {}, "spec.selector")
    yield from _matching(spec)
    if old is not None:
        before = old.get("spec") or {}
        fixed = ["selector", "completionMode", "completions"] if spec.get("completionMode") != "Indexed" else []
        for key in fixed if before.get("suspend") else [*fixed, "template"]:
            yield from unchanged(f"spec.{key}", spec.get(key), before.get(key))


def _template(found: Json, at: str, extra_volumes: list[str] | None = None) -> Iterator[Cause]:
    meta, spec = found.get("metadata") or {}, found.get("spec") or {}
    yield from labels(meta.get("labels") or {}, f"{at}.labels")
    yield from annotations(meta.get("annotations") or {}, f"{at}.annotations")
    yield from pod_spec(spec, f"{at}.spec", extra_volumes or ())
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{at}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _matching(spec: Json) -> Iterator[Cause]:
    found = (spec["template"].get("metadata") or {}).get("labels")
    try:
        matches = selectors.matches(spec.get("selector"), found or {})  # no selector selects nothing
    except Exception:  # an operator that is none is told by the selector's own rules
        return
    if not matches:
        at = "spec.template.metadata.labels"
        yield invalid(at, found, "`selector` does not match template `labels`")


def _numbers(spec: Json) -> Iterator[Cause]:
    for key in _COUNTS:
        if (value := spec.get(key)) is not None and value < 0:
            yield invalid(f"spec.{key}", value, NOT_NEGATIVE)


VALIDATES = {**dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"), workload), "Job": job}
