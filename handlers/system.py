"""What a system (CacheBackend, KV cache injection, Kernel Cache) gives to the machine. A new system implements these
two protocols in a folder of its own and gets one line in the wiring; the machine knows no system.

Rules: design.md section 6, last paragraph.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

from eventstore import events
from handlers.admission.decision import Decision, Question
from handlers.admission.glance import Glance
from handlers.admission.view import View
from handlers.outcome import Key, Object, Outcome
from handlers.world.reader import Reader
from handlers.world.state import World


class System(Protocol):
    """The reconciling half. One that writes statuses also has `statuses`, kind -> handlers.unusable.Written: objects of
    these that cannot be used are told so without it."""

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds that it reads, `<plural>.<group>`: watched, and listed before anything is decided."""
        ...

    def concerns(self, event: events.Decoded, world: World) -> Iterable[Key]:
        """Keys to reconcile because of an event just folded into `world`. Too many is slow, too few is wrong."""
        ...

    def keys(self, world: World) -> Iterable[Key]:
        """Every key there is: reconciled once when a leader starts."""
        ...

    def desired(self, world: Reader, key: Key) -> Outcome:
        """What should be. May raise Unlisted; any other exception is a defect, told and retried slowly."""
        ...


class Recalled(NamedTuple):
    decision: Decision
    seen: Glance


class Admitter(Protocol):
    """The admission half: one webhook path."""

    @property
    def name(self) -> str:
        """Of the webhook, `mpod.inferencecache.io`: also the subject of its decisions."""
        ...

    @property
    def kinds(self) -> frozenset[str]:
        """What it reads of the world."""
        ...

    @property
    def fails_open(self) -> bool:
        """What happens when nothing can be decided: admitted with a warning, or refused."""
        ...

    def see(self, document: Object) -> View:
        """What the decision, and with it the log, may see of an object."""
        ...

    def concerned(self, question: Question, world: Reader) -> bool:
        """Cheap: False when nothing of ours could concern it, whatever the world. Such a question is counted only."""
        ...

    def decide(self, question: Question, world: Reader) -> Decision:
        """The answer. Raises Unlisted where a live read is needed; the machine reads and asks again."""
        ...


def place(admitter: Admitter, kind: str, namespace: str) -> str:
    """Where an admitter reads a kind: in the namespace of the question, unless its `places` say otherwise."""
    return str(getattr(admitter, "places", {}).get(kind, namespace))


@runtime_checkable
class Undecided(Protocol):
    """An admitter that has something to take off an object about which nothing could be decided."""

    def undecided(self, question: Question, decision: Decision) -> Decision:
        """The machine's decision, or one that admits the object just as much."""
        ...


@runtime_checkable
class Recalling(Protocol):
    """An admitter that remembers: an equal question over the same facts is answered without building the object."""

    def recall(self, raw: bytes, *, operation: str, kind: str, namespace: str, world: Reader) -> Recalled | None:
        """None where it has to be decided. Raises Unlisted as `decide` does."""
        ...
