"""A system as small as one can be: what is wanted of a key is what a test said."""

from collections.abc import Iterable

from crds import core
from eventstore import events, subjects
from handlers.outcome import NOTHING, Intent, Key, Outcome
from handlers.world.reader import Reader
from handlers.world.state import World

KEY = Key(core.SERVICES, "ml", "a")
POD = Key(core.PODS, "ml", "p")


class Toy:
    """`wanted` by key: an Outcome, or what is raised. `read` are the kinds that `desired` reads."""

    def __init__(self, name: str = "toy", kinds: Iterable[str] = (core.SERVICES,)) -> None:
        self.name, self.kinds = name, frozenset(kinds)
        self.wanted: dict[Key, Outcome | Exception] = {}
        self.confused: Exception | None = None
        self.looked: list[Key] = []

    def want(self, *intents: Intent, key: Key = KEY, again_ns: int = 0) -> None:
        self.wanted[key] = Outcome(intents=intents, again_ns=again_ns)

    def concerns(self, event: events.Decoded, world: World) -> Iterable[Key]:
        if self.confused is not None:
            raise self.confused
        match event.data:
            case events.ObjectSeen() | events.ObjectGone():
                return [Key(*(subjects.unescape(part) for part in event.stored.subject.split(".")[2:]))]
            case events.TimerFired() as timer:
                return [Key(*timer.key.split("/", 2))]
        return ()

    def keys(self, world: World) -> Iterable[Key]:
        return list(self.wanted)

    def desired(self, world: Reader, key: Key) -> Outcome:
        self.looked.append(key)
        found = self.wanted.get(key, NOTHING)
        if isinstance(found, Exception):
            raise found
        return found
