"""The prefix index: a fold over `WARMLOG_KV` into which replica holds which block.

`apply` takes (sequence, time, subject, payload) of every stored message and is total: any bytes may come, a message is
decoded and checked whole before it touches anything, and what cannot be applied is one `Skipped` outcome. The same
messages give the same `dump()`. `tick` is for what time does: silence, expiry, repeated orders, and upkeep in slices.

    a message of                       is
    the current session, n + 1         applied
    the current session, n or less     ignored (redelivery), counted
    the current session, n + 2 or more applied as far as it stands alone; the replica becomes unknown (replicas.py)
    an older session                   dropped; its subscriber is told `fenced`, every second at most
    a session that nobody knows        dropped; a keyframe is asked for, its begin then carries the rank

A server calls `tick` only when it has caught up: before that, silence is only distance.

Not here: reading the stream, sending orders, appending edges (the edge's); ranking (lookup.py).
Times are nanoseconds since the epoch.
Rules: design.md section 3; docs/design/0001-kv-wire.md; IDX-04, IDX-05, IDX-12, TR-03.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from eventstore import kvwire, subjects
from handlers.prefixindex import domain, holdings, limits, outcomes, policies, replicas, roster, strangers

if TYPE_CHECKING:
    from handlers.prefixindex import question

_Replica = replicas.Replica  # inside the class, `replicas` is a method

FORGET_AFTER: Final = 3600 * replicas.SECOND  # a gone replica is remembered this long, for its zombies
ADAPTERS: Final = 1024  # of one replica
_number: Final = int.from_bytes


class Spoken(NamedTuple):
    """A session, and the last n that was heard of it."""

    tenant: str
    name: str
    session: str
    n: int


class Index:
    """All domains and replicas that were seen, and the position up to which."""

    def __init__(self, *, cap: int = limits.CAP) -> None:
        self.policies = policies.UNKNOWN
        self.position = 0  # sequence of the last message seen
        self.time_ns = 0  # its stream time
        self.domains: dict[domain.DomainKey, domain.Domain] = {}
        self.fleet: dict[tuple[str, str], replicas.Replica] = {}  # (tenant, name)
        self.roster = roster.Roster()
        self.strangers = strangers.Strangers()
        self.limits = limits.Limits(self.domains, cap=cap)
        self.messages = 0
        self.redelivered = 0
        self.skipped = 0
        self._subjects: dict[str, replicas.Replica] = {}  # where the current session of a replica speaks

    # The fold --------------------------------------------------------------------------------------------------------

    def apply(self, sequence: int, time_ns: int, subject: str, payload: bytes) -> outcomes.Outcomes:
        """Fold one stored message. Never raises for what a message says."""
        self.messages += 1
        self.position = sequence
        self.time_ns = time_ns
        try:
            message = kvwire.decode(payload)
        except kvwire.WireError as error:
            return self._skip(sequence, subject, str(error))
        replica = self._subjects.get(subject)
        if replica is not None and (direct := replica.direct) is not None and payload.startswith(replica.opening):
            # Changes in the current session, by far the commonest messages: `_dispatch` without its detours.
            assert type(message) is kvwire.Ops
            n, groups = message.n, message.groups
            if n == replica.n + 1 and len(groups) == 1 and (holding := direct.get(groups[0].adapter)) is not None:
                group = groups[0]
                tiers = group.tiers
                if tiers in holdings.PLAIN and len(group.keys) == 8 and group.size in holding.sizes:
                    holding.apply_one(_number(group.keys, "little"), tiers, sequence)
                elif (why := holdings.flaw(groups)) is None:
                    holding.apply(group, sequence, change=True)
                else:
                    return self._skip(sequence, subject, why)
                replica.n = n
                replica.heard_ns = replica.event_ns = time_ns
                if self.limits.active:
                    self.limits.enforce(replica.tenant)
                return ()
        return self._dispatch(sequence, time_ns, subject, message)

    def _dispatch(self, sequence: int, time_ns: int, subject: str, message: kvwire.AnyMessage) -> outcomes.Outcomes:
        try:
            place = subjects.parse_kv_subject(subject)
        except subjects.SubjectError as error:
            return self._skip(sequence, subject, str(error))
        if (why := _flaw(message, place, sequence)) is not None:
            return self._skip(sequence, subject, why)
        replica = self.fleet.get((place.tenant, place.replica))
        if replica is None or message.session != replica.session:
            return self._other_session(sequence, time_ns, subject, place, replica, message)
        if message.n <= replica.n:
            self.redelivered += 1
            return ()
        if message.uid != replica.uid:
            return self._skip(sequence, subject, f"Pod uid {message.uid} in a session that Pod uid {replica.uid} began")
        if subject != replica.subject and not isinstance(message, kvwire.Begin):
            return self._skip(sequence, subject, f"session {message.session} began on {replica.subject}")
        if replica.ended:
            return self._skip(sequence, subject, f"session {message.session} has said bye; only a new one may speak")
        if (why := _crowded(replica, message)) is not None:
            return self._skip(sequence, subject, why)
        return self._advance(sequence, time_ns, subject, replica, message)

    def _other_session(
        self,
        sequence: int,
        time_ns: int,
        subject: str,
        place: subjects.KVSubject,
        replica: replicas.Replica | None,
        message: kvwire.AnyMessage,
    ) -> outcomes.Outcomes:
        if replica is not None and message.session in replica.past:
            # By name, not by rank: the first begin of an older session, stored twice, seems to have begun just now.
            return self._fence(replica, message.session, time_ns)
        if isinstance(message, kvwire.Begin):
            if replica is None:
                replica = replicas.Replica(place.tenant, place.replica, self._open)
                self.fleet[place.tenant, place.replica] = replica
            self.strangers.introduced((place.tenant, place.replica, message.session))
            if replica.session and (message.rank or sequence) <= replica.rank:
                return self._fence(replica, message.session, time_ns)
            return self._advance(sequence, time_ns, subject, replica, message)
        if isinstance(message, kvwire.Bye):
            return ()
        return self.strangers.heard((place.tenant, place.replica, message.session), time_ns)

    def _fence(self, replica: replicas.Replica, session: str, time_ns: int) -> outcomes.Outcomes:
        """Tell an older session that it has a successor; not with every message, but again: an order may be lost."""
        if time_ns - replica.past.get(session, 0) < replicas.ASK_EVERY:
            return ()
        replica.remember(session, told_ns=time_ns)
        reason = f"session {replica.session} began later"
        return (outcomes.Order(replica.tenant, replica.name, "fenced", session, reason),)

    def _advance(
        self, sequence: int, time_ns: int, subject: str, replica: replicas.Replica, message: kvwire.AnyMessage
    ) -> outcomes.Outcomes:
        """A message of the current session, or the begin of a newer one."""
        if isinstance(message, kvwire.Begin):
            before = replica.subject, (replica.tenant, replica.model, replica.scheme)
            found = replica.begin(message, subject, sequence, time_ns)
            self._place(replica, *before)
            return tuple(found)
        found = replica.hear(message.n, sequence, time_ns)
        match message:
            case kvwire.Ops():
                found += replica.changes(message.groups, sequence, time_ns)
            case kvwire.Chunk():
                found += replica.chunk(message, sequence, time_ns)
            case kvwire.End():
                found += replica.end(message, sequence, time_ns)
            case kvwire.Beat():
                found += replica.beat(message, sequence, time_ns)
            case kvwire.Bye():
                found += replica.bye(message, sequence, time_ns)
        if replica.live is None and replica.staging is None and not replica.ended:
            found += replica.ask(time_ns)
        if self.limits.active:
            self.limits.enforce(replica.tenant)
        return tuple(found)

    def _place(self, replica: replicas.Replica, subject: str, group: tuple[str, str, str]) -> None:
        """Find the replica under its subject, and among those that serve its model, after a begin moved it."""
        if replica.subject != subject:
            self._subjects.pop(subject, None)
            self._subjects[replica.subject] = replica
        self.roster.join(replica, group)

    def _open(self, key: domain.DomainKey) -> domain.Domain:
        found = self.domains.get(key)
        if found is None:
            self.domains[key] = found = domain.Domain(key)
            self.limits.prepare(found)
        return found

    def _skip(self, sequence: int, subject: str, reason: str) -> outcomes.Outcomes:
        self.skipped += 1
        return (outcomes.Skipped(sequence, subject, reason),)

    # Time ------------------------------------------------------------------------------------------------------------

    def govern(self, known: policies.Policies) -> None:
        """Take over a new set of policies: time to live, quotas, eviction."""
        self.policies = known
        self.limits.govern(known)
        self.limits.enforce()

    def tick(self, now_ns: int, *, budget: int = domain.SLICE) -> outcomes.Outcomes:
        """What time alone brings, and one slice of upkeep. Call it at least once a second."""
        found: list[outcomes.Outcome] = []
        for (tenant, name), replica in list(self.fleet.items()):
            found += replica.pass_time(now_ns, self.policies.of(tenant).ttl_ns)
            if replica.state == "gone" and now_ns - replica.heard_ns >= FORGET_AFTER:
                del self.fleet[tenant, name]
                self._subjects.pop(replica.subject, None)
                self.roster.leave(replica, (tenant, replica.model, replica.scheme))
        found += self.strangers.ask(now_ns)
        self.upkeep(budget)
        return tuple(found)

    def ask_again(self, now_ns: int, known: Sequence[Spoken] = ()) -> outcomes.Outcomes:
        """Every keyframe that is wanted now, whenever it was asked for: once a server has caught up, for the orders
        of its catching up were kept back. Strangers that were silent too long are left out.

        `known` is what an index knew of the same stream before it lost its end. What is folded now may be older than
        that: such content counts no more, and who said the rest is asked, for an idle one would not speak by itself.
        """
        found: list[outcomes.Outcome] = []
        for replica in self.fleet.values():
            if replica.state == "unknown" and replica.staging is None:
                found.append(replica.order(replica.reason, now_ns))
            replica.past = dict.fromkeys(replica.past, 0)
        for who in known:
            found += self._outdated(who, now_ns)
        found += self.strangers.ask_again(now_ns)
        return tuple(found)

    def _outdated(self, known: Spoken, now_ns: int) -> Sequence[outcomes.Outcome]:
        """The stream's end is lost, and with it the end of this session or all of it."""
        replica = self.fleet.get(known[:2])
        if replica is not None and replica.session == known.session:
            if replica.n >= known.n or replica.state == "unknown":
                return ()
            return replica.lose(f"messages up to n {known.n} were lost with the stream's end", self.position, now_ns)
        if replica is not None:
            replica.retire(f"session {known.session} spoke before the stream lost its end", now_ns)
        self.strangers.meet((known.tenant, known.name, known.session), now_ns)
        return ()

    def spoken(self) -> list[Spoken]:
        """Who speaks, and how far it was heard: for the index that replaces this one."""
        return [
            Spoken(tenant, name, replica.session, replica.n)
            for (tenant, name), replica in self.fleet.items()
            if replica.session and not replica.ended
        ]

    def upkeep(self, budget: int = domain.SLICE) -> int:
        """One slice of sweeping, compacting and capping; returns the work done, 0 when there is none left."""
        spent = 0
        for key, place in list(self.domains.items()):
            if place.busy:
                spent += place.sweep(budget - spent)
            elif place.empty:
                del self.domains[key]
                self.limits.release(place)
            elif spent < budget:
                spent += place.compact(budget - spent)
            if spent >= budget:
                return spent
        return spent + self.limits.scan(budget - spent, self.position)

    # Questions -------------------------------------------------------------------------------------------------------

    def domain_of(self, tenant: str, model: str, scheme: str, adapter: str) -> domain.Domain | None:
        return self.domains.get(domain.DomainKey(tenant, model, scheme, adapter))

    def replicas(self) -> list[_Replica]:
        """Every replica that is remembered, in the order of (tenant, name)."""
        return [self.fleet[who] for who in sorted(self.fleet)]

    def credit(self, credit: "question.Credit") -> None:
        """A delivered match was of use: LFU eviction spares what it was built on."""
        place = self.domains.get(credit.domain)
        if place is None:
            return
        for name, run in credit.holds:
            replica = self.fleet.get((credit.domain.tenant, name))
            holding = replica.live.holdings.get(credit.domain.adapter) if replica and replica.live else None
            if holding is not None and holding.domain is place:
                place.visibility.credit(holding.bit, [key for key in run if place.held.get(key, 0) & holding.bit])
        place.watch()

    def incomplete(self) -> list[_Replica]:
        """Replicas of which not everything is known: those that /readyz waits for, or names."""
        return [replica for replica in self.replicas() if replica.state in ("unknown", "partial")]

    def blocks(self) -> int:
        """Holds that count (keys times replicas), hidden ones included."""
        return sum(place.blocks for place in self.domains.values())

    def dump(self) -> Iterator[str]:
        """Lines that are equal for equal indexes: replicas, then every hold that counts. Sorted (IDX-12)."""
        for replica in self.replicas():
            yield (
                f"replica {replica.tenant}/{replica.name} {replica.state} {replica.model} {replica.scheme} "
                f"{replica.uid} {replica.session} rank={replica.rank} n={replica.n} keyframe={replica.keyframe}"
            )
        for key in sorted(self.domains):
            place = self.domains[key]
            for block in sorted(place.held):
                for owner, holding in place.members(place.held[block] & place.alive):
                    tier = place.coldest((block,), holding.bit)
                    hidden = " hidden" if place.hidden.get(block, 0) & holding.bit else ""
                    yield f"block {'/'.join(key)} {block:016x} {owner.name} tier={tier}{hidden}"


def _crowded(replica: _Replica, message: kvwire.AnyMessage) -> str | None:
    """Every adapter is a domain of its own, so that their number must be bounded."""
    if not isinstance(message, kvwire.Ops | kvwire.Chunk):
        return None
    named = {group.adapter for group in message.groups}
    for held in (replica.live, replica.staging):
        if held is not None:
            named |= held.holdings.keys()
    return f"{len(named)} adapters on one replica; at most {ADAPTERS} are kept" if len(named) > ADAPTERS else None


def _flaw(message: kvwire.AnyMessage, place: subjects.KVSubject, sequence: int) -> str | None:
    """Why a decoded message cannot be applied, or None."""
    if message.n < 0:
        return f"n is {message.n}; expected 0 or more"
    if isinstance(message, kvwire.Ops | kvwire.Chunk):
        return holdings.flaw(message.groups)
    if isinstance(message, kvwire.Begin):
        right = subjects.partition_of(place.tenant, message.model)
        if right != place.partition:
            return f"tenant {place.tenant!r} with model {message.model!r} is partition {right}, not {place.partition}"
        if not 0 <= message.rank <= sequence:
            return f"the session claims to have begun at {message.rank}, which is later than this message"
    return None
