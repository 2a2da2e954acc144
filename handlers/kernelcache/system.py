"""Kernel Cache as a system of the machine: what it reads, and that a configuration which cannot be used is told.

What nodes prepare, what captures become and the status of caches are not decided here yet.

Rules: handlers/system.py; spec/kernelcache.md section 7.
"""

from collections.abc import Iterable
from typing import Final

from crds import core, kernelcache
from eventstore import events, subjects
from handlers.kernelcache import names
from handlers.outcome import NOTHING, Key, Outcome, Told
from handlers.world.reader import Reader
from handlers.world.state import World

KINDS: Final = frozenset((core.CONFIG_MAPS, core.NODES, kernelcache.NODES, kernelcache.CACHES, kernelcache.CAPTURES))


class KernelCaches:
    name = names.HANDLER
    kinds = KINDS

    def concerns(self, event: events.Decoded, world: World) -> Iterable[Key]:
        if not isinstance(event.data, events.ObjectSeen):
            return ()
        kind, namespace, name = (subjects.unescape(part) for part in event.stored.subject.split(".")[2:])
        return [Key(kind, namespace, name)] if kind == core.CONFIG_MAPS else ()

    def keys(self, world: World) -> Iterable[Key]:
        return world.keys(core.CONFIG_MAPS)

    def desired(self, world: Reader, key: Key) -> Outcome:
        """A Warning on the ConfigMap, once for each version of it that cannot be used."""
        known = world.get(*key)
        if known is None or not known.problem:
            return NOTHING
        kept = "the last good configuration stays in force" if known.value is not None else "Kernel Cache is off"
        told = Told(
            about=key,
            uid=known.uid,
            api_version="v1",
            object_kind="ConfigMap",
            type="Warning",
            reason="KernelCacheConfigInvalid",
            message=f"{known.problem}; {kept}",
            transition=str(known.sequence),
        )
        return Outcome(intents=(told,))
