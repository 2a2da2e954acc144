"""CachePolicy and CacheTenant manifests from a directory, appended as if a watcher had seen them.

Where there is no Kubernetes API this is the write surface: `object.seen` for each object that changed since the log
last said, `object.gone` for what is not there any more, then `kind.listed`. A manifest that cannot be used stops
everything before anything is appended, with one line that names file and field.

Rules: design.md section 2 ("object.seen", "kind.listed"); section 4 (`dev --policies`).
"""

import hashlib
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from crds import inferencecache
from eventstore import events, store, subjects
from handlers.world import kinds
from subscribers.kubernetes import narrow

KINDS: Final = {
    "CachePolicy": (inferencecache.CACHE_POLICIES, inferencecache.CachePolicy),
    "CacheTenant": (inferencecache.CACHE_TENANTS, inferencecache.CacheTenant),
}
API_VERSION: Final = "inferencecache.io/v1alpha1"
SOURCE: Final = "warmlog/manifests"
MOST_VALUES: Final = 10_000  # in one manifest: aliases of aliases would fill all memory
#: What PyYAML raises for values that it takes for numbers, dates or its own tags, beside its own errors.
_NO_YAML: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class ManifestError(ValueError):
    """One line: file, object, field."""


class Manifest(msgspec.Struct, frozen=True):
    plural: str
    namespace: str
    name: str
    document: dict[str, Any]

    @property
    def subject(self) -> str:
        return subjects.object_subject(self.plural, self.namespace, self.name)

    @property
    def uid(self) -> str:
        """Derived from the name: a manifest has no other identity."""
        return hashlib.sha256(self.subject.encode()).hexdigest()[:32]

    @property
    def version(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.document, order="deterministic")).hexdigest()[:16]


def read(directory: Path) -> list[Manifest]:
    """Every manifest of a known kind in *.yaml and *.yml, in order of (kind, namespace, name). Raises ManifestError."""
    if not directory.is_dir():
        raise ManifestError(f"{directory} is no directory; --policies takes one with *.yaml manifests")
    found: dict[str, Manifest] = {}
    for path in sorted([*directory.glob("*.yaml"), *directory.glob("*.yml")]):
        try:
            documents = [document for document in yaml.safe_load_all(path.read_text()) if document is not None]
        except (OSError, yaml.YAMLError, *_NO_YAML) as error:
            raise ManifestError(f"{path}: {' '.join(str(error).split())}") from error
        for document in documents:
            manifest = understood(document, path)
            if manifest.subject in found:
                raise ManifestError(f"{path}: {manifest.namespace}/{manifest.name} stands in two manifests")
            found[manifest.subject] = manifest
    return [found[subject] for subject in sorted(found)]


def understood(document: Any, path: Path) -> Manifest:
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in KINDS or document.get("apiVersion") != API_VERSION:
        raise ManifestError(
            f"{path}: expected kind CachePolicy or CacheTenant of {API_VERSION}, found "
            f"{kind!r} of {document.get('apiVersion') if isinstance(document, dict) else None!r}"
        )
    meta = document.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        raise ManifestError(f"{path}: {kind} without metadata.name")
    plural, struct = KINDS[kind]
    namespace = meta.get("namespace", "default") if isinstance(meta, dict) else "default"
    _refuse_bombs(document, f"{path}: {kind} {name}")
    try:
        value = msgspec.convert(document, struct)
        # As a watcher tells it: annotations and the like are nobody's to read.
        known = narrow.narrow(plural, msgspec.json.encode(value)).object
        made = Manifest(plural, str(namespace), name, {"apiVersion": API_VERSION, "kind": kind, **known})
        assert made.uid
        assert made.version
    except (msgspec.MsgspecError, subjects.SubjectError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ManifestError(f"{path}: {kind} {name}: {error}") from error
    return made


def _refuse_bombs(document: Any, where: str) -> None:
    """A few lines of YAML can stand for any number of values, or contain themselves."""
    todo, seen = [document], 0
    while todo:
        value = todo.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise ManifestError(f"{where}: more than {MOST_VALUES} values, or an alias of itself")
        if isinstance(value, dict):
            todo += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set):
            todo += value


async def append(log: store.EventStore, manifests: list[Manifest]) -> int:
    """Append what changed since the log last said, and the lists; the number of events."""
    appended = 0
    for plural, _ in KINDS.values():
        shape = kinds.KINDS[plural].shape
        mine = {manifest.subject: manifest for manifest in manifests if manifest.plural == plural}
        known = await _latest(log, f"wl.object.{subjects.escape(plural)}.>")
        for subject, manifest in mine.items():
            before = known.get(subject)
            if before is None or before[1] != manifest.version:
                sequence = 0 if before is None else before[0]
                await _say(
                    log,
                    events.ObjectSeen(
                        uid=manifest.uid, resource_version=manifest.version, shape=shape, object=manifest.document
                    ),
                    id=f"object.seen:{manifest.uid}:{manifest.version}:{shape}:{sequence}",
                    subject=subject,
                    expected=sequence,
                )
                appended += 1
        for subject, (sequence, version, uid) in known.items():
            if version and subject not in mine:
                await _say(
                    log,
                    events.ObjectGone(uid=uid, resource_version=version),
                    id=f"object.gone:{uid}:{version}:{shape}:{sequence}",
                    subject=subject,
                    expected=sequence,
                )
                appended += 1
        digest = hashlib.sha256("".join(sorted(one.version for one in mine.values())).encode()).hexdigest()[:16]
        subject = subjects.kind_subject(plural)
        last = await log.last(subject)
        sequence = 0 if last is None else last.sequence
        listed = events.KindListed(list_version=digest, shape=shape, count=len(mine))
        if last is None or _data(last) != listed:
            await _say(log, listed, id=f"kind.listed:{plural}:{digest}:{sequence}", subject=subject, expected=sequence)
            appended += 1
    return appended


async def _latest(log: store.EventStore, subject: str) -> dict[str, tuple[int, str, str]]:
    """Per object subject: its last sequence, version ("" when it is gone) and uid."""
    found: dict[str, tuple[int, str, str]] = {}
    async for batch in log.read(subject=subject):
        for stored in batch:
            match _data(stored):
                case events.ObjectSeen(uid=uid, resource_version=version):
                    found[stored.subject] = (stored.sequence, version, uid)
                case events.ObjectGone(uid=uid):
                    found[stored.subject] = (stored.sequence, "", uid)
    return found


def _data(stored: store.Stored) -> events.Event | None:
    decoded = events.decode(stored)
    return decoded.data if isinstance(decoded, events.Decoded) else None


async def _say(log: store.EventStore, data: events.Event, *, id: str, subject: str, expected: int) -> None:
    event = events.event(data, id=id, source=SOURCE, subject=subject, time_ns=time.time_ns(), actor="manifests")
    await log.append(event, expected=expected)
