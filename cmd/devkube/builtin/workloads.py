"""Kinds that hold a Pod template: Deployment, ReplicaSet, DaemonSet, StatefulSet, ReplicationController, Job, CronJob.

Rule: upstream's `pkg/apis/apps/validation` and `pkg/apis/batch/validation`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from devkube.builtin import names
from devkube.builtin.causes import NOT_NEGATIVE, forbidden, invalid, required, unchanged, unsupported
from devkube.builtin.labelselectors import label_selector, selects
from devkube.builtin.metadata import annotations, labels
from devkube.builtin.pods import pod_spec
from devkube.errors import Cause
from devkube.kinds import Object

Json = Mapping[str, Any]
_NOT_NEGATIVE = (
    "replicas",
    "minReadySeconds",
    "revisionHistoryLimit",
    "progressDeadlineSeconds",
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
)
_FREE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_FIXED_OF_JOBS = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


def replicated(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Deployment and ReplicaSet."""
    spec = new["spec"]
    yield from _numbers(spec)
    yield from _selected(spec, "deployment")
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate" and "rollingUpdate" in strategy:
        text = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden("spec.strategy.rollingUpdate", text)
    elif rolling := strategy.get("rollingUpdate"):
        yield from _rolling(rolling, "spec.strategy.rollingUpdate")
        if _amount(rolling.get("maxUnavailable")) == 0 == _amount(rolling.get("maxSurge")):
            yield invalid(
                "spec.strategy.rollingUpdate.maxUnavailable",
                rolling.get("maxUnavailable"),
                "may not be 0 when `maxSurge` is 0",
            )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    if old is not None:
        yield from unchanged("spec.selector", spec.get("selector"), (old.get("spec") or {}).get("selector"))


