"""The operations of a JSON Patch (RFC 6902).

The rules are those of the library upstream uses (evanphx/json-patch v4), its leniences included, because a webhook
or a controller that works there must work here: `replace` of an absent object key adds it, an absent `value` is null,
negative indexes count from the end, and what a `test` or `copy` does not find in an object is null.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from devkube.values import clone, compact, same

MAX_COPIED_BYTES = 3 * 1024 * 1024  # the sum of what `copy` operations of one patch may add
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
Op = Mapping[str, Any]
Place = tuple[Any, Any]  # a container and the key or index in it


class Fails(Exception):
    """The operation does not apply; the text says why."""


def run(doc: Any, ops: Iterable[Op]) -> Any:
    """The document after all of them; it is changed."""
    root, copied = [doc], 0
    for op in ops:
        try:
            copied += _one(root, op)
        except Fails as why:
            raise Fails(f"{op.get('op')} operation does not apply: {why}") from None
        if copied > MAX_COPIED_BYTES:
            raise Fails(f"the copies take {copied} bytes, exceeding the limit {MAX_COPIED_BYTES}")
    return root[0]


def _one(root: list[Any], op: Op) -> int:
    """Apply one operation; bytes that it copied."""
    match op.get("op"):
        case "add":
            _put(_place(root, op), clone(op.get("value")))
        case "remove":
            _take(_place(root, op))
        case "replace":
            _replace(_place(root, op, whole=True), clone(op.get("value")))
        case "move":
            value = _take(_place(root, op, "from"))
            _put(_place(root, op), value)
        case "copy":
            value = clone(_get(_place(root, op, "from")))
            _put(_place(root, op), value)
            return len(compact(value))
        case "test":
            if not same(_get(_place(root, op, whole=True)), op.get("value")):
                raise Fails(f"testing value {op['path']} failed: test failed")
        case _:
            raise Fails("there is no such operation")
    return 0


def _place(root: list[Any], op: Op, field: str = "path", *, whole: bool = False) -> Place:
    """Where a pointer leads. `whole`: it may be the document itself, which the list `root` holds."""
    pointer = op.get(field)
    if pointer is None:
        raise Fails(f"missing {field} field")
    if pointer == "" and whole:
        return root, 0
    _, *tokens = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")]
    here = root[0] if tokens else None
    for token in tokens[:-1]:
        here = _get(_inside(here, token, pointer))
    return _inside(here, tokens[-1] if tokens else "", pointer)


def _inside(container: Any, token: str, pointer: str) -> Place:
    if not isinstance(container, dict | list):
        raise Fails(f'doc is missing path: "{pointer}": missing value')
    if isinstance(container, dict) or token == "-":
        return container, token
    if not _INDEX.fullmatch(token):
        raise Fails(f"{pointer}: value was not a proper array index: '{token}'")
    return container, int(token)


def _get(place: Place) -> Any:
    """An object answers null for a key that it has not."""
    container, key = place
    return container.get(key) if isinstance(container, dict) else container[_index(container, key)]


def _index(container: list[Any], key: Any, more: int = 0) -> int:
    length = len(container) + more
    if key == "-" or not -length <= key < length:
        raise Fails(f"Unable to access invalid index: {key}")
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
        raise Fails(f"Unable to remove nonexistent key: {key}: missing value")
    return container.pop(key)


def _replace(place: Place, value: Any) -> None:
    container, key = place
    container[key if isinstance(container, dict) else _index(container, key)] = value
