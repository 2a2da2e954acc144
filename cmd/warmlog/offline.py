"""Admission without a cluster: manifests in, the answer that a webhook would give.

The state is a set of manifests too. Everything that is not in it does not exist; statuses in them count, for they are
what a cluster would show.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from crds import render, schema
from handlers.admission import patches
from handlers.admission.decision import Decision, Question, Violation
from handlers.cachebackend.inject import Options
from handlers.kernelcache import inject as caching
from handlers.kvcachepool.inject import Settings
from handlers.outcome import Key, Object
from handlers.world import kinds
from handlers.world.reader import Reader
from handlers.world.state import Known, Listed, World
from subscribers.kubernetes.routes import ROUTES
from warmlog import cli, flags, patching, systems

#: Documents in one file; aliases of aliases would fill all memory.
MOST_VALUES: Final = 200_000

FLAGS: Final = (
    flags.Flag("file", "manifests (YAML or JSON); - is standard input", None, short="f"),
    flags.Flag("state", "more manifests that exist already, with commas: files or directories"),
    flags.Flag("kvevent-subscriber-image", "image of the KV-event subscriber; none is injected when empty"),
    flags.Flag("policy-server-grpc-address", "server that injected subscribers report to", Options().server),
    *systems.CACHE_FLAGS,
    *systems.POOL_FLAGS,
)
DEFAULTS: Final = caching.Options()
POOLS: Final = Settings()


class Document(NamedTuple):
    """`kind` is `<plural>.<group>`, "" for one that no system knows."""

    where: str
    kind: str
    key: Key
    body: Object


class Outcome(NamedTuple):
    """What became of a document: the mutated object, and every decision in order."""

    body: Object
    decisions: list[tuple[str, Decision]]

    @property
    def refused(self) -> list[tuple[str, Decision]]:
        return [one for one in self.decisions if one[1].verdict == "refused"]


def read(path: str) -> list[Document]:
    """Documents of a file, a directory or standard input, Lists opened. Raises Failure with one line."""
    found: list[Document] = []
    for name, text in _texts(path):
        try:
            bodies = [one for one in _parsed(text) if one is not None]
        except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, LookupError) as error:
            raise cli.Failure(f"{name}: {' '.join(str(error).split())}") from None
        for body in bodies:
            found += [_document(name, one) for one in _opened(name, body)]
    return found


def _parsed(text: str) -> list[Any]:
    """JSON is read as JSON: YAML takes the halves of an escaped surrogate pair for two characters."""
    if text.lstrip().startswith("{"):
        try:
            return [msgspec.json.decode(text)]
        except msgspec.DecodeError:
            pass  # YAML may begin like that too
    return list(yaml.safe_load_all(text))


def _opened(name: str, body: Any) -> list[Any]:
    """What a List holds; anything else alone."""
    if not isinstance(body, dict) or body.get("kind") != "List":
        return [body]
    items = body.get("items")
    if not isinstance(items, list):
        raise cli.Failure(f"{name}: items of a List are no list")
    return items


def _texts(path: str) -> Iterable[tuple[str, str]]:
    import sys

    if path == "-":
        yield "standard input", sys.stdin.read()
        return
    place = Path(path)
    files = sorted((*place.glob("*.yaml"), *place.glob("*.yml"), *place.glob("*.json"))) if place.is_dir() else [place]
    for file in files:
        try:
            yield str(file), file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise cli.Failure(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _document(name: str, body: Any) -> Document:
    if not isinstance(body, dict) or not isinstance(body.get("kind"), str):
        raise cli.Failure(f"{name}: a document is no Kubernetes object: it has no kind")
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name", metadata.get("generateName")), str):
        raise cli.Failure(f"{name}: a {body['kind']} has neither metadata.name nor metadata.generateName")
    _refuse_bombs(body, name)
    kind = kind_of(str(body.get("apiVersion", "")), body["kind"])
    route = ROUTES.get(kind)
    namespaced = route is None or route.namespaced
    namespace = str(metadata.get("namespace") or "default") if namespaced else ""
    if namespaced:
        metadata["namespace"] = namespace
    return Document(name, kind, Key(kind, namespace, str(metadata.get("name", ""))), body)


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


def kind_of(api_version: str, kind: str) -> str:
    """`<plural>.<group>` of an object, "" for a kind that nothing here knows."""
    group = api_version.partition("/")[0] if "/" in api_version else ""
    for one in render.DEFINITIONS:
        if (one.group, one.kind) == (group, kind):
            return one.name
    plural = f"{kind.lower()}s.{group}" if group else f"{kind.lower()}s"
    return plural if plural in ROUTES else ""


def world_of(documents: Iterable[Document]) -> World:
    """A world in which exactly these objects exist."""
    world = World(incarnation="offline")
    for kind in kinds.KINDS:
        world.listed[kind] = Listed(1, kinds.KINDS[kind].shape, 0)
    for number, one in enumerate(documents, 1):
        if one.kind not in kinds.KINDS:
            continue
        value, problem = kinds.decode(one.kind, schema.without_nulls(one.body))
        uid = str(one.body["metadata"].get("uid") or f"uid-{one.key.name}")
        known = Known(uid, str(number), kinds.KINDS[one.kind].shape, number, number, value, problem)
        world.objects.setdefault(one.kind, {}).setdefault(one.key.namespace, {})[one.key.name] = known
        world.sequence = number
    return world


def admit(
    document: Document,
    world: World,
    options: Options,
    caches: caching.Options = DEFAULTS,
    pools: Settings = POOLS,
    *,
    old: Document | None = None,
) -> Outcome:
    """Every webhook that would be called for a document, in the order of an API server; mutations are carried on."""
    body = document.body
    decisions: list[tuple[str, Decision]] = []
    operation: Any = "CREATE" if old is None else "UPDATE"
    for hook in systems.hooks(options, caches, pools):
        if hook.kind != document.kind or operation not in hook.operations:
            continue
        seen = hook.admitter.see(body)
        question = Question(
            uid=f"offline-{document.key.name}",
            operation=operation,
            kind=document.kind,
            namespace=document.key.namespace,
            name=document.key.name,
            view=seen.object,
            old=hook.admitter.see(old.body).object if old is not None else None,
        )
        reader = Reader(world)
        if not hook.admitter.concerned(question, reader):
            continue
        decision = hook.admitter.decide(question, reader)
        decisions.append((hook.admitter.name, decision))
        if decision.verdict == "refused":
            break
        body = patching.apply(body, patches.effective(seen.fill(list(decision.patch)), body))
    return Outcome(body, decisions)


def schema_problems(document: Document, old: Document | None = None) -> list[Violation]:
    """What an API server would refuse before any webhook is asked. Of CEL rules only immutability is judged."""
    for one in render.DEFINITIONS:
        if one.name == document.kind:
            spec = document.body.get("spec") or {}
            found = schema.violations(spec, one.spec, "spec")
            if old is not None:
                found += schema.transitions(spec, old.body.get("spec") or {}, one.spec, "spec")
            return [Violation(*problem) for problem in found]
    return []


def defaulted(document: Document) -> Document:
    for one in render.DEFINITIONS:
        if one.name == document.kind and isinstance(document.body.get("spec"), dict):
            return document._replace(body={**document.body, "spec": schema.defaulted(document.body["spec"], one.spec)})
    return document


def options_of(values: flags.Values) -> Options:
    return Options(subscriber_image=values["kvevent-subscriber-image"], server=values["policy-server-grpc-address"])


def state_of(values: flags.Values) -> list[Document]:
    return [one for path in values["state"].split(",") if path for one in read(path)]


def as_yaml(body: Object) -> str:
    return yaml.safe_dump(msgspec.to_builtins(body), sort_keys=False, allow_unicode=True, width=120)
