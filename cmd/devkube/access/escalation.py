"""Nobody grants what he does not hold: the check before a Role, ClusterRole or binding is written.

Allowed all the same: members of system:masters, who may `escalate` (roles) or `bind` (bindings) that role, and writes
that only touch finalizers or ownerReferences. From upstream: `pkg/registry/rbac/*/policybased`, `validation/rule.go`.
"""

from collections.abc import Sequence

from devkube.access import rules
from devkube.access.objects import Objects
from devkube.access.rbac import CLUSTER_ROLES, GROUP, MASTERS, ROLES, Authorizer
from devkube.access.rules import Question, Rule
from devkube.errors import About, StatusError, not_found
from devkube.kinds import Object
from devkube.requests import User

_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))
_BINDINGS = ("rolebindings", "clusterrolebindings")


def concerns(group: str, plural: str) -> bool:
    return group == GROUP and plural in ("roles", "clusterroles", *_BINDINGS)


def check(
    authorizer: Authorizer, objects: Objects, user: User, plural: str, namespace: str, new: Object, old: Object | None
) -> None:
    """StatusError 403 (or 404 when a binding's role is missing) unless `user` may write `new` over `old`."""
    if MASTERS in user.groups or authorizer.mode == "AlwaysAllow" or (old is not None and _only_housekeeping(new, old)):
        return
    name = new["metadata"].get("name") or ""
    about = f'{plural}.{GROUP} "{name}"'
    if plural in _BINDINGS:
        reference = new.get("roleRef") or {}
        kind, role = reference.get("kind") or "", reference.get("name") or ""
        target = "clusterroles" if kind == "ClusterRole" else "roles"
        if not _may(authorizer, user, "bind", target, namespace, role):
            _hold(authorizer, user, namespace, _rules_of(objects, plural, kind, namespace, role), about)
        return
    if _may(authorizer, user, "escalate", plural, namespace, name):
        return
    _hold(authorizer, user, namespace, rules.read(new.get("rules")), about)
    aggregates = new.get("aggregationRule") or (old or {}).get("aggregationRule")
    if aggregates and rules.missing(authorizer.policy.rules(user, namespace), _EVERYTHING):
        raise _forbidden(about, "must have cluster-admin privileges to use the aggregationRule")


def _may(authorizer: Authorizer, user: User, verb: str, resource: str, namespace: str, name: str) -> bool:
    return authorizer.decide(Question(user, verb, GROUP, resource, "", namespace, name)).allowed


def _rules_of(objects: Objects, plural: str, kind: str, namespace: str, name: str) -> Sequence[Rule]:
    key = CLUSTER_ROLES if kind == "ClusterRole" else ROLES
    found = objects.get(key, "" if kind == "ClusterRole" else namespace, name)
    if found is None:
        raise not_found(About(GROUP, plural, name))  # as upstream, which names what was asked for
    if kind == "ClusterRole" and found.get("aggregationRule"):
        return rules.read(rules.resolve(objects.list(key))[name])
    return rules.read(found.get("rules"))


def _hold(authorizer: Authorizer, user: User, namespace: str, wanted: Sequence[Rule], about: str) -> None:
    lacking = rules.missing(authorizer.policy.rules(user, namespace), wanted)
    if lacking:
        who = f'user "{user.name}" (groups={rules.quoted(user.groups)}) is attempting to grant RBAC permissions'
        raise _forbidden(about, f"{who} not currently held:\n" + "\n".join(sorted(map(str, lacking))))


def _forbidden(about: str, why: str) -> StatusError:
    full, _, quoted = about.partition(" ")
    return StatusError(
        403, "Forbidden", f"{about} is forbidden: {why}", name=quoted.strip('"'), group=GROUP, kind=full.split(".")[0]
    )


def _only_housekeeping(new: Object, old: Object) -> bool:
    """What garbage collection has to be able to write is no grant."""

    def rest(obj: Object) -> Object:
        meta = {k: v for k, v in obj["metadata"].items() if k not in _HOUSEKEEPING}
        return {**obj, "metadata": meta}

    return rest(new) == rest(old)


_HOUSEKEEPING = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
