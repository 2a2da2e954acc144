"""What may not change on a Pod that lives, terminating ones included: the opt-in and the two annotations we wrote.

Injection happens at creation and only there, and the configuration file is a projection of an annotation: an edit would
reach a running container. Everything else is free, finalizers first of all.

Rules: seed 003, "Refusals and fixes"; spec/worker-gpustack.md section 5.
"""

import hashlib
from typing import Any, Final

from handlers.admission.decision import Decision, Violation, allowed
from handlers.admission.view import View
from handlers.kvcachepool import contract, names
from handlers.outcome import Object

TEMPLATE: Final = "edit the workload's Pod template instead, and let the Pod be replaced"
_KEPT: Final = ("name", "namespace", "uid", "generateName", "ownerReferences", "deletionTimestamp", "finalizers")


def see(pod: Object) -> View:
    """Only what is compared. Annotations are digests: equal exactly where the values are."""
    metadata = given if isinstance(given := pod.get("metadata"), dict) else {}
    found: Object = {key: metadata[key] for key in _KEPT if key in metadata}
    if contract.opted_in(metadata.get("labels")):
        found["labels"] = {names.INJECT: "true"}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        found["annotations"] = {key: _digest(annotations[key]) for key in names.WRITTEN if key in annotations}
    return View({"metadata": found})


def _digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(str(value).encode()).hexdigest()


def decide(old: Object, new: Object) -> Decision:
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    was, now = contract.opted_in(before.get("labels")), contract.opted_in(after.get("labels"))
    if not was and not now:
        return allowed("not-opted-in")
    found = []
    if was != now:
        detail = f"cannot be changed on a Pod that exists: {TEMPLATE}"
        found.append(Violation("Forbidden", f"metadata.labels[{names.INJECT}]", detail))
    for key in names.WRITTEN:
        if (before.get("annotations") or {}).get(key) != (after.get("annotations") or {}).get(key):
            detail = f"says what was injected when the Pod was created, and cannot be changed: {TEMPLATE}"
            found.append(Violation("Forbidden", names.annotation(key), detail))
    if not found:
        return allowed("unchanged")
    return Decision(verdict="refused", check="frozen", reason=found[0].detail, violations=tuple(found))
