"""Role, ClusterRole and binding objects -> may this user do that.

`Policy` is what the objects of one moment say, indexed by subject; `Authorizer` keeps one until a Role or binding
changes, and each decision with it, so that asking again costs a dictionary look-up. From upstream:
`pkg/registry/rbac/validation/rule.go` (order: cluster bindings first, then those of the namespace; the first rule that
allows wins; a binding whose role is missing grants nothing and is told) and `plugin/pkg/auth/authorizer/rbac`.

Members of system:masters may do everything, whatever the objects say, as with every kube-apiserver.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from devkube.access import rules
from devkube.access.objects import Objects
from devkube.access.rules import Question, Rule
from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.options import Authorization
from devkube.requests import User

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
MASTERS = "system:masters"
_REMEMBERED = 10_000  # decisions kept between two changes of the objects


@dataclass(frozen=True)
class Decision:
    allowed: bool
    reason: str = ""


@dataclass(frozen=True)
class Grant:
    """What one subject gets of one binding."""

    rules: tuple[Rule, ...]
    source: str  # the binding and the subject, as upstream tells them
    error: str = ""  # why there are no rules


@dataclass(frozen=True)
class Policy:
    """Grants by subject ("User" or "Group", name), of the cluster and per namespace, each with its binding's place."""

    cluster: Mapping[tuple[str, str], list[tuple[int, Grant]]] = field(default_factory=dict)
    namespaced: Mapping[str, Mapping[tuple[str, str], list[tuple[int, Grant]]]] = field(default_factory=dict)

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        for index in (self.cluster, self.namespaced.get(namespace, {}) if namespace else {}):
            found = {order: grant for subject in reversed(subjects) for order, grant in index.get(subject, ())}
            yield from (found[order] for order in sorted(found))

    def decide(self, question: Question) -> Decision:
        errors: list[str] = []
        for grant in self.grants(question.user, question.namespace):
            if any(rules.allows(rule, question) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.source}")
            if grant.error and grant.error not in errors:
                errors.append(grant.error)
        told = errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
        return Decision(False, f"RBAC: {told}" if errors else "")

    def rules(self, user: User, namespace: str) -> tuple[Rule, ...]:
        return tuple(rule for grant in self.grants(user, namespace) for rule in grant.rules)

    def errors(self, user: User, namespace: str) -> list[str]:
        return list(dict.fromkeys(grant.error for grant in self.grants(user, namespace) if grant.error))


def policy(
    roles: Iterable[Object],
    cluster_roles: Iterable[Object],
    role_bindings: Iterable[Object],
    cluster_role_bindings: Iterable[Object],
) -> Policy:
    by_name = {("ClusterRole", "", name): rules.read(found) for name, found in rules.resolve(cluster_roles).items()}
    for role in roles:
        meta = role["metadata"]
        by_name["Role", meta.get("namespace") or "", meta["name"]] = rules.read(role.get("rules"))
    cluster: dict[tuple[str, str], list[tuple[int, Grant]]] = {}
    namespaced: dict[str, dict[tuple[str, str], list[tuple[int, Grant]]]] = {}
    for order, binding in enumerate((*cluster_role_bindings, *role_bindings)):
        namespace = binding["metadata"].get("namespace") or ""
        index = namespaced.setdefault(namespace, {}) if namespace else cluster
        for subject in binding.get("subjects") or ():
            key = _subject(subject, namespace)
            if key is not None:
                index.setdefault(key, []).append((order, _grant(binding, subject, namespace, by_name)))
    return Policy(cluster, namespaced)


def _subject(subject: Object, namespace: str) -> tuple[str, str] | None:
    if subject.get("kind") in ("User", "Group"):
        return subject["kind"], subject.get("name") or ""
    if subject.get("kind") == "ServiceAccount" and (home := subject.get("namespace") or namespace):
        return "User", f"system:serviceaccount:{home}:{subject.get('name')}"
    return None


def _grant(
    binding: Object, subject: Object, namespace: str, by_name: Mapping[tuple[str, str, str], tuple[Rule, ...]]
) -> Grant:
    reference = binding.get("roleRef") or {}
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    found = by_name.get((kind, namespace if kind == "Role" else "", name))
    own = binding["metadata"]["name"]
    who = subject.get("name") or ""
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    source = f'RoleBinding "{own}/{namespace}"' if namespace else f'ClusterRoleBinding "{own}"'
    source += f' of {kind} "{name}" to {subject.get("kind")} "{who}"'
    return Grant(found or (), source, "" if found is not None else f'{kind.lower()}.{GROUP} "{name}" not found')


class Authorizer:
    """Decides by the objects of now, or allows everything when told so."""

    def __init__(self, objects: Objects, mode: Authorization = "RBAC") -> None:
        self._objects, self.mode = objects, mode
        self._seen: tuple[int, ...] = ()
        self._policy = Policy()
        self._decisions: dict[tuple[object, ...], Decision] = {}

    @property
    def policy(self) -> Policy:
        keys = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
        seen = tuple(map(self._objects.version_of, keys))
        if seen != self._seen:
            self._policy = policy(*(self._objects.list(key) for key in keys))
            self._seen = seen
            self._decisions.clear()
        return self._policy

    def decide(self, question: Question) -> Decision:
        if self.mode == "AlwaysAllow" or MASTERS in question.user.groups:
            return Decision(True)
        current, user = self.policy, question.user
        # Not the Question itself: hashing a dataclass with a user in it costs as much as deciding.
        where = (question.verb, question.group, question.resource, question.subresource, question.namespace)
        key = (user.name, user.groups, *where, question.name, question.path)
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= _REMEMBERED:
                self._decisions.clear()
            found = self._decisions[key] = current.decide(question)
        return found

    def require(self, question: Question) -> None:
        """StatusError 403 when it is not allowed."""
        decision = self.decide(question)
        if not decision.allowed:
            raise denied(question, decision.reason)


def denied(question: Question, reason: str = "") -> StatusError:
    """403 with the words of upstream's `responsewriters.Forbidden`, which people and tests search for."""
    why = _sentence(question) + (f": {reason}" if reason else "")
    about = f"{question.resource}.{question.group}" if question.group else question.resource
    if question.path:
        message = f"forbidden: {why}"
    else:
        message = f'{about} "{question.name}" is forbidden: {why}' if question.name else f"{about} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, name=question.name, group=question.group, kind=question.resource)


def _sentence(question: Question) -> str:
    who = f'User "{question.user.name}"'
    if question.path:
        told = f'{who} cannot {question.verb} path "{question.path}"'
    else:
        scope = f'in the namespace "{question.namespace}"' if question.namespace else "at the cluster scope"
        told = f'{who} cannot {question.verb} resource "{question.whole}" in API group "{question.group}" {scope}'
    return told.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
