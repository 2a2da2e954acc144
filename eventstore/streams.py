"""The streams that Warmlog wants on a JetStream server, as data.

Here: names, subjects and every setting that decides whether the log keeps its promises. Not here: making or comparing
them (jetstream/provision). An operator chooses what is left open: ages, sizes, replicas and the persist mode of
WARMLOG_KV.

Rules: design.md sections 2 ("JetStream rules") and 3; spec/eventstore-nats.md sections 3 and 9.
"""

from typing import Any, Final, Literal

import msgspec

from eventstore import envelope, subjects

CONTROL_LOG: Final = "WARMLOG"
KV_LOG: Final = "WARMLOG_KV"
SNAPSHOTS: Final = "WARMLOG_SNAP"
DEAD_LETTERS: Final = "WARMLOG_DEAD"

_SECOND: Final = 1_000_000_000  # JetStream durations are nanoseconds
_DAY: Final = 86_400.0
_GIB: Final = 1 << 30

#: Room for the subject and the two headers that travel beside a 256 KiB body.
_HEADROOM: Final = 4096


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """One stream's wanted settings. Durations are seconds; sizes are bytes, -1 = unlimited."""

    name: str
    subjects: tuple[str, ...]
    discard: Literal["new", "old"]
    max_age: float
    max_bytes: int
    duplicate_window: float
    deny_delete: bool
    deny_purge: bool
    max_msg_size: int = -1
    replicas: int = 1  # at least; more is an operator's choice
    any_persist_mode: bool = False

    def config(self) -> dict[str, Any]:
        """The settings as JetStream's API spells them: all that are not an operator's free choice."""
        return {
            "name": self.name,
            "subjects": list(self.subjects),
            "retention": "limits",
            "storage": "file",
            "discard": self.discard,
            "max_age": int(self.max_age * _SECOND),
            "max_bytes": self.max_bytes,
            "max_msg_size": self.max_msg_size,
            "max_msgs": -1,
            "max_msgs_per_subject": -1,
            "max_consumers": -1,
            "duplicate_window": int(self.duplicate_window * _SECOND),
            "num_replicas": self.replicas,
            "deny_delete": self.deny_delete,
            "deny_purge": self.deny_purge,
            "allow_direct": True,
        }


def control_log(
    *, max_age: float = 30 * _DAY, max_bytes: int = _GIB, duplicate_window: float = 600.0, replicas: int = 1
) -> Stream:
    """WARMLOG. Full means full (discard new): the log's past is never thrown away to make room."""
    return Stream(
        name=CONTROL_LOG,
        subjects=(subjects.CONTROL_LOG,),
        discard="new",
        max_age=max_age,
        max_bytes=max_bytes,
        max_msg_size=envelope.MAX_BYTES + _HEADROOM,
        duplicate_window=duplicate_window,
        deny_delete=True,
        deny_purge=True,
        replicas=replicas,
    )


def kv_log(*, max_age: float = _DAY, max_bytes: int = _GIB, replicas: int = 1) -> Stream:
    """WARMLOG_KV. The newest is worth most (discard old), and nothing in it carries an id to compare."""
    return Stream(
        name=KV_LOG,
        subjects=subjects.KV_STREAM_SUBJECTS,
        discard="old",
        max_age=max_age,
        max_bytes=max_bytes,
        duplicate_window=min(120.0, max_age),
        deny_delete=False,
        deny_purge=False,
        replicas=replicas,
        any_persist_mode=True,
    )


def snapshots(*, max_age: float = 31 * _DAY, max_bytes: int = _GIB, replicas: int = 1) -> Stream:
    """WARMLOG_SNAP: keyframes of the world. They outlive the events that follow them by a day; when room runs out the
    oldest go first."""
    return Stream(
        name=SNAPSHOTS,
        subjects=(subjects.SNAPSHOTS,),
        discard="old",
        max_age=max_age,
        max_bytes=max_bytes,
        max_msg_size=envelope.MAX_BYTES + _HEADROOM,
        duplicate_window=600.0,
        deny_delete=True,
        deny_purge=True,
        replicas=replicas,
    )


def dead_letters(*, max_age: float = 90 * _DAY, max_bytes: int = 64 << 20, replicas: int = 1) -> Stream:
    """WARMLOG_DEAD: events that the fold passed over, with the reason. For people; nothing reads it to decide."""
    return Stream(
        name=DEAD_LETTERS,
        subjects=(subjects.DEAD_LETTERS,),
        discard="old",
        max_age=max_age,
        max_bytes=max_bytes,
        max_msg_size=2 * envelope.MAX_BYTES,
        duplicate_window=600.0,
        deny_delete=True,
        deny_purge=True,
        replicas=replicas,
    )
