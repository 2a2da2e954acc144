"""The patches of a kube-apiserver: JSON Patch, JSON Merge Patch, strategic merge patch. Pure: inputs stay as they were.

Upstream answers a JSON Patch that does not apply with a bare "the server rejected our request due to an error in our
request"; here the reason follows. `jsonpatch` has the operations, `strategic` the third kind; server-side apply,
which upstream sends as a patch too, is in `apply`.
"""

from collections.abc import Mapping
from typing import Any

from devkube import jsonpatch
from devkube.errors import About, Cause, StatusError, bad_request, invalid
from devkube.kinds import Object
from devkube.strategic import strategic_merge
from devkube.values import check_depth, clone, go_type

__all__ = ["json_patch", "merge_patch", "strategic_merge"]

MAX_OPERATIONS = 10_000
REJECTED = "the server rejected our request due to an error in our request"


def json_patch(doc: Object, ops: Any) -> Object:
    """The object after a JSON Patch. 400 for what is no patch, 413 for too many operations, 422 for one that fails."""
    check_depth(ops, "the patch")
    _check_operations(ops)
    if len(ops) > MAX_OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}"
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {most}")
    try:
        patched = jsonpatch.run(clone(doc), ops)
    except jsonpatch.Fails as why:
        raise StatusError(422, "Invalid", f"{REJECTED}: {why}") from None
    except RecursionError:  # operations may stack what is shallow by itself
        raise StatusError(422, "Invalid", f"{REJECTED}: the patched object is nested too deeply") from None
    check_depth(patched, "the patched object")
    if not isinstance(patched, dict):
        raise invalid(About("", ""), [Cause("FieldValueInvalid", f"Invalid value: an {go_type(patched)}", "patch")])
    return patched


def merge_patch(doc: Object, patch: Any) -> Object:
    """The object after a merge patch (RFC 7386). 400 for a patch that is not an object."""
    check_depth(patch, "the patch")
    if not isinstance(patch, dict):
        raise bad_request(f"error decoding patch: a merge patch is an object, not {go_type(patch)}")
    return _merged(doc, patch)


def _check_operations(ops: Any) -> None:
    if not isinstance(ops, list) or not all(isinstance(op, dict) for op in ops):
        raise bad_request("error decoding patch: a JSON patch is a list of operations, which are objects")
    for op in ops:
        for field in ("op", "path", "from"):
            if not isinstance(op.get(field), str | None):
                raise bad_request(
                    f"error decoding patch: {field} of an operation is a string, not {go_type(op[field])}"
                )


def _merged(doc: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    # Branches that the patch does not name are copied too: the caller may change the result.
    merged = {key: clone(value) for key, value in doc.items() if key not in patch}
    for key, value in patch.items():
        current = doc.get(key)
        if isinstance(value, dict):
            merged[key] = _merged(current if isinstance(current, dict) else {}, value)
        elif value is not None:
            merged[key] = clone(value)
    return merged
