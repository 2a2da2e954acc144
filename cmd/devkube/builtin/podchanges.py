"""A whole Pod: created, updated, resized, or given ephemeral containers; what of it may change when.

Rule: upstream's `pkg/apis/core/validation`: ValidatePodCreate, ValidatePodUpdate and its siblings for subresources.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devkube.builtin import pods
from devkube.builtin.causes import forbidden, invalid
from devkube.errors import Cause
from devkube.kinds import Object

Json = Mapping[str, Any]
CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def pod(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = new.get("spec") or {}
    yield from pods.pod_spec(spec, "spec", template=False)
    for index, one in enumerate(spec.get("containers") or ()):
        if (image := one.get("image") or "") != image.strip():
            text = "must not have leading or trailing whitespace"
            yield invalid(f"spec.containers[{index}].image", image, text)
    if old is None:
        if spec.get("ephemeralContainers"):
            yield forbidden("spec.ephemeralContainers", "cannot be set on create")
        if spec.get("schedulingGates") and spec.get("nodeName"):
            yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    elif subresource == "ephemeralcontainers":
        yield from _ephemeral_update(spec, old.get("spec") or {})
    elif subresource in ("", "resize"):
        yield from _update(spec, old.get("spec") or {}, resize=subresource == "resize")


def _update(new: Json, old: Json, *, resize: bool) -> Iterator[Cause]:
    for key in ("containers", "initContainers"):
        if len(new.get(key) or ()) != len(old.get(key) or ()):
            yield forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and after is None:
        yield invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif before is not None and after is not None and before < after:
        yield invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")
    kept = [_without(one, ("tolerationSeconds",)) for one in new.get("tolerations") or ()]
    for one in old.get("tolerations") or ():
        if _without(one, ("tolerationSeconds",)) not in kept:
            text = "existing toleration can not be modified except its tolerationSeconds"
            yield forbidden("spec.tolerations", text)
            break
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", text)
    selector, chosen = new.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if known and not chosen.items() <= selector.items():
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", selector, text)
    changed = _changed(_fixed(new, old, resize=resize), _fixed(old, old, resize=resize))
    if changed:
        yield forbidden("spec", f"pod updates may not change fields other than {CHANGEABLE}\n{', '.join(changed)}")


def _without(one: Json, keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key not in keys}


def _fixed(spec: Json, old: Json, *, resize: bool) -> dict[str, Any]:
    """What of a spec must stay: everything but what may change (for `resize`: resources may, images may not)."""
    drop = ("resources", "resizePolicy") if resize else ("image",)
    fixed = {key: value for key, value in spec.items() if key not in ("tolerations", "schedulingGates")}
    fixed.pop("activeDeadlineSeconds", None)
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [_without(one, drop) for one in fixed[key]]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and fixed.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if old.get("schedulingGates"):
        fixed.pop("nodeSelector", None)  # a gated Pod's may grow: `_update` looks at it
    return fixed


def _changed(new: Json, old: Json) -> list[str]:
    """The fields that differ, one level into containers: upstream prints a diff, this the names."""
    return [f"spec.{key}" for key in sorted({*new, *old}) if new.get(key) != old.get(key)]


def _ephemeral_update(new: Json, old: Json) -> Iterator[Cause]:
    at, by_name = "spec.ephemeralContainers", {one.get("name"): one for one in new.get("ephemeralContainers") or ()}
    for one in old.get("ephemeralContainers") or ():
        name = one.get("name")
        if name not in by_name:
            yield forbidden(at, f'existing ephemeral containers "{name}" may not be removed\n')
        elif by_name[name] != one:
            yield forbidden(at, f'existing ephemeral containers "{name}" may not be changed\n')
