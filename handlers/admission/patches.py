"""From an object before and after to the JSON Patch that lies between them, as small as is simple.

Maps are compared key by key. Of lists, the equal beginning and the equal end are left alone; what lies between is
changed place by place, then added or removed. The patch says nothing about what did not change.

Rules: RFC 6902.
"""

from typing import Any, Final

Op = dict[str, Any]
_ABSENT: Final = object()


def diff(before: Any, after: Any, path: str = "") -> list[Op]:
    """Operations in the order in which they must be applied. What is the very same object on both sides is not read."""
    found: list[Op] = []
    _diff(before, after, path, found)
    return found


def pointer(*parts: str | int) -> str:
    """A JSON Pointer: each part escaped."""
    return "".join("/" + escape(str(part)) for part in parts)


def escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def effective(patch: list[Op], document: Any) -> list[Op]:
    """Without the replacements that change nothing: a decision that saw tokens may write what is there already."""
    found: list[Op] = []
    moved: list[str] = []  # lists whose places have shifted
    for op in patch:
        path = op["path"]
        if op["op"] != "replace":
            moved.append(path.rpartition("/")[0])
        elif not any(path.startswith(f"{one}/") for one in moved) and _at(document, path) == op["value"]:
            continue
        found.append(op)
    return found


def _at(document: Any, path: str) -> Any:
    """The value at a pointer; a marker that equals nothing where there is none."""
    for part in path.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        try:
            document = document[int(part)] if isinstance(document, list) else document[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return object()
    return document


def _diff(before: Any, after: Any, path: str, found: list[Op]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        _maps(before, after, path, found)
    elif isinstance(before, list) and isinstance(after, list):
        _lists(before, after, path, found)
    elif before != after or type(before) is not type(after):
        found.append({"op": "replace", "path": path, "value": after})


def _maps(before: dict[str, Any], after: dict[str, Any], path: str, found: list[Op]) -> None:
    for key in before:
        if key not in after:
            found.append({"op": "remove", "path": f"{path}/{escape(key)}"})
    for key, value in after.items():
        old = before.get(key, _ABSENT)
        if old is _ABSENT:
            found.append({"op": "add", "path": f"{path}/{escape(key)}", "value": value})
        elif old is not value:
            _diff(old, value, f"{path}/{escape(key)}", found)


def _lists(before: list[Any], after: list[Any], path: str, found: list[Op]) -> None:
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    both = min(len(old), len(new))
    for at in range(both):
        _diff(old[at], new[at], f"{path}/{start + at}", found)
    for at in range(len(old) - 1, both - 1, -1):
        found.append({"op": "remove", "path": f"{path}/{start + at}"})
    for at in range(both, len(new)):
        found.append({"op": "add", "path": f"{path}/{start + at}", "value": new[at]})
