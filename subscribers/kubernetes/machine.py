"""One kind's watch as a state machine: what was learned, and what to do next. No sockets, no clock.

    list     everything is asked for; the answer is compared with the world, and absence is a fact afterwards
    watch    from the list's version on; each line is a change, a bookmark, or an error
    wait     a pause that grows while nothing works; then watch again, or list when the version is too old

A list is compared only after everything that was appended before has been folded (the loop sees to it). A list that
shrank a lot is asked for again: only what is missing in both is gone.

Rules: spec/kubernetes.md section 4, "Recommended watcher"; design.md section 5.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from handlers.world import kinds
from handlers.world.state import Known
from subscribers.kubernetes.narrow import Narrow, narrow

#: A list that lacks this many known objects, and this share of them, is not believed at once.
SHRUNK_BY, SHRUNK_SHARE = 5, 0.3
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0


class Seen(NamedTuple):
    object: Narrow


class Gone(NamedTuple):
    namespace: str
    name: str
    uid: str
    resource_version: str = ""


class Complete(NamedTuple):
    list_version: str
    objects: int


class Contact(NamedTuple):
    """The API was heard."""


Fact = Seen | Gone | Complete | Contact


class Next(NamedTuple):
    """What the loop does next. `pause` in seconds, to be jittered; `confirm`: this list is to be compared with the
    one before."""

    do: Literal["list", "watch"]
    pause: float = 0.0


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    class Meta(msgspec.Struct, frozen=True, rename="camel"):
        resource_version: str = ""

    metadata: Meta = Meta()
    code: int = 0
    message: str = ""


_event = msgspec.json.Decoder(_Event).decode
_bookmark = msgspec.json.Decoder(_Bookmark).decode


class Machine:
    """`known` objects are the world's, given anew with each comparison."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._shape = kinds.KINDS[kind].shape
        self.version = ""
        self.failures = 0
        self.lists = 0
        self._suspected: frozenset[tuple[str, str, str]] = frozenset()

    # Lists --------------------------------------------------------------------------------------------------------

    def listed(
        self, items: Iterable[Narrow], version: str, known: Mapping[tuple[str, str], Known]
    ) -> tuple[list[Fact], Next]:
        """The difference between a complete list and what is known."""
        self.lists += 1
        found = {(one.namespace, one.name): one for one in items}
        missing = frozenset((*name, old.uid) for name, old in known.items() if name not in found)
        replaced = {name for name, one in found.items() if name in known and known[name].uid != one.uid}
        if len(missing) > SHRUNK_BY and len(missing) > SHRUNK_SHARE * len(known) and not missing <= self._suspected:
            self._suspected = missing
            return [Contact()], Next("list", FIRST_PAUSE)
        self._suspected = frozenset()
        facts: list[Fact] = [Gone(namespace, name, uid) for namespace, name, uid in sorted(missing)]
        facts += [Gone(*name, known[name].uid) for name in sorted(replaced)]
        facts += [Seen(one) for name, one in sorted(found.items()) if changed(one, known.get(name), self._shape)]
        self.version, self.failures = version, 0
        return [*facts, Complete(version, len(found)), Contact()], Next("watch")

    # Watches ------------------------------------------------------------------------------------------------------

    def line(self, line: bytes) -> tuple[Fact | None, Next | None]:
        """One line of a watch. A Next ends the stream."""
        try:
            event = _event(line)
            if event.type == "BOOKMARK":
                self._heard(_bookmark(event.object).metadata.resource_version)
                return Contact(), None
            if event.type == "ERROR":
                return None, self._error(_bookmark(event.object))
            found = narrow(self.kind, event.object)
        except msgspec.MsgspecError:
            return None, self.failed()
        self._heard(found.resource_version)
        if event.type == "DELETED":
            return Gone(found.namespace, found.name, found.uid, found.resource_version), None
        return Seen(found), None

    def _heard(self, version: str) -> None:
        self.failures = 0
        if version:
            self.version = version

    def _error(self, status: Any) -> Next:
        if status.code == 410:
            return Next("list")
        return self.failed()

    # What ends a stream or a request ------------------------------------------------------------------------------

    def ended(self, *, lasted: float) -> Next:
        """The server closed the watch in order: at once again, unless it closes each at once."""
        return Next("watch") if lasted > 1.0 else self.failed()

    def failed(self, *, code: int = 0, retry_after: float = 0.0) -> Next:
        """No answer, a refusal, a broken stream."""
        self.failures += 1
        pause = max(retry_after, min(FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10), LONGEST_PAUSE))
        if code == 410 or not self.version:
            return Next("list", pause if code != 410 else 0.0)
        return Next("watch", pause)


def changed(one: Narrow, known: Known | None, shape: int) -> bool:
    """Whether the log has to be told: another object of the name, another narrow content, or fields that an older
    shape did not have."""
    if known is None or known.uid != one.uid or known.shape != shape:
        return True
    return known.value != one.value or known.problem != one.problem
