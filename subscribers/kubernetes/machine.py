"""One kind's watch as a state machine: what was learned, and what to do next. No sockets, no clock.

    list     everything is asked for; the answer is compared with the world, and absence is a fact afterwards
    watch    from the list's version on; each line is a change, a bookmark, or an error
    pause    grows while nothing works; then watch again, or list when the version is too old

A list is compared only after everything that was appended before has been folded (the loop sees to it). A list that
shrank a lot is asked for again: only what is missing in both is gone. Which of the objects seen are news to the log is
not judged here (appending).

Rules: spec/kubernetes.md section 4, "Recommended watcher"; design.md section 5.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from handlers.world.state import Known
from subscribers.kubernetes import depth
from subscribers.kubernetes.narrow import Narrow, narrow

#: A list that lacks this many known objects, and this share of them, is not believed at once.
SHRUNK_BY, SHRUNK_SHARE = 5, 0.3
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
#: A kind that the server does not know may be installed any moment.
ABSENT_PAUSE: Final = 3.0
#: A line that cannot be read comes again with the same watch: after so many a list steps over it.
UNREADABLE: Final = 3
#: Seconds after which a watch that ended counts as one that worked.
LIVED: Final = 1.0


class Seen(NamedTuple):
    """`listed`: it stands in a complete list, so it is the truth of that moment, whatever was known before."""

    object: Narrow
    listed: bool = False


class Gone(NamedTuple):
    """`resource_version` is the deletion's, or the version of the list that lacks the object."""

    namespace: str
    name: str
    uid: str
    resource_version: str = ""


class Complete(NamedTuple):
    list_version: str
    objects: int


Fact = Seen | Gone | Complete


class Next(NamedTuple):
    """What the loop does next. `pause` in seconds, to be jittered."""

    do: Literal["list", "watch"]
    pause: float = 0.0


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct):
    """Of a bookmark the version, of an error the rest."""

    metadata: _Meta = _Meta()
    code: int = 0
    message: str = ""


_event = msgspec.json.Decoder(_Event).decode
_bookmark = msgspec.json.Decoder(_Bookmark).decode


class Machine:
    """`known` objects are the world's, given anew with each comparison."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.version = ""
        self.failures = 0  # since a watch worked
        self.lists = 0
        self._unreadable = 0
        self._suspected: frozenset[tuple[str, str, str]] = frozenset()

    # Lists --------------------------------------------------------------------------------------------------------

    def listed(
        self, items: Iterable[Narrow], version: str, known: Mapping[tuple[str, str], Known]
    ) -> tuple[list[Fact], Next]:
        """What a complete list says: who is gone, who is there."""
        self.lists += 1
        found = {(one.namespace, one.name): one for one in items}
        missing = frozenset((*name, old.uid) for name, old in known.items() if name not in found)
        doubted = missing - self._suspected
        if len(doubted) <= SHRUNK_BY or len(doubted) <= SHRUNK_SHARE * len(known):
            doubted = frozenset()
        facts: list[Fact] = [Gone(space, name, uid, version) for space, name, uid in sorted(missing - doubted)]
        self._suspected = doubted
        if doubted:
            return facts, Next("list", FIRST_PAUSE)
        for name, one in sorted(found.items()):
            if name in known and known[name].uid != one.uid:
                facts.append(Gone(*name, known[name].uid, version))
            facts.append(Seen(one, True))
        self.version = version
        self._unreadable = 0
        return [*facts, Complete(version, len(found))], Next("watch")

    # Watches ------------------------------------------------------------------------------------------------------

    def line(self, line: bytes) -> tuple[Fact | None, Next | None]:
        """One line of a watch. A Next ends the stream."""
        try:
            event, cut = depth.decoded(_event, line)
            match event.type:
                case "BOOKMARK":
                    self._heard(_bookmark(event.object).metadata.resource_version)
                    return None, None
                case "ERROR":
                    return None, self._error(_bookmark(event.object))
                case "ADDED" | "MODIFIED" | "DELETED":
                    found = narrow(self.kind, event.object, cut=cut)
                case other:
                    raise msgspec.ValidationError(f"a watch event of type {other!r}")
        except msgspec.MsgspecError:
            return None, self._garbage()
        self._heard(found.resource_version)
        if event.type == "DELETED":
            return Gone(found.namespace, found.name, found.uid, found.resource_version), None
        return Seen(found), None

    def _heard(self, version: str) -> None:
        self.failures = self._unreadable = 0
        if version:
            self.version = version

    def _garbage(self) -> Next:
        self._unreadable += 1
        following = self.failed()
        return Next("list", following.pause) if self._unreadable >= UNREADABLE else following

    def _error(self, status: Any) -> Next:
        return self.failed(code=status.code)

    # What ends a stream or a request ------------------------------------------------------------------------------

    def ended(self, *, lasted: float) -> Next:
        """The server closed the watch in order: at once again, unless it closes each at once."""
        if lasted <= LIVED:
            return self.failed()
        self.failures = 0
        return Next("watch")

    def untold(self) -> Next:
        """Something that was seen did not get into the log: a list says it again."""
        self.failures += 1
        return Next("list", self._pause())

    def failed(self, *, code: int = 0, retry_after: float = 0.0) -> Next:
        """No answer, a refusal, a broken stream. A version that is too old costs no pause the first time."""
        self.failures += 1
        pause = max(retry_after, self._pause())
        if code == 404:
            return Next("list", min(pause, ABSENT_PAUSE))
        if code == 410:
            return Next("list", pause if self.failures > 1 else retry_after)
        return Next("watch" if self.version else "list", pause)

    def _pause(self) -> float:
        return min(FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10), LONGEST_PAUSE)