def daemon_set(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new["spec"]
    yield from _numbers(spec)
    yield from _selected(spec, "daemonset")
    yield from _rolling(
        (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate"
    )
    if old is not None:
        yield from unchanged("spec.selector", spec.get("selector"), (old.get("spec") or {}).get("selector"))


def stateful_set(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new["spec"]
    claims = [(one.get("metadata") or {}).get("name") or "" for one in spec.get("volumeClaimTemplates") or ()]
    yield from _numbers(spec)
    yield from _selected(spec, "statefulset", claims)
    for index, one in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from claim_spec(one.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    if spec.get("serviceName") and old is None:
        yield from names.check("spec.serviceName", spec["serviceName"], names.dns_subdomain)
    if old is not None:
        before, after = ({k: v for k, v in s.items() if k not in _FREE} for s in (old.get("spec") or {}, spec))
        if before != after:
            *first, last = (f"'{name}'" for name in _FREE)
            listed = f"{', '.join(first)} and {last}"
            text = f"updates to statefulset spec for fields other than {listed} are forbidden"
            yield forbidden("spec", text)


def replication_controller(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new["spec"]
    yield from _numbers(spec)
    if not spec.get("selector"):
        yield required("spec.selector")
    if "template" not in spec:
        yield required("spec.template")
        return
    yield from template(spec["template"], "spec.template")
    found = (spec["template"].get("metadata") or {}).get("labels") or {}
    if spec.get("selector") and not spec["selector"].items() <= found.items():
        yield invalid("spec.template.metadata.labels", found, "`selector` does not match template `labels`")


def job(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new["spec"]
    yield from _job_spec(spec, "spec")
    if "selector" not in spec:
        yield required("spec.selector")
    else:
        yield from label_selector(spec["selector"], "spec.selector")
        yield from _matching(spec, "spec")
    if old is None:
        return
    before = old.get("spec") or {}
    for key in _FIXED_OF_JOBS:
        yield from unchanged(f"spec.{key}", spec.get(key), before.get(key))
    if spec.get("completionMode") != "Indexed":
        yield from unchanged("spec.completions", spec.get("completions"), before.get("completions"))
    if not before.get("suspend"):  # the template of a suspended Job may still be adjusted
        yield from unchanged("spec.template", spec.get("template"), before.get("template"))


def cron_job(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new["spec"]
    yield from _numbers(spec)
    name = (new.get("metadata") or {}).get("name") or ""
    if old is None and len(name) > 52:  # 11 characters are added for each Job
        yield invalid("metadata.name", name, "must be no more than 52 characters")
    schedule = spec.get("schedule") or ""
    if schedule:
        yield from _schedule(schedule)
    yield from _job_spec(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")


def _job_spec(spec: Json, at: str) -> Iterator[Cause]:
    yield from _numbers(spec, at)
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and "completions" not in spec:
        yield required(f"{at}.completions", "when completion mode is Indexed")
    for key in () if indexed else ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if key in spec:
            yield invalid(f"{at}.{key}", spec[key], "requires indexed completion mode")
    yield from template(spec["template"], f"{at}.template")
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy == "Always":
        yield required(f"{at}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield unsupported(f"{at}.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid(f"{at}.template.spec.restartPolicy", policy, text)


def claim_spec(spec: Json, at: str) -> Iterator[Cause]:
    """What a volume claim asks for."""
    if not spec.get("accessModes"):
        yield required(f"{at}.accessModes", "at least 1 access mode is required")
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        yield required(f"{at}.resources[storage]")


def template(found: Json, at: str, extra_volumes: list[str] | None = None) -> Iterator[Cause]:
    meta = found.get("metadata") or {}
    yield from labels(meta.get("labels") or {}, f"{at}.labels")
    yield from annotations(meta.get("annotations") or {}, f"{at}.annotations")
    spec = found.get("spec") or {}
    yield from pod_spec(spec, f"{at}.spec", extra_volumes or ())
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{at}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _selected(spec: Json, kind: str, extra_volumes: list[str] | None = None) -> Iterator[Cause]:
    """The selector, whether it selects the template, and the template of a kind whose Pods run forever."""
    selector = spec.get("selector")
    if selector is not None:
        yield from label_selector(selector, "spec.selector")
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    else:
        yield from _matching(spec, "spec")
    yield from template(spec["template"], "spec.template", extra_volumes)
    pod = spec["template"]["spec"]
    if pod.get("restartPolicy") in ("OnFailure", "Never"):
        yield unsupported("spec.template.spec.restartPolicy", pod["restartPolicy"], ("Always",))
    if "activeDeadlineSeconds" in pod:
        text = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", text)


def _matching(spec: Json, at: str) -> Iterator[Cause]:
    found = (spec["template"].get("metadata") or {}).get("labels")
    if "selector" not in spec or not selects(spec["selector"], found or {}):  # no selector selects nothing
        yield invalid(f"{at}.template.metadata.labels", found, "`selector` does not match template `labels`")


def _numbers(spec: Json, at: str = "spec") -> Iterator[Cause]:
    for key in _NOT_NEGATIVE:
        if (value := spec.get(key)) is not None and value < 0:
            yield invalid(f"{at}.{key}", value, NOT_NEGATIVE)


def _rolling(rolling: Json, at: str) -> Iterator[Cause]:
    for key in ("maxUnavailable", "maxSurge"):
        value = rolling.get(key, 0)
        if isinstance(value, str) and not re.fullmatch(r"[0-9]+%", value):
            text = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
                "regex used for validation is '[0-9]+%')"
            )
            yield invalid(f"{at}.{key}", value, text)
        elif isinstance(value, int) and value < 0:
            yield invalid(f"{at}.{key}", value, NOT_NEGATIVE)
        elif key == "maxUnavailable" and isinstance(value, str) and int(value[:-1]) > 100:
            yield invalid(f"{at}.{key}", value, "must not be greater than 100%")


def _amount(value: int | str | None) -> int:
    text = str(value or 0).removesuffix("%")
    return int(text) if text.isdigit() else -1


_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = re.compile("jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat", re.IGNORECASE)
_PART = re.compile(r"(\*|\?|\d+(-\d+)?)(/\d+)?")


def _schedule(schedule: str) -> Iterator[Cause]:
    at = "spec.schedule"
    if "TZ" in schedule:
        yield invalid(at, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
        return
    if re.fullmatch(r"@(yearly|annually|monthly|weekly|daily|midnight|hourly|every \S+)", schedule):
        return
    fields = schedule.split()
    if len(fields) != 5:
        yield invalid(at, schedule, f"expected exactly 5 fields, found {len(fields)}: {fields}")
        return
    for text, (low, high) in zip(fields, _RANGES, strict=True):
        for part in _NAMES.sub(str(low or 1), text).split(","):
            numbers = [int(one) for one in re.findall(r"\d+", part.partition("/")[0])]
            if not _PART.fullmatch(part) or any(not low <= one <= high for one in numbers):
                yield invalid(at, schedule, f"failed to parse {text}: must be within {low} and {high}")
                break


VALIDATES = {
    "Deployment": replicated,
    "ReplicaSet": replicated,
    "DaemonSet": daemon_set,
    "StatefulSet": stateful_set,
    "ReplicationController": replication_controller,
    "Job": job,
    "CronJob": cron_job,
}
