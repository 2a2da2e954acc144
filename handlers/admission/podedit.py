"""Small edits of a Pod as JSON. Every function changes the part that it is given, in place; callers work on `editable`.

Lists keep their order: what exists stays where it is, what is new goes to the end, so that a second pass changes
nothing.
"""

from typing import Any, Final

from handlers.outcome import Object

_LISTS: Final = ("args", "command", "env", "volumeMounts")


def editable(pod: Object) -> Object:
    """A Pod that may be edited by the functions here: what they change is copied, everything else is shared. Whatever
    was not touched is the very same object afterwards, which is how `patches.diff` knows at once."""
    found = dict(pod)
    for part in ("metadata", "spec"):
        if isinstance(given := pod.get(part), dict):
            found[part] = dict(given)
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return found
    for field in ("containers", "initContainers", "volumes"):
        if isinstance(given := spec.get(field), list):
            spec[field] = [editable_container(one) if field != "volumes" else one for one in given]
    return found


def editable_container(container: Any) -> Any:
    if not isinstance(container, dict):
        return container
    found = dict(container)
    for field in _LISTS:
        if isinstance(given := container.get(field), list):
            found[field] = list(given)
    return found


def containers(pod: Object) -> list[Object]:
    found: list[Object] = pod.get("spec", {}).get("containers") or []
    return found


def named(items: list[Object] | None, name: str) -> Object | None:
    return next((one for one in items or [] if one.get("name") == name), None)


def upsert(parent: Object, field: str, item: Object) -> None:
    """Put `item` into a list of named objects: in place of the one of its name, else at the end."""
    items = parent.setdefault(field, [])
    at = next((number for number, one in enumerate(items) if one.get("name") == item["name"]), None)
    if at is None:
        items.append(item)
    else:
        items[at] = item


def remove(parent: Object, field: str, name: str) -> None:
    """Take the object of this name out of a list; a list that becomes empty goes too."""
    items = parent.get(field)
    if items is None:
        return
    items[:] = [one for one in items if one.get("name") != name]
    if not items:
        del parent[field]


def set_env(container: Object, name: str, value: str) -> None:
    """A literal value; one that is there with another value or a source is replaced in place, duplicates too."""
    items = container.setdefault("env", [])
    wanted = {"name": name, "value": value}
    first = next((number for number, one in enumerate(items) if one.get("name") == name), None)
    if first is None:
        items.append(wanted)
        return
    items[first] = wanted
    items[:] = [one for number, one in enumerate(items) if number <= first or one.get("name") != name]


def set_flag(container: Object, flag: str, value: str) -> None:
    """`flag value` as two arguments, in place of whatever form the flag has; appended when it is absent."""
    words = container.setdefault("args", [])
    at = 0
    done = False
    while at < len(words):
        size = size_of(words, at, flag)
        if size:
            words[at : at + size] = [] if done else [flag, value]
            at += 0 if done else 2
            done = True
        else:
            at += 1
    if not done:
        words += [flag, value]


def size_of(words: list[str], at: int, flag: str) -> int:
    """How many words the flag takes at this place: 0 when it is not there. A value is the next word, unless that is a
    flag itself."""
    if words[at].startswith(flag + "="):
        return 1
    if words[at] != flag:
        return 0
    return 2 if at + 1 < len(words) and not words[at + 1].startswith("-") else 1


def flags(words: list[str]) -> dict[str, list[str | None]]:
    """flag -> its values in order, None where it has none. Words before the first flag are left out."""
    found: dict[str, list[str | None]] = {}
    for number, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        following = words[number + 1] if number + 1 < len(words) else None
        if equals:
            found.setdefault(name, []).append(value)
        else:
            is_value = following is not None and not following.startswith("-")
            found.setdefault(name, []).append(following if is_value else None)
    return found


def annotate(pod: Object, name: str, value: str) -> None:
    metadata = pod.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), name: value}


def unannotate(pod: Object, *names: str) -> None:
    """Take annotations off; a map that becomes empty goes too."""
    metadata = pod.get("metadata", {})
    given: dict[str, Any] = metadata.get("annotations") or {}
    left = {name: value for name, value in given.items() if name not in names}
    if left != given:
        metadata["annotations"] = left
        if not left:
            del metadata["annotations"]
