"""What an API server holds of one kind, and tells of it: versions, a history that is forgotten, lists, watch lines."""

import itertools
from typing import Any, NamedTuple

import msgspec

Object = dict[str, Any]


class Change(NamedTuple):
    version: int
    line: bytes


class FakeApi:
    def __init__(self, *, start: int = 10) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.changes: list[Change] = []
        self.forgotten = 0  # the newest version that a watch cannot resume from any more, exclusive
        self.version = start
        self._uids = itertools.count(1)

    def put(self, name: str, *, namespace: str = "ml", **labels: str) -> Object:
        self.version += 1
        old = self.objects.get((namespace, name))
        uid = old["metadata"]["uid"] if old else f"uid-{next(self._uids)}"
        made = document(name, namespace=namespace, uid=uid, version=self.version, labels=labels)
        self.objects[namespace, name] = made
        self._tell("MODIFIED" if old else "ADDED", made)
        return made

    def delete(self, name: str, *, namespace: str = "ml") -> None:
        old = self.objects.pop((namespace, name), None)
        if old is not None:
            self.version += 1
            self._tell("DELETED", {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}})

    def forget(self) -> None:
        self.forgotten = self.version

    def since(self, version: str) -> list[Change] | None:
        """What a watch from there on sends; None is 410."""
        if int(version) < self.forgotten:
            return None
        return [one for one in self.changes if one.version > int(version)]

    def _tell(self, kind: str, made: Object) -> None:
        self.changes.append(Change(self.version, line(kind, made)))


def document(name: str, *, namespace: str = "ml", uid: str = "u", version: int = 1, **metadata: Any) -> Object:
    basic = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**basic, **metadata}, "spec": {"containers": []}}


def line(kind: str, made: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": made})


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def error(code: int) -> bytes:
    return line("ERROR", {"kind": "Status", "code": code, "message": "asked for"})
