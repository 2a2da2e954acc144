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
from devkube.values import check_depth, clone, compact, go_type

__all__ = ["json_patch", "merge_patch", "strategic_merge"]

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024  # the sum of what `copy` operations of one patch may add
REJECTED = "the server rejected our request due to an error in our request"
_UNDECODABLE = "error decoding patch: json: cannot unmarshal {} into Go {} of type {}"


def json_patch(doc: Object, ops: Any) -> Object:
    """The object after a JSON Patch. 400 for what is no patch, 413 for too many operations, 422 for one that fails."""
    check_depth(ops, "the patch")
    _check_operations(ops)
    if len(ops) > MAX_OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}"
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {most}")
    root = [clone(doc)]
    copied = 0
    for op in ops:
        try:
            copied += jsonpatch.run(root, op)
        except jsonpatch.Fails as why:
            raise unprocessable(str(why)) from None
        except RecursionError:  # operations may stack what is shallow by itself
            raise unprocessable("the patched object is nested too deeply") from None
        if copied > MAX_COPIED_BYTES:
            raise unprocessable(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{copied}, exceeding the limit {MAX_COPIED_BYTES}"
            )
    check_depth(root[0], "the patched object")
    return _object(root[0])


def merge_patch(doc: Object, patch: Any) -> Object:
    """The object after a merge patch (RFC 7386). 400 for a patch that is not an object."""
    check_depth(patch, "the patch")
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise bad_request(_UNDECODABLE.format(go_type(patch), "value", "map[string]interface {}"))
    return _merged(doc, patch)


def unprocessable(why: str) -> StatusError:
    """422 for a well-formed patch that does not fit the object."""
    return StatusError(422, "Invalid", f"{REJECTED}: {why}")


def _check_operations(ops: Any) -> None:
    if not isinstance(ops, list):
        raise bad_request(_UNDECODABLE.format(go_type(ops), "value", "[]handlers.jsonPatchOp"))
    for op in ops:
        if not isinstance(op, dict):
            raise bad_request(_UNDECODABLE.format(go_type(op), "value", "handlers.jsonPatchOp"))
        for field in ("op", "path", "from"):
            if not isinstance(op.get(field), str | None):
                raise bad_request(
                    _UNDECODABLE.format(go_type(op[field]), f"struct field jsonPatchOp.{field}", "string")
                )


def _object(patched: Any) -> Object:
    if isinstance(patched, dict):
        return patched
    why = f"json: cannot unmarshal {go_type(patched)} into Go value of type map[string]interface {{}}"
    cause = Cause("FieldValueInvalid", f"Invalid value: {compact(compact(patched)[:200])}: {why}", "patch")
    raise invalid(About("", ""), [cause])


def _merged(doc: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    # Branches that the patch does not name are copied too: the caller may change the result.
    merged = {key: clone(value) for key, value in doc.items() if key not in patch}
    for key, value in patch.items():
        if value is None:
            continue
        current = doc.get(key)
        if not isinstance(current, dict):
            merged[key] = _without_nulls(value)
        elif isinstance(value, dict):
            merged[key] = _merged(current, value)
        else:
            merged[key] = clone(value)  # upstream leaves the nulls inside a list that replaces an object
    return merged


def _without_nulls(value: Any) -> Any:
    """Nulls in objects mean "delete" and vanish; those in lists are items."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
