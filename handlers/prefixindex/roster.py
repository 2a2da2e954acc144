"""Who serves which model: the replicas of each (tenant, model, scheme), by name.

Not here: what they hold (contents.py), whether they count (replicas.py), how they rank (ranking.py). Pure and total.

Rules: spec/inferencecache.md section 1.4 (what is known of a tenant, a model and a scheme); IDX-12.
"""

from handlers.prefixindex import policies, replicas

Group = tuple[str, str, str]  # tenant, model, scheme


class Roster:
    def __init__(self) -> None:
        self._members: dict[Group, dict[str, replicas.Replica]] = {}  # each in the order of names

    def join(self, replica: replicas.Replica, before: Group) -> None:
        """Where it serves now; `before` is where it did."""
        now = (replica.tenant, replica.model, replica.scheme)
        if before != now:
            self.leave(replica, before)
        members = self._members.setdefault(now, {})
        if members.get(replica.name) is not replica:
            members[replica.name] = replica
            self._members[now] = {name: members[name] for name in sorted(members)}

    def leave(self, replica: replicas.Replica, group: Group) -> None:
        members = self._members.get(group, {})
        if members.get(replica.name) is replica:
            del members[replica.name]
            if not members:
                del self._members[group]

    def group(self, tenant: str, model: str, scheme: str) -> list[replicas.Replica]:
        """Every replica of a model, whatever its state."""
        return list(self._members.get((tenant, model, scheme), {}).values())

    def serving(self, tenant: str, model: str, scheme: str) -> list[replicas.Replica]:
        """Those whose content counts and is not empty."""
        return replicas.counting(self._members.get((tenant, model, scheme), {}).values())

    def unsure(self, tenant: str, model: str, scheme: str) -> int:
        """How many there are of which absence says nothing."""
        members = self._members.get((tenant, model, scheme), {})
        return sum(1 for replica in members.values() if replica.state in ("unknown", "partial"))

    def known(self, tenant: str) -> list[tuple[str, str]]:
        """(model, scheme) under which a tenant holds blocks."""
        return [group[1:] for group in sorted(self._members) if group[0] == tenant and self._filled(group)]

    def cold(self) -> bool:
        """Nobody holds anything."""
        return not any(map(self._filled, self._members))

    def _filled(self, group: Group) -> bool:
        members = self._members[group].values()
        return group[0] != policies.RESERVED and any(replica.blocks for replica in members)
