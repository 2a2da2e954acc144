"""Admission without a cluster: manifests in, the answer that a webhook would give.

The state is a set of manifests too. Everything that is not in it does not exist; statuses in them count, for they are
what a cluster would show.
"""

import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from crds import core, definitions, schema
from handlers.admission import patches
from handlers.admission.decision import Decision, Question, Violation
from handlers.cachebackend.inject import Options
from handlers.kernelcache import inject as caching
from handlers.kvcachepool.inject import Settings
from handlers.outcome import Object
from handlers.world import kinds
from handlers.world.reader import Reader
from handlers.world.state import Known, Listed, World
from warmlog import cli, documents, flags, patching, systems
from warmlog.documents import Document

FLAGS: Final = (
    flags.Flag("file", "manifests (YAML or JSON); - is standard input", None, short="f"),
    flags.Flag("state", "more manifests that exist already, with commas: files or directories"),
    flags.Flag("kvevent-subscriber-image", "image of the KV-event subscriber; none is injected when empty"),
    flags.Flag("policy-server-grpc-address", "--server of injected subscribers; ours take nats://…", Options().server),
    *systems.CACHE_FLAGS,
    *systems.POOL_FLAGS,
)
DEFAULTS: Final = caching.Options()
POOLS: Final = Settings()


class Outcome(NamedTuple):
    """What became of a document: the mutated object, and every decision in order."""

    body: Object
    decisions: list[tuple[str, Decision]]

    @property
    def refused(self) -> list[tuple[str, Decision]]:
        return [one for one in self.decisions if one[1].verdict == "refused"]


def world_of(given: Iterable[Document]) -> World:
    """A world in which exactly these objects exist."""
    world = World(incarnation="offline")
    for kind in kinds.KINDS:
        world.listed[kind] = Listed(1, kinds.KINDS[kind].shape, 0)
    for number, one in enumerate(given, 1):
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
    for one in definitions.DEFINITIONS:
        if one.name == document.kind:
            spec = document.body.get("spec") or {}
            found = schema.violations(spec, one.spec, "spec")
            if old is not None:
                found += schema.transitions(spec, old.body.get("spec") or {}, one.spec, "spec")
            return [Violation(*problem) for problem in found]
    return []


def defaulted(document: Document) -> Document:
    for one in definitions.DEFINITIONS:
        if one.name == document.kind and isinstance(document.body.get("spec"), dict):
            return document._replace(body={**document.body, "spec": schema.defaulted(document.body["spec"], one.spec)})
    return document


def given(values: flags.Values) -> tuple[list[Document], list[Document]]:
    """What --file and --state hold. What of the state is there and cannot be read is told on standard error: to
    admission it is no fact."""
    states = [path for path in values["state"].split(",") if path]
    documents.once(values["file"], *states)
    found = documents.read(values["file"]), [one for path in states for one in documents.read(path)]
    for one in found[1]:
        if one.kind in kinds.KINDS and (problem := kinds.decode(one.kind, schema.without_nulls(one.body))[1]):
            print(f"{one.where}: {one.body['kind']} {one.key.name} counts for nothing: {problem}", file=sys.stderr)
    return found


def pods(values: flags.Values) -> tuple[list[Document], World]:
    """The Pods of --file, and the world that all the rest makes. Raises Failure when there is no Pod."""
    found, state = given(values)
    chosen = [one for one in found if one.kind == core.PODS]
    if not chosen:
        raise cli.Failure(f"{values['file']}: there is no Pod in it; workloads' templates are not opened")
    return chosen, world_of([*state, *(one for one in found if one.kind != core.PODS)])


def as_yaml(body: Object) -> str:
    return yaml.safe_dump(msgspec.to_builtins(body), sort_keys=False, allow_unicode=True, width=120)
