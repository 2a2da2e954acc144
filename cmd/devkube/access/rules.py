"""RBAC policy rules: what one allows, what it covers, how it is printed; those that ClusterRoles gather from others.

From upstream: `pkg/apis/rbac/v1/evaluation_helpers.go` (matching) and `component-helpers/auth/rbac/validation`
(covering). A rule is for resources or for URLs; one that names both is read as both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from devkube import selectors
from devkube.kinds import Object
from devkube.requests import User


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
class Rule:
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As upstream prints it in the error of an escalation."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{key}:{quoted(values)}" for key, values in parts if values) + "}"


def quoted(values: Iterable[str]) -> str:
    """A list of strings as Go's %q prints it."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def read(rules: Sequence[Object] | None) -> tuple[Rule, ...]:
    """The `rules` of a Role or ClusterRole object."""
    return tuple(
        Rule(
            verbs=tuple(one.get("verbs") or ()),
            groups=tuple(one.get("apiGroups") or ()),
            resources=tuple(one.get("resources") or ()),
            names=tuple(one.get("resourceNames") or ()),
            urls=tuple(one.get("nonResourceURLs") or ()),
        )
        for one in rules or ()
    )


def allows(rule: Rule, question: Question) -> bool:
    if question.verb not in rule.verbs and "*" not in rule.verbs:
        return False
    if question.path:
        return any(_url_covers(url, question.path) for url in rule.urls)
    return (
        (question.group in rule.groups or "*" in rule.groups)
        and _resource(rule.resources, question)
        and (not rule.names or question.name in rule.names)
    )


def _resource(resources: Sequence[str], question: Question) -> bool:
    if "*" in resources or question.whole in resources:
        return True
    return bool(question.subresource) and f"*/{question.subresource}" in resources


def _url_covers(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


def missing(held: Sequence[Rule], wanted: Sequence[Rule]) -> list[Rule]:
    """What of `wanted` nobody holds, in its smallest parts, those that differ only by verb as one."""
    lacking = [part for rule in wanted for part in _parts(rule) if not any(_covers(h, part) for h in held)]
    verbs: dict[Rule, list[str]] = {}
    for part in lacking:
        about = Rule(groups=part.groups, resources=part.resources, names=part.names, urls=part.urls)
        # Upstream folds the verbs of resources only; URLs stay one by one.
        key = Rule(part.verbs, urls=part.urls) if part.urls else about
        verbs.setdefault(key, []).extend(part.verbs)
    return [Rule(tuple(found), k.groups, k.resources, k.names, k.urls) for k, found in verbs.items()]


def _parts(rule: Rule) -> list[Rule]:
    names: tuple[tuple[str, ...], ...] = tuple((name,) for name in rule.names) or ((),)
    resources = [
        Rule((verb,), (group,), (resource,), name)
        for group, resource, verb, name in product(rule.groups, rule.resources, rule.verbs, names)
    ]
    return resources + [Rule((verb,), urls=(url,)) for url, verb in product(rule.urls, rule.verbs)]


def _covers(owner: Rule, part: Rule) -> bool:
    """`part` is for one verb of one resource or URL, as `_parts` makes them."""

    def has(owned: Sequence[str], asked: Sequence[str]) -> bool:
        return "*" in owned or all(one in owned for one in asked)

    if not has(owner.verbs, part.verbs):
        return False
    if part.urls:
        return any(_url_covers(own, part.urls[0]) for own in owner.urls)
    resource = part.resources[0]
    wild = "*/" + resource.split("/", 1)[1] if "/" in resource else resource
    return (
        has(owner.groups, part.groups)
        and ("*" in owner.resources or resource in owner.resources or wild in owner.resources)
        and (not owner.names or (bool(part.names) and part.names[0] in owner.names))
    )


# ClusterRoles with an aggregationRule: what stands in their own `rules` is not asked. Nobody writes the gathered rules
# into the objects, as upstream's controller does a moment later.


def resolve(roles: Iterable[Object]) -> dict[str, list[Any]]:
    """The rules of every ClusterRole by its name, gathered ones included, through any number of steps."""
    by_name = {role["metadata"]["name"]: role for role in roles}
    found = {name: list(role.get("rules") or ()) for name, role in by_name.items() if not _selectors(role)}
    gathering = {name: _members(role, by_name) for name, role in by_name.items() if _selectors(role)}
    return {name: found[name] if name in found else _gathered(name, gathering, found) for name in sorted(by_name)}


def _selectors(role: Object) -> list[Object]:
    found: list[Object] = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    return found


def _members(role: Object, by_name: Mapping[str, Object]) -> list[str]:
    own = role["metadata"]["name"]
    return [
        name
        for name in sorted(by_name)
        if name != own
        and any(selectors.matches(one, by_name[name]["metadata"].get("labels") or {}) for one in _selectors(role))
    ]


def _gathered(name: str, gathering: Mapping[str, list[str]], found: Mapping[str, list[Any]]) -> list[Any]:
    """Depth first, each role once: roles that gather each other end here too."""
    rules: list[Any] = []
    seen: set[str] = set()

    def visit(one: str) -> None:
        if one in seen:
            return
        seen.add(one)
        for member in gathering.get(one, ()):
            visit(member)
        rules.extend(rule for rule in found.get(one, ()) if rule not in rules)

    visit(name)
    return rules
