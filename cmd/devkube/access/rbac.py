"""Role, ClusterRole and binding objects -> may this user do that.

As upstream: cluster bindings are asked first, then those of the namespace; the first rule that allows wins; a binding
whose role is missing grants nothing and is told. Members of system:masters may do everything, whatever objects say.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from devkube import selectors
from devkube.errors import StatusError
from devkube.kinds import Object
from devkube.options import Authorization
from devkube.requests import User
from devkube.store import Store, load

GROUP = "rbac.authorization.k8s.io"
_KEYS = tuple(f"{plural}.{GROUP}" for plural in ("clusterroles", "roles", "clusterrolebindings", "rolebindings"))
_MASTERS = "system:masters"


@dataclass(frozen=True)
class Question:
    """May `user` do this? About a resource unless `path` is set."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def whole(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True)
class Decision:
    allowed: bool
    reason: str = ""


@dataclass(frozen=True)
class Grant:
    """What one subject gets of one binding."""

    namespace: str  # empty: everywhere
    subject: tuple[str, str]  # "User" or "Group", and the name
    rules: Sequence[Object] | None  # None: there is no such role
    role: str
    source: str  # the binding and the subject, as upstream tells them


class Authorizer:
    """Decides by the objects of now, or allows everything when told so."""

    def __init__(self, store: Store, mode: Authorization = "RBAC") -> None:
        self._store, self.mode = store, mode
        self._seen: tuple[int, ...] = ()
        self._grants: list[Grant] = []

    def grants(self, user: User, namespace: str) -> list[Grant]:
        """What the user has there, also by his groups. Objects are only read again when one of them changed."""
        seen = tuple(map(self._store.version_of, _KEYS))
        if seen != self._seen:
            self._grants, self._seen = list(_grants(self._store)), seen
        subjects = {("User", user.name), *(("Group", group) for group in user.groups)}
        return [one for one in self._grants if one.namespace in ("", namespace) and one.subject in subjects]

    def decide(self, question: Question) -> Decision:
        if self.mode == "AlwaysAllow" or _MASTERS in question.user.groups:
            return Decision(True)
        grants = self.grants(question.user, question.namespace)
        for grant in grants:
            if any(allows(rule, question) for rule in grant.rules or ()):
                return Decision(True, f"RBAC: allowed by {grant.source}")
        told = faults(grants)
        return Decision(False, f"RBAC: {told}" if told else "")

    def require(self, question: Question) -> None:
        """StatusError 403 when it is not allowed, in upstream's words, which people and tests search for."""
        decision = self.decide(question)
        if decision.allowed:
            return
        about, who = "", f'User "{question.user.name}" cannot {question.verb}'
        if question.path:
            why = f'{who} path "{question.path}"'
        else:
            about = f"{question.resource}.{question.group}" if question.group else question.resource
            about += f' "{question.name}" is ' if question.name else " is "
            scope = f'in the namespace "{question.namespace}"' if question.namespace else "at the cluster scope"
            why = f'{who} resource "{question.whole}" in API group "{question.group}" {scope}'
        message = f"{about}forbidden: {why}" + (f": {decision.reason}" if decision.reason else "")
        raise StatusError(403, "Forbidden", message, name=question.name, group=question.group, kind=question.resource)


def faults(grants: Sequence[Grant]) -> str:
    """The roles that bindings name and that do not exist."""
    return ", ".join(dict.fromkeys(f"{one.role} not found" for one in grants if one.rules is None))


def allows(rule: Object, question: Question) -> bool:
    """By one rule of a Role or ClusterRole."""

    def names(field: str, *asked: str) -> bool:
        return any(one in (rule.get(field) or ()) for one in ("*", *asked))

    if not names("verbs", question.verb):
        return False
    if question.path:
        urls = rule.get("nonResourceURLs") or ()
        return any(
            url == question.path or (url.endswith("*") and question.path.startswith(url.rstrip("*"))) for url in urls
        )
    of_any = [f"*/{question.subresource}"] if question.subresource else []
    only = rule.get("resourceNames")
    return (
        names("apiGroups", question.group)
        and names("resources", question.whole, *of_any)
        and (not only or question.name in only)
    )


def _grants(store: Store) -> Iterator[Grant]:
    cluster_roles, roles, cluster_bindings, bindings = ([load(one) for one in store.select(key)] for key in _KEYS)
    rules = {("ClusterRole", "", one["metadata"]["name"]): _gathered(one, cluster_roles) for one in cluster_roles}
    for role in roles:
        rules["Role", role["metadata"]["namespace"], role["metadata"]["name"]] = role.get("rules") or []
    for binding in (*cluster_bindings, *bindings):
        for subject in binding.get("subjects") or ():
            yield _grant(binding, subject, rules)


def _grant(binding: Object, subject: Object, rules: Mapping[tuple[str, str, str], Sequence[Object]]) -> Grant:
    own, namespace = binding["metadata"]["name"], binding["metadata"].get("namespace") or ""
    kind, role = binding["roleRef"]["kind"], binding["roleRef"]["name"]
    who = key = subject.get("kind", ""), subject.get("name", "")
    if who[0] == "ServiceAccount":
        home = subject.get("namespace") or namespace
        who, key = (who[0], f"{who[1]}/{home}"), ("User", f"system:serviceaccount:{home}:{who[1]}")
    source = f'RoleBinding "{own}/{namespace}"' if namespace else f'ClusterRoleBinding "{own}"'
    return Grant(
        namespace=namespace,
        subject=key,
        rules=rules.get((kind, namespace if kind == "Role" else "", role)),
        role=f'{kind.lower()}.{GROUP} "{role}"',
        source=f'{source} of {kind} "{role}" to {who[0]} "{who[1]}"',
    )


def _gathered(role: Object, roles: Sequence[Object], above: frozenset[str] = frozenset()) -> Sequence[Object]:
    """The rules of a ClusterRole: its own, or with an aggregationRule those of the roles that it selects, through any
    number of steps. Nobody writes the gathered rules into the object, as upstream's controller does."""
    wanted = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not wanted:
        return role.get("rules") or ()
    above |= {role["metadata"]["name"]}
    return [
        rule
        for one in roles
        if one["metadata"]["name"] not in above
        and any(selectors.matches(selector, one["metadata"].get("labels") or {}) for selector in wanted)
        for rule in _gathered(one, roles, above)
    ]
