"""Applying the JSON Patches that our decisions make, for tools without a cluster.

Only what handlers.admission.patches.diff writes: add, remove, replace, copy.

Rules: RFC 6902.
"""

import copy
from typing import Any


def apply(document: Any, patch: list[dict[str, Any]]) -> Any:
    """A patched copy. Raises LookupError for a path that is not there."""
    found = copy.deepcopy(document)
    for op in patch:
        *parents, last = _parts(op["path"])
        target = found
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        value = copy.deepcopy(_at(found, op["from"]) if op["op"] == "copy" else op.get("value"))
        if isinstance(target, list):
            _change_list(target, last, op["op"], value)
        elif op["op"] == "remove":
            del target[last]
        else:
            target[last] = value
    return found


def _change_list(target: list[Any], last: str, op: str, value: Any) -> None:
    at = len(target) if last == "-" else int(last)
    if op == "remove":
        del target[at]
    elif op == "replace":
        target[at] = value
    else:
        target.insert(at, value)


def _parts(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _at(document: Any, path: str) -> Any:
    for part in _parts(path):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document
