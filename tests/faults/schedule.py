"""Which faults hit which part when, from a seed. Pure: the same seed gives the same rounds on every machine.

Times are seconds from the start of a round's faults. Two faults of one round never touch the same part, so that what a
part does is one fault's doing; different parts are hit at the same time often enough (all within WINDOW).
"""

import random
from collections.abc import Sequence

import msgspec

WINDOW = 1.5

#: kind -> (weight, shortest and longest time until the part comes back)
KINDS: dict[str, tuple[float, float, float]] = {
    "kill nats": (3, 0.0, 2.5),
    "stop nats": (1.5, 0.5, 3.5),
    "kill server": (3, 0.0, 1.5),
    "server lags": (2, 0.5, 4.0),
    "kill subscriber": (4, 0.0, 2.0),
    "stop subscriber": (2, 0.5, 3.0),
    "two subscribers": (2, 0.2, 1.5),
    "zombie subscriber": (1.5, 0.5, 3.0),
    "kill engine": (4, 0.0, 1.0),
    "kill engine for long": (2, 2.5, 4.0),
    "stop engine": (1.5, 0.5, 3.0),
    "server flaps": (1, 0.2, 0.9),
    "subscriber flaps": (2, 0.02, 0.9),
    "engine flaps": (2, 0.02, 0.9),
    "kill pod": (2, 0.0, 2.5),
    "torn journal": (2, 0.0, 1.0),
    "holds lose their end": (1.5, 0.5, 3.0),
    "full log": (1, 0.5, 2.5),
    "full disk": (1, 0.5, 2.0),
    "full journal": (1, 0.5, 1.5),
}
PER_REPLICA = ("engine", "subscriber", "journal", "pod")
_PARTS = {
    "kill nats": ("nats",),
    "stop nats": ("nats",),
    "kill server": ("server",),
    "server lags": ("server",),
    "server flaps": ("server",),
    "torn journal": ("subscriber *",),
    "kill pod": ("engine *", "subscriber *"),
    "holds lose their end": ("nats", "log"),
    "full log": ("log",),
    "full disk": ("nats", "log", "disk"),
    "full journal": ("disk", "subscriber *"),
}


class Fault(msgspec.Struct, frozen=True):
    kind: str
    replica: str  # "" when it hits no replica's part
    at: float
    hold: float

    def __str__(self) -> str:
        who = f" of {self.replica}" if self.replica else ""
        return f"{self.kind}{who} at {self.at:.2f} s for {self.hold:.2f} s"


class Trait(msgspec.Struct, frozen=True):
    """What a whole lab is like."""

    kv_max_bytes: str
    small_disk: bool  # nats-server's store and the journals lie on tmpfs of a few MiB

    def __str__(self) -> str:
        return f"WARMLOG_KV of {self.kv_max_bytes}" + (", small disks" if self.small_disk else "")


def touched(kind: str, replica: str) -> tuple[str, ...]:
    """The parts that a fault needs for itself."""
    if kind in _PARTS:
        return tuple(part.replace("*", replica) for part in _PARTS[kind])
    return (f"{'engine' if 'engine' in kind else 'subscriber'} {replica}",)


def trait(seed: str, *, mounts: bool) -> Trait:
    chance = random.Random(f"{seed} trait")
    return Trait(kv_max_bytes=chance.choice(("4Mi", "4Mi", "96Ki")), small_disk=chance.random() < 0.5 and mounts)


def faults(seed: str, replicas: Sequence[str], has: Trait, *, only: Sequence[str] = ()) -> list[Fault]:
    """One to four faults, in the order in which they begin; of the kinds in `only`, when it names any."""
    chance = random.Random(seed)
    kinds = {
        kind: weight
        for kind, (weight, _, _) in KINDS.items()
        if (has.small_disk or kind not in ("full disk", "full journal")) and (not only or kind in only)
    }
    if not kinds:
        return []
    wanted = chance.choices((1, 2, 3, 4), weights=(4, 3, 2, 1))[0]
    found: list[Fault] = []
    taken: set[str] = set()
    for _ in range(50):
        if len(found) == wanted:
            break
        kind = chance.choices(list(kinds), weights=list(kinds.values()))[0]
        per_replica = any(word in kind for word in PER_REPLICA)
        replica = chance.choice(list(replicas)) if per_replica else ""
        parts = touched(kind, replica)
        at, hold = chance.uniform(0.0, WINDOW), chance.uniform(*KINDS[kind][1:])
        if taken.isdisjoint(parts):
            taken.update(parts)
            found.append(Fault(kind, replica, round(at, 2), round(hold, 2)))
    return sorted(found, key=lambda fault: fault.at)
