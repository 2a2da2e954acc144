"""The patches of a kube-apiserver: JSON Patch, JSON Merge Patch, strategic merge patch. Pure: inputs stay as they were.

Upstream answers a JSON Patch that does not apply with a bare "the server rejected our request due to an error in our
request"; here the reason follows. The rules are those of the library upstream uses (evanphx/json-patch v4), its
leniences included, because a webhook or a controller that works there must work here: `replace` of an absent object
key adds it, an absent `value` is null, negative indexes count from the end, and what a `test` or `copy` does not find
in an object is null. `strategic` has the third kind; server-side apply, which upstream sends as a patch too, is in
`apply`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from devkube.errors import About, Cause, StatusError, bad_request, invalid
from devkube.kinds import Object
from devkube.values import check_depth, clone, compact, go_type, same

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024  # the sum of what `copy` operations of one patch may add
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
Place = tuple[Any, Any]  # a container and the key or index in it
REJECTED = "the server rejected our request due to an error in our request"


class _Operation(msgspec.Struct):
    op: str = "none"
    path: str | None = None
    source: str | None = msgspec.field(default=None, name="from")
    value: Any = None


class _Fails(Exception):
    """The operation does not apply; the text says why."""


def json_patch(doc: Object, ops: Any) -> Object:
    """The object after a JSON Patch. 400 for what is no patch, 413 for too many operations, 422 for one that fails."""
    try:
        operations = msgspec.convert(ops, list[_Operation])
    except msgspec.ValidationError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if len(operations) > MAX_OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {most}")
    try:
        patched = _run(clone(doc), operations)
        check_depth(patched)  # copies stack what is shallow by itself
    except (_Fails, ValueError, RecursionError) as why:
        raise StatusError(422, "Invalid", f"{REJECTED}: {why}") from None
    if not isinstance(patched, dict):
        raise invalid(About("", ""), [Cause("FieldValueInvalid", f"Invalid value: an {go_type(patched)}", "patch")])
    return patched


def merge_patch(doc: Object, patch: Any) -> Object:
    """The object after a merge patch (RFC 7386). 400 for a patch that is not an object."""
    if not isinstance(patch, dict):
        raise bad_request(f"error decoding patch: a merge patch is an object, not {go_type(patch)}")
    return _merged(doc, patch)


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


def _run(doc: Any, ops: Iterable[_Operation]) -> Any:
    """The document after all of them; it is changed."""
    root, copied = [doc], 0
    for op in ops:
        try:
            copied += _one(root, op)
        except _Fails as why:
            raise _Fails(f"{op.op} operation does not apply: {why}") from None
        if copied > MAX_COPIED_BYTES:
            raise _Fails(f"the copies take {copied} bytes, exceeding the limit {MAX_COPIED_BYTES}")
    return root[0]


def _one(root: list[Any], op: _Operation) -> int:
    """Apply one operation; bytes that it copied."""
    match op.op:
        case "add":
            _put(_place(root, op.path), clone(op.value))
        case "remove":
            _take(_place(root, op.path))
        case "replace":
            _replace(_place(root, op.path, whole=True), clone(op.value))
        case "move":
            value = _take(_place(root, op.source))
            _put(_place(root, op.path), value)
        case "copy":
            value = clone(_get(_place(root, op.source)))
            _put(_place(root, op.path), value)
            return len(compact(value))
        case "test":
            if not same(_get(_place(root, op.path, whole=True)), op.value):
                raise _Fails(f"testing value {op.path} failed: test failed")
        case _:
            raise _Fails("there is no such operation")
    return 0


def _place(root: list[Any], pointer: str | None, *, whole: bool = False) -> Place:
    """Where a pointer leads. `whole`: it may be the document itself, which the list `root` holds."""
    if pointer is None:
        raise _Fails("missing path or from field")
    if pointer == "" and whole:
        return root, 0
    _, *tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")]
    here = root[0] if tokens else None
    for token in tokens[:-1]:
        here = _get(_inside(here, token, pointer))
    return _inside(here, tokens[-1] if tokens else "", pointer)


def _inside(container: Any, token: str, pointer: str) -> Place:
    if not isinstance(container, dict | list):
        raise _Fails(f'doc is missing path: "{pointer}": missing value')
    if isinstance(container, dict) or token == "-":
        return container, token
    if not _INDEX.fullmatch(token):
        raise _Fails(f"{pointer}: value was not a proper array index: '{token}'")
    return container, int(token)


def _get(place: Place) -> Any:
    """An object answers null for a key that it has not."""
    container, key = place
    return container.get(key) if isinstance(container, dict) else container[_index(container, key)]


def _index(container: list[Any], key: Any, more: int = 0) -> int:
    length = len(container) + more
    if key == "-" or not -length <= key < length:
        raise _Fails(f"Unable to access invalid index: {key}")
    found: int = key % length
    return found


def _put(place: Place, value: Any) -> None:
    container, key = place
    if isinstance(container, dict):
        container[key] = value
    else:
        container.insert(len(container) if key == "-" else _index(container, key, 1), value)


def _take(place: Place) -> Any:
    container, key = place
    if isinstance(container, list):
        return container.pop(_index(container, key))
    if key not in container:
        raise _Fails(f"Unable to remove nonexistent key: {key}: missing value")
    return container.pop(key)


def _replace(place: Place, value: Any) -> None:
    container, key = place
    container[key if isinstance(container, dict) else _index(container, key)] = value
