"""Manifests for the tools that need no cluster: YAML or JSON of files, directories or standard input.

What an API server could not be sent, or what would be taken for something else than was meant, is refused in one line
that names the file: a key that stands twice, a version that nobody serves, a Pod that is none.
"""

import json
import math
import sys
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from crds import core, definitions
from handlers.outcome import Key, Object
from subscribers.kubernetes.routes import ROUTES
from warmlog import cli, flags, podshape

#: In one document; aliases of aliases would fill all memory.
MOST_VALUES: Final = 200_000
STANDARD_INPUT: Final = "-"


class Document(NamedTuple):
    """`kind` is `<plural>.<group>`, "" for one that no system knows."""

    where: str
    kind: str
    key: Key
    body: Object


def once(*paths: str) -> None:
    """Standard input has one end. Raises UsageError."""
    if paths.count(STANDARD_INPUT) > 1:
        raise flags.UsageError("standard input is read once; write one of both to a file")


def read(path: str) -> list[Document]:
    """Documents of a file, a directory or standard input, lists opened. Raises Failure with one line."""
    found: list[Document] = []
    for name, text in _texts(path):
        try:
            bodies = [one for one in _parsed(text) if one is not None]
        except RecursionError:
            raise cli.Failure(f"{name}: nested too deeply") from None
        except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError) as error:
            said = " ".join(str(error).split()).replace('in "<unicode string>", line', "at line")
            raise cli.Failure(f"{name}: {said}") from None
        for body in bodies:
            found += [_document(name, one) for one in _opened(name, body)]
    return found


def _texts(path: str) -> Iterable[tuple[str, str]]:
    if not path:
        raise flags.UsageError("a path is empty; name a file, a directory or -")
    if path == STANDARD_INPUT and sys.stdin is None:
        raise cli.Failure("standard input is closed")
    place = Path(path)
    files = sorted((*place.glob("*.yaml"), *place.glob("*.yml"), *place.glob("*.json"))) if place.is_dir() else [place]
    for file in files:
        name = "standard input" if path == STANDARD_INPUT else str(file)
        try:
            yield name, sys.stdin.read() if path == STANDARD_INPUT else file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise cli.Failure(f"{name}: {getattr(error, 'strerror', None) or error}") from None


# Text -----------------------------------------------------------------------------------------------------------------


def _parsed(text: str) -> list[Any]:
    """JSON is read as JSON: YAML takes the halves of an escaped surrogate pair for two characters. A key that stands
    twice is a ValueError, as it is an error to kubectl."""
    if text.lstrip().startswith("{"):
        try:
            return [json.loads(text, object_pairs_hook=_pairs)]
        except json.JSONDecodeError:
            pass  # YAML may begin like that too
    return list(yaml.load_all(text, _Loader))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice in one object")
        found[key] = value
    return found


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in seen:
                    raise ValueError(
                        f"line {key.start_mark.line + 1}: the key {key.value!r} stands twice in one object"
                    )
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


# Objects --------------------------------------------------------------------------------------------------------------


def _opened(name: str, body: Any) -> list[Any]:
    """What a list holds; anything else alone. Items of a list of one kind need not say which."""
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List") or (kind != "List" and "items" not in body):
        return [body]
    items = body.get("items")
    if not isinstance(items, list):
        raise cli.Failure(f"{name}: items of a {kind} are no list")
    if kind == "List":
        return items
    said = {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix("List")}
    return [{**said, **one} if isinstance(one, dict) else one for one in items]


def _document(name: str, body: Any) -> Document:
    if not isinstance(body, dict) or not isinstance(body.get("kind"), str):
        raise cli.Failure(f"{name}: a document is no Kubernetes object: it has no kind")
    metadata = body.get("metadata")
    given = metadata.get("name", metadata.get("generateName")) if isinstance(metadata, dict) else None
    if given is None or not isinstance(metadata, dict):
        raise cli.Failure(f"{name}: a {body['kind']} has neither metadata.name nor metadata.generateName")
    if not isinstance(given, str):
        raise cli.Failure(f"{name}: the name {given!r:.80} of a {body['kind']} is no string; put it in quotes")
    _refuse_bombs(body, name)
    kind = _kind(name, body)
    route = ROUTES.get(kind)
    namespaced = route is None or route.namespaced
    namespace = metadata.get("namespace") or "default" if namespaced else ""
    if not isinstance(namespace, str):
        raise cli.Failure(f"{name}: the namespace {namespace!r:.80} of {given} is no string; put it in quotes")
    if namespaced:
        metadata["namespace"] = namespace
    if kind == core.PODS and (problem := podshape.problem(body)):
        raise cli.Failure(f"{name}: Pod {given} is no Pod: {problem}")
    return Document(name, kind, Key(kind, namespace, str(metadata.get("name", ""))), body)


def _kind(name: str, body: Object) -> str:
    version, kind = body.get("apiVersion"), body["kind"]
    if not isinstance(version, str) or not version:
        raise cli.Failure(f"{name}: a {kind} has no apiVersion")
    found = kind_of(version, kind)
    served = [
        f"{one.group}/{number}" for one in definitions.DEFINITIONS if one.name == found for number in one.versions
    ]
    if served and version not in served:
        raise cli.Failure(f"{name}: a {kind} is no {version!r:.80}; write {' or '.join(served)}")
    return found


def kind_of(api_version: str, kind: str) -> str:
    """`<plural>.<group>` of an object, "" for a kind that nothing here knows."""
    group = api_version.partition("/")[0] if "/" in api_version else ""
    for one in definitions.DEFINITIONS:
        if (one.group, one.kind) == (group, kind):
            return one.name
    plural = f"{kind.lower()}s.{group}" if group else f"{kind.lower()}s"
    return plural if plural in ROUTES else ""


def _refuse_bombs(body: Any, name: str) -> None:
    """Raises Failure for what no API server could be sent: too much, or what JSON cannot say."""
    todo, seen = [body], 0
    while todo:
        value = todo.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise cli.Failure(f"{name}: more than {MOST_VALUES} values, or an alias of itself")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise cli.Failure(f"{name}: the key {key!r} is no string; put it in quotes")
            todo += [*value, *value.values()]
        elif isinstance(value, list):
            todo += value
        elif isinstance(value, str) and not value.isascii() and not _is_text(value):
            raise cli.Failure(f"{name}: the string {value!r:.40} is no Unicode text")
        elif isinstance(value, float) and not math.isfinite(value):
            raise cli.Failure(f"{name}: {value} is no number of JSON")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
