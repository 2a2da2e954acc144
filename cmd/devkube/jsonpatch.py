"""The operations of a JSON Patch (RFC 6902), each on a document that may be changed.

The rules are those of the library upstream uses (evanphx/json-patch v4), its leniences included, because a webhook
or a controller that works there must work here: `replace` of an absent object key adds it, an absent `value` is null,
negative indexes count from the end.
"""

import re
from collections.abc import Mapping
from typing import Any

from devkube.values import clone, compact, same

_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
_ESCAPE = re.compile("~[01]")
_NOWHERE = "Unable to access invalid index: {}: invalid index referenced"
_NO_NUMBER = 'strconv.Atoi: parsing "{}": invalid syntax'
Root = list[Any]  # one level above the document, so that the document itself may be replaced
Op = Mapping[str, Any]


class Fails(Exception):
    """The operation does not apply; the text says why, in upstream's words."""


def run(root: Root, op: Op) -> int:
    """Apply one operation; bytes that it copied."""
    match op.get("op"):
        case "add":
            _put(_place(root, op), clone(op.get("value")), f"error in add for path: '{op['path']}'")
        case "remove":
            _take(_place(root, op), f"error in remove for path: '{op['path']}'")
        case "replace":
            _replace(root, op)
        case "move":
            source = _place(root, op, "from", "doc is missing from path")
            value = _take(source, f"error in move for path: '{source[1]}'")
            _put(
                _place(root, op, "path", "doc is missing destination path"),
                value,
                f"error in move for path: '{op['path']}'",
            )
        case "copy":
            value = _get(
                _place(root, op, "from", "doc is missing from path"), f"error in copy for from: '{op['from']}'"
            )
            _put(
                _place(root, op, "path", "doc is missing destination path"),
                clone(value),
                "error while adding value during copy",
            )
            return len(compact(value))
        case "test":
            whole = op.get("path") == ""
            value = (
                root[0]
                if whole
                else _get(_place(root, op, missing="is missing path"), f"error in test for path: '{op['path']}'")
            )
            if not same(value, op.get("value")):
                raise Fails(f"testing value {op['path']} failed: test failed")
        case other:
            raise Fails(f"Unexpected kind: {'unknown' if other is None else other}")
    return 0


Place = tuple[Any, str]  # a container and the key or index in it, as the pointer writes it


def _place(root: Root, op: Op, field: str = "path", missing: str = "doc is missing path") -> Place:
    pointer = op.get(field)
    if pointer is None:
        comma = "," if field == "from" else ""
        why = f"operation{comma} missing {field} field: missing value"
        raise Fails(f"{op['op']} operation failed to decode {field}: {why}")
    tokens = [_ESCAPE.sub(lambda found: "/" if found[0] == "~1" else "~", token) for token in pointer.split("/")]
    here = root[0] if len(tokens) > 1 else None
    for token in tokens[1:-1]:
        try:
            here = _get((here, token), "")
        except Fails:
            here = None
    if not isinstance(here, dict | list):
        shown = f'"{pointer}"' if op["op"] in ("add", "remove") else pointer
        raise Fails(f"{op['op']} operation does not apply: {missing}: {shown}: missing value")
    return here, tokens[-1]


def _index(token: str, length: int) -> int:
    if not _INDEX.fullmatch(token):
        raise Fails(_NO_NUMBER.format(token))
    index = int(token)
    if not -length <= index < length:
        raise Fails(_NOWHERE.format(index))
    return index % length


def _get(place: Place, where: str) -> Any:
    """An object answers null for a key that it has not."""
    container, token = place
    if isinstance(container, dict):
        return container.get(token)
    if not isinstance(container, list):
        raise Fails(f"{where}: missing value")
    try:
        return container[_index(token, len(container))]
    except Fails as why:
        raise Fails(f"{where}: {why}") from None


def _put(place: Place, value: Any, where: str) -> None:
    container, token = place
    if isinstance(container, dict):
        container[token] = value
    elif token == "-":
        container.append(value)
    elif not _INDEX.fullmatch(token):
        raise Fails(f"{where}: value was not a proper array index: '{token}': {_NO_NUMBER.format(token)}")
    else:
        try:
            container.insert(_index(token, len(container) + 1), value)
        except Fails as why:
            raise Fails(f"{where}: {why}") from None


def _take(place: Place, where: str) -> Any:
    container, token = place
    if isinstance(container, dict):
        if token not in container:
            raise Fails(f"{where}: Unable to remove nonexistent key: {token}: missing value")
        return container.pop(token)
    try:
        return container.pop(_index(token, len(container)))
    except Fails as why:
        raise Fails(f"{where}: {why}") from None


def _replace(root: Root, op: Op) -> None:
    value = clone(op.get("value"))
    if op.get("path") == "":
        if not isinstance(value, dict | list):
            raise Fails("replace operation value must be object or array")
        root[0] = value
        return
    container, token = _place(root, op)
    try:
        container[token if isinstance(container, dict) else _index(token, len(container))] = value
    except Fails:
        raise Fails(f"replace operation does not apply: doc is missing key: {op['path']}: missing value") from None
